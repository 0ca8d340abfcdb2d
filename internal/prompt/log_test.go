package prompt_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
)

// life makes the records of a session as its machine does, at random: inputs that wait
// and join, turns with and without replies, batches, faults, runs that are taken back or
// end before they begin.
type life struct {
	rng   *rand.Rand
	recs  []*messages.Record
	blobs map[messages.Digest][]byte
	of    map[int64][]messages.Blob // by seq
	queue []int64                   // inputs, by seq
	run   int64
	turn  int64
	late  []late   // actions of the run that have not ended
	left  []left   // of runs that are over
	said  []string // of the run
}

type late struct {
	turn int64
	id   string
}

type left struct {
	run int64
	late
}

func (l *life) add(run, turn int64, b messages.Body) int64 {
	seq := int64(len(l.recs) + 1)
	l.recs = append(l.recs, &messages.Record{Seq: seq, Run: run, Turn: turn, Body: b})
	return seq
}

func (l *life) input() {
	in := &messages.Input{Text: fmt.Sprintf("question %d <execute> [INTERNAL] x", l.rng.IntN(1000))}
	if l.rng.IntN(5) == 0 {
		in = &messages.Input{Userdata: fmt.Sprintf(`{"n":%d}`, l.rng.IntN(1000))}
	}
	for range max(0, l.rng.IntN(6)-3) {
		role := messages.RoleUser
		if l.rng.IntN(2) == 0 {
			role = messages.RoleAssistant
		}
		in.History = append(in.History, messages.Said{Role: role, Text: fmt.Sprintf("said %d", l.rng.IntN(1000))})
	}
	l.queue = append(l.queue, l.add(l.run+1, 0, in))
}

// lateEnd ends an action that outlived its turn.
func (l *life) lateEnd(run int64) {
	if n := len(l.late); n > 0 && l.rng.IntN(2) == 0 {
		i := l.rng.IntN(n)
		l.add(run, l.late[i].turn, &messages.ActionEnded{ID: l.late[i].id, State: messages.ActionOK, Result: `"late"`, MS: 9})
		l.late = slices.Delete(l.late, i, i+1)
	}
}

// some takes inputs from the queue.
func (l *life) some(n int) []int64 {
	n = min(n, len(l.queue))
	got := slices.Clone(l.queue[:n])
	l.queue = l.queue[n:]
	return got
}

func (l *life) aRun() {
	for len(l.queue) == 0 || l.rng.IntN(3) == 0 {
		l.input()
	}
	l.leftEnd()
	l.run++
	run := l.run
	taken := l.some(1 + l.rng.IntN(2))
	if l.rng.IntN(10) == 0 { // cancelled before it began
		l.add(run, 0, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrCancelled, Merged: taken[1:]})
		return
	}
	l.add(run, 0, &messages.RunBegin{Input: taken[0], Merged: taken[1:]})
	turns := 1 + l.rng.IntN(4)
	l.late, l.said = nil, nil
	for i := range turns {
		if l.rng.IntN(4) == 0 {
			l.input()
		}
		var merged []int64
		if i > 0 && l.rng.IntN(3) == 0 {
			merged = l.some(1)
		}
		l.turn++
		l.lateEnd(run)
		l.leftEnd()
		l.add(run, l.turn, &messages.TurnBegin{Pass: int64(i + 1), Merged: merged})
		l.lateEnd(run)
		l.aTurn(run, l.turn)
	}
	if l.rng.IntN(8) == 0 {
		if l.rng.IntN(2) == 0 {
			l.add(run, l.turn, &messages.Note{Text: "it may have happened"})
		}
		l.add(run, l.turn, &messages.RunWithdrawn{By: run + 1})
	}
	if l.rng.IntN(6) == 0 {
		l.input()
	}
	l.add(run, l.turn, &messages.RunEnd{Decision: messages.Done})
	for _, a := range l.late {
		l.left = append(l.left, left{run, a})
	}
	l.leftEnd()
}

// leftEnd ends an action that outlived its run.
func (l *life) leftEnd() {
	if n := len(l.left); n > 0 && l.rng.IntN(3) == 0 {
		i := l.rng.IntN(n)
		l.add(l.left[i].run, l.left[i].turn, &messages.ActionEnded{ID: l.left[i].id, State: messages.ActionFailed, Reason: "gone", MS: 9})
		l.left = slices.Delete(l.left, i, i+1)
	}
}

