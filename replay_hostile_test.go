package stile_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// history is a session taken out of its journal, to be tampered with.
type history struct {
	head  journal.Head
	recs  []*stile.Record
	blobs []messages.Blob
	agent *stile.Agent
}

func taken(t testing.TB, ar *stile.Archive, head journal.Head, agent *stile.Agent) *history {
	t.Helper()
	h := &history{head: head, recs: all(t, ar, head.Inc), agent: agent}
	for _, r := range h.recs {
		for _, d := range journal.Blobs(r.Body) {
			b, err := ar.Blob(context.Background(), head.Inc, d)
			if err != nil {
				t.Fatal(err)
			}
			h.blobs = append(h.blobs, messages.Blob{Digest: d, Data: b})
		}
	}
	return h
}

// replay chains records anew and replays them.
func (h *history) replay(t testing.TB, recs []*stile.Record) (replay.Report, error) {
	t.Helper()
	store := memory.New()
	if err := reseal(t, h.head, recs, h.blobs, store); err != nil {
		return replay.Report{}, err
	}
	return stile.ArchiveOf(store).Replay(context.Background(), h.head.Inc, h.agent)
}

// edited is a history of which one record after the other is changed. What these have in
// common is made once: the agent, and the chain in front of the change.
type edited struct {
	*history
	sealed   []*stile.Record // as they were
	store    *memory.Store   // has the blobs
	replayer *stile.Replayer
}

func (h *history) edited(t testing.TB) *edited {
	t.Helper()
	e := &edited{history: h, store: memory.New(), replayer: stile.NewReplayer(h.head.SID, h.agent)}
	if err := reseal(t, h.head, h.recs, h.blobs, e.store); err != nil {
		t.Fatal(err)
	}
	e.sealed = all(t, stile.ArchiveOf(e.store), h.head.Inc)
	return e
}

// replay replays the history with another body in record i.
func (e *edited) replay(i int, body messages.Body) (replay.Report, error) {
	own := *e.recs[i]
	own.Body = body
	var prev *stile.Record
	if i > 0 {
		prev = e.sealed[i-1]
	}
	rest, err := chained(e.head, prev, append([]*stile.Record{&own}, e.recs[i+1:]...))
	if err != nil {
		return replay.Report{}, err
	}
	return e.replayer.Replay(context.Background(), e.head.Inc, append(slices.Clip(e.sealed[:i]), rest...), e.store)
}

// causes are the members that say what happened outside, by kind: changed, they tell
// another story that may be as true. Everything else the replay makes itself, and
// must find changed.
var causes = map[messages.Kind][]string{
	messages.KindSessionOpened:  {"name", "origin"},
	messages.KindInput:          {"key", "policy", "text", "user", "userdata"},
	messages.KindTurnBegin:      {"nonce"},
	messages.KindModelRequest:   {"matched"},
	messages.KindModelReply:     {"cost_micro_usd", "error", "finish", "unpriced", "usage"},
	messages.KindModelFallback:  {"reason", "to"},
	messages.KindRelicChanged:   {"args", "id", "key", "relic"},
	messages.KindActionEnded:    {"error_code", "ms", "reason", "result", "state"},
	messages.KindActionApproval: {"approval", "by", "reason", "state"},
	messages.KindModelChunk:     {"bytes"}, // of a reply that a crash cut off
	messages.KindTurnRestored:   {"nonce"},
	messages.KindAudit:          {"allowed", "text", "what", "who"},
	messages.KindControl:        {"by", "detail", "name", "what"},
	messages.KindTurnDecided:    {"detail", "failure_lines", "failures", "gas_used", "minted", "resumed"},
	messages.KindRunEnd:         {"detail"},
	messages.KindParseError:     {"detail"}, // an explanation, as those above
}

