package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// working is a session whose actions a, b and f are running; f is detached once the
// turn is decided.
func working(t *testing.T) *streamed {
	t.Helper()
	s := newStreamed(t)
	s.push(`<action id="a" mode="async">{"name":"idem"}</action><action id="b" mode="async">{"name":"idem"}</action>` +
		`<action id="f" mode="fire_and_forget">{"name":"idem"}</action><response>so</response>`)
	id, _ := s.m.Flight()
	for _, a := range []string{"a", "b", "f"} {
		s.do(&Judged{Ident: id, ID: a, Answer: messages.GateApprove})
	}
	s.end()
	return s
}

// keep does one operation and gives what came of it.
func (s *streamed) keep(id Ident, action, key, args string) string {
	s.t.Helper()
	for _, e := range s.do(&RelicCall{Ident: id, ID: action, Key: key, Relic: "r", Args: args, Handle: 7}) {
		if a, ok := e.(*AnswerRelic); ok && a.Handle == 7 {
			var bad *messages.Error
			if errors.As(a.Err, &bad) {
				return bad.Reason
			}
			return a.Result
		}
	}
	s.t.Fatal("no answer")
	return ""
}

// A change is a record. The same call under its key, in the same life, after a restart
// or by an action that was detached, changes nothing again and gets the same answer.
func TestRelicKeptOnce(t *testing.T) {
	s := working(t)
	id, _ := s.m.Flight()
	const add = `{"operation":"add","key":"n","by":2}`
	for _, step := range []struct{ action, key, want string }{
		{"a", "ka", `{"key":"n","value":2}`},
		{"b", "kb", `{"key":"n","value":4}`},
		{"a", "ka", `{"key":"n","value":2}`},
		{"a", "ka/step", `{"key":"n","value":6}`},
		{"f", "kf", `{"key":"n","value":8}`},
		{"missing", "k", ReasonNoSession},
	} {
		if got := s.keep(id, step.action, step.key, add); got != step.want {
			t.Errorf("%s under %s: %s, want %s", step.action, step.key, got, step.want)
		}
	}
	if got := s.keep(Ident{Turn: id.Turn, Nonce: "late"}, "a", "other", add); got != ReasonNoSession {
		t.Errorf("an answer of another life: %s", got)
	}
	s.activate()
	s.do(s.recorded())
	id, _ = s.m.Flight()
	for _, step := range []struct{ action, key, want string }{
		{"a", "ka", `{"key":"n","value":2}`}, {"b", "kb", `{"key":"n","value":4}`}, {"f", "kf", `{"key":"n","value":8}`},
	} {
		if got := s.keep(id, step.action, step.key, add); got != step.want {
			t.Errorf("after a restart %s: %s, want %s", step.action, got, step.want)
		}
	}
	s.do(&ActionEnded{Ident: id, ID: "a", State: messages.ActionOK, Result: `1`})
	if got := s.keep(id, "a", "again", add); got != ReasonNoSession {
		t.Errorf("an action that has ended: %s", got)
	}
	s.do(&ActionEnded{Ident: id, ID: "b", State: messages.ActionOK, Result: `1`})
	if s.m.Phase() != Idle {
		t.Fatalf("in %s", s.m.Phase())
	}
	if got := s.keep(id, "f", "kf", add) + s.keep(id, "f", "kg", `{"operation":"delete","key":"n"}`); got != `{"key":"n","value":8}{"deleted":true,"key":"n"}` {
		t.Errorf("the detached action: %s", got)
	}
	if n := len(s.m.State().Relics); n != 0 {
		t.Errorf("%d relics are left", n)
	}
	s.activate()
	s.do(s.recorded())
	if got := s.keep(Ident{Turn: id.Turn, Nonce: "attempt 9"}, "f", "kg", `{"operation":"delete","key":"n"}`); got != ReasonNoSession {
		t.Errorf("under an attempt that is not: %s", got)
	}
	if got := s.keep(s.m.detached[0].Ident, "f", "kg", `{"operation":"delete","key":"n"}`); got != `{"deleted":true,"key":"n"}` {
		t.Errorf("the detached action, after a restart: %s", got)
	}
	changes := 0
	for _, r := range s.log {
		if b, ok := r.Body.(*messages.RelicChanged); ok {
			if changes++; r.Turn != 1 || r.Run != 1 {
				t.Errorf("%+v stands in turn %d of run %d", b, r.Turn, r.Run)
			}
		}
	}
	if changes != 5 {
		t.Errorf("%d changes are recorded", changes)
	}
}

