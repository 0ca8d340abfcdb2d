package delegate

import (
	"context"
	"errors"
	"time"

	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A feed of an agent has its value from a run of a child session (docs/spec/extensions.md §10):
// of one that is kept, whose agent remembers what it said before, or of one for each fetch. No
// record of the parent names such a session; its name and the link in its first record do.

// begunWait is how long a fetch waits for the first record of its session, which a feed that is
// fetched at the start of the session may precede.
const begunWait = 5 * time.Second

// begun returns when the session whose feed is fetched is in the journal. The error is
// ERR_NOT_FOUND for one that was closed.
func (d *delegation) begun(ctx context.Context) error {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		head, err := d.Store.HeadOf(ctx, d.call.Inc)
		switch {
		case err == nil && head.Closed:
			return journal.Fail(journal.ReasonNotFound, nil, "session %s", d.call.SID)
		case err == nil || !journal.IsNotFound(err) || wait > begunWait || d.Host.Stopping():
			return err
		}
		time.Sleep(wait)
	}
}

// forgotten erases the child session of a fetch whose parent was erased meanwhile: the erasure
// may have come before the child.
func (d *delegation) forgotten() {
	ctx := context.Background()
	if d.key.ID == "" || d.Host.Stopping() {
		return
	}
	if head, err := d.Store.HeadOf(ctx, d.call.Inc); err != nil || !head.Closed {
		return
	}
	for r, err := range d.Store.Read(ctx, d.call.Inc, 1, 1) {
		if err != nil || r.Raw != nil {
			return
		}
	}
	head, err := d.Store.Head(ctx, d.key.SID())
	if err != nil {
		return
	}
	if !head.Closed {
		_, _ = d.Host.Cancel(ctx, d.key, d.child.Actor, 0, d.caller())
		if d.Host.Close(ctx, d.key, d.child.Actor, d.caller()) != nil {
			return
		}
	}
	_, _ = d.Store.Erase(ctx, head.Inc, 0, 0)
}

// feedSession names the child session of a fetch. A kept session of that name may belong to an
// earlier session of the parent's name: then the name ends with a digest of the parent.
func (d *delegation) feedSession(ctx context.Context, parent *driver.Parent) (key messages.SessionKey, link messages.ParentLink, refusal driver.Refusal, err error) {
	f := d.call.Host.Feed
	if f.Fresh {
		key, link, refusal = parent.Feed(f.ID, d.call.Key)
		return key, link, refusal, nil
	}
	if key, link, refusal = parent.Feed(f.ID, ""); refusal != driver.Granted {
		return key, link, refusal, nil
	}
	ours, err := d.ours(ctx, key, &link)
	if err == nil && !ours {
		key, link, refusal = parent.Feed(f.ID, parent.Inc)
	}
	return key, link, refusal, err
}

// caller is who cancels the run.
func (d *delegation) caller() string {
	if f := d.call.Host.Feed; f != nil {
		return "feed " + f.ID + " of " + d.call.SID
	}
	return "action " + d.call.ID + " of " + d.call.SID
}

// submitAt has another host, which runs the session of the feed, begin the run of this fetch. The run is
// followed in the journal, as any that another host has. A fetch whose time is up meanwhile learns which run
// it has to stop.
func (d *delegation) submitAt(ctx context.Context, until time.Time, owner lease.Host, link messages.ParentLink, in messages.Input) (*follow.Run, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	of, err := d.SubmitAt(ctx, owner, d.key.SID(), link, in)
	if err != nil {
		return nil, err
	}
	inc, err := journal.ParseIncarnation(of.Incarnation)
	if err != nil {
		return nil, err
	}
	return &follow.Run{Source: follow.Source{Hub: d.Host.Hub(), Store: d.Store}, SID: d.key.SID(), Inc: inc, Ordinal: of.Run, Session: d}, nil
}

// goesElsewhere reports whether another host may take what one has not taken.
func goesElsewhere(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == lease.ReasonElsewhere
}