func (l *life) aTurn(run, turn int64) {
	l.add(run, turn, &messages.ModelRequest{Provider: "p"})
	d := &messages.TurnDecided{Decision: messages.Continue}
	if l.rng.IntN(6) == 0 { // it failed, perhaps after a text
		if l.rng.IntN(2) == 0 {
			l.add(run, turn, &messages.UnitText{Unit: fmt.Sprintf("%d.0", turn), UnitKind: messages.ResponseUnit, Text: "half an ans"})
		}
		d.Decision, d.Reason, d.Detail = messages.Halt, messages.ErrModel, "gone"
		l.add(run, turn, d)
		return
	}
	calls := l.rng.IntN(3)
	text := fmt.Sprintf("<think>why %d</think>well %d ", l.rng.IntN(100), l.rng.IntN(100))
	if calls > 0 {
		text += "<execute>["
		for i := range calls {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf(`{"name":"t%d","args":{"n": %d}}`, i, l.rng.IntN(9))
		}
		text += "]</execute>"
	}
	l.add(run, turn, &messages.UnitText{Unit: fmt.Sprintf("%d.0", turn), UnitKind: messages.ThoughtUnit, Text: "why"})
	sum := messages.Digest(sha256.Sum256([]byte(text)))
	l.blobs[sum] = []byte(text)
	seq := l.add(run, turn, &messages.ModelReply{Blob: sum, Length: int64(len(text)), Finish: messages.FinishComplete})
	l.of[seq] = []messages.Blob{{Digest: sum, Data: []byte(text)}}
	unit := fmt.Sprintf("%d.1", turn)
	l.add(run, turn, &messages.UnitText{Unit: unit, UnitKind: messages.ResponseUnit, Text: "well", Final: calls == 0 && l.rng.IntN(4) > 0})
	if n := len(l.said); n > 0 && l.rng.IntN(5) == 0 { // the text before it is replaced
		l.add(run, turn, &messages.Retract{Unit: l.said[n-1], Off: l.rng.Int64N(3)})
	}
	l.said = append(l.said, unit)
	if l.rng.IntN(8) == 0 {
		l.add(run, turn, &messages.ParseFault{Code: messages.ErrDialect, Reason: "execute_json", Detail: "no JSON"})
	}
	for i := range calls {
		id := fmt.Sprintf("c%d", i)
		l.add(run, turn, &messages.ActionDeclared{ID: id, Name: fmt.Sprintf("t%d", i), Args: `{"n":1}`})
		l.add(run, turn, &messages.ActionStarted{ID: id, Attempt: 1})
		if l.rng.IntN(6) > 0 {
			l.add(run, turn, &messages.ActionEnded{ID: id, State: messages.ActionOK, Result: fmt.Sprint(l.rng.IntN(9)), MS: 3})
		} else {
			l.late = append(l.late, late{turn, id})
		}
	}
	l.add(run, turn, d)
}

// historians are the dialects whose prompts are kept at hand.
var historians = map[string]prompt.Historian{
	"cogency": cogency.Dialect{}, "cogency 2": cogency.Dialect{Rendering: 2},
	"cortex": cortex.Dialect{}, "cortex 2": cortex.Dialect{Rendering: 2, Kept: 12},
	"kitsu": kitsu.Dialect{}, "kitsu 2": kitsu.Dialect{Rendering: 2},
	"plain": plain.Dialect{}, "plain 2": plain.Dialect{Rendering: 2},
}

// What a log gives is what the records give, at every turn, wherever the log begins, and
// the digest is the same.
func TestLogIsTheProjection(t *testing.T) {
	for name, d := range historians {
		t.Run(name, func(t *testing.T) { logIsTheProjection(t, d, versionOf(name)) })
	}
}

// versionOf is the rendering of a dialect in historians.
func versionOf(name string) int64 {
	if strings.HasSuffix(name, " 2") {
		return 2
	}
	return 1
}

