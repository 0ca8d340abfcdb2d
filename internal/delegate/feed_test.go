package delegate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// The fetch of a feed whose session another host runs has its value from there: that host begins one run, also
// where its answer is lost and it is asked again. A host that refuses, or that is not to be had, is an error of
// the feed. A fetch whose time is up has its run cancelled.
func TestFeedElsewhere(t *testing.T) {
	errMoved := &messages.Error{Code: messages.ErrBusy, Reason: lease.ReasonElsewhere, Detail: "not here"}
	for name, c := range map[string]struct {
		before func(n int) error // what the other host says to submit n, from 1, in place of what it does
		after  func(n int) error // what it says when it has done it
		silent bool              // the model
		asked  int
		runs   int64
		want   string
		takes  time.Duration // at least, and less than a second more
	}{
		"it does":              {asked: 1, runs: 2, want: `"news"`},
		"it has just moved":    {before: func(n int) error { return map[bool]error{true: errMoved}[n < 3] }, asked: 3, runs: 2, want: `"news"`, takes: 2 * elsewherePause},
		"its answer is lost":   {after: func(n int) error { return map[bool]error{true: errMoved}[n < 3] }, asked: 3, runs: 2, want: `"news"`, takes: 2 * elsewherePause},
		"it refuses":           {before: func(int) error { return errors.New("no") }, asked: driver.DelegationTries, runs: 1, want: "does not take its input: no"},
		"it is not to be had":  {before: func(int) error { return errMoved }, asked: int(submitPatience/elsewherePause) + driver.DelegationTries, runs: 1, want: "does not take its input", takes: submitPatience},
		"the time is up there": {silent: true, asked: 1, runs: 2, want: "it has enough", takes: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, l := memory.New(), &leases{of: map[string]string{}}
				ours, theirs := start(t, store, l, "ours"), start(t, store, l, "theirs")
				m := make(slow, 2)
				worker := agent(t, m)
				key := messages.SessionKey{Tenant: "t", User: "u", ID: "p"}
				rep, err := ours.Open(t.Context(), key, worker)
				if err != nil {
					t.Fatal(err)
				}
				parent := driver.Parent{Key: key, SID: key.SID(), Inc: rep.Inc.String()}
				child, link, _ := parent.Feed("f", "")
				m <- "old"
				run, err := theirs.SubmitChild(t.Context(), child, worker, link, messages.Input{Text: "write", User: "u", Key: "an earlier fetch", Policy: messages.Enqueue})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := run.End.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !c.silent {
					m <- "news"
				}
				cancels := 0
				ours.Waker().CancelAt = func(ctx context.Context, _ lease.Host, of messages.ChildLink) error {
					cancels++
					_, err := theirs.Cancel(ctx, child, worker, of.Run, driver.Canceller(&link))
					return err
				}
				asked := 0
				r := &Runner{Host: ours, Store: store, Spend: func(context.Context, string, messages.Incarnation, *messages.Input) error { return nil }}
				r.SubmitAt = func(ctx context.Context, owner lease.Host, sid string, of messages.ParentLink, in messages.Input) (messages.ChildLink, error) {
					asked++
					if until, ok := ctx.Deadline(); sid != child.SID() || of != link || in.Key != "the key" || owner.Address != "theirs" || !ok || time.Until(until) > submitPatience {
						t.Errorf("%s is asked for %s of %+v with %+v until %s", owner.Address, sid, of, in, until)
					}
					if c.before != nil {
						if err := c.before(asked); err != nil {
							return messages.ChildLink{}, err
						}
					}
					rep, err := theirs.SubmitChild(ctx, child, worker, of, in)
					if c.after != nil && err == nil {
						err = c.after(asked)
					}
					return messages.ChildLink{SID: sid, Incarnation: rep.Inc.String(), Run: rep.Run}, err
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, messages.Errorf(messages.ErrTimeout, "it has enough"))
				defer cancel()
				began := time.Now()
				got, err := r.Delegate(ctx, &compiler.Agent{Actor: worker}, &tools.Call{
					SID: key.SID(), Inc: rep.Inc, ID: "feed", Name: "writer", Key: "the key", Attempt: 1, Host: catalog.Host{Feed: &catalog.FeedCall{ID: "f"}},
				}, `{"message":"write"}`)
				if err != nil {
					got = err.Error()
				}
				if took := time.Since(began); !strings.Contains(got, c.want) || asked != c.asked || took < c.takes || took > c.takes+time.Second {
					t.Errorf("%q behind %d submits and %s, want %q behind %d and %s", got, asked, took, c.want, c.asked, c.takes)
				}
				if (cancels > 0) != c.silent {
					t.Errorf("%d cancels", cancels)
				}
				head, err := store.Head(t.Context(), child.SID())
				if err != nil || head.Run != c.runs || head.Open {
					t.Errorf("the child has %d runs, want %d; open %t, %v", head.Run, c.runs, head.Open, err)
				}
			})
		})
	}
}
