package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestGate(t *testing.T) {
	const yes, no, ask = messages.GateApprove, messages.GateDeny, messages.GateConfirm
	hook := func(a messages.GateAnswer, ok bool) func(tools.Request) (messages.GateAnswer, string, bool) {
		return func(tools.Request) (messages.GateAnswer, string, bool) { return a, "because", ok }
	}
	byTool := func(pairs ...string) map[string]messages.GateAnswer {
		m := map[string]messages.GateAnswer{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = messages.GateAnswer(pairs[i+1])
		}
		return m
	}
	for name, c := range map[string]struct {
		gate   Gate
		answer messages.GateAnswer
		by     string
	}{
		"zero approves":                {Gate{}, yes, ByDefault},
		"default":                      {Gate{Default: no}, no, ByDefault},
		"default not known":            {Gate{Default: "maybe"}, no, ByDefault},
		"tool":                         {Gate{Default: no, ByTool: byTool("Net.ping", "approve")}, yes, ByTool},
		"other tool":                   {Gate{ByTool: byTool("net.pin", "deny")}, yes, ByDefault},
		"tool not known":               {Gate{ByTool: byTool("net.ping", "maybe")}, no, ByTool},
		"confirm":                      {Gate{ByTool: byTool("net.ping", "confirm")}, ask, ByTool},
		"confirm by default":           {Gate{Default: ask}, ask, ByDefault},
		"confirm by hook":              {Gate{Hook: hook(ask, true)}, ask, ByHook},
		"hook denies what a rule asks": {Gate{ByTool: byTool("net.ping", "confirm"), Hook: hook(no, true)}, no, ByHook},
		"rule and hook ask":            {Gate{ByTool: byTool("net.ping", "confirm"), Hook: hook(ask, true)}, ask, ByTool},
		"hook cannot confirm away":     {Gate{ByTool: byTool("net.ping", "confirm"), Hook: hook(yes, true)}, ask, ByTool},
		"strictest of one name":        {Gate{ByTool: byTool("net.ping", "confirm", "NET.ping", "deny")}, no, ByTool},
		"confirm beats approve":        {Gate{ByTool: byTool("net.ping", "approve", "NET.ping", "confirm")}, ask, ByTool},
		"group":                        {Gate{ByTool: byTool("net.*", "deny")}, no, ByTool},
		"name beats group":             {Gate{ByTool: byTool("net.*", "deny", "net.ping", "approve")}, yes, ByTool},
		"same name twice":              {Gate{ByTool: byTool("net.ping", "approve", "NET.ping", "deny")}, no, ByTool},
		"deny list":                    {Gate{Deny: []string{"NET.*"}, ByTool: byTool("net.ping", "approve"), Hook: hook(yes, true)}, no, ByDeny},
		"hook approves":                {Gate{Default: no, Hook: hook(yes, true)}, yes, ByHook},
		"hook denies":                  {Gate{Hook: hook(no, true)}, no, ByHook},
		"hook denies what tool says":   {Gate{ByTool: byTool("net.ping", "approve"), Hook: hook(no, true)}, no, ByHook},
		"hook cannot lift":             {Gate{ByTool: byTool("net.ping", "deny"), Hook: hook(yes, true)}, no, ByTool},
		"hook does not care":           {Gate{ByTool: byTool("net.ping", "approve"), Default: no, Hook: hook(no, false)}, yes, ByTool},
		"hook not known":               {Gate{Hook: hook("perhaps", true)}, no, ByHook},
		"hook says nothing":            {Gate{Hook: hook("", true)}, no, ByHook},
	} {
		v := c.gate.Decide(tools.Request{SID: "a:b:c", Tool: "net.ping", Class: messages.Effectful})
		if v.Answer != c.answer || v.By != c.by || v.Rule != (c.by != ByHook) {
			t.Errorf("%s: got %+v", name, v)
		}
		if v.Answer == no && v.Reason == "" {
			t.Errorf("%s: denied without a reason", name)
		}
	}
}

// A one-letter name is as long as its group's entry.
func TestGateNameBeatsGroupOfSameLength(t *testing.T) {
	g := Gate{ByTool: map[string]messages.GateAnswer{"n.*": messages.GateDeny, "n.p": messages.GateApprove}}
	if v := g.Decide(tools.Request{Tool: "n.p"}); v.Answer != messages.GateApprove {
		t.Errorf("got %+v", v)
	}
	g = Gate{ByTool: map[string]messages.GateAnswer{"n.*": messages.GateDeny, "n.long.*": messages.GateApprove}}
	if v := g.Decide(tools.Request{Tool: "n.long.x"}); v.Answer != messages.GateApprove {
		t.Errorf("got %+v", v)
	}
}

