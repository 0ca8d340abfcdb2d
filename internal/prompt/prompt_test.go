package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/messages"
)

// transcript is a dialect of text alone.
type transcript struct{ system bool }

func (d transcript) Render(p messages.Projection) (out []messages.Message) {
	if d.system {
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: "own"})
	}
	for _, it := range p.History {
		out = append(out, messages.Message{Role: it.Role, Text: it.Text})
	}
	return append(out, messages.Message{Role: messages.RoleUser, Text: p.Text})
}

func (transcript) Primer(tools []messages.ToolSpec) string {
	if tools == nil {
		return ""
	}
	return fmt.Sprintf("speak plainly, %d tools", len(tools))
}

// journal builds records as a session would write them.
type journal struct {
	recs []*messages.Record
	run  int64
	turn int64
}

func (j *journal) add(run, turn int64, b messages.Body) int64 {
	seq := int64(len(j.recs) + 1)
	j.recs = append(j.recs, &messages.Record{SID: "local:local:s", Seq: seq, Run: run, Turn: turn, Body: b})
	return seq
}

func (j *journal) input(text string) int64 { return j.add(0, 0, &messages.Input{Text: text}) }

func (j *journal) begin(input int64) {
	j.run++
	j.add(j.run, 0, &messages.RunBegin{Input: input})
	j.nextTurn()
}

func (j *journal) nextTurn() {
	j.turn++
	j.add(j.run, j.turn, &messages.TurnBegin{})
	j.add(j.run, j.turn, &messages.ModelRequest{})
}

func (j *journal) say(kind messages.Kind, text string, final bool) {
	j.add(j.run, j.turn, &messages.UnitText{UnitKind: kind, Text: text, Final: final, Complete: true})
}

func (j *journal) decide(d messages.Decision, reason messages.Code, detail string) {
	j.add(j.run, j.turn, &messages.TurnDecided{Decision: d, Reason: reason, Detail: detail})
}

func (j *journal) end(d messages.Decision) {
	j.add(j.run, j.turn, &messages.RunEnd{Decision: d})
}

func (j *journal) project(s Spec) messages.Projection { return Project(slices.Values(j.recs), s) }

func sample() *journal {
	j := &journal{}
	a, b := j.input("one"), j.input("two") // the second waited
	j.begin(a)
	j.say(messages.ThoughtUnit, "hm", false)
	j.say(messages.ResponseUnit, "working", false)
	j.say(messages.TextUnit, "between", false)
	j.say(messages.ResponseUnit, "first", true)
	j.decide(messages.Done, "", "")
	j.end(messages.Done)
	j.begin(b)
	j.say(messages.ResponseUnit, "cut sho", false)
	j.decide(messages.Halt, messages.ErrCancelled, "by the user")
	j.end(messages.Halt)
	j.begin(j.input("three"))
	j.say(messages.ResponseUnit, "taken back", true)
	j.decide(messages.Done, "", "")
	j.end(messages.Done)
	j.add(3, 0, &messages.RunWithdrawn{By: 4})
	j.begin(j.add(0, 0, &messages.Input{Userdata: `{"subject":"s","fields":{}}`}))
	j.decide(messages.Done, "", "")
	j.end(messages.Done)
	j.begin(j.input("five"))
	j.say(messages.ResponseUnit, "lost", true)
	j.decide(messages.Halt, messages.ErrCrash, "the process died")
	j.input("six")
	j.recs = append(j.recs, &messages.Record{Seq: 99, Run: 1}) // erased
	return j
}

