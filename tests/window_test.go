package tests

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// counting is a store that counts the records it is asked for.
type counting struct {
	journal.Store
	read atomic.Int64
	slow atomic.Int64 // how long a reading of all of a session takes behind its last record
}

func (c *counting) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for r, err := range c.Store.Read(ctx, inc, from, to) {
			c.read.Add(1)
			if !yield(r, err) {
				return
			}
		}
		if from == 0 && to == 0 {
			time.Sleep(time.Duration(c.slow.Load()))
		}
	}
}

// shown is a prompt as "role text" lines, without its system message.
func shown(req llm.Request) string {
	var all []string
	for _, m := range req.Messages {
		if m.Role != messages.RoleSystem {
			all = append(all, string(m.Role)+" "+m.Text)
		}
	}
	return strings.Join(all, "\n")
}

// A window bounds the prompt in every dialect, keeps results with their question, and
// bounds what is read of the journal; a replay agrees.
func TestHistoryWindow(t *testing.T) {
	const batch = `<execute>[{"name":"str.ToUpper","args":{"s":"a"}}]</execute>`
	const action = `<action id="a" type="tool">{"name":"str.ToUpper","parameters":{"s":"a"}}</action>`
	for _, c := range []struct {
		dialect string
		window  int64
		replies []string
		want    string // of the last prompt
	}{
		{"plain", 3, []string{"one", "two", "three"}, "user q2\nassistant two\nuser q3"},
		{"plain", 2, []string{"one", "two", "three"}, "user q3"},
		{"cogency", 4, []string{batch, "one<end>", batch, "two<end>", "three"}, "user q2\nassistant two\nuser q3"},
		{"cogency", 5, []string{batch, "one<end>", batch, "two<end>", batch, "three"}, "user q2\nassistant two\nuser q3\nassistant " + batch + "\nuser <results>[{\"tool\":\"str.ToUpper\",\"status\":\"success\",\"outcome\":\"ok\",\"content\":\"A\"}]</results>"},
		{"cogency", 1, []string{batch, "one<end>", "two", batch, batch, "three"}, "user q3"},
		{"cortex", 2, []string{action, "<response final=\"true\">one</response>", "<response final=\"true\">two</response>", "<response final=\"true\">three</response>"}, "user q3"},
	} {
		m := manifest.Default(c.dialect)
		m.Memory.HistoryWindow = c.window
		if c.dialect != "plain" {
			m.Import.Tools = []string{"str.ToUpper"}
		}
		model := &recorder{Model: scripted.New(c.replies...)}
		store := &counting{Store: memory.New()}
		rt := start(t, stile.Config{Store: store})
		s := open(t, rt, "stream", &stile.Agent{Manifest: m, Model: model})
		for i := range 3 {
			wantDone(t, ask(t, s, fmt.Sprint("q", i+1)))
		}
		all := model.requests()
		if got := shown(all[len(all)-1]); got != c.want {
			t.Errorf("%s, %d: the last prompt is\n%s\nwant\n%s", c.dialect, c.window, got, c.want)
		}
		replays(t, rt, nil)
	}
}

// Runs of many records: the first look back does not reach, and the prompt is that of the
// whole journal all the same.
func TestWindowOfLongRuns(t *testing.T) {
	big := "<execute>[" + strings.Repeat(`{"name":"str.ToUpper","args":{"s":"a"}},`, 39) + `{"name":"str.ToUpper","args":{"s":"b"}}]</execute>`
	for _, window := range []int64{4, 5, 8, 11} {
		m := manifest.Default("cogency")
		m.Memory.HistoryWindow = window
		m.Import.Tools = []string{"str.ToUpper"}
		model := &recorder{Model: scripted.New(big, "one<end>", big, "two<end>", big, "three<end>", "four<end>")}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", &stile.Agent{Manifest: m, Model: model})
		for i := range 4 {
			wantDone(t, ask(t, s, fmt.Sprint("q", i+1)))
		}
		all := model.requests()
		last := shown(all[len(all)-1])
		// A window that would begin with results, or without a question, has one less.
		if got := int64(strings.Count(last, "\n") + 1); got > window || got < window-1 || !strings.HasPrefix(last, "user q") {
			t.Errorf("%d: %d messages", window, got)
		}
		replays(t, rt, nil)
	}
}