func TestGateHookSeesTheRequest(t *testing.T) {
	q := tools.Request{SID: "a:b:c", Tool: "net.ping", Class: messages.Keyed, Args: []neuroscript.Value{neuroscript.String("x")}, ArgsDigest: messages.Digest{1}}
	g := Gate{Hook: func(r tools.Request) (messages.GateAnswer, string, bool) {
		return messages.GateDeny, r.SID + r.Tool + string(r.Class) + str(r.Args[0]) + r.ArgsDigest.String()[:2], true
	}}
	if v := g.Decide(q); v.Reason != "a:b:cnet.pingkeyedx01" {
		t.Errorf("got %+v", v)
	}
}

func TestGateValidate(t *testing.T) {
	for field, g := range map[string]Gate{
		"":                        {Default: messages.GateDeny, ByTool: map[string]messages.GateAnswer{"a.b": messages.GateApprove}},
		"approval.default":        {Default: "maybe"},
		"approval.tools.net.ping": {ByTool: map[string]messages.GateAnswer{"net.ping": "maybe", "z.z": "?"}},
	} {
		err := g.Validate()
		var e *messages.Error
		if field == "" {
			if err != nil {
				t.Error(err)
			}
		} else if !errors.As(err, &e) || e.Field != field || e.Code != messages.ErrConfig {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// A tool's own answer counts where no other rule has one: the host's hook and an entry
// beat it, and it beats the default.
func TestGateOwn(t *testing.T) {
	yes := func(tools.Request) (messages.GateAnswer, string, bool) { return messages.GateApprove, "", true }
	no := func(tools.Request) (messages.GateAnswer, string, bool) { return "", "", false }
	for name, c := range map[string]struct {
		gate Gate
		tool string
		want messages.GateAnswer
		by   string
	}{
		"alone":   {Gate{}, "shell", messages.GateDeny, ByOwn},
		"default": {Gate{Default: messages.GateApprove}, "Shell", messages.GateDeny, ByOwn},
		"silent":  {Gate{Hook: no}, "shell", messages.GateDeny, ByOwn},
		"entry":   {Gate{ByTool: map[string]messages.GateAnswer{"shell": messages.GateConfirm}}, "shell", messages.GateConfirm, ByTool},
		"hook":    {Gate{Hook: yes}, "shell", messages.GateApprove, ByHook},
		"other":   {Gate{}, "read", messages.GateApprove, ByDefault},
	} {
		c.gate.Own = map[string]messages.GateAnswer{"shell": messages.GateDeny}
		v := c.gate.Decide(tools.Request{Tool: c.tool})
		if v.Answer != c.want || v.By != c.by {
			t.Errorf("%s: %+v", name, v)
		}
		if c.by == ByOwn && !strings.Contains(v.Reason, "approval.tools.shell") {
			t.Errorf("%s: the reason %q does not say what to do", name, v.Reason)
		}
	}
}

// A call of an alias is judged under both names, and the stricter answer counts; rules see the
// call that is made, from a reply's object as from a program's array.
func TestGateJudgesAliases(t *testing.T) {
	of := map[string]Aliased{"page": {Tool: "web.get", Args: func(args string) (string, bool) {
		return `{"url":` + args + `}`, args != "{}"
	}}}
	var seen []string
	for _, c := range []struct {
		tools map[string]messages.GateAnswer
		want  messages.GateAnswer
	}{
		{nil, messages.GateApprove},
		{map[string]messages.GateAnswer{"web.get": messages.GateDeny}, messages.GateDeny},
		{map[string]messages.GateAnswer{"page": messages.GateDeny}, messages.GateDeny},
		{map[string]messages.GateAnswer{"page": messages.GateApprove, "web.*": messages.GateConfirm}, messages.GateConfirm},
		{map[string]messages.GateAnswer{"page": messages.GateConfirm, "web.get": messages.GateApprove}, messages.GateConfirm},
	} {
		g := Gate{ByTool: c.tools, Aliases: of, Policies: []tools.CustomPolicy{{Name: "sees", Judge: func(q tools.Request) (messages.GateAnswer, string, bool) {
			seen = append(seen, q.Tool+" "+q.JSON)
			return "", "", false
		}}}}
		for _, args := range []string{`{"p":1}`, `[{"p":1}]`, `{}`} {
			if v := g.Decide(tools.Request{Tool: "page", JSON: args}); v.Answer != c.want {
				t.Errorf("%v: %+v, want %s", c.tools, v, c.want)
			}
		}
		if v := g.Decide(tools.Request{Tool: "other"}); v.Answer != messages.GateApprove {
			t.Errorf("%+v", v)
		}
	}
	for _, want := range []string{`page {"p":1}`, `web.get {"url":{"p":1}}`, `page [{"p":1}]`, `web.get {}`} {
		if !slices.Contains(seen, want) {
			t.Errorf("no rule saw %s: %q", want, seen)
		}
	}
}
