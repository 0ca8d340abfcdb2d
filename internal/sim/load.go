package sim

import (
	"bytes"
	"reflect"
	"time"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// load reads what the journal knows of a session, from its snapshot and from its
// first record: both must give the same.
func (h *host) load(c *client) *shell {
	w := h.w
	w.stats.Activations++
	s := &shell{host: h, client: c, replay: token.NewReplaySet(0, 0), audit: c.newAudit(), gates: map[string]messages.GateAnswer{}, shown: map[string]string{}, latest: map[messages.Kind]messages.UnitID{}, flowing: map[string]string{}, explicit: map[string]bool{}, written: map[string]*messages.Action{}, said: map[string]string{}, calls: map[uint64]*relicCall{}, ticks: map[string]time.Time{}}
	if c.talks != replays {
		s.talk = &talk{s: s}
	}
	head, err := h.writer.Activate(bg, c.sid)
	var state turn.State
	var recs []*messages.Record
	switch {
	case journal.IsNotFound(err):
		var inc messages.Incarnation
		_, _ = h.w.jti.Read(inc[:])
		inc[6], inc[8] = inc[6]&0x0f|0x70, inc[8]&0x3f|0x80
		head = journal.NewHead(c.sid, inc)
	case err != nil:
		w.violated("chain", "activation: %v", err)
	default:
		if head, recs, err = journal.Load(bg, w.disk, head.Inc); err != nil {
			w.violated("chain", "%v", err)
		}
		for _, r := range recs {
			if err := state.Apply(r); err != nil {
				w.violated("projection", "%v", err)
			}
			if err := s.audit.apply(r); err != nil {
				w.violated("history", "record %d %s: %v", r.Seq, r.Body.Kind(), err)
			}
		}
		if w.rnd.IntN(8) == 0 {
			s.cut(recs, &state)
		}
		if snap, ok := s.snapshot(head, &state); ok {
			state = snap
		}
	}
	s.settle = s.readBack(head.Inc, recs, &state)
	s.orphan = w.orphaned(c, &state)
	s.inc, s.base, s.snapped, s.published = head.Inc, head.Seq, head.Seq, head.Seq
	s.sealer = journal.NewSealer(journal.SealerConfig{Head: head, Rand: h.rand(), Signer: seal{}, Receipts: c.policy})
	if s.epoch = s.sealer.Epoch(); s.epoch <= head.Epoch {
		w.violated("fence", "an activation takes epoch %d, the head has %d", s.epoch, head.Epoch)
	}
	s.folded = clone(w, &state)
	s.machine = turn.New(turn.Config{Key: c.key, SID: c.sid, Inc: s.inc, Rules: &c.rules}, state, h.rand())
	s.drive = driver.New(s.machine, head.Seq)
	w.log.say("host %d: session %d awake at record %d, epoch %d", h.n, c.n, head.Seq, s.epoch)
	return s
}

// snapshot restores from the session's snapshot, if it has one, and compares.
func (s *shell) snapshot(head journal.Head, all *turn.State) (state turn.State, ok bool) {
	w := s.host.w
	snap, err := w.disk.Snapshot(bg, head.Inc)
	if err != nil {
		return state, false
	}
	if state, err = turn.DecodeState(snap.State); err != nil {
		if s.client.torn == snap.Seq {
			return state, false
		}
		w.violated("projection", "the snapshot at %d: %v", snap.Seq, err)
	}
	_, tail, err := journal.LoadAfter(bg, w.disk, head.Inc, journal.Anchor{Seq: snap.Seq, Hash: snap.Hash})
	if err != nil {
		w.violated("chain", "behind the snapshot at %d: %v", snap.Seq, err)
	}
	for _, r := range tail {
		if err := state.Apply(r); err != nil {
			w.violated("projection", "%v", err)
		}
	}
	if a, b := encoded(w, &state), encoded(w, all); !bytes.Equal(a, b) {
		w.violated("projection", "the snapshot at %d and its tail give\n%s\nall records give\n%s", snap.Seq, a, b)
	}
	w.stats.Snapshots++
	return state, true
}

// readBack reads what the journal has of a turn that is open: its records, and what
// a decoder makes of its reply again.
func (s *shell) readBack(inc messages.Incarnation, recs []*messages.Record, state *turn.State) *turn.Settle {
	w := s.host.w
	in := &turn.Settle{}
	left := driver.Recover(state, s.audit.streams)
	if left.Run > 0 {
		for _, r := range recs[left.Run-1:] {
			if r.Run == state.Open.Run {
				in.Run = append(in.Run, r)
			}
		}
	}
	if left.Turn == 0 {
		return in
	}
	t := state.Open.Turn
	in.Turn = recs[left.Turn-1:]
	in.Feeds = s.fedAgain(inc, in.Turn)
	s.settles = t.Index
	reply, blob, finish := driver.Reply(in.Turn, t.Index)
	if !blob.IsZero() {
		var err error
		if reply, err = w.disk.Blob(bg, inc, blob); err != nil {
			w.violated("forgotten", "the reply of turn %d: %v", t.Index, err)
		}
	}
	d := s.client.dialect.NewDecoder(messages.TurnInfo{Turn: t.Index, Pass: int(state.Open.Turns), State: state.Open.State, Templates: state.Open.Templates, MaxReplyBytes: turn.MaxReplyBytes})
	in.Events = driver.Events(d, reply, finish)
	for i := range in.Events {
		s.hears(t.Index, &in.Events[i])
	}
	return in
}

// cut makes a snapshot anywhere in the log and compares what it and the tail give.
func (s *shell) cut(recs []*messages.Record, all *turn.State) {
	w := s.host.w
	at := w.rnd.IntN(len(recs) + 1)
	var state turn.State
	for i := range len(recs) + 1 {
		if i == at {
			state = clone(w, &state)
		}
		if i == len(recs) {
			break
		}
		if err := state.Apply(recs[i]); err != nil {
			w.violated("projection", "%v", err)
		}
	}
	if a, b := encoded(w, &state), encoded(w, all); !bytes.Equal(a, b) {
		w.violated("projection", "a snapshot at %d and its tail give\n%s\nall records give\n%s", at, a, b)
	}
}

func encoded(w *world, s *turn.State) []byte {
	b, err := turn.EncodeState(s)
	if err != nil {
		w.violated("projection", "%v", err)
	}
	return b
}

// clone gives a state that shares nothing: by way of a snapshot.
func clone(w *world, s *turn.State) turn.State {
	c, err := turn.DecodeState(encoded(w, s))
	if err != nil {
		w.violated("projection", "the state does not survive its snapshot: %v", err)
	}
	if !reflect.DeepEqual(*s, c) {
		w.violated("projection", "the state %+v comes back from its snapshot as %+v", *s, c)
	}
	return c
}