func TestProject(t *testing.T) {
	j := sample()
	got := j.project(Spec{SID: "sid", Turn: 6, Pass: 2, Tools: []messages.ToolSpec{{Name: "x"}}, Out: []byte("o"), Scr: []byte("s")})
	want := messages.Projection{
		SID: "sid", Turn: 6, Pass: 2, Text: "five", Tools: []messages.ToolSpec{{Name: "x"}},
		History: []messages.Item{
			{Role: messages.RoleUser, Text: "one", Run: 1, Turn: 1},
			{Role: messages.RoleAssistant, Text: "first", Run: 1, Turn: 1},
			{Role: messages.RoleUser, Text: "two", Run: 2, Turn: 2},
			{Role: messages.RoleAssistant, Text: "cut sho", Run: 2, Turn: 2},
			{Role: messages.RoleUser, Text: `{"subject":"s","fields":{}}`, Run: 4, Turn: 4},
		},
		LastError: "ERR_CRASH: the process died",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// A later record must not change what an old turn was asked.
	got = j.project(Spec{Turn: 2})
	want = messages.Projection{Turn: 2, Text: "two", History: want.History[:2]}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := j.project(Spec{Turn: 4}); got.Userdata != `{"subject":"s","fields":{}}` || got.Text != "" || got.LastError != "" {
		t.Errorf("%+v", got)
	}
	if got := j.project(Spec{Turn: 6, Carry: true, Out: []byte("o"), Scr: []byte("s")}); got.History != nil || string(got.Out)+string(got.Scr) != "os" || got.Text != "five" {
		t.Errorf("%+v", got)
	}
	if got := (&journal{}).project(Spec{SID: "s"}); !cmp.Equal(got, messages.Projection{SID: "s"}) {
		t.Errorf("%+v", got)
	}
}

func TestLastErrorIsOfTheTurnBefore(t *testing.T) {
	j := &journal{}
	j.begin(j.input("a"))
	j.decide(messages.Halt, messages.ErrCrash, "")
	if got := j.project(Spec{}).LastError; got != "ERR_CRASH" {
		t.Error(got)
	}
	j.nextTurn()
	j.decide(messages.Continue, "", "")
	if got := j.project(Spec{}).LastError; got != "" {
		t.Error(got)
	}
}

// A run that neither ended nor is asked about, such as one whose process died
// before it was settled, is nothing a model can be told of.
func TestUnsettledRunIsLeftOut(t *testing.T) {
	j := &journal{}
	j.begin(j.input("a"))
	j.say(messages.ResponseUnit, "x", true)
	j.begin(j.input("b"))
	if got := j.project(Spec{}); got.History != nil || got.Text != "b" {
		t.Errorf("%+v", got)
	}
	if got := j.project(Spec{Run: 1}); got.History != nil || got.Text != "a" {
		t.Errorf("%+v", got)
	}
}

func TestAssemble(t *testing.T) {
	p := messages.Projection{Text: "hi", Tools: []messages.ToolSpec{{}}}
	hi := messages.Message{Role: messages.RoleUser, Text: "hi"}
	for _, c := range []struct {
		name string
		d    transcript
		p    messages.Projection
		want []messages.Message
	}{
		{"primer in front", transcript{}, p, []messages.Message{{Role: messages.RoleSystem, Text: "speak plainly, 1 tools"}, hi}},
		{"own system message", transcript{system: true}, p, []messages.Message{{Role: messages.RoleSystem, Text: "own"}, hi}},
		{"no primer", transcript{}, messages.Projection{Text: "hi"}, []messages.Message{hi}},
	} {
		if d := cmp.Diff(c.want, Assemble(c.d, c.p)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// The messages of a run, but for its input, begin those of every later run; the
// same records always give the same messages.
func TestAssemblyOfAPrefixIsAPrefix(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		j := &journal{}
		var before []messages.Message
		var waiting []int64
		for range 1 + rng.IntN(12) {
			for range 1 + rng.IntN(2) {
				waiting = append(waiting, j.input(fmt.Sprint("q", rng.IntN(1000))))
			}
			j.begin(waiting[0])
			waiting = waiting[1:]
			asked := Assemble(transcript{}, j.project(Spec{Turn: j.turn, Tools: []messages.ToolSpec{}}))
			again := Assemble(transcript{}, j.project(Spec{Turn: j.turn, Tools: []messages.ToolSpec{}}))
			if !cmp.Equal(asked, again) || Digest(asked, 2) != Digest(again, 2) {
				t.Fatal("not deterministic")
			}
			if len(asked) <= len(before) && before != nil || !cmp.Equal(before, asked[:len(before)], equateEmpty) {
				t.Fatalf("%v does not begin %v", before, asked)
			}
			before = asked
			for range rng.IntN(3) {
				j.say(messages.ThoughtUnit, "t", false)
			}
			if rng.IntN(4) > 0 {
				j.say(messages.ResponseUnit, fmt.Sprint("a", rng.IntN(1000)), true)
				j.decide(messages.Done, "", "")
				j.end(messages.Done)
			} else {
				j.say(messages.ResponseUnit, "par", false)
				j.decide(messages.Halt, messages.ErrModel, "x")
				j.end(messages.Halt)
			}
		}
	}
}

var equateEmpty = cmp.FilterValues(func(a, b []messages.Message) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())

func TestDigest(t *testing.T) {
	m := func(role messages.Role, text string) messages.Message {
		return messages.Message{Role: role, Text: text}
	}
	// Worked out by hand from the sentences above Digest.
	hi := sha256.Sum256([]byte("hi"))
	one := "\x00\x00\x00\x00\x00\x00\x00\x01"
	said := "\x00\x00\x00\x00\x00\x00\x00\x04user" + "\x00\x00\x00\x00\x00\x00\x00\x02" + string(hi[:])
	page := sha256.Sum256([]byte(said))
	full := sha256.Sum256([]byte(strings.Repeat(said, 16)))
	for _, c := range []struct {
		rendering int64
		messages  int
		hashed    string
	}{
		{1, 1, "stile-prompt/1\n" + one + said},
		{2, 1, "stile-prompt/2\n" + one + string(page[:])},
		{2, 17, "stile-prompt/2\n" + "\x00\x00\x00\x00\x00\x00\x00\x11" + string(full[:]) + string(page[:])},
	} {
		sum := sha256.Sum256([]byte(c.hashed))
		if got := Digest(slices.Repeat([]messages.Message{m("user", "hi")}, c.messages), c.rendering); got.String() != hex.EncodeToString(sum[:]) {
			t.Errorf("%d messages in rendering %d: %s", c.messages, c.rendering, got)
		}
	}
	lists := [][]messages.Message{
		nil,
		{m("", "")},
		{m("", ""), m("", "")},
		{m("user", "hi")},
		{m("userh", "i")},
		{m("", "userhi")},
		{m("user", "hi"), m("", "")},
		{m("user", "h"), m("user", "i")},
		{m("user", strings.Repeat("x", 4096))},
		{m("user", strings.Repeat("x", 4097))},
		{m("assistant", "hi")},
	}
	for n := range 2*pageMessages + 2 { // the empty list is the first above
		if n > 2 {
			lists = append(lists, slices.Repeat([]messages.Message{m("", "")}, n))
		}
	}
	seen := map[messages.Digest]int{}
	for i, l := range lists {
		for _, rendering := range []int64{1, 2} {
			d := Digest(l, rendering)
			if known := NewDigester("hi", rendering).Digest(l, nil); known != d {
				t.Errorf("list %d: a digester that knows a text gives %s, not %s", i, known, d)
			}
			if k, ok := seen[d]; ok {
				t.Errorf("lists %d and %d have one digest", k, i)
			}
			seen[d] = i
		}
	}
	a, b := m("user", "hi"), m("user", "hi")
	b.Lints = []messages.Code{messages.LintMarkerEscaped}
	if Digest([]messages.Message{a}, 2) != Digest([]messages.Message{b}, 2) {
		t.Error("lints count")
	}
}

func BenchmarkDigest(b *testing.B) {
	ms := make([]messages.Message, 64)
	var all []byte
	for i := range ms {
		ms[i] = messages.Message{Role: messages.RoleUser, Text: strings.Repeat("x", 1024)}
		all = append(all, ms[i].Text...)
	}
	b.Run("64_messages_of_1KiB", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(all)))
		for b.Loop() {
			Digest(ms, messages.Rendering)
		}
	})
	b.Run("floor_sha256_of_the_bytes", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(all)))
		for b.Loop() {
			sha256.Sum256(all)
		}
	})
}