// However long a session is, a prompt with a window reads its end alone.
func TestWindowReadsTheEnd(t *testing.T) {
	for _, window := range []int64{0, 6} {
		m := manifest.Default("plain")
		m.Memory.HistoryWindow = window
		store := &counting{Store: memory.New()}
		rt := start(t, stile.Config{Store: store})
		s := open(t, rt, "stream", &stile.Agent{Manifest: m, Model: says("a reply")})
		for i := range 100 {
			wantDone(t, ask(t, s, fmt.Sprint("question ", i)))
		}
		n := len(records(t, s))
		if err := rt.Close(t.Context()); err != nil { // with what is at hand of the history
			t.Fatal(err)
		}
		rt = start(t, stile.Config{Store: store})
		s = open(t, rt, "stream", &stile.Agent{Manifest: m, Model: says("a reply")})
		store.read.Store(0)
		wantDone(t, ask(t, s, "the last"))
		switch read := store.read.Load(); {
		case window == 0 && read < int64(n):
			t.Errorf("%d of %d records are read without a window: the test shows nothing", read, n)
		case window > 0 && read > 200:
			t.Errorf("%d of %d records are read for %d messages", read, n, window)
		}
		replays(t, rt, nil)
	}
}

// In cogency the prompt of a turn is the beginning of the next one's, so that providers
// have it in their caches: finished runs go back as they went.
func TestBatchPromptsGrow(t *testing.T) {
	model := &recorder{Model: scripted.New(
		`<think>first</think>Looking.<execute>[{"name":"str.ToUpper","args":{"s":"a"}}]</execute>`, `It is A.<end>`,
		`<execute>[{"name":"nowhere","args":{}}]</execute>`, `<execute>not json</execute>`, `<think>sorry</think>Done.`, `Yes.`)}
	m := manifest.Default("cogency")
	m.Import.Tools = []string{"str.ToUpper"}
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", &stile.Agent{Manifest: m, Model: model})
	for _, q := range []string{"one", "two", "three"} {
		wantDone(t, ask(t, s, q))
	}
	all := model.requests()
	for i := 1; i < len(all); i++ {
		if before, now := shown(all[i-1]), shown(all[i]); !strings.HasPrefix(now, before+"\n") {
			t.Errorf("prompt %d\n%s\nis not the beginning of the next\n%s", i, before, now)
		}
		if !all[i].Grows {
			t.Error("the model is not told that its prompts grow")
		}
	}
	if last := shown(all[len(all)-1]); !strings.Contains(last, "<think>first</think>\n\nLooking.\n\n<execute>") {
		t.Errorf("the last prompt is\n%s", last)
	}
	replays(t, rt, nil)
}

// A Transform has the last word; a replay that is given the agent agrees.
func TestTransform(t *testing.T) {
	model := &recorder{Model: says("fine")}
	m := manifest.Default("plain")
	m.Memory.HistoryWindow = 3
	a := &stile.Agent{Manifest: m, Model: model, Transform: func(h stile.History) []messages.Message {
		if h.SID != "local:local:stream" || h.Run == 0 || h.Turn == 0 {
			t.Errorf("%+v", h)
		}
		h.Messages[0].Text += " (asked before)" // they are the receiver's own
		return append([]messages.Message{{Role: messages.RoleSystem, Text: "Long ago: hello."}}, h.Messages...)
	}}
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	for range 3 {
		wantDone(t, ask(t, s, "go"))
	}
	all := model.requests()
	last := all[len(all)-1].Messages
	if len(last) != 4 || last[0].Text != "Long ago: hello." || last[1].Text != "go (asked before)" {
		t.Errorf("%+v", last)
	}
	replays(t, rt, a)
	if _, err := rt.Replay(t.Context(), "stream", nil); err == nil {
		t.Error("a replay without the agent made the same prompts")
	}
}

