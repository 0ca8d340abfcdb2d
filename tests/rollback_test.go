package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// counter books and cancels, and keeps what is booked.
type counter struct {
	mu     sync.Mutex
	booked []string
	log    []string
	keys   map[string]int // of cancellations
}

func (d *counter) tools() []tools.Tool {
	what := []neuroscript.Param{{Name: "what", Type: "string"}}
	run := func(do func(what string, c *tools.Call) (neuroscript.Value, error)) func(context.Context, *tools.Call) (neuroscript.Value, error) {
		return func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			s, _ := c.Args[0].AsString()
			return do(s, c)
		}
	}
	return []tools.Tool{
		{Name: "desk.book", Class: messages.Effectful, Params: what, Run: run(func(s string, _ *tools.Call) (neuroscript.Value, error) {
			if s == "car" {
				return neuroscript.Value{}, fmt.Errorf("no car is left")
			}
			d.booked, d.log = append(d.booked, s), append(d.log, "book "+s)
			return neuroscript.String("ref-" + s), nil
		})},
		{Name: "desk.cancel", Class: messages.Keyed, Params: what, Run: run(func(s string, c *tools.Call) (neuroscript.Value, error) {
			if d.keys == nil {
				d.keys = map[string]int{}
			}
			d.keys[c.Key]++
			s = strings.TrimPrefix(s, "ref-")
			i := slices.Index(d.booked, s)
			if i < 0 {
				return neuroscript.Value{}, fmt.Errorf("%s is not booked", s)
			}
			d.booked, d.log = slices.Delete(d.booked, i, i+1), append(d.log, "cancel "+s)
			return neuroscript.Value{}, nil
		})},
	}
}

func trip(what string) string {
	return fmt.Sprintf(`<action id=%q>{"name":"desk.book","parameters":{"what":%q},"group":"trip","rollback":{"name":"desk.cancel","parameters":{"what":"$result"}}}</action>`, what, what)
}

// traveller is an agent with a desk.
func traveller(d *counter, replies ...string) (*stile.Agent, *recorder) {
	m := manifest.Default("cortex")
	m.Extensions = []string{"rollback"}
	m.Import.Tools = []string{"desk.book", "desk.cancel"}
	model := &recorder{Model: scripted.New(replies...)}
	return &stile.Agent{Manifest: m, Model: model, Tools: d.tools()}, model
}

// A member fails, and what was booked is cancelled, the last first. The model is told, and the
// session verifies and replays.
func TestRollbackOfAGroup(t *testing.T) {
	var d counter
	a, model := traveller(&d, trip("flight")+trip("hotel")+trip("car"), "<response>nothing is booked</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	if got := strings.Join(d.log, ", "); got != "book flight, book hotel, cancel hotel, cancel flight" || len(d.booked) > 0 {
		t.Errorf("%s; booked are %v", got, d.booked)
	}
	recs := records(t, s)
	if begun := bodies[*messages.RollbackBegin](recs); len(begun) != 1 || begun[0].Group != "trip" || begun[0].Cause != "error:car" {
		t.Errorf("%+v", begun)
	}
	prompt := model.requests()[1].Messages
	told := prompt[len(prompt)-1].Text
	for _, want := range []string{
		`<action_result id="flight" status="ok" ms="`, `" rolled_back="ok">"ref-flight"</action_result>`, `" rolled_back="ok">"ref-hotel"</action_result>`,
		`<action_result id="car" status="failed"`,
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%s is not in\n%s", want, told)
		}
	}
	if strings.Contains(told, "undo:") {
		t.Errorf("the model sees compensations:\n%s", told)
	}
	if primer := model.requests()[0].Messages[0].Text; !strings.Contains(primer, `<rollback group="trip"/>`) {
		t.Errorf("the primer says\n%s", primer)
	}
	replays(t, rt, a)
}

