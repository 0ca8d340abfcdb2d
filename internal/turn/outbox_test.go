package turn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func record(seq int64) *Persist {
	return &Persist{Record: &messages.Record{Seq: seq, Body: &messages.Note{}}}
}

func delta(after int64) *Publish {
	return &Publish{After: after, Update: messages.Update{Delta: &messages.Delta{}}}
}

// TestOutboxOrder adds and acknowledges at random: effects come in the order of
// their positions, at one position as they were added, never early, never twice.
func TestOutboxOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		box := NewOutbox(10)
		seq, acked := int64(10), int64(10)
		added, given := map[int64]int64{}, map[int64]int64{} // per position
		ordinal, shown := uint64(0), int64(10)
		look := func(ready []Effect) {
			t.Helper()
			for _, e := range ready {
				switch e := e.(type) {
				case *Answer:
					if e.After > acked {
						t.Fatalf("answer for %d at %d", e.After, acked)
					}
					if h := int64(e.Handle); h <= given[e.After] && e.After > 10 {
						t.Fatalf("position %d: %d after %d", e.After, h, given[e.After])
					} else {
						given[e.After] = h
					}
					added[e.After]--
				case *Publish:
					if r := e.Update.Record; r != nil {
						if r.Seq != shown+1 || r.Seq > acked {
							t.Fatalf("record %d after %d", r.Seq, shown)
						}
						shown = r.Seq
					} else if e.Update.Delta.Seq != shown {
						t.Fatalf("delta stamped %d, last shown %d", e.Update.Delta.Seq, shown)
					}
				}
			}
		}
		for range 100 {
			var batch []Effect
			for range rnd.IntN(4) {
				seq++
				batch = append(batch, record(seq))
				for range rnd.IntN(3) {
					ordinal++
					after := rnd.Int64N(seq + 1)
					added[after]++
					batch = append(batch, &Answer{After: after, Handle: ordinal}, delta(after))
				}
			}
			look(box.Add(batch, nil))
			if rnd.IntN(2) == 0 {
				to := acked - 3 + rnd.Int64N(seq-acked+4)
				acked = max(acked, to)
				look(box.Ack(to, nil))
			}
			if box.Acked() != acked {
				t.Fatalf("acked %d, want %d", box.Acked(), acked)
			}
		}
		acked = seq
		look(box.Ack(seq, nil))
		if !box.Idle() || box.held != nil || shown != seq {
			t.Fatalf("at the end: %d held, shown %d of %d", len(box.held), shown, seq)
		}
		for at, n := range added {
			if n != 0 {
				t.Fatalf("position %d: %d effects lost", at, n)
			}
		}
	}
}

// TestOutboxWithdraws: a cancel overtakes a start that waits, its own and no other.
func TestOutboxWithdraws(t *testing.T) {
	id := Ident{Turn: 3, Nonce: "n"}
	other := Ident{Turn: 3, Nonce: "m"}
	box := NewOutbox(0)
	box.Add([]Effect{
		record(1), &OpenModel{After: 1, Ident: id}, &OpenModel{After: 1, Ident: other},
		record(2), &RunProgram{After: 2, Ident: other}, &RunProgram{After: 2, Ident: id}, &StartAction{After: 2, Ident: other, ID: "#1"}, &StartAction{After: 2, Ident: id, ID: "#1"}, &StartAction{After: 2, Ident: id, ID: "#2"},
	}, nil)
	ready := box.Add([]Effect{&CancelModel{Ident: id}, &CancelAction{Ident: id, ID: "#1"}, &CancelAction{Ident: id, ID: "#3"}, &StopProgram{Ident: id, Code: messages.ErrTimeout}}, nil)
	if len(ready) != 4 || !ready[1].(*CancelAction).Withdrawn || ready[2].(*CancelAction).Withdrawn {
		t.Fatalf("ready %v", ready)
	}
	if stop := ready[3].(*StopProgram); !stop.Withdrawn || stop.Code != messages.ErrTimeout {
		t.Fatalf("ready %v", stop)
	}
	var got []any
	for _, e := range box.Ack(2, nil) {
		switch e := e.(type) {
		case *OpenModel:
			got = append(got, e.Ident)
		case *StartAction:
			got = append(got, e.Ident, e.ID)
		case *RunProgram:
			got = append(got, e.Ident)
		}
	}
	want := []any{other, other, other, "#1", id, "#2"}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %v, want %v", i, got[i], want[i])
		}
	}
	// What is ready in the same step is not out yet.
	ready = box.Add([]Effect{&StartAction{Ident: other, ID: "#5"}, &StartAction{Ident: id, ID: "#5"}, &CancelAction{Ident: id, ID: "#5"}}, ready[:1])
	if len(ready) != 3 || ready[1].(*StartAction).Ident != other || !ready[2].(*CancelAction).Withdrawn {
		t.Errorf("ready %v", ready)
	}
	// A reply that is cut needs no feeds for its prompt; what its actions name they need.
	ready = box.Add([]Effect{&FetchFeeds{Ident: id, Names: []string{"env.HOME"}}, &FetchFeeds{Ident: id}, &CancelModel{Ident: id}}, nil)
	if len(ready) != 2 || len(ready[0].(*FetchFeeds).Names) != 1 {
		t.Errorf("ready %v", ready)
	}
	ready = box.Add([]Effect{&StartAction{Ident: other, ID: "#5"}}, nil)
	// What is out already cannot be withdrawn, nor what the caller had.
	if ready = box.Add([]Effect{&CancelAction{Ident: other, ID: "#5"}}, ready); len(ready) != 2 || ready[1].(*CancelAction).Withdrawn {
		t.Errorf("ready %v", ready)
	}
	if e := box.Add([]Effect{&StopProgram{Ident: other}}, nil)[0]; e.(*StopProgram).Withdrawn {
		t.Error("withdrawn after its release")
	}
	if e := box.Add([]Effect{&CancelAction{Ident: id, ID: "#2"}}, nil)[0]; e.(*CancelAction).Withdrawn {
		t.Error("withdrawn after its release")
	}
}
