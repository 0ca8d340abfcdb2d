// Package shapes plays what real models write to the runtime and compares what the user
// gets. A case is a model's replies, which may answer to what the model is told, and the
// outcomes that are right; testdata/README.md says what its members mean.
package shapes

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shape is a case.
type shape struct {
	Name, Why, Class string
	Manifest         map[string]json.RawMessage
	Files            map[string]string
	Messages         []string // of the user, one run each, in one session
	Replies          []reply
	Expect           outcome
	Accept           []outcome // right as well
}

// reply is a text, a text with its end, or one of several by what the model was told.
type reply struct {
	Text, Then, If string
	Finish         messages.Finish
	Repeat         int
	Choose         []reply
}

// UnmarshalJSON reads either form.
func (r *reply) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &r.Text) == nil {
		return nil
	}
	type plain reply
	return json.Unmarshal(data, (*plain)(r))
}

// speaker gives the replies of a case in their order and keeps what it was asked.
type speaker struct {
	mu      sync.Mutex
	replies []reply
	asked   [][]messages.Message
	beyond  int // requests behind the last reply
}

func (s *speaker) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		r, ok := s.next(req.Messages)
		if !ok {
			yield(llm.Chunk{}, llm.Fail(llm.Failure{Kind: llm.KindRequest}, "the case has no further reply"))
			return
		}
		text := strings.Repeat(r.Text, max(r.Repeat, 1)) + r.Then
		step := 9
		if len(text) >= 4000 {
			step = 700
		}
		for ; len(text) > step; text = text[step:] {
			if !yield(llm.Chunk{Text: []byte(text[:step])}, nil) {
				return
			}
		}
		finish := r.Finish
		if finish == "" {
			finish = messages.FinishStop
		}
		yield(llm.Chunk{Text: []byte(text), Finish: finish, Usage: messages.Usage{Input: 50, Output: 50}}, nil)
	}
}

func (s *speaker) next(ms []messages.Message) (r reply, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		s.beyond++
		return r, false
	}
	s.asked = append(s.asked, ms)
	r, s.replies = s.replies[0], s.replies[1:]
	if r.Choose == nil {
		return r, true
	}
	told := lastTold(ms)
	for _, c := range r.Choose {
		if strings.Contains(told, c.If) {
			return c, true
		}
	}
	return r.Choose[len(r.Choose)-1], true
}

// lastTold is what stands behind the model's own last message.
func lastTold(ms []messages.Message) string {
	var texts []string
	for _, m := range ms {
		switch m.Role {
		case messages.RoleAssistant:
			texts = nil
		case messages.RoleSystem:
			if len(texts) > 0 {
				texts = append(texts, m.Text)
			}
		default:
			texts = append(texts, m.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// TestShapes plays every case with the defaults of its dialect.
func TestShapes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	own, errOwn := filepath.Glob("testdata/own/*.json")
	if files = append(files, own...); err != nil || errOwn != nil || len(own) == 0 {
		t.Fatal("there are no cases", err)
	}
	for _, file := range files {
		dialect := strings.TrimSuffix(filepath.Base(file), ".json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []shape
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.DisallowUnknownFields() // a member that is not read would not be compared
		if err := d.Decode(&cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".json"), func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					got := play(t, dialect, &c)
					var why []string
					for _, want := range append([]outcome{c.Expect}, c.Accept...) {
						bad := want.compare(got)
						if len(bad) == 0 {
							return
						}
						why = append(why, strings.Join(bad, "; "))
					}
					t.Errorf("%s (%s)\n%s\nthe user saw %q", c.Why, c.Class, strings.Join(why, "\nor "), got.visible())
				})
			}
		})
	}
}

// play runs the messages of a case in one session.
func play(t *testing.T, dialect string, c *shape) *result {
	t.Helper()
	dir := t.TempDir()
	for name, text := range c.Files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	members := map[string]any{"kind": "Agent", "name": "shape", "dialect": dialect}
	for k, v := range c.Manifest {
		members[k] = v
	}
	// The speaker answers in place of the provider, which is a server elsewhere.
	doc, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "agent.yaml"), string(doc))
	agent, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	model := &speaker{replies: c.Replies}
	agent.Model = model
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := rt.Open(t.Context(), "shape", agent)
	if err != nil {
		t.Fatal(err)
	}
	got := &result{model: model, dir: dir}
	for _, text := range c.Messages {
		run, err := s.Submit(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		got.units = nil // of the last run alone
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Record != nil {
				got.record(u.Record)
			}
		}
	}
	return got
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", path, err))
	}
}
