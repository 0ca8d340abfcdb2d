package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/messages"
)

func record(seq, run int64, body messages.Body) messages.Update {
	return messages.Update{Record: &messages.Record{Seq: seq, Run: run, Body: body}}
}

// A slow subscriber's queue is bounded: what does not fit is announced as missed,
// once, in front of nothing that came later.
func TestSlowSubscriber(t *testing.T) {
	h := hub.New()
	sub := h.Subscribe("s")
	other := h.Subscribe("other")
	for i := range int64(1000) {
		h.Publish("s", record(i+1, 1, &messages.Note{}))
	}
	batch, missed, err := sub.Next(t.Context())
	if err != nil || !missed || len(batch) == 0 || len(batch) >= 1000 {
		t.Fatalf("%d updates, missed %v, %v", len(batch), missed, err)
	}
	for i, u := range batch {
		if u.Record.Seq != int64(i+1) {
			t.Fatalf("update %d is record %d", i, u.Record.Seq)
		}
	}
	h.Publish("s", record(1001, 1, &messages.Note{}))
	if batch, missed, err = sub.Next(t.Context()); err != nil || missed || len(batch) != 1 {
		t.Errorf("%d updates, missed %v, %v", len(batch), missed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := other.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("another session's subscriber got %v", err)
	}
	sub.Close()
	h.Publish("s", record(1002, 1, &messages.Note{}))
	if _, _, err := sub.Next(t.Context()); !errors.Is(err, hub.ErrStopped) {
		t.Errorf("a closed subscription got %v", err)
	}
}

// A reader that always finds something queued hears that its context has ended, and what
// it did not fetch is there for a later call.
func TestCancelledWhileBehind(t *testing.T) {
	h := hub.New()
	sub := h.Subscribe("s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for seq := range int64(4) {
		h.Publish("s", record(seq+1, 1, &messages.Note{}))
		if seq == 2 {
			cancel()
		}
		batch, missed, err := sub.Next(ctx)
		if seq < 2 && (err != nil || len(batch) != 1) || seq >= 2 && (!errors.Is(err, context.Canceled) || len(batch) > 0 || missed) {
			t.Fatalf("after record %d: %d updates, missed %v, %v", seq+1, len(batch), missed, err)
		}
	}
	if batch, missed, err := sub.Next(t.Context()); err != nil || missed || len(batch) != 2 || batch[0].Record.Seq != 3 {
		t.Errorf("after the cancel: %d updates, missed %v, %v", len(batch), missed, err)
	}
}

// Text that came up in pieces while a subscriber did not fetch it is one piece for that
// subscriber, and stays pieces for another. What does not follow is left apart.
func TestPiecesAreJoined(t *testing.T) {
	h := hub.New()
	slow, prompt := h.Subscribe("s"), h.Subscribe("s")
	said := func(d messages.Delta) string {
		return fmt.Sprintf("%d:%s@%d %q %v", d.Run, d.Unit, d.Off, d.Text, d.Retract)
	}
	next := func(sub *hub.Subscription) (all []string) {
		batch, missed, err := sub.Next(t.Context())
		if err != nil || missed {
			t.Fatal(missed, err)
		}
		for _, u := range batch {
			if u.Record != nil {
				all = append(all, fmt.Sprint(u.Record.Seq))
				continue
			}
			all = append(all, said(*u.Delta))
		}
		return all
	}
	unit := func(n int) messages.UnitID { return messages.UnitID{Turn: 1, N: n} }
	for _, d := range []messages.Delta{
		{Run: 1, Unit: unit(0), Off: 2, Text: "ab"},
		{Run: 1, Unit: unit(0), Off: 4, Text: "cd"},
		{Run: 1, Unit: unit(0), Off: 5, Text: "e"},
		{Run: 1, Unit: unit(1), Off: 6, Text: "f"}, // another unit
		{Run: 1, Unit: unit(1), Off: 9, Text: "h"}, // a gap
		{Run: 1, Unit: unit(1), Off: 9, Retract: true},
		{Run: 1, Unit: unit(1), Off: 10, Text: "i"},
		{Run: 1, Unit: unit(1), Off: 11, Text: "j", Kind: messages.ThoughtUnit}, // another kind
		{Run: 2, Unit: unit(1), Off: 12, Text: "k", Kind: messages.ThoughtUnit}, // another run
	} {
		h.Publish("s", messages.Update{Delta: &d})
		if got := next(prompt); !slices.Equal(got, []string{said(d)}) {
			t.Errorf("who fetches at once got %v", got)
		}
	}
	h.Publish("s", record(1, 1, &messages.Note{}))
	h.Publish("s", messages.Update{Delta: &messages.Delta{Run: 2, Unit: unit(1), Off: 13, Text: "l", Kind: messages.ThoughtUnit}})
	want := []string{
		`1:1.0@5 "abcde" false`, `1:1.1@6 "f" false`, `1:1.1@9 "h" false`, `1:1.1@9 "" true`, `1:1.1@10 "i" false`,
		`1:1.1@11 "j" false`, `2:1.1@12 "k" false`, "1", `2:1.1@13 "l" false`,
	}
	if got := next(slow); !slices.Equal(got, want) {
		t.Errorf("who was slow got\n%q, want\n%q", got, want)
	}
}

// A waiter gets the decision and the end of its own run, and a failure of its
// session alone.
func TestWaiters(t *testing.T) {
	h := hub.New()
	first, second, foreign := h.Await("s", 1, nil), h.Await("s", 2, nil), h.Await("other", 1, nil)
	cancelled := h.Await("s", 1, nil)
	cancelled.Cancel()
	h.Publish("s", record(5, 1, &messages.TurnDecided{TurnIndex: 3}))
	h.Publish("s", record(6, 1, &messages.RunEnd{Decision: messages.Done}))
	decided, ended, err := first.Wait(t.Context())
	if err != nil || decided.Seq != 5 || ended.Seq != 6 {
		t.Errorf("%v %v %v", decided, ended, err)
	}
	why := messages.Errorf(messages.ErrJournal, "refused")
	sub := h.Subscribe("s")
	h.Fail("s", why)
	if _, _, err := second.Wait(t.Context()); !errors.Is(err, why) {
		t.Errorf("the waiter got %v", err)
	}
	if _, _, err := sub.Next(t.Context()); !errors.Is(err, why) {
		t.Errorf("the subscriber got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range []*hub.Waiter{foreign, cancelled} {
		if _, _, err := w.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that nothing happened to got %v", err)
		}
	}
	h.Close()
	if _, _, err := foreign.Wait(t.Context()); !errors.Is(err, hub.ErrStopped) {
		t.Errorf("after Close: %v", err)
	}
}

// heard keeps the positions of the records that it is told.
type heard []int64

func (h *heard) Take(r *messages.Record) { *h = append(*h, r.Seq) }

// Who waits for a run hears its records from its beginning, as far as the hub has that, and no
// others. Behind an activation that has ended some may be missing: then nothing was heard.
func TestHeard(t *testing.T) {
	h := hub.New()
	var whole, gone heard
	h.Publish("s", record(1, 1, &messages.Input{}))
	h.Publish("s", record(2, 1, &messages.RunBegin{}))
	first := h.Await("s", 1, &whole)
	h.Publish("s", record(3, 2, &messages.Input{}))
	second := h.Await("s", 2, &gone)
	h.Publish("s", record(4, 1, &messages.TurnDecided{}))
	h.Publish("s", record(5, 1, &messages.RunEnd{}))
	h.Forget("s")
	h.Publish("s", record(7, 2, &messages.RunEnd{}))
	for w, want := range map[*hub.Waiter]hub.Hearer{first: &whole, second: nil} {
		if _, _, err := w.Wait(t.Context()); err != nil || w.Heard() != want {
			t.Errorf("%v, heard %v, want %v", err, w.Heard(), want)
		}
	}
	if !slices.Equal(whole, heard{1, 2, 4, 5}) {
		t.Errorf("heard %v", whole)
	}
}

// Text without a record is kept for those who come late; a turn that was restored
// shows it again from where it likes.
func TestGrownText(t *testing.T) {
	h := hub.New()
	grown := func() (all []string) {
		for _, u := range h.Grown("s") {
			all = append(all, fmt.Sprintf("%s@%d %s", u.Delta.Unit, u.Delta.Off, u.Delta.Text))
		}
		return all
	}
	say := func(n int, off int64, text string) {
		h.Publish("s", messages.Update{Delta: &messages.Delta{Run: 1, Unit: messages.UnitID{Turn: 2, N: n}, Off: off, Text: text}})
	}
	say(0, 2, "ab")
	say(0, 4, "cd")
	say(1, 1, "x")
	say(0, 3, "bc")  // again
	say(0, 9, "too") // a gap: the text between is unknown
	if got := grown(); !slices.Equal(got, []string{"2.0@3 abc", "2.1@1 x"}) {
		t.Errorf("%q", got)
	}
	sub := h.Subscribe("s")
	if batch, missed, err := sub.Next(t.Context()); err != nil || missed || len(batch) != 2 || batch[0].Delta.Text != "abc" {
		t.Errorf("%v, %v, %v", batch, missed, err)
	}
	h.Publish("s", messages.Update{Record: &messages.Record{Seq: 1, Run: 1, Turn: 2, Body: &messages.UnitText{Unit: "2.0"}}})
	if got := grown(); !slices.Equal(got, []string{"2.1@1 x"}) {
		t.Errorf("%q", got)
	}
	h.Publish("s", messages.Update{Record: &messages.Record{Seq: 2, Run: 1, Turn: 2, Body: &messages.TurnDecided{}}})
	if got := grown(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	say(0, 2, "ab")
	h.Fail("s", hub.ErrStopped)
	if got := grown(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	say(0, 2, "ab")
	h.Close()
	if got := grown(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// Who follows what was just begun gets its records from the hub, with the text behind
// them, and is told to read the journal whenever these might not be all.
func TestSubscribeBehind(t *testing.T) {
	h := hub.New()
	inc := messages.Incarnation{1}
	seq := int64(6)
	publish := func(turn int64, bodies ...messages.Body) {
		for _, b := range bodies {
			seq++
			h.Publish("s", messages.Update{Record: &messages.Record{Inc: inc, Seq: seq, Run: 1, Turn: turn, Body: b}})
		}
	}
	say := func(turn, off int64, text string) {
		h.Publish("s", messages.Update{Delta: &messages.Delta{Run: 1, Unit: messages.UnitID{Turn: turn}, Off: off, Text: text}})
	}
	check := func(what string, inc messages.Incarnation, from int64, want string) {
		t.Helper()
		sub, whole := h.SubscribeBehind("s", inc, from)
		defer sub.Close()
		got := "journal"
		if whole {
			batch, missed, err := sub.Next(t.Context())
			if err != nil || missed {
				t.Fatal(missed, err)
			}
			got = ""
			for _, u := range batch {
				if u.Record != nil {
					got += fmt.Sprint(u.Record.Seq, " ")
				} else {
					got += u.Delta.Text
				}
			}
		}
		if got != want {
			t.Errorf("%s: from %s, want %s", what, got, want)
		}
	}
	publish(1, &messages.Note{})
	check("nothing begun", inc, 6, "journal")
	publish(1, &messages.Input{}, &messages.RunBegin{}, &messages.TurnBegin{})
	check("a run", inc, 7, "8 9 10 ")
	check("its end", inc, 9, "10 ")
	check("all known", inc, 10, "journal")
	check("before it", inc, 6, "journal")
	check("another incarnation", messages.Incarnation{2}, 7, "journal")
	say(1, 2, "ab")
	say(1, 4, "cd")
	check("with text", inc, 7, "8 9 10 abcd")
	publish(1, &messages.Note{})
	check("text of a turn that began before", inc, 10, "journal")
	check("all of it again", inc, 8, "9 10 11 abcd")
	seq++
	publish(1, &messages.Note{}) // the one before was never published
	check("a gap", inc, 11, "journal")
	publish(1, &messages.TurnDecided{}, &messages.RunEnd{})
	publish(2, &messages.Input{}, &messages.TurnBegin{})
	check("the next run", inc, 15, "16 17 ")
	h.Forget("s")
	check("read back", inc, 15, "journal")
	publish(2, &messages.Input{}, &messages.TurnSuspended{})
	check("suspended", inc, 17, "journal")
	publish(3, &messages.Input{})
	check("begun again", inc, seq-1, "20 ")
	for range 20 {
		publish(3, &messages.Note{})
	}
	check("far on", inc, 19, "journal")
	publish(4, &messages.Input{})
	h.Fail("s", hub.ErrStopped)
	check("failed", inc, seq-1, "journal")
	publish(4, &messages.Input{})
	h.Close()
	if _, whole := h.SubscribeBehind("s", inc, seq-1); whole {
		t.Error("a closed hub has something")
	}
}
