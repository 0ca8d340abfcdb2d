package tests

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Every limit of docs/spec/streaming.md §10 is set by its key, holds to the byte, the level or the
// second that is said, is counted under its name when it is reached and not below it, and
// a replay of the session meets it as well.
func TestLimits(t *testing.T) {
	const (
		slow  = `{"name":"own.slow","parameters":{"seconds":1}}`
		final = "<response>done</response>"
		clock = `{"name":"add_context_feed","parameters":{"id":"more","source":{"type":"internal","action":"system_clock"}}}`
	)
	faults := func(recs []*stile.Record) (reasons string) {
		for _, b := range bodies[*messages.ParseFault](recs) {
			reasons += b.Reason + " "
		}
		return reasons
	}
	ends := func(recs []*stile.Record) string {
		var all []string
		for _, b := range bodies[*messages.ActionEnded](recs) {
			all = append(all, b.ID+":"+string(b.State)+":"+b.Reason)
		}
		slices.Sort(all) // two that ran side by side end in any order
		return strings.Join(all, " ")
	}
	done := func([]*stile.Record) string { return "" }
	for _, c := range []struct {
		limit   string
		most    int64 // is enough; one less is not
		set     func(*manifest.Manifest, int64)
		replies []string
		saw     func([]*stile.Record) string
		over    string // what saw gives over the limit
		n       float64
	}{
		{
			messages.LimitTag, 72, func(m *manifest.Manifest, n int64) { m.Quotas.Tag = n },
			[]string{"<thought about='" + strings.Repeat("x", 54) + "'>t</thought>" + final},
			faults, "bad_tag stray_close ", 1,
		},
		{
			messages.LimitBody, int64(len(slow)), func(m *manifest.Manifest, n int64) { m.Quotas.Body = n },
			[]string{"<action>" + slow + "</action>" + final},
			faults, "body_too_large ", 1,
		},
		{
			messages.LimitJSONDepth, 2, func(m *manifest.Manifest, n int64) { m.Quotas.JSONDepth = n },
			[]string{"<action>" + slow + "</action><action>" + slow + "</action>" + final},
			faults, "body_too_deep body_too_deep ", 2,
		},
		{
			messages.LimitThoughtDepth, 2, func(m *manifest.Manifest, n int64) { m.Quotas.ThoughtDepth = n },
			[]string{"<thought>a<thought>b</thought></thought>" + final},
			faults, "too_deep ", 1,
		},
		{
			messages.LimitReplyActions, 3, func(m *manifest.Manifest, n int64) { m.Quotas.ReplyActions = n },
			[]string{strings.Repeat("<action mode='async'>"+slow+"</action>", 3) + "<response final='false'>x</response>", final},
			ends, "#1:ok: #2:ok: #3:failed:quota", 1,
		},
		{
			messages.LimitParallel, 2, func(m *manifest.Manifest, n int64) { m.Quotas.Parallel = n },
			[]string{strings.Repeat("<action mode='async'>"+slow+"</action>", 2) + "<response final='false'>x</response>", final},
			done, "", 1,
		},
		{
			messages.LimitGateBuffer, 64 + 64 + 500 + 64, func(m *manifest.Manifest, n int64) { m.Quotas.GateBuffer = n },
			[]string{"<action>" + slow + "</action><response>" + strings.Repeat("x", 500) + "</response>"},
			done, "", 1,
		},
		{
			messages.LimitReply, int64(len(final)), func(m *manifest.Manifest, n int64) { m.Quotas.Reply = n },
			[]string{final},
			func(recs []*stile.Record) string {
				if all := bodies[*messages.Control](recs); len(all) == 1 {
					return all[0].Detail
				}
				return ""
			}, "reply: over the limit of 24 bytes a reply, in turn 1", 1,
		},
		{
			messages.LimitResult, 302, func(m *manifest.Manifest, n int64) { m.Quotas.Result = n },
			[]string{
				"<action>" + `{"name":"own.long"}` + "</action>", "<response final='false'>x</response>", final,
			},
			done, "", 1,
		},
		{
			messages.LimitFeeds, 2, func(m *manifest.Manifest, n int64) { m.Quotas.Feeds = n },
			[]string{"<action type='internal'>" + clock + "</action>" + final},
			ends, "#1:failed:feed_limit", 1,
		},
	} {
		for _, over := range []bool{false, true} {
			name := c.limit
			if over {
				name += " reached"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var calls atomic.Int64
					a := streaming(&calls, c.replies...)
					a.Tools = append(a.Tools, tool("own.long", messages.ReadOnly, gives(strings.Repeat("x", 300))))
					a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "own.long")
					a.Manifest.ContextFeeds = []manifest.Feed{{ID: "now", Source: manifest.FeedSource{Type: "internal", Action: "system_clock"}}}
					most, n, saw := c.most, 0.0, c.saw
					if over {
						most, n = most-1, c.n
					}
					c.set(a.Manifest, most)
					rt := start(t, stile.Config{})
					s := open(t, rt, "stream", a)
					ask(t, s, "go")
					switch got := saw(records(t, s)); {
					case over && got != c.over:
						t.Errorf("%q, want %q", got, c.over)
					case !over && got == c.over && got != "":
						t.Errorf("%q below the limit", got)
					}
					limitsReached(t, rt, map[string]float64{c.limit: n})
					replays(t, rt, a)
				})
			})
		}
	}
}