// One changed value in any record, with the chain made to fit, is found, and the
// record is named.
func TestReplayFindsChanges(t *testing.T) {
	tried, found, tolerated := 0, 0, 0
	missed := map[string]int{}
	seeds := []uint64{1795291417440365717, 1795289732943650720} // these stop a restored program that had minted tokens
	for seed := range uint64(6) {
		seeds = append(seeds, seed)
	}
	seeds = append(seeds, uint64(time.Now().UnixNano()))
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	t.Logf("seeds %d: show one again with -seed", seeds)
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := randomSession(t, seed)
			ar := w.archive(t)
			rnd := rand.New(rand.NewPCG(seed, 2))
			for head := range ar.Sessions(context.Background(), "") {
				h := taken(t, ar, head, w.agent)
				e := h.edited(t)
				from := forkedUpTo(h.recs)
				lost := lostTurns(h.recs)
				told := map[string]bool{} // causes that were changed
				// Every change costs a replay of the history: the longer it is, the fewer
				// of its records are changed, else some seeds take minutes.
				for i := from; i < len(h.recs); i += 1 + rnd.IntN(max(6, len(h.recs)/15)) {
					kind := h.recs[i].Body.Kind()
					for _, c := range changes(t, h.recs[i], rnd) {
						member, body := c.member, c.body
						isCause := slices.Contains(causes[kind], member)
						if b, ok := body.(*messages.Control); ok && b.What == messages.ControlModelError && member == "code" {
							isCause = true // whose failure it was is for the record alone to say, and found at the decision
						}
						if cause := fmt.Sprint(kind, ".", member); isCause {
							if told[cause] { // whatever comes of it is right, but for a panic
								continue
							}
							told[cause] = true
						}
						tried++
						_, err := e.replay(i, body)
						var d *replay.Divergence
						switch {
						case errors.As(err, &d) && d.Seq <= h.recs[i].Seq: // or at one of the same step
							found++
						case isCause, lost[h.recs[i].Turn] && (kind == messages.KindEmit || kind == messages.KindActionDeclared):
							tolerated++ // found later, or as true as before
						case messages.CodeOf(err) == messages.ErrJournal && !errors.As(err, &d) && strings.Contains(err.Error(), "no blob "+c.now):
							found++ // what it names now is nowhere to be had
						case err != nil && !errors.As(err, &d) && member == "manifest":
							found++ // it cannot even be begun
						default:
							missed[fmt.Sprint("seed ", seed, ": ", kind, ".", member, " ", h.recs[i].Seq, " ", string(h.recs[i].Raw), err)]++
						}
					}
				}
				if err := e.replayer.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Logf("%d changes: %d found at their record, %d of causes", tried, found, tolerated)
	for m, n := range missed {
		t.Errorf("missed %d of %.400s", n, m)
	}
	if found < 1000 && *onlySeed == 0 {
		t.Error("hardly anything was changed")
	}
}

// onlySeed is given as go test . -run TestReplayFindsChanges -args -seed N.
var onlySeed = flag.Uint64("seed", 0, "change the history of this seed alone")

// lostTurns are those whose program never answered, so that no record has the tokens
// it had minted: what it said after the first is taken as the journal has it.
func lostTurns(recs []*stile.Record) map[int64]bool {
	lost := map[int64]bool{}
	for _, r := range recs {
		if r.Turn > 0 {
			lost[r.Turn] = true
		}
	}
	for _, r := range recs {
		if d, ok := r.Body.(*messages.TurnDecided); ok && d.GasUsed > 0 {
			lost[r.Turn] = false
		}
	}
	for _, r := range recs {
		if r.Body.Kind() == messages.KindTurnRestored { // its first program did not answer
			lost[r.Turn] = true
		}
	}
	return lost
}

// changed is a body with another value of one member.
type changed struct {
	member string
	now    string // the value, of a text
	body   messages.Body
}

// changes gives the body with one member changed, for each member in turn: the seed alone
// says how.
func changes(t testing.TB, r *stile.Record, rnd *rand.Rand) (out []changed) {
	var members map[string]any
	dec := json.NewDecoder(strings.NewReader(string(r.Raw)))
	dec.UseNumber()
	if err := dec.Decode(&members); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		was := members[name]
		now, ok := change(was, rnd)
		if !ok {
			continue
		}
		members[name] = now
		raw, err := json.Marshal(members)
		members[name] = was
		if err != nil {
			t.Fatal(err)
		}
		if body, err := journal.DecodeBody(r.Body.Kind(), raw); err == nil { // else it is no record any more
			text, _ := now.(string)
			out = append(out, changed{name, text, body})
		}
	}
	return out
}

