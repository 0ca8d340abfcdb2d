package turn

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cortex"
)

// serve approves what is asked about and ends what begins, with result 5.
func (s *streamed) serve(effects []Effect) {
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		switch e := e.(type) {
		case *AskGate:
			effects = append(effects, s.do(&Judged{Ident: e.Ident, ID: e.ID, Answer: messages.GateApprove})...)
		case *StartAction:
			effects = append(effects, s.do(&ActionEnded{Ident: e.Ident, ID: e.ID, Attempt: e.Attempt, State: messages.ActionOK, Result: "5"})...)
		}
	}
}

// outcome plays a reply in pieces of n bytes and returns what it led to: the responses, a
// partial one with dots behind it, the actions that ended well, the decision.
func outcome(t *testing.T, x cortex.Dialect, rules Rules, reply string, n int) string {
	t.Helper()
	s := newStreamedUnder(t, x, rules)
	first, _ := s.m.Flight()
	for rest := reply; rest != ""; {
		k := min(n, len(rest))
		if id, flying := s.m.Flight(); !flying || id != first {
			break
		}
		s.serve(s.push(rest[:k]))
		rest = rest[k:]
	}
	if id, flying := s.m.Flight(); flying && id == first {
		s.serve(s.end())
	}
	var all []string
	for _, r := range s.log {
		switch b := r.Body.(type) {
		case *messages.UnitText:
			if b.UnitKind == messages.ResponseUnit {
				text := b.Text
				if !b.Final {
					text += "…"
				}
				all = append(all, text)
			}
		case *messages.ActionEnded:
			all = append(all, b.ID+"="+string(b.State))
		case *messages.ParseFault:
			all = append(all, "!"+b.Reason)
		case *messages.TurnDecided:
			all = append(all, string(b.Decision))
		}
	}
	return strings.Join(all, " ")
}

func TestUnseenResults(t *testing.T) {
	const call, show, late = `<action id="a">{"name":"read"}</action>`, `<action id="s">{"name":"read"}</action>`, `<action id="b" mode="async">{"name":"read"}</action>`
	x := cortex.Dialect{Rendering: 2, Forgive: parse.AllHabits}
	for _, c := range []struct{ reply, want string }{
		{`<response>Hi</response>`, "Hi DONE"},
		{`<response>Hi</response> Bye!`, "Hi DONE"},
		{call + `<response>It is 7.</response>`, "a=ok It is 7.… !unseen_results CONTINUE"},
		{call + `<response final="true">It is 7.</response>`, "a=ok It is 7. DONE"},
		{call + `<response>One</response><response>Two</response>`, "a=ok One… !unseen_results !after_final CONTINUE"},
		{call + `<response>It is 7.</response> Bye.`, "a=ok It is 7.… !unseen_results CONTINUE"},
		{`<response>I look.</response>` + call, "I look.… !unseen_results a=ok CONTINUE"},
		{`<response>I look.</response><thought>hm</thought> so ` + late, "I look.… !unseen_results b=ok CONTINUE"},
		{`<response final="true">Done.</response>` + call, "Done. DONE"},
		{`<response final="false">Wait.</response>` + call, "Wait.… a=ok CONTINUE"},
		{call + `<response>It is $a.</response>`, "a=ok It is 5. DONE"},
		{call + `<response>It is $a.</response>` + late, "a=ok It is 5. DONE"},
		{call + `<response>It is $x, $$a.</response>`, "a=ok It is $x, $a.… !unseen_results CONTINUE"},
		{late + `<response>It is $b.</response>`, "b=ok It is 5. DONE"},
		{call + show + `<response>It is $a.</response>`, "a=ok s=ok It is 5. DONE"},
		{`<response>One</response><response>Two</response>` + call, "One DONE"},
		{`<action id="f" mode="fire_and_forget">{"name":"read"}</action><response>Started.</response>`, "f=ok Started. DONE"},
		{`<response>Started.</response><action id="f" mode="fire_and_forget">{"name":"read"}</action>`, "Started. DONE f=ok"},
		{`<action id="v" type="internal">{"name":"set_variable"}</action><response>Noted.</response>`, "v=failed Noted. DONE"},
		{`<action id="a">{name}</action><response>It is 7.</response>`, "!invalid_json It is 7.… !unseen_results CONTINUE"},
		{`<response>I look.</response><action id="a">{name}</action>`, "I look.… !unseen_results !invalid_json CONTINUE"},
		{`<action_result id="a" status="ok">7</action_result><response>It is 7.</response>`, "!reserved_tag It is 7.… !unseen_results CONTINUE"},
		{`<response>It is 7.</response><action_result id="a">7</action_result>`, "It is 7. DONE"},
	} {
		for _, n := range []int{1, 7, len(c.reply)} {
			if got := outcome(t, x, Rules{}, c.reply, n); got != c.want {
				t.Errorf("%s by %d:\n%s\nwant\n%s", c.reply, n, got, c.want)
			}
		}
	}
	// In the last turn no later one could see the results, and for a rendering that does not
	// forgive the habit a
	// response is final as the model wrote it.
	reply := call + `<response>It is 7.</response>`
	if got := outcome(t, x, Rules{MaxTurns: 1}, reply, 9); got != "a=ok It is 7. DONE" {
		t.Errorf("in the last turn: %s", got)
	}
	x.Forgive &^= parse.HabitUnseen
	if got := outcome(t, x, Rules{}, reply, 9); got != "a=ok It is 7. DONE" {
		t.Errorf("strict: %s", got)
	}
	if got := outcome(t, x, Rules{}, `<response>I look.</response>`+call, 9); got != "I look. !after_final DONE" {
		t.Errorf("strict: %s", got)
	}
}