// Of the limits of a batch, too, each is counted under its name when it is reached: a batch
// that is too deep once, whatever is in it, and every result that the model sees a part of.
func TestLimitsOfBatches(t *testing.T) {
	deep := `<execute>[{"name":"own.slow","args":{"a":{"b":1}}},{"name":"own.slow","args":{"a":{"b":1}}}]</execute>`
	long := `<execute>[{"name":"own.long","args":{}},{"name":"own.long","args":{}},{"name":"own.fails","args":{}}]</execute>`
	for _, c := range []struct {
		limit   string
		set     func(*manifest.Manifest)
		replies []string
		n       float64
	}{
		{messages.LimitJSONDepth, func(m *manifest.Manifest) { m.Quotas.JSONDepth = 2 }, []string{deep, "done"}, 0},
		{messages.LimitJSONDepth, func(m *manifest.Manifest) { m.Quotas.JSONDepth = 1 }, []string{deep, "done"}, 1},
		{messages.LimitResult, func(m *manifest.Manifest) { m.Quotas.Result = 300 }, []string{long, `<execute>[]</execute>`, "done"}, 0},
		{messages.LimitResult, func(m *manifest.Manifest) { m.Quotas.Result = 299 }, []string{long, `<execute>[]</execute>`, "done"}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := batching(&calls, c.replies...)
			a.Tools = append(a.Tools, tool("own.long", messages.ReadOnly, gives(strings.Repeat("x", 300))))
			a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "own.long")
			c.set(a.Manifest)
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			if o := ask(t, s, "go"); o.Decision != stile.Done {
				t.Errorf("%+v", o)
			}
			limitsReached(t, rt, map[string]float64{c.limit: c.n})
			replays(t, rt, a)
		})
	}
}

// limitsReached checks the counts of all limits; those that are not named are 0.
func limitsReached(t *testing.T, rt *stile.Runtime, want map[string]float64) {
	t.Helper()
	for _, l := range messages.Limits() {
		if got := metric(t, rt, "limit_reached_total", "limit", l); got != want[l] {
			t.Errorf("limit %s was reached %v times, want %v", l, got, want[l])
		}
	}
}

// Behind a final response async actions have as long as quotas.drain says.
func TestDrainLimit(t *testing.T) {
	for _, c := range []struct {
		drain, want time.Duration
		n           float64
	}{{0, 5 * time.Second, 1}, {time.Second, time.Second, 1}, {time.Minute, 10 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := streaming(&calls, `<action id="a" mode="async">{"name":"own.slow","parameters":{"seconds":10}}</action><response>done</response>`)
			a.Manifest.Quotas.Drain = c.drain
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			began := time.Now()
			wantDone(t, ask(t, s, "go"))
			if took := time.Since(began); took != c.want {
				t.Errorf("drain %s: took %s, want %s", c.drain, took, c.want)
			}
			limitsReached(t, rt, map[string]float64{messages.LimitDrain: c.n})
			replays(t, rt, a)
		})
	}
}

// A prompt waits for its feeds as long as the host says, and is counted once however many
// of them are late.
func TestFeedDeadline(t *testing.T) {
	for _, c := range []struct {
		deadline, want time.Duration
		n              float64
	}{{0, stile.DefaultFeedDeadline, 1}, {time.Second, time.Second, 1}, {5 * time.Second, 3 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := streaming(&calls, "<response>done</response>")
			for _, id := range []string{"one", "two"} {
				a.Manifest.ContextFeeds = append(a.Manifest.ContextFeeds, manifest.Feed{
					ID: id, Source: manifest.FeedSource{Type: "tool", Name: "own.slow", Params: map[string]any{"seconds": 3}},
				})
			}
			rt := start(t, stile.Config{Feeds: stile.Feeds{Deadline: c.deadline}})
			s := open(t, rt, "stream", a)
			began := time.Now()
			wantDone(t, ask(t, s, "go"))
			if took := time.Since(began); took != c.want {
				t.Errorf("deadline %s: took %s, want %s", c.deadline, took, c.want)
			}
			limitsReached(t, rt, map[string]float64{messages.LimitFeedDeadline: c.n})
			replays(t, rt, a)
		})
	}
}