func change(v any, rnd *rand.Rand) (any, bool) {
	switch v := v.(type) {
	case bool:
		return !v, true
	case json.Number:
		n, _ := v.Int64()
		return n + 1, true
	case string:
		if v == "" {
			return "x", true
		}
		b := []byte(v)
		i := rnd.IntN(len(b))
		b[i] = "0123456789abcdef"[(strings.IndexByte("0123456789abcdef", b[i])+1)%16]
		return string(b), true
	case []any:
		if len(v) == 0 {
			return nil, false
		}
		first, ok := change(v[0], rnd)
		return append([]any{first}, v[1:]...), ok
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if now, ok := change(v[k], rnd); ok {
				c := maps.Clone(v)
				c[k] = now
				return c, true
			}
		}
	}
	return nil, false
}

// A decision with streams that the journal has of another turn, and their lengths, is
// found: also that of a program that ran again and was stopped, whose tokens no record can
// make again.
func TestReplayFindsOtherStreams(t *testing.T) {
	tried := 0
	for _, seed := range []uint64{1795291417440365717, 1795289732943650720, 1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			w := randomSession(t, seed)
			ar := w.archive(t)
			for head := range ar.Sessions(context.Background(), "") {
				h := taken(t, ar, head, w.agent)
				size := map[messages.Digest]int64{}
				for _, b := range h.blobs {
					size[b.Digest] = int64(len(b.Data))
				}
				var streams []messages.Digest
				for _, r := range h.recs {
					if b, ok := r.Body.(*messages.TurnDecided); ok {
						streams = append(streams, b.Output, b.Scratch)
					}
				}
				from := forkedUpTo(h.recs)
				for i, r := range h.recs[from:] {
					b, ok := r.Body.(*messages.TurnDecided)
					if !ok {
						continue
					}
					other := slices.IndexFunc(streams, func(d messages.Digest) bool { return !d.IsZero() && d != b.Output && d != b.Scratch })
					if other < 0 {
						continue
					}
					for _, change := range []func(*messages.TurnDecided){
						func(b *messages.TurnDecided) { b.Output, b.OutputBytes = streams[other], size[streams[other]] },
						func(b *messages.TurnDecided) { b.Scratch, b.ScratchBytes = streams[other], size[streams[other]] },
					} {
						changed, own, recs := *b, *r, slices.Clone(h.recs)
						change(&changed)
						own.Body, recs[from+i] = &changed, &own
						tried++
						_, err := h.replay(t, recs)
						if d := (*replay.Divergence)(nil); !errors.As(err, &d) || d.Seq > own.Seq {
							t.Errorf("seed %d: record %d of %s: %v", seed, own.Seq, head.SID, err)
						}
					}
				}
			}
		})
	}
	if tried < 50 {
		t.Errorf("%d were changed", tried)
	}
}

// forkedUpTo is how many records a fork took over: they are not run again.
func forkedUpTo(recs []*stile.Record) int {
	if recs[0].Body.(*messages.SessionOpened).Origin == nil {
		return 0
	}
	return len(slices.DeleteFunc(slices.Clone(recs), func(r *stile.Record) bool { return r.Epoch > 1 }))
}