func TestRelicOperations(t *testing.T) {
	entries := map[string]string{"a": `1`, "b": `{"x":1}`, "ab": `"t"`, "big": "9007199254740991", "null": "null"}
	l := messages.RelicLimits{Keys: 6, ValueBytes: 32, Bytes: 80}
	for _, tc := range []struct{ args, want, change string }{
		{`{"operation":"get","key":"b"}`, `{"found":true,"value":{"x":1}}`, ""},
		{`{"operation":"get","key":"c"}`, `{"found":false,"value":null}`, ""},
		{`{"operation":"set","key":"c","value":{ "y" : 1.0, "x":[]}}`, `{"key":"c","replaced":false}`, `c={"x":[],"y":1}`},
		{`{"operation":"set","key":"a","value":null}`, `{"key":"a","replaced":true}`, `a=null`},
		{`{"operation":"set","key":"a","value":2,"expect":1.0}`, `{"key":"a","replaced":true}`, `a=2`},
		{`{"operation":"set","key":"a","value":2,"expect":3}`, `conflict parameters.expect`, ""},
		{`{"operation":"set","key":"new","value":2,"expect":null}`, `{"key":"new","replaced":false}`, `new=2`},
		{`{"operation":"set","key":"a","value":2,"expect":null}`, `conflict parameters.expect`, ""},
		{`{"operation":"delete","key":"a"}`, `{"deleted":true,"key":"a"}`, `-a`},
		{`{"operation":"delete","key":"z"}`, `{"deleted":false,"key":"z"}`, ""},
		{`{"operation":"add","key":"a","by":-3}`, `{"key":"a","value":-2}`, `a=-2`},
		{`{"operation":"add","key":"n"}`, `{"key":"n","value":1}`, `n=1`},
		{`{"operation":"add","key":"big"}`, `not_integer parameters.by`, ""},
		{`{"operation":"add","key":"ab"}`, `not_integer parameters.key`, ""},
		{`{"operation":"add","key":"null"}`, `not_integer parameters.key`, ""},
		{`{"operation":"add","key":"a","by":1.5}`, `bad_field parameters.by`, ""},
		{`{"operation":"add","key":"a","by":9007199254740992}`, `bad_field parameters.by`, ""},
		{`{"operation":"list"}`, `{"keys":["a","ab","b","big","null"],"more":false}`, ""},
		{`{"operation":"list","prefix":"a","limit":1}`, `{"keys":["a"],"more":true}`, ""},
		{`{"operation":"list","prefix":"a","after":"a"}`, `{"keys":["ab"],"more":false}`, ""},
		{`{"operation":"list","limit":0}`, `bad_field parameters.limit`, ""},
		{`{"operation":"list","limit":257}`, `bad_field parameters.limit`, ""},
		{`{"operation":"list","key":"a"}`, `bad_field parameters.key`, ""},
		{`{"operation":"drop"}`, `bad_field parameters.operation`, ""},
		{`{"key":"a"}`, `bad_field parameters.operation`, ""},
		{`{"operation":"get"}`, `bad_field parameters.key`, ""},
		{`{"operation":"get","key":""}`, `bad_field parameters.key`, ""},
		{`{"operation":"get","key":7}`, `bad_field parameters.key`, ""},
		{`{"operation":"get","key":"` + strings.Repeat("k", 257) + `"}`, `bad_field parameters.key`, ""},
		{`{"operation":"set","key":"a"}`, `bad_field parameters.value`, ""},
		{`[]`, `bad_field parameters`, ""},
		{`null`, `bad_field parameters`, ""},
		{`{"operation":"set","key":"c","value":"` + strings.Repeat("x", 31) + `"}`, `value_limit parameters.value`, ""},
		{`{"operation":"set","key":"cccccccccc","value":"` + strings.Repeat("x", 30) + `"}`, `relic_limit parameters.value`, ""},
		{`{"operation":"set","key":"a","value":"` + strings.Repeat("x", 29) + `"}`, `{"key":"a","replaced":true}`, `a="` + strings.Repeat("x", 29) + `"`},
	} {
		before := len(entries)
		c, got, err := operate(entries, tc.args, l)
		var e *messages.Error
		if errors.As(err, &e) {
			got = e.Reason + " " + e.Field
		}
		change := ""
		switch c.kind {
		case puts:
			change = c.key + "=" + c.value
		case drops:
			change = "-" + c.key
		}
		if got != tc.want || change != tc.change || len(entries) != before {
			t.Errorf("%.80s: %s and %q, want %s and %q", tc.args, got, change, tc.want, tc.change)
		}
	}
	l.Keys = 5
	if _, _, err := operate(entries, `{"operation":"set","key":"c","value":1}`, l); messages.CodeOf(err) != messages.ErrQuota || !strings.Contains(err.Error(), "5 keys") {
		t.Errorf("one key too many: %v", err)
	}
}