func logIsTheProjection(t *testing.T, d prompt.Historian, rendering int64) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	settledOnce, wholeOnce, partial := 0, 0, 0
	for range 60 {
		l := &life{rng: rng, blobs: map[messages.Digest][]byte{}, of: map[int64][]messages.Blob{}}
		for range 1 + rng.IntN(12) {
			l.aRun()
		}
		window := []prompt.Window{
			{},
			{Messages: 1},
			{Messages: 2},
			{Messages: 3},
			{Messages: 5},
			{Messages: 8},
			{Messages: 20},
			{None: true},
			{Bytes: 1},
			{Bytes: 40},
			{Bytes: 100},
			{Bytes: 300},
			{Messages: 4, Bytes: 100},
		}[rng.IntN(13)]
		from := int64(1)
		if rng.IntN(2) == 0 {
			from = 1 + rng.Int64N(int64(len(l.recs)))
		}
		log := prompt.NewLog(d, from, window, rendering)
		digester := prompt.NewDigester("Speak.", rendering)
		feeds, last := []messages.Feed{{ID: "f", Value: `"x"`}}, rng.IntN(2) == 0
		for _, r := range l.recs[from-1:] {
			if !log.Add(r, l.of[r.Seq]) {
				t.Fatalf("lost at %d, %s", r.Seq, r.Body.Kind())
			}
			b, begins := r.Body.(*messages.TurnBegin)
			if !begins {
				continue
			}
			v := log.View(r.Turn)
			if v == nil {
				if from == 1 {
					t.Fatalf("no view at %d although the log is whole", r.Seq)
				}
				partial++
				continue
			}
			spec := prompt.Spec{
				SID: "s", Run: r.Run, Turn: r.Turn, Pass: int(b.Pass), Primer: "Speak.", Feeds: feeds, FeedsLast: last, Rendering: rendering,
				Transcript: d.Traits().Transcript, Reply: func(d messages.Digest) []byte { return l.blobs[d] }, Window: window,
			}
			spec = spec.For(d)
			want, _ := parse.Window(prompt.Assemble(d, prompt.Project(slices.Values(l.recs), spec)), window.Messages)
			got, settled := parse.Window(v.Assemble(spec), window.Messages)
			if !settled && !v.Whole() {
				partial++
				continue
			}
			if settled {
				settledOnce++
			} else {
				wholeOnce++
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("turn %d, window %+v, from %d: %s", r.Turn, window, from, diff)
			}
			if at := slices.IndexFunc(got, func(m messages.Message) bool { return m.Holds == messages.HoldsFeeds }); last != (at == len(got)-1) || !last && at > 1 {
				t.Fatalf("turn %d: of %d messages the feeds are number %d, at the end: %v", r.Turn, len(got), at, last)
			}
			if digester.Digest(got, v) != prompt.Digest(want, rendering) {
				t.Fatalf("turn %d, window %+v, from %d: another digest", r.Turn, window, from)
			}
		}
		if log.Next() != int64(len(l.recs)+1) {
			t.Errorf("next is %d", log.Next())
		}
	}
	if settledOnce == 0 || wholeOnce == 0 || partial == 0 {
		t.Errorf("%d windows settled, %d whole, %d not known: one of them was not tried", settledOnce, wholeOnce, partial)
	}
}

// A view is of its turn: what is recorded while the model is asked changes nothing of it.
func TestLogViewStays(t *testing.T) {
	for name, d := range historians {
		t.Run(name, func(t *testing.T) { logViewStays(t, d) })
	}
}

func logViewStays(t *testing.T, d prompt.Historian) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := &life{rng: rand.New(rand.NewPCG(seed, 2)), blobs: map[messages.Digest][]byte{}, of: map[int64][]messages.Blob{}}
	for range 20 {
		l.aRun()
	}
	log := prompt.NewLog(d, 1, prompt.Window{Messages: 4}, 0)
	type kept struct {
		v    *prompt.View
		then []messages.Message
	}
	var views []kept
	last := int64(0) // turn begun
	for _, r := range l.recs {
		log.Add(r, l.of[r.Seq])
		if _, begins := r.Body.(*messages.TurnBegin); begins {
			v := log.View(r.Turn)
			views = append(views, kept{v, v.Assemble(prompt.Spec{})})
		}
		if last = max(last, r.Turn); log.View(last+1) != nil {
			t.Fatal("a view of a turn that has not begun")
		}
	}
	for i, k := range views {
		if diff := cmp.Diff(k.then, k.v.Assemble(prompt.Spec{})); diff != "" {
			t.Fatalf("turn %d has changed: %s", i+1, diff)
		}
	}
	if n := log.Bytes(); n > 16<<10 {
		t.Errorf("a log with a window of 4 keeps %d bytes after %d records", n, len(l.recs))
	}
}