// A program that was changed to ask for another token than it got is found, though
// every record fits.
func TestReplayFindsOtherToken(t *testing.T) {
	rt := start(t, stile.Config{})
	program := func(n string) string {
		return "command\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\", \"request\": {\"n\": " + n + "}})\nendcommand"
	}
	agent := &stile.Agent{Dialect: "aeiou", Model: said(program("1"))}
	decided(t, submitted(t, opened(t, rt, "s", agent), "go"))
	head, err := rt.Archive().Head(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	h := taken(t, rt.Archive(), head, agent)
	other := []byte(program("2"))
	h.blobs = append(h.blobs, messages.Blob{Digest: sha256.Sum256(other), Data: other})
	for i, r := range h.recs {
		if b, ok := r.Body.(*messages.ModelReply); ok {
			changed, own := *b, *r
			changed.Blob = sha256.Sum256(other)
			own.Body, h.recs[i] = &changed, &own
		}
	}
	_, err = h.replay(t, h.recs)
	var d *replay.Divergence
	if !errors.As(err, &d) || d.Kind != messages.KindEmit || !strings.Contains(d.Why, "minted") {
		t.Errorf("%v", err)
	}
}

// A journal may name limits of its own and claim that a program without end has gone
// on. The replay gives it so much and no more.
func TestReplayIsBounded(t *testing.T) {
	m := manifest.Default("aeiou")
	m.Quotas.Gas, m.Quotas.Alloc, m.Quotas.ProgramWall = 1<<53-1, 1<<53-1, 50*time.Millisecond
	for name, loop := range map[string]string{
		"gas":   "command\n while true\n  set n = 1\n endwhile\nendcommand",
		"alloc": "command\n set s = \"0123456789\"\n while len(s) < 1000000\n  set s = s + s\n endwhile\n while true\n  set x = s + \"!\"\n endwhile\nendcommand",
	} {
		rt := start(t, stile.Config{})
		agent := &stile.Agent{Manifest: m, Model: said(loop)}
		if d := decided(t, submitted(t, opened(t, rt, "s", agent), "go")); d.Reason != messages.ErrTimeout {
			t.Fatalf("%s: %+v", name, d)
		}
		replays(t, rt.Archive(), agent) // as it was, it is stopped where it was stopped
		head, err := rt.Archive().Head(context.Background(), "s")
		if err != nil {
			t.Fatal(err)
		}
		h := taken(t, rt.Archive(), head, agent)
		at := slices.IndexFunc(h.recs, func(r *stile.Record) bool { return r.Body.Kind() == messages.KindControl })
		for what, body := range map[string]messages.Body{
			"it emitted more":       &messages.Emit{Text: "goes on"},
			"it called":             &messages.ActionDeclared{ID: "#1", Name: "x.y"},
			"it ended by itself":    &messages.Control{What: messages.ControlTimer, Name: "program", Code: messages.ErrTimeout, Detail: "late"},
			"it ran out of a meter": &messages.Control{What: messages.ControlBreach, Name: "gas", Code: messages.ErrQuota, Detail: "much"},
		} {
			recs := slices.Clone(h.recs)
			own := *recs[at]
			own.Body, recs[at] = body, &own
			store := memory.New()
			if err := reseal(t, h.head, recs, h.blobs, store); err != nil {
				t.Fatal(err)
			}
			ar := stile.ArchiveOf(store)
			ar.SetMaxGas(1 << 22)
			_, err := ar.Replay(context.Background(), h.head.Inc, agent)
			if messages.CodeOf(err) != messages.ErrQuota || !strings.Contains(err.Error(), fmt.Sprint("record ", own.Seq)) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// Records that were cut, swapped, doubled, dropped, or moved between turns and runs
// end a replay with a divergence or a typed error: never with a panic, and always.
func FuzzReplayHostile(f *testing.F) {
	histories := map[uint64]*history{}
	for seed := range uint64(4) {
		f.Add(seed, uint64(1), []byte{0, 1, 2})
		f.Add(seed, uint64(5), []byte{7, 9, 30, 4, 4})
	}
	f.Fuzz(func(t *testing.T, seed, pick uint64, edits []byte) {
		seed %= 16
		synctest.Test(t, func(t *testing.T) {
			h := histories[seed]
			if h == nil {
				w := randomSession(t, seed)
				ar := w.archive(t)
				head, err := ar.Head(context.Background(), "s")
				if err != nil {
					t.Fatal(err)
				}
				h = taken(t, ar, head, w.agent)
				histories[seed] = h
			}
			rnd := rand.New(rand.NewPCG(pick, 3))
			recs := slices.Clone(h.recs)
			for _, e := range edits[:min(len(edits), 12)] {
				if len(recs) < 3 {
					break
				}
				i, j := 1+rnd.IntN(len(recs)-1), 1+rnd.IntN(len(recs)-1)
				own := *recs[i]
				switch e % 9 {
				case 0:
					recs = recs[:i]
				case 1:
					recs[i], recs[j] = recs[j], recs[i]
				case 2:
					recs = slices.Insert(recs, j, recs[i])
				case 3:
					recs = slices.Delete(recs, i, i+1)
				case 4:
					own.Turn = recs[j].Turn
					recs[i] = &own
				case 5:
					own.Run = recs[j].Run
					recs[i] = &own
				case 6:
					own.TS = own.TS.Add(time.Duration(int(e)-100) * time.Second)
					recs[i] = &own
				case 7:
					own.Body = recs[j].Body
					recs[i] = &own
				case 8:
					for k := i; k < len(recs); k++ {
						moved := *recs[k]
						moved.Epoch++
						recs[k] = &moved
					}
				}
			}
			// A journal refuses what does not even look like a session; the rest is
			// replayed, and the test ends.
			_, err := h.replay(t, recs)
			var d *replay.Divergence
			if err != nil && !errors.As(err, &d) && messages.CodeOf(err) == "" {
				t.Fatalf("an error without a type: %v", err)
			}
		})
	})
}