func BenchmarkProject(b *testing.B) {
	j := &journal{}
	for i := range 1000 {
		j.begin(j.input("question"))
		j.say(messages.ResponseUnit, fmt.Sprint("answer", i), true)
		j.decide(messages.Done, "", "")
		j.end(messages.Done)
	}
	b.Run(fmt.Sprintf("1000_runs_%d_records", len(j.recs)), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			j.project(Spec{})
		}
	})
}

// A tail tells of its whole runs what the whole journal tells of them.
func TestProjectTail(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	j := &journal{}
	var waiting []int64
	for i := range 12 {
		waiting = append(waiting, j.input(fmt.Sprint("question ", i)))
		for len(waiting) > 0 && r.IntN(3) > 0 {
			j.begin(waiting[0])
			waiting = waiting[1:]
			for range r.IntN(3) {
				j.add(j.run, j.turn, &messages.ActionDeclared{ID: "a", Name: "t"})
				j.add(j.run, j.turn, &messages.ActionEnded{ID: "a", State: messages.ActionOK, Result: "1"})
				j.add(j.run, j.turn, &messages.ModelReply{Blob: messages.Digest{byte(r.IntN(255) + 1)}})
				j.decide(messages.Continue, "", "")
				if r.IntN(3) == 0 {
					waiting = append(waiting, j.input("meanwhile"))
				}
				j.nextTurn()
			}
			j.say(messages.ResponseUnit, fmt.Sprint("answer ", i), true)
			j.decide(messages.Done, "", "")
			j.end(messages.Done)
		}
	}
	j.begin(j.input("last"))
	for _, spec := range []Spec{{SID: "x"}, {SID: "x", Transcript: true, Reply: func(d messages.Digest) []byte { return d[:1] }}} {
		whole := j.project(spec)
		known := false
		for from := len(j.recs); from >= 1; from-- {
			p, _, ok := ProjectTail(slices.Values(j.recs[from-1:]), spec)
			if known && !ok {
				t.Fatalf("from %d: the run is lost again", from)
			}
			if known = ok; !ok {
				continue
			}
			n := len(p.History)
			if n > len(whole.History) {
				t.Fatalf("from %d: %d items of %d", from, n, len(whole.History))
			}
			want := whole
			want.History = whole.History[len(whole.History)-n:]
			if len(want.History) == 0 {
				want.History = nil
			}
			if diff := cmp.Diff(want, p); diff != "" {
				t.Fatalf("from %d: %s", from, diff)
			}
		}
		if p, _, _ := ProjectTail(slices.Values(j.recs), spec); !known || len(p.History) != len(whole.History) {
			t.Error("the whole journal is no tail of itself")
		}
	}
}

