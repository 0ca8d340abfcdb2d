package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// With history_window: none a prompt has the run in flight, whole, and nothing of those
// before it, in every dialect, at hand and read from the journal alike; a replay agrees.
func TestHistoryNone(t *testing.T) {
	const batch = `<execute>[{"name":"str.ToUpper","args":{"s":"a"}}]</execute>`
	const action = `<action id="a" type="tool">{"name":"str.ToUpper","parameters":{"s":"a"}}</action>`
	for _, c := range []struct {
		dialect string
		turns   []string // of one run; the last ends it
		passes  int
		want    []string // in the last prompt of each run, its number in %d
	}{
		{"plain", []string{"secret %d"}, 1, []string{"user q%d"}},
		{"kitsu", []string{"secret %d"}, 1, []string{"q%d"}},
		{"cogency", []string{batch, "secret %d<end>"}, 2, []string{"user q%d", batch, "<results>"}},
		{"cortex", []string{action, `<response final="true">secret %d</response>`}, 2, []string{"user q%d", action, "<action_result"}},
		{"aeiou", []string{program(`whisper self, "note %d"`, `emit "seen %d"`, sayContinue), program(`whisper self, "secret %d"`, `emit "secret %d"`, sayDone)}, 2, []string{"q%d", "note %d", "seen %d"}},
	} {
		t.Run(c.dialect, func(t *testing.T) {
			m := manifest.Default(c.dialect)
			m.Memory.HistoryWindow = manifest.NoHistory
			if c.dialect == "cogency" || c.dialect == "cortex" {
				m.Import.Tools = []string{"str.ToUpper"}
			}
			var replies []string
			for run := range 4 {
				for _, turn := range c.turns {
					replies = append(replies, strings.ReplaceAll(turn, "%d", fmt.Sprint(run)))
				}
			}
			model := &recorder{Model: scripted.New(replies...)}
			store := memory.New()
			a := &stile.Agent{Manifest: m, Model: model}
			rt := start(t, stile.Config{Store: store})
			s := open(t, rt, "forgets", a)
			for run := range 4 {
				if run == 2 { // nothing at hand
					rt.Close(t.Context())
					rt = start(t, stile.Config{Store: store})
					s = open(t, rt, "forgets", a)
				}
				wantDone(t, ask(t, s, fmt.Sprint("q", run)))
				all := model.requests()
				for i, req := range all[run*c.passes:] {
					got := shown(req)
					for other := range run {
						for _, word := range []string{"secret ", "q", "note ", "seen "} {
							if strings.Contains(got, word+fmt.Sprint(other)) {
								t.Errorf("run %d, turn %d: it holds %q of run %d:\n%s", run, i, word, other, got)
							}
						}
					}
				}
				last := shown(all[len(all)-1])
				for _, want := range c.want {
					if want = strings.ReplaceAll(want, "%d", fmt.Sprint(run)); !strings.Contains(last, want) {
						t.Errorf("run %d: the prompt has no %q:\n%s", run, want, last)
					}
				}
			}
			if _, err := rt.Replay(t.Context(), "forgets", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// history_bytes keeps the latest finished runs that fit, each whole, read from the journal
// or not.
func TestHistoryBytes(t *testing.T) {
	m := manifest.Default("plain")
	m.Memory.HistoryBytes = 2 * int64(len("q1")+len("answer 1"))
	model := &recorder{Model: scripted.New("answer 1", "answer 2", "answer 3", "answer 4", "answer 5")}
	store := memory.New()
	a := &stile.Agent{Manifest: m, Model: model}
	rt := start(t, stile.Config{Store: store})
	s := open(t, rt, "fits", a)
	for run := 1; run <= 5; run++ {
		if run == 5 {
			rt.Close(t.Context())
			rt = start(t, stile.Config{Store: store})
			s = open(t, rt, "fits", a)
		}
		wantDone(t, ask(t, s, fmt.Sprint("q", run)))
		var want []string
		for before := max(1, run-2); before < run; before++ {
			want = append(want, fmt.Sprintf("user q%d", before), fmt.Sprintf("assistant answer %d", before))
		}
		all := model.requests()
		if got := shown(all[len(all)-1]); got != strings.Join(append(want, fmt.Sprint("user q", run)), "\n") {
			t.Errorf("run %d: the prompt is\n%s", run, got)
		}
	}
	if _, err := rt.Replay(t.Context(), "fits", nil); err != nil {
		t.Error(err)
	}

	m = manifest.Default("aeiou")
	m.Memory.HistoryBytes = 100
	if _, err := rt.Open(t.Context(), "streams", &stile.Agent{Manifest: m, Model: says("x")}); !isConfig(err, "memory.history_bytes") {
		t.Errorf("aeiou: %v", err)
	}
}

// isConfig reports whether err is ERR_CONFIG of a field.
func isConfig(err error, field string) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Code == messages.ErrConfig && e.Field == field
}