// A session at work reads nothing of its journal for its prompts, whatever their window;
// what it asks is what a reader of the journal would ask, also after something was erased
// and in another process.
func TestHistoryAtHand(t *testing.T) {
	const batch = `<think>hm</think><execute>[{"name":"str.ToUpper","args":{"s":"a"}}]</execute>`
	for _, window := range []int64{0, 5} {
		store := memory.New()
		seen := &counting{Store: store}
		m := &recorder{Model: scripted.New(batch, "one", batch, batch, "two", "three", batch, "four", "five", batch, "six", "seven", "eight")}
		man := manifest.Default("cogency")
		man.Import.Tools = []string{"str.ToUpper"}
		man.Memory.HistoryWindow = window
		a := &stile.Agent{Manifest: man, Model: m}
		rt := start(t, stile.Config{Store: seen})
		s := open(t, rt, "w", a)
		before := seen.read.Load()
		for i := range 3 {
			wantDone(t, ask(t, s, fmt.Sprintf("question %d", i)))
		}
		if n := seen.read.Load() - before; n != 0 {
			t.Errorf("window %d: %d records were read for the prompts of a session at work", window, n)
		}
		rt.Close(t.Context())

		rt = start(t, stile.Config{Store: store})
		s = open(t, rt, "w", a)
		for i := 3; i < 6; i++ {
			wantDone(t, ask(t, s, fmt.Sprintf("question %d", i)))
		}
		if _, err := rt.Replay(t.Context(), "w", a); err != nil {
			t.Errorf("window %d: %v", window, err)
		}
		if last := shown(m.requests()[len(m.requests())-1]); !contains(last, "question 4") || contains(last, "question 0") != (window == 0) {
			t.Errorf("window %d: the last prompt is\n%s", window, last)
		}

		s = open(t, rt, "erased", a)
		for i := range 3 {
			wantDone(t, ask(t, s, fmt.Sprintf("question %d", i)))
		}
		for _, r := range records(t, s) {
			if b, ok := r.Body.(*messages.Input); !ok || b.Text != "question 2" {
				continue
			}
			if _, err := store.Erase(t.Context(), s.Incarnation(), r.Seq, r.Seq); err != nil {
				t.Fatal(err)
			}
		}
		wantDone(t, ask(t, s, "question 3"))
		if last := shown(m.requests()[len(m.requests())-1]); contains(last, "question 2") || !contains(last, "question 3") {
			t.Errorf("window %d: what was erased is asked\n%s", window, last)
		}
	}
}

// Who submits and follows at once, in a session that is awake, reads no record of the
// journal; neither does who looks for that session.
func TestFollowedFromTheBegin(t *testing.T) {
	shown := make(chan struct{})
	m := model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if yield(llm.Chunk{Text: []byte("one ")}, nil) {
				<-shown
				yield(llm.Chunk{Text: []byte("two<end>"), Finish: messages.FinishComplete}, nil)
			}
		}
	})
	store := &counting{Store: memory.New()}
	rt := start(t, stile.Config{Store: store})
	open(t, rt, "s", &stile.Agent{Manifest: manifest.Default("cogency"), Model: m})
	store.read.Store(0)
	s, err := rt.Find(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Submit(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []messages.Kind
	var text strings.Builder
	for u, err := range r.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record != nil {
			kinds = append(kinds, u.Record.Body.Kind())
			continue
		}
		if text.Len() == 0 {
			close(shown)
		}
		text.WriteString(u.Delta.Text)
	}
	if n := store.read.Load(); n != 0 {
		t.Errorf("%d records were read", n)
	}
	if len(kinds) < 5 || kinds[0] != messages.KindInput || kinds[len(kinds)-1] != messages.KindRunEnd || text.String() != "one two" {
		t.Errorf("%v and %q", kinds, &text)
	}
}
