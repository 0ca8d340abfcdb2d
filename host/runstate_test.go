package host

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// stuckModel says nothing until it is cancelled.
type stuckModel struct{ asked chan struct{} }

func (m stuckModel) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.asked <- struct{}{}
		<-ctx.Done()
		yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
	}
}

// A look at a run that a host which has gone left open reads interrupted, and has it go on.
func TestRunOfAHostThatHasGone(t *testing.T) {
	dir := t.TempDir()
	begin := func(m llm.Model) (*stile.Runtime, *stile.Agent) {
		a := &stile.Agent{Manifest: manifest.Default("plain"), Model: m}
		a.Manifest.Name = "talker"
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Agents: []*stile.Agent{a}})
		if err != nil {
			t.Fatal(err)
		}
		return rt, a
	}
	stuck := stuckModel{make(chan struct{}, 1)}
	first, a := begin(stuck)
	second, b := begin(scripted.New("hello", "hello"))
	defer second.Close(t.Context())
	s, err := New(Config{Runtime: second, Agents: []*stile.Agent{b}})
	if err != nil {
		t.Fatal(err)
	}
	ses, err := first.Open(t.Context(), "local:local:s", a)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"go", "and on"} {
		if _, err := ses.Submit(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	<-stuck.asked
	look := func(run string) (v struct {
		State, Decision, Text string
		Ended                 bool
	},
	) {
		t.Helper()
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/sessions/s/runs/"+run, nil)
		s.Handler().ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &v); w.Code != http.StatusOK || err != nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return v
	}
	for run, want := range map[string]string{"1": "running", "2": "queued"} {
		if got := look(run); got.State != want || got.Ended {
			t.Errorf("run %s while its host is there: %+v", run, got)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := look("1"); got.State != "interrupted" || got.Ended {
		t.Errorf("when it has gone: %+v", got)
	}
	ours, err := second.Find(t.Context(), "local:local:s")
	if err != nil {
		t.Fatal(err)
	}
	for n, run := range []string{"1", "2"} {
		if _, err := ours.Run(int64(n + 1)).Decision(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := look(run); got.State != "ended" || !got.Ended || got.Decision == "" {
			t.Errorf("run %s at its end: %+v", run, got)
		}
	}
	if got := look("2"); got.Text != "hello" {
		t.Errorf("%+v", got)
	}
}
