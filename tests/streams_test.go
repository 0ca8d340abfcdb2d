package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// screen is a client that shows texts and results as they grow: what it has must continue.
type screen struct {
	t       *testing.T
	units   map[messages.UnitID]string
	results map[string]string
	ended   map[string]bool
	taken   int // retracts
	pieces  int // deltas of results
}

func newScreen(t *testing.T) *screen {
	return &screen{t: t, units: map[messages.UnitID]string{}, results: map[string]string{}, ended: map[string]bool{}}
}

func (s *screen) update(u stile.Update) {
	if d := u.Delta; d != nil {
		was := s.units[d.Unit]
		if d.Action != "" {
			was = s.results[d.Action]
			s.pieces++
		}
		if d.Retract {
			s.taken++
			if int(d.Off) > len(was) || d.Text != "" {
				s.t.Fatalf("%+v of %q", d, was)
			}
			was = was[:d.Off]
		} else if was += d.Text; int(d.Off) != len(was) {
			s.t.Fatalf("%+v after %q", d, was)
		}
		if d.Action != "" {
			s.results[d.Action] = was
		} else {
			s.units[d.Unit] = was
		}
		return
	}
	switch b := u.Record.Body.(type) {
	case *messages.UnitText:
		id, err := messages.ParseUnitID(b.Unit)
		if err != nil {
			s.t.Fatal(err)
		}
		if was := s.units[id]; was != "" && was != b.Text {
			s.t.Fatalf("%q was shown of %q", was, b.Text)
		}
		s.units[id] = b.Text
	case *messages.ActionStarted:
		s.results[b.ID] = "" // an attempt begins anew
	case *messages.ActionChunk:
		was := s.results[b.ID]
		if int(b.Off) > len(was) {
			s.t.Fatalf("chunk %d at %d after %q", b.Seq, b.Off, was)
		}
		if end := int(b.Off) + len(b.Bytes); len(was) < end {
			was = was[:b.Off] + string(b.Bytes)
		} else if was[b.Off:end] != string(b.Bytes) {
			s.t.Fatalf("chunk %q at %d of %q", b.Bytes, b.Off, was)
		}
		s.results[b.ID] = was
	case *messages.ActionEnded:
		s.ended[b.ID] = true
		if was := s.results[b.ID]; int64(len(was)) != b.Streamed || b.State == messages.ActionOK && b.Streamed > 0 && was != plan.StreamedText(b.Result) {
			s.t.Fatalf("%s: %q was shown of %+v", b.ID, was, b)
		}
		s.results[b.ID] = ""
	}
}

// streamed is a cortex agent with streams whose model says the replies, one a turn.
func streamed(change func(*manifest.Manifest), replies []string, ts ...tools.Tool) *stile.Agent {
	man := manifest.Default("cortex")
	man.Name, man.Extensions = "streamed", []string{"stream"}
	for _, t := range ts {
		man.Import.Tools = append(man.Import.Tools, t.Name)
	}
	if change != nil {
		change(man)
	}
	return &stile.Agent{Manifest: man, Model: stile.ScriptedModel(replies...), Tools: ts}
}

// logging emits n lines with pauses between them; fails says which attempts fail, and after how
// many lines.
func logging(name string, class messages.Class, n int, pause time.Duration, fails map[int64]int) tools.Tool {
	return tool(name, class, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		var all strings.Builder
		for i := range n {
			if stop, ok := fails[c.Attempt]; ok && i == stop {
				return neuroscript.Value{}, errors.New("broken")
			}
			piece := fmt.Sprintf("%s %d.%d é\n", name, c.Attempt, i)
			if err := c.Emit(ctx, piece); err != nil {
				return neuroscript.Value{}, err
			}
			all.WriteString(piece)
			if err := sleep(ctx, pause); err != nil {
				return neuroscript.Value{}, err
			}
		}
		return neuroscript.String(all.String()), nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A list grows item by item: its text has one a line, and the end is the list.
func TestStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := streamed(nil, []string{`<action id="a" mode="async">{"name":"rows","stream":true}</action><response final="true">${a.partial}</response>`},
			tool("rows", messages.ReadOnly, func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
				var all []neuroscript.Value
				for i := range 3 {
					row := neuroscript.MapOf([]neuroscript.Entry{{Key: "n", Value: neuroscript.Number(float64(i))}})
					if err := c.EmitJSON(ctx, map[string]int{"n": i}); err != nil {
						return neuroscript.Value{}, err
					}
					if err := sleep(ctx, time.Second); err != nil {
						return neuroscript.Value{}, err
					}
					all = append(all, row)
				}
				return neuroscript.List(all), nil
			}))
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		run := submit(t, s, "go")
		seen := newScreen(t)
		for u, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen.update(u)
		}
		wantDone(t, decision(t, run))
		if got := ends(t, s)["a"]; got != `ok [{"n":0},{"n":1},{"n":2}]` || seen.pieces < 3 {
			t.Errorf("%s, %d pieces", got, seen.pieces)
		}
		if got := said(t, s); strings.TrimSpace(got) != "{\"n\":0}\n{\"n\":1}\n{\"n\":2}" {
			t.Errorf("said %q", got)
		}
		replays(t, rt, a)
	})
}