// The fold of the recorded changes is what a naive map holds, at every point, through
// snapshots and restarts.
func TestRelicAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	s := &streamed{rig: newRig(t, Rules{Dialect: "test", Judge: cortex.Dialect{}, Target: targets}, seed)}
	s.do(&Open{Name: "s"})
	s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
	id, _ := s.m.Flight()
	s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: id.Turn})
	s.do(&ModelOpened{Ident: id})
	s.push(`<action id="a" mode="async">{"name":"idem"}</action><response>so</response>`)
	s.do(&Judged{Ident: id, ID: "a", Answer: messages.GateApprove})
	s.end()
	model := map[string]string{}
	restarts := 0
	for n := range 600 {
		if restarts < MaxSettlements && rng.IntN(100) == 0 {
			restarts++
			s.activate()
			s.do(s.recorded())
			id, _ = s.m.Flight()
		}
		key := fmt.Sprintf("k%d", rng.IntN(12))
		switch rng.IntN(4) {
		case 0:
			s.keep(id, "a", fmt.Sprint(n), fmt.Sprintf(`{"operation":"set","key":%q,"value":%d}`, key, n))
			model[key] = fmt.Sprint(n)
		case 1:
			s.keep(id, "a", fmt.Sprint(n), fmt.Sprintf(`{"operation":"delete","key":%q}`, key))
			delete(model, key)
		case 2:
			was := 0
			if v, ok := model[key]; ok {
				if err := json.Unmarshal([]byte(v), &was); err != nil {
					t.Fatal(err)
				}
			}
			model[key] = fmt.Sprint(was + 3)
			s.keep(id, "a", fmt.Sprint(n), fmt.Sprintf(`{"operation":"add","key":%q,"by":3}`, key))
		default:
			want := `{"found":false,"value":null}`
			if v, ok := model[key]; ok {
				want = `{"found":true,"value":` + v + `}`
			}
			if got := s.keep(id, "a", fmt.Sprint(n), fmt.Sprintf(`{"operation":"get","key":%q}`, key)); got != want {
				t.Fatalf("seed %d, %d: %s, want %s", seed, n, got, want)
			}
		}
		if got := s.m.State().Relics["r"]; len(got)+len(model) > 0 && !reflect.DeepEqual(got, model) {
			t.Fatalf("seed %d, %d: %v, want %v", seed, n, got, model)
		}
	}
	var keys []string
	for k := range model {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b, _ := json.Marshal(keys)
	if got := s.keep(id, "a", "list", `{"operation":"list"}`); len(keys) > 0 && got != `{"keys":`+string(b)+`,"more":false}` {
		t.Errorf("%s, want %s", got, b)
	}
}

// An action that has changed a relic never ends as cancelled: its change is in the journal,
// and the model must not read that the action did not begin. One that only read may.
func TestRelicChangedIsNotCancelled(t *testing.T) {
	for name, end := range map[string]func(*streamed){
		"by a cancel":  func(s *streamed) { s.do(&Cancel{Handle: 2, By: "u"}) },
		"by a restart": func(s *streamed) { s.activate(); s.do(s.recorded()) },
		"by a panic": func(s *streamed) {
			id, _ := s.m.Flight()
			s.do(&ChildDown{Ident: id, Child: ChildAction, ID: "a", Attempt: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &streamed{rig: newRig(t, Rules{Dialect: "test", Judge: cortex.Dialect{}, Target: targets}, 1)}
			s.do(&Open{Name: "s"})
			s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
			id, _ := s.m.Flight()
			s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: id.Turn})
			s.do(&ModelOpened{Ident: id})
			s.push(`<action id="a" mode="async">{"name":"idem"}</action><action id="b" mode="async">{"name":"idem"}</action>`)
			for _, a := range []string{"a", "b"} {
				s.do(&Judged{Ident: id, ID: a, Answer: messages.GateApprove})
			}
			s.keep(id, "a", "ka", `{"operation":"add","key":"n"}`)
			s.keep(id, "b", "kb", `{"operation":"get","key":"n"}`)
			end(s)
			got := map[string]messages.ActionState{}
			for _, r := range s.log {
				if b, ok := r.Body.(*messages.ActionEnded); ok {
					got[b.ID] = b.State
				}
			}
			if want := map[string]messages.ActionState{"a": messages.ActionUnknown, "b": messages.ActionCancelled}; !reflect.DeepEqual(got, want) {
				t.Errorf("ended %v, want %v", got, want)
			}
		})
	}
}