// A projection is the same when bodies it does not read are not decoded.
func TestReads(t *testing.T) {
	j := &journal{}
	j.begin(j.input("one"))
	j.say(messages.ThoughtUnit, "hm", false)
	j.say(messages.TextUnit, "between", false)
	j.add(j.run, j.turn, &messages.ModelChunk{Bytes: []byte("x")})
	j.add(j.run, j.turn, &messages.ActionDeclared{ID: "a", Name: "t", Args: "{}"})
	j.add(j.run, j.turn, &messages.ActionApproval{ID: "a"})
	j.add(j.run, j.turn, &messages.ActionStarted{ID: "a", Args: `{"b":1}`})
	j.add(j.run, j.turn, &messages.ActionEnded{ID: "a", State: messages.ActionOK, Result: "1"})
	j.add(j.run, j.turn, &messages.ParseFault{Reason: "execute_json"})
	j.add(j.run, j.turn, &messages.Lint{})
	j.add(j.run, j.turn, &messages.ModelReply{Blob: messages.Digest{7}})
	j.decide(messages.Halt, messages.ErrModel, "gone")
	j.nextTurn()
	j.say(messages.ResponseUnit, "answer", true)
	for _, r := range j.recs {
		if b, ok := r.Body.(*messages.UnitText); ok && b.UnitKind == messages.ResponseUnit {
			j.add(j.run, j.turn, &messages.Retract{Unit: b.Unit})
			break
		}
	}
	j.say(messages.ResponseUnit, "another answer", true)
	j.decide(messages.Done, "", "")
	j.end(messages.Done)
	j.begin(j.input("two"))
	j.add(j.run, j.turn, &messages.Note{Text: "done already"})
	j.add(j.run, j.turn, &messages.RunWithdrawn{})
	j.end(messages.Halt)
	j.begin(j.input("three"))
	spec := Spec{SID: "x", Transcript: true, Reply: func(d messages.Digest) []byte { return d[:1] }}
	for _, transcript := range []bool{true, false} {
		spec.Transcript = transcript
		want := j.project(spec)
		read := 0
		bare := &journal{}
		for _, r := range j.recs {
			own := *r
			if !Reads(r.Body.Kind()) {
				own.Body = &messages.Undecoded{Of: r.Body.Kind()}
				read++
			}
			bare.recs = append(bare.recs, &own)
		}
		if diff := cmp.Diff(want, bare.project(spec)); diff != "" || read == 0 {
			t.Errorf("%d bodies are not read: %s", read, diff)
		}
	}
}