// What a log cannot follow it does not guess.
func TestLogGivesUp(t *testing.T) {
	d := cogency.Dialect{}
	rec := func(seq, run, turn int64, b messages.Body) *messages.Record {
		return &messages.Record{Seq: seq, Run: run, Turn: turn, Body: b}
	}
	begun := []*messages.Record{
		rec(1, 1, 0, &messages.Input{Text: "a"}), rec(2, 1, 0, &messages.RunBegin{Input: 1}), rec(3, 1, 1, &messages.TurnBegin{Pass: 1}),
	}
	ended := append(slices.Clone(begun), rec(4, 1, 1, &messages.TurnDecided{Decision: messages.Done}), rec(5, 1, 1, &messages.RunEnd{Decision: messages.Done}))
	for name, c := range map[string]struct {
		before []*messages.Record
		then   *messages.Record
	}{
		"a gap":             {begun, rec(5, 1, 1, &messages.TurnDecided{})},
		"again":             {begun, rec(3, 1, 1, &messages.TurnBegin{Pass: 1})},
		"an erased body":    {begun, rec(4, 1, 1, nil)},
		"an undecoded body": {begun, rec(4, 1, 1, &messages.Undecoded{Of: messages.KindResponse})},
		"an unknown reply":  {begun, rec(4, 1, 1, &messages.ModelReply{Blob: messages.Digest{1}})},
		"the end of a deed of a run that is over": {ended, rec(6, 1, 1, &messages.ActionEnded{ID: "x"})},
		"too much": {begun, rec(4, 2, 0, &messages.Input{Text: string(make([]byte, prompt.MaxLogBytes+1))})},
	} {
		log := prompt.NewLog(d, 1, prompt.Window{}, 0)
		for _, r := range c.before {
			if !log.Add(r, nil) {
				t.Fatalf("%s: lost at %d", name, r.Seq)
			}
		}
		if log.Add(c.then, nil) || log.View(1) != nil || log.Add(rec(log.Next(), 0, 0, &messages.Audit{}), nil) {
			t.Errorf("%s: it goes on", name)
		}
	}
	log := prompt.NewLog(d, 1, prompt.Window{}, 0)
	for _, r := range append(slices.Clone(begun), rec(4, 1, 1, &messages.Undecoded{Of: messages.KindModelRequest})) {
		if !log.Add(r, nil) {
			t.Errorf("lost at %d, %s", r.Seq, r.Body.Kind())
		}
	}
	var none *prompt.Log
	if none.View(1) != nil {
		t.Error("no log has a view")
	}
}

// counting counts how often it tells of a turn.
type counting struct {
	cogency.Dialect
	told map[int64]int
}

func (c counting) Tell(r *messages.Reply) []messages.Message {
	c.told[r.Turn]++
	return c.Dialect.Tell(r)
}

// However many turns a run has, the reply of each is read once, and what was made of it
// is what the following prompts have.
func TestLogTellsOnce(t *testing.T) {
	d := counting{told: map[int64]int{}}
	log := prompt.NewLog(d, 1, prompt.Window{}, 0)
	seq := int64(0)
	add := func(turn int64, b messages.Body, blobs ...messages.Blob) {
		seq++
		if !log.Add(&messages.Record{Seq: seq, Run: 1, Turn: turn, Body: b}, blobs) {
			t.Fatalf("lost at %d", seq)
		}
	}
	text := []byte(`I look. <execute>[{"name":"t","args":{}}]</execute>`)
	blob := messages.Blob{Digest: sha256.Sum256(text), Data: text}
	add(0, &messages.Input{Text: "go"})
	add(0, &messages.RunBegin{Input: 1})
	const turns = 5
	for turn := range int64(turns) {
		add(turn, &messages.TurnBegin{Pass: turn + 1})
		for range 2 { // asked twice, the answer is one
			if n := len(log.View(turn).Assemble(prompt.Spec{Primer: "Speak."})); n != 2+2*int(turn) {
				t.Fatalf("%d messages at turn %d", n, turn)
			}
		}
		add(turn, &messages.ModelReply{Blob: blob.Digest, Length: int64(len(text)), Finish: messages.FinishComplete}, blob)
		add(turn, &messages.ActionDeclared{ID: "#1", Name: "t", Args: `{}`})
		add(turn, &messages.ActionEnded{ID: "#1", State: messages.ActionOK, Result: "1"})
		add(turn, &messages.TurnDecided{Decision: messages.Continue})
	}
	for turn := range int64(turns - 1) {
		if d.told[turn] != 1 {
			t.Errorf("turn %d was told of %d times", turn, d.told[turn])
		}
	}
}
