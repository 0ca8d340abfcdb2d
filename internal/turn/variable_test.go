package turn

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

// ruled finds internal actions beside the tools.
func ruled(t messages.ActionType, name string) (messages.Class, bool) {
	if t == messages.TypeInternal {
		return messages.Idempotent, true
	}
	return targets(t, name)
}

// A turn that is restored sees the variables at each place as they were there, not as
// its later actions left them; and what had begun begins again with the same
// parameters and the same key.
func TestRestoredVariables(t *testing.T) {
	const reply = `<action id="v" type="internal">{"name":"set_variable","parameters":{"name":"x","value":1}}</action>` +
		`<action id="e" mode="async">{"name":"read"}</action><action id="l" mode="async" depends_on="e">{"name":"idem","parameters":{"v":"$x"}}</action>` +
		`<action id="q" mode="async" depends_on="e">{"name":"write","parameters":{"v":"$x"}}</action>` +
		`<action id="a" mode="async">{"name":"read","parameters":{"v":"$x"}}</action><response final="false">x is $x</response>` +
		`<action id="w" type="internal" mode="fire_and_forget">{"name":"set_variable","parameters":{"name":"x","value":2}}</action>` +
		`<action id="k" mode="async">{"name":"keyed","parameters":{"v":"$x"}}</action>` +
		`<response final="false">now $x, $old</response><action id="d" type="internal">{"name":"delete_variable","parameters":{"name":"old"}}</action>` +
		`<action id="y" type="internal">{"name":"set_variable","parameters":{"name":"x","value":3}}</action><response>and $x $old ${a}</response>`
	var digest messages.Digest
	for restart := range 3 {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			s := &streamed{rig: newRig(t, Rules{Dialect: "test", Judge: cortex.Dialect{}, Target: ruled}, 1)}
			started, judged := map[string]*StartAction{}, map[string]string{}
			var work []Effect
			run := func(effects []Effect) {
				for work = append(work, effects...); len(work) > 0; {
					e := work[0]
					work = work[1:]
					var in Input
					switch e := e.(type) {
					case *AskGate:
						judged[e.ID] = e.Args
						answer := messages.GateApprove
						if e.ID == "q" {
							answer = messages.GateConfirm
						}
						in = &Judged{Ident: e.Ident, ID: e.ID, Answer: answer}
					case *StartAction:
						if was := started[e.ID]; was != nil && (was.Args != e.Args || was.Key != e.Key) {
							t.Errorf("%s began with %s under %s, and again with %s under %s", e.ID, was.Args, was.Key, e.Args, e.Key)
						}
						started[e.ID] = e
						if e.Type != messages.TypeInternal {
							continue
						}
						if e.Detached {
							t.Errorf("%s is detached", e.ID)
						}
						end := &ActionEnded{Ident: e.Ident, ID: e.ID, State: messages.ActionOK}
						end.Result, _ = s.m.State().Variables.Do(e.Name, e.Args)
						in = end
					default:
						continue
					}
					work = append(work, s.do(in)...)
				}
			}
			speak := func(reply string) {
				s.do(&Submit{Handle: 1, Input: messages.Input{Text: "go"}})
				id, _ := s.m.Flight()
				s.dec = cortex.Dialect{}.NewDecoder(messages.TurnInfo{Turn: id.Turn})
				s.do(&ModelOpened{Ident: id})
				run(s.push(reply))
				run(s.end())
			}
			s.do(&Open{Name: "s"})
			speak(`<action id="o" type="internal">{"name":"set_variable","parameters":{"name":"old","value":"kept"}}</action><response></response>`)
			speak(reply)
			id, _ := s.m.Flight()
			run(s.do(&ActionEnded{Ident: id, ID: "e", State: messages.ActionOK, Result: `1`}))
			for range restart {
				s.activate()
				run(s.do(s.recorded()))
			}
			id, _ = s.m.Flight()
			q := s.m.State().Open.Turn.action("q").Question
			run(s.do(&Approve{Approval: q.ID, Answer: messages.GateApprove, By: "u", Digest: sha256.Sum256([]byte(`{"v":3}`))}))
			run(s.do(&ActionEnded{Ident: id, ID: "q", State: messages.ActionOK, Result: `1`}))
			run(s.do(&ActionEnded{Ident: id, ID: "l", State: messages.ActionOK, Result: `1`}))
			run(s.do(&ActionEnded{Ident: id, ID: "a", State: messages.ActionOK, Result: `"read"`}))
			run(s.do(&ActionEnded{Ident: id, ID: "k", State: messages.ActionOK, Result: `"kept"`}))
			var texts []string
			for _, r := range s.log {
				switch b := r.Body.(type) {
				case *messages.UnitText:
					texts = append(texts, b.Text)
				case *messages.TurnDecided:
					if r.Turn == 2 && restart == 0 {
						digest = b.Digest
					} else if r.Turn == 2 && b.Digest != digest {
						t.Error("to the guards the turn that was restored is another")
					}
				}
			}
			if got := strings.Join(texts, "|"); got != "|x is 1|now 2, kept|and 3 $old read" {
				t.Errorf("said %q", got)
			}
			if started["a"].Args != `{"v":1}` || started["k"].Args != `{"v":2}` || started["l"].Args != `{"v":3}` {
				t.Errorf("a began with %s, k with %s, l with %s", started["a"].Args, started["k"].Args, started["l"].Args)
			}
			if started["q"] == nil || started["q"].Args != `{"v":3}` || judged["q"] != `{"v":3}` {
				t.Errorf("q was judged with %s and began with %v", judged["q"], started["q"])
			}
			if s.m.Phase() != Idle || s.m.State().Variables["x"] != "3" || len(s.m.State().Variables) != 1 {
				t.Errorf("in %s with %v", s.m.Phase(), s.m.State().Variables)
			}
			s.checkAudits(t)
		})
	}
}