// The results of two actions grow side by side, one of them is repeated, and a response quotes
// both. A reader who is cut again and again sees what one who never left sees; the end has the
// whole; a replay makes the same records.
func TestStreamedResults(t *testing.T) {
	replies := []string{`<action id="a" type="tool" mode="async">{"name":"log.slow","stream":true}</action>
<action id="b" type="tool" mode="async">{"name":"log.breaks","stream":true,"retry":1}</action>
<action id="c" type="tool" mode="async">{"name":"echo","parameters":{"text":"<${a.partial}>"},"depends_on":["d"]}</action>
<action id="d" type="tool" mode="async">{"name":"wait"}</action>
<response final="true">So: ${b.partial}and ${a.partial}end $c</response>`}
	for _, durability := range []manifest.Durability{manifest.DurabilityCheckpoint, manifest.DurabilityStrict, manifest.DurabilityUnit} {
		t.Run(string(durability), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{})
				echo, err := stile.DefineTool("echo", "Says it again.", messages.ReadOnly, func(_ context.Context, in struct {
					Text string `json:"text"`
				},
				) (string, error) {
					return in.Text, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				a := streamed(func(m *manifest.Manifest) { m.Stream.Durability = durability }, replies,
					logging("log.slow", messages.ReadOnly, 60, 30*time.Millisecond, nil),
					logging("log.breaks", messages.ReadOnly, 40, 20*time.Millisecond, map[int64]int{1: 20}), echo, tool("wait", messages.ReadOnly, pause(time.Second)))
				s := open(t, rt, "s", a)
				run := submit(t, s, "go")
				whole := newScreen(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for u, err := range run.Events(t.Context()) {
						if err != nil {
							t.Error(err)
							return
						}
						whole.update(u)
					}
				}()
				cut := newScreen(t)
				at, over := stile.Position{}, false
				for n := 0; !over; n++ {
					time.Sleep(time.Duration(n*7%30) * time.Millisecond)
					left := 1 + n%6
					for u, err := range run.Resume(t.Context(), at) {
						if err != nil {
							t.Fatal(err)
						}
						cut.update(u)
						over = u.Record != nil && u.Record.Body.Kind() == messages.KindRunEnd
						if at, err = messages.ParsePosition(u.At.String()); err != nil {
							t.Fatal(err)
						}
						if left--; left == 0 {
							break
						}
					}
				}
				<-done
				wantDone(t, decision(t, run))
				recs := records(t, s)
				if durability == manifest.DurabilityUnit {
					if whole.pieces > 0 || cut.pieces > 0 {
						t.Errorf("%d and %d pieces were shown", whole.pieces, cut.pieces)
					}
				} else if whole.pieces < 60 || whole.taken != 2 || cut.pieces == 0 {
					t.Errorf("%d pieces, %d taken back; cut %d", whole.pieces, whole.taken, cut.pieces)
				}
				var answer string
				for _, b := range bodies[*messages.UnitText](recs) {
					answer += b.Text
				}
				ends := map[string]*messages.ActionEnded{}
				for _, b := range bodies[*messages.ActionEnded](recs) {
					ends[b.ID] = b
				}
				want := "So: " + plan.StreamedText(ends["b"].Result) + "and " + plan.StreamedText(ends["a"].Result) + "end " + plan.StreamedText(ends["c"].Result)
				if strings.TrimSpace(answer) != want {
					t.Errorf("the response is %q, want %q", answer, want)
				}
				if c := plan.StreamedText(ends["c"].Result); !strings.HasPrefix(c, "<log.slow 1.0 é\n") || !strings.HasSuffix(c, ".\n>") && len(c) > len(ends["a"].Result) {
					t.Errorf("c got %q", c)
				}
				if _, err := rt.Replay(t.Context(), "s", a); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