// The model asks for the rollback in a later turn; a compensation fails, and the model is told.
func TestRollbackOfAnEarlierTurn(t *testing.T) {
	var d counter
	a, model := traveller(&d, trip("flight")+strings.ReplaceAll(trip("hotel"), "$result", "nothing"), `<rollback group="trip"/><rollback group="party"/>`, "<response>sorry</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	prompt := model.requests()[2].Messages
	const want = `<action_result id="hotel" status="ok" earlier="true" reason="rollback: error" rolled_back="failed"/>` + "\n" +
		`<action_result id="flight" status="ok" earlier="true" rolled_back="ok"/>` + "\n" + `<action_result status="error" reason="unknown_group" tag="rollback" name="party">`
	if told := prompt[len(prompt)-1].Text; !strings.HasPrefix(told, want) {
		t.Errorf("the model is told\n%s\nwant\n%s", told, want)
	}
	if got := strings.Join(d.booked, ", "); got != "hotel" {
		t.Errorf("booked are %s", got)
	}
	replays(t, rt, a)
}

// Instances of a loop are members too: the loop's element says how they were undone, and of which
// that failed.
func TestRollbackOfALoop(t *testing.T) {
	for _, c := range []struct{ undoes, told, booked string }{
		{"$result", `<block_result id="all" kind="foreach" ok="2" failed="0" rolled_back="ok">["ref-flight","ref-hotel"]</block_result>`, ""},
		{"ref-flight", `<block_result id="all" kind="foreach" ok="2" failed="0" rolled_back="failed" failures="b[0]: rollback failed error">[`, "hotel"},
	} {
		var d counter
		a, model := traveller(&d, `<action id="l">{"name":"desk.parts"}</action><foreach in="$l" as="part" id="all" parallel="1"><action id="b">`+
			`{"name":"desk.book","parameters":{"what":"$part"},"group":"trip","rollback":{"name":"desk.cancel","parameters":{"what":"`+c.undoes+`"}}}</action></foreach>`+trip("car"),
			"<response>nothing is booked</response>")
		a.Manifest.Extensions = append(a.Manifest.Extensions, "foreach")
		a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "desk.parts")
		a.Tools = append(a.Tools, tool("desk.parts", messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
			return neuroscript.List([]neuroscript.Value{neuroscript.String("flight"), neuroscript.String("hotel")}), nil
		}))
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		if told := prompt(model.requests()[1]); !strings.Contains(told, c.told) {
			t.Errorf("%s is not in\n%s", c.told, told)
		}
		if got := strings.Join(d.booked, ", "); got != c.booked {
			t.Errorf("booked are %s, want %s", got, c.booked)
		}
		replays(t, rt, a)
	}
}

// A run that is cancelled undoes what it did, under on: [cancel] alone.
func TestRollbackOfACancelledRun(t *testing.T) {
	for _, on := range []string{"", "cancel"} {
		var d counter
		a, _ := traveller(&d, trip("flight")+`<action id="w">{"name":"desk.wait"}</action>`)
		began := make(chan struct{})
		a.Tools = append(a.Tools, tools.Tool{Name: "desk.wait", Class: messages.ReadOnly, Run: func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
			close(began)
			<-ctx.Done()
			return neuroscript.Value{}, ctx.Err()
		}})
		a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "desk.wait")
		if on != "" {
			a.Manifest.Rollback.On = &[]string{on}
		}
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		r, err := s.Submit(t.Context(), "go")
		if err != nil {
			t.Fatal(err)
		}
		<-began
		if err := s.Cancel(t.Context(), "user"); err != nil {
			t.Fatal(err)
		}
		o, err := r.Decision(t.Context())
		if err != nil || o.Reason != messages.ErrCancelled {
			t.Fatalf("%+v %v", o, err)
		}
		if booked := len(d.booked); on == "" && booked != 1 || on != "" && booked != 0 {
			t.Errorf("on %q: booked are %v", on, d.booked)
		}
		replays(t, rt, a)
	}
}

// A compensation that needs a person waits for one; what it undoes is named in the question.
func TestRollbackAsks(t *testing.T) {
	var d counter
	a, _ := traveller(&d, trip("flight")+trip("car"), "<response>done</response>")
	a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"desk.cancel": messages.GateConfirm}
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	r, err := s.Submit(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	q := asked(t, s)
	if len(d.booked) != 1 {
		t.Errorf("booked are %v", d.booked)
	}
	if err := s.Approve(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	o, err := r.Decision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, o)
	if len(d.booked) != 0 {
		t.Errorf("booked are %v", d.booked)
	}
	replays(t, rt, a)
}