// Who lost contact with an action that has changed a relic does not call it failed: the
// model would do it again, under another key. Who was told that it failed does.
func TestRelicChangedIsNotLost(t *testing.T) {
	for name, tc := range map[string]struct {
		failure       plan.Failure
		changed, read messages.ActionState
		detached      bool
	}{
		"its time is up":           {failure: plan.TimedOut, changed: messages.ActionUnknown, read: messages.ActionFailed},
		"it says no":               {failure: plan.Erred, changed: messages.ActionFailed, read: messages.ActionFailed},
		"its time is up, detached": {failure: plan.TimedOut, changed: messages.ActionUnknown, read: messages.ActionFailed, detached: true},
		"it says no, detached":     {failure: plan.Erred, changed: messages.ActionFailed, read: messages.ActionFailed, detached: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := working(t)
			id, _ := s.m.Flight()
			changes, reads := "a", "b"
			if tc.detached {
				changes = "f"
			}
			s.keep(id, changes, "kc", `{"operation":"add","key":"n"}`)
			s.keep(id, reads, "kr", `{"operation":"get","key":"n"}`)
			for _, a := range []string{"a", "b", "f"} {
				s.do(&ActionEnded{Ident: id, ID: a, State: messages.ActionFailed, Failure: tc.failure, Reason: tc.failure.String()})
			}
			got := map[string]messages.ActionState{}
			for _, r := range s.log {
				if b, ok := r.Body.(*messages.ActionEnded); ok {
					got[b.ID] = b.State
				}
			}
			if got[changes] != tc.changed || got[reads] != tc.read {
				t.Errorf("what changed a relic is %s, what read it %s; want %s and %s", got[changes], got[reads], tc.changed, tc.read)
			}
		})
	}
}

// So it is where a detached action waits for its next attempt when its turn is over: the kind of
// the failure goes with it.
func TestRelicChangedBeforeAnAttemptThatDoesNotCome(t *testing.T) {
	for failure, want := range map[plan.Failure]messages.ActionState{plan.TimedOut: messages.ActionUnknown, plan.Erred: messages.ActionFailed} {
		s := newStreamed(t)
		s.push(`<action id="f" mode="fire_and_forget">{"name":"idem","retry":2}</action>`)
		id, _ := s.m.Flight()
		s.do(&Judged{Ident: id, ID: "f", Answer: messages.GateApprove})
		s.keep(id, "f", "kf", `{"operation":"add","key":"n"}`)
		s.do(&ActionEnded{Ident: id, ID: "f", Attempt: 1, State: messages.ActionFailed, Failure: failure, Reason: failure.String()})
		if c := s.m.call("f"); c == nil || c.phase != callPaused {
			t.Fatalf("it does not wait for another attempt: %+v", c)
		}
		s.push(`<response>so</response>`)
		s.end()
		var got messages.ActionState
		for _, r := range s.log {
			if b, ok := r.Body.(*messages.ActionEnded); ok && b.ID == "f" {
				got = b.State
			}
		}
		if got != want {
			t.Errorf("%s: what changed a relic is %q, want %q", failure, got, want)
		}
	}
}

func FuzzRelicOperation(f *testing.F) {
	for _, args := range []string{
		`{"operation":"set","key":"a","value":{"b":[1,2.50,"x"]},"expect":null}`, `{"operation":"add","key":"n","by":-1}`,
		`{"operation":"list","prefix":"a","after":"b","limit":3}`, `{"operation":"get","key":"\u0000"}`, `{"operation":"delete","key":"n"}`, `{"operation":"set","operation":"get"}`,
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		entries := map[string]string{"n": "1", "a": `"x"`}
		l := messages.RelicLimits{Keys: 3, ValueBytes: 64, Bytes: 100}
		c, result, err := operate(entries, args, l)
		var e *messages.Error
		switch {
		case err != nil:
			if !errors.As(err, &e) || e.Reason == "" || c.kind != noChange || result != "" {
				t.Fatalf("%v, %v, %q", err, c, result)
			}
			return
		case !json.Valid([]byte(result)):
			t.Fatalf("the result %s is no JSON", result)
		case c.kind == puts && (!json.Valid([]byte(c.value)) || len(c.value) > 64 || c.key == ""):
			t.Fatalf("it keeps %q under %q", c.value, c.key)
		}
		// What a machine lets through the fold takes.
		var s State
		s.Relics = map[string]map[string]string{"r": {"n": "1", "a": `"x"`}}
		s.changeRelic(nil, &messages.RelicChanged{Relic: "r", Args: args}, time.Time{})
		if _, ok := s.Relics["r"][c.key]; c.kind == puts && s.Relics["r"][c.key] != c.value || c.kind == drops && ok {
			t.Fatalf("%v was folded to %v", c, s.Relics)
		}
	})
}