// checkAudits wants one audit behind the end of each internal action.
func (s *streamed) checkAudits(t *testing.T) {
	t.Helper()
	types := map[string]messages.ActionType{}
	for i, r := range s.log {
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			types[b.ID] = b.Type
		case *messages.ActionEnded:
			_, audited := s.log[i+1].Body.(*messages.Audit)
			if audited != (types[b.ID] == messages.TypeInternal) {
				t.Errorf("%s of type %s: audited %v", b.ID, types[b.ID], audited)
			}
		}
	}
}

// What Do allows Apply does, what Do refuses Apply leaves, and neither changes what it
// was given. asOfBegin takes a whole turn back.
func TestVariablesAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	model := map[string]string{}
	s := State{Open: &OpenRun{Turn: &OpenTurn{}}}
	begin := map[string]string{}
	for n := range 4000 {
		if rng.IntN(200) == 0 {
			if got := s.asOfBegin(); len(got)+len(begin) > 0 && !reflect.DeepEqual(map[string]string(got), begin) {
				t.Fatalf("seed %d, %d: as of the turn's begin there are %d variables, not %d", seed, n, len(got), len(begin))
			}
			s.Open.Turn = &OpenTurn{}
			begin = map[string]string{}
			for k, v := range model {
				begin[k] = v
			}
		}
		name := fmt.Sprintf("v%d", rng.IntN(2*MaxVariables))
		action, args := messages.InternalSetVariable, fmt.Sprintf(`{"name":%q,"value":{ "b" : %d, "a":1.0}}`, name, n)
		want := fmt.Sprintf(`{"a":1,"b":%d}`, n)
		switch rng.IntN(300) {
		case 0:
			action, args = messages.InternalClearContext, `{}`
		case 1:
			args = `{"name":"` + strings.Repeat("n", 65) + `","value":1}`
		}
		if action == messages.InternalSetVariable && rng.IntN(3) == 0 {
			action, args = messages.InternalDeleteVariable, fmt.Sprintf(`{"name":%q}`, name)
		}
		was := s.Variables
		size := len(was)
		_, err := was.Do(action, args)
		_, known := model[name]
		_, good := readVariable(action, args)
		refused := good != nil || action == messages.InternalSetVariable && !known && len(model) >= MaxVariables
		if (err != nil) != refused {
			t.Fatalf("seed %d, %d: %s %s: %v", seed, n, action, args, err)
		}
		switch {
		case refused:
		case action == messages.InternalClearContext:
			clear(model)
		case action == messages.InternalDeleteVariable:
			delete(model, name)
		default:
			model[name] = want
		}
		s.setVariables(s.Open.Turn, action, args)
		if len(was) != size {
			t.Fatalf("seed %d, %d: the variables before changed", seed, n)
		}
		if len(s.Variables)+len(model) > 0 && !reflect.DeepEqual(map[string]string(s.Variables), model) {
			t.Fatalf("seed %d, %d: after %s %s there are %d variables, not %d", seed, n, action, args, len(s.Variables), len(model))
		}
	}
}

func TestVariableParameters(t *testing.T) {
	for _, tc := range []struct{ action, args, want string }{
		{"set_variable", `{"name":"x","value":null}`, `{"name":"x"}`},
		{"set_variable", `{"name":"_9","value":" "}`, `{"name":"_9"}`},
		{"set_variable", `{"name":"x"}`, "ERR_CONFIG/bad_field parameters.value"},
		{"set_variable", `{"value":1}`, "ERR_CONFIG/bad_field parameters.name"},
		{"set_variable", `{"name":7,"value":1}`, "ERR_CONFIG/bad_field parameters.name"},
		{"set_variable", `{"name":"a.b","value":1}`, "ERR_CONFIG/bad_field parameters.name"},
		{"set_variable", `{"name":"x","value":1,"scope":"all"}`, "ERR_CONFIG/bad_field parameters"},
		{"set_variable", `[]`, "ERR_CONFIG/bad_field parameters"},
		{"set_variable", `null`, "ERR_CONFIG/bad_field parameters"},
		{"set_variable", `{"name":"x","value":"` + strings.Repeat("x", MaxVariableBytes-2) + `"}`, `{"name":"x"}`},
		{"set_variable", `{"name":"x","value":"` + strings.Repeat("x", MaxVariableBytes-1) + `"}`, "ERR_QUOTA/value_limit parameters.value"},
		{"delete_variable", `{"name":"x","value":1}`, "ERR_CONFIG/bad_field parameters"},
		{"delete_variable", `{"name":"x"}`, `{"deleted":false,"name":"x"}`},
		{"clear_context", `{"name":"x"}`, "ERR_CONFIG/bad_field parameters"},
		{"clear_context", `{}`, `{}`},
		{"list_context_feeds", `{}`, "ERR_CONFIG/bad_field name"},
	} {
		got, err := Variables(nil).Do(tc.action, tc.args)
		var e *messages.Error
		if errors.As(err, &e) {
			got = string(e.Code) + "/" + e.Reason + " " + e.Field
		}
		if got != tc.want {
			t.Errorf("%s %.60s: %s, want %s", tc.action, tc.args, got, tc.want)
		}
	}
}
