package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestPolicy(t *testing.T) {
	tools := append(Standard(),
		tools.Tool{Name: "net.http.get", Run: nothing},
		tools.Tool{Name: "net.ping", Run: nothing, MaxCalls: 2},
		tools.Tool{Name: "network.up", Run: nothing})
	r, err := New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		policy Policy
		yes    []string
		no     []string
	}{
		"nothing by default": {Policy{}, nil, []string{"str.Length", "net.ping"}},
		"exact":              {Policy{Allow: []string{"STR.length"}}, []string{"str.Length"}, []string{"str.ToUpper"}},
		"group":              {Policy{Allow: []string{"Str.*"}}, []string{"str.Length", "STR.toupper"}, []string{"list.Length"}},
		"group below":        {Policy{Allow: []string{"net.*"}}, []string{"net.ping", "net.http.get"}, []string{"network.up"}},
		"inner group":        {Policy{Allow: []string{"net.http.*"}}, []string{"net.http.get"}, []string{"net.ping"}},
		"deny one":           {Policy{Allow: []string{"net.*"}, Deny: []string{"net.Ping"}}, []string{"net.http.get"}, []string{"net.ping"}},
		"deny beats exact":   {Policy{Allow: []string{"net.ping"}, Deny: []string{"net.*"}}, nil, []string{"net.ping"}},
		"turn tools named":   {Policy{Allow: []string{"aeiou.magic", "aeiou.*", "net.ping"}}, []string{"net.ping"}, []string{"aeiou.magic"}},
	} {
		s := apply(t, r, c.policy)
		for _, n := range c.yes {
			if tool, err := s.Lookup(n); !s.Allows(n) || err != nil || !strings.EqualFold(tool.Name, n) {
				t.Errorf("%s: %s is not allowed: %v", name, n, err)
			}
		}
		for _, n := range c.no {
			if _, err := s.Lookup(n); s.Allows(n) || err == nil {
				t.Errorf("%s: %s is allowed", name, n)
			}
		}
	}

	for name, c := range map[string]struct {
		policy Policy
		field  string
	}{
		"unknown":        {Policy{Allow: []string{"str.Lenght"}}, "policy.allow"},
		"unknown group":  {Policy{Allow: []string{"string.*"}}, "policy.allow"},
		"bare star":      {Policy{Allow: []string{"*"}}, "policy.allow"},
		"only dot star":  {Policy{Allow: []string{".*"}}, "policy.allow"},
		"inner star":     {Policy{Allow: []string{"str.To*"}}, "policy.allow"},
		"empty":          {Policy{Allow: []string{""}}, "policy.allow"},
		"unknown denial": {Policy{Deny: []string{"strr.*"}}, "policy.deny"},
		"deny magic":     {Policy{Deny: []string{"aeiou.magic"}}, "policy.deny"},
		"unknown limit":  {Policy{MaxCalls: map[string]int64{"nope.x": 1}}, "policy.max_calls"},
		"negative limit": {Policy{MaxCalls: map[string]int64{"net.ping": -1}}, "policy.max_calls.net.ping"},
		"limit magic":    {Policy{MaxCalls: map[string]int64{"aeiou.*": 1}}, "policy.max_calls.aeiou.*"},
	} {
		_, err := r.Apply(c.policy)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != c.field {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDeniedIsCode1003AndUnknown3(t *testing.T) {
	set := apply(t, standardRegistry(t), Policy{Allow: []string{"list.*"}, Deny: []string{"list.Sort"}})
	for call, want := range map[string]string{
		`str.Length("a")`: "code 1003", `str.Length()`: "code 1003", `list.Sort([1])`: "code 1003", `no.such()`: "code 3", `list.Length([1])`: "1",
	} {
		out, res := run(t, set.Bind(Binding{}), "emit tool."+call, neuroscript.Env{})
		if got := outcome(out, res); got != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
}

func TestCallLimits(t *testing.T) {
	r, err := New(append(Standard(), tools.Tool{Name: "net.ping", Class: messages.ReadOnly, Run: nothing, MaxCalls: 2})...)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(*neuroscript.Call, *tools.Tool, []neuroscript.Value) (neuroscript.Value, error) {
		return neuroscript.String("pong"), nil
	}
	allow := append(AllowStandard(), "net.*")
	for name, c := range map[string]struct {
		limits map[string]int64
		lines  string
		want   string
	}{
		"declared":      {nil, "emit tool.net.ping()\nemit tool.net.ping()\nemit tool.net.ping()", "code 1003"},
		"within":        {nil, "emit tool.net.ping()\nemit tool.NET.Ping()", "pong\npong"},
		"smaller":       {map[string]int64{"net.*": 1}, "emit tool.net.ping()\nemit tool.net.ping()", "code 1003"},
		"not larger":    {map[string]int64{"net.ping": 9}, "emit tool.net.ping()\nemit tool.net.ping()\nemit tool.net.ping()", "code 1003"},
		"none left":     {map[string]int64{"net.ping": 0}, "emit tool.net.ping()", "code 1003"},
		"pure":          {map[string]int64{"str.*": 1}, `emit tool.str.Length("a")` + "\n" + `emit tool.str.Length("a")`, "code 1003"},
		"each its own":  {map[string]int64{"str.*": 1}, `emit tool.str.Length("a")` + "\n" + `emit tool.str.ToUpper("a")`, "1\nA"},
		"is catchable":  {map[string]int64{"net.ping": 0}, "on error as e do\nemit e.code\nclear_error\nendon\ncall tool.net.ping()\nemit \"on\"", "1003\non"},
		"bad arguments": {map[string]int64{"str.Length": 1}, "on error do\nclear_error\nendon\ncall tool.str.Length()\ncall tool.str.Length(\"a\")\nemit \"on\"", "on"},
	} {
		set := apply(t, r, Policy{Allow: allow, MaxCalls: c.limits})
		for range 2 { // each program counts for itself
			out, res := run(t, set.Bind(Binding{Act: answer}), c.lines, neuroscript.Env{})
			if got := outcome(out, res); got != c.want {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
	}
}

func TestBind(t *testing.T) {
	r, err := New(append(Standard(),
		tools.Tool{Name: "Net.Ping", Run: nothing, Params: []neuroscript.Param{req("host", "string"), opt("n", "int")}},
		tools.Tool{Name: "net.down", Class: messages.Keyed, Run: nothing})...)
	if err != nil {
		t.Fatal(err)
	}
	set := apply(t, r, Policy{Allow: []string{"net.*", "meta.*", "aeiou.magic"}, Deny: []string{"net.down"}})
	var got []string
	p := set.Bind(Binding{
		Act: func(c *neuroscript.Call, tool *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
			if len(args) != 2 || c.SID() != "s" {
				t.Errorf("%d arguments, session %s", len(args), c.SID())
			}
			got = append(got, tool.Name+" "+str(args[0])+" "+string(tool.Class))
			return neuroscript.Number(float64(c.Step())), nil
		},
		Turn: []*neuroscript.Tool{{Name: "aeiou.magic", Func: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
			return neuroscript.String("token"), nil
		}}},
	})
	out, res := run(t, p, "emit tool.net.PING(\"a\")\nemit tool.net.ping(\"b\", \"3\")\nemit tool.AEIOU.Magic()\nemit tool.meta.listTools()", neuroscript.Env{SID: "s"})
	if want := "1\n2\ntoken\n" + `["aeiou.magic", "meta.listTools", "Net.Ping"]`; outcome(out, res) != want {
		t.Errorf("got %s", outcome(out, res))
	}
	if want := "Net.Ping a effectful,Net.Ping b effectful"; strings.Join(got, ",") != want {
		t.Errorf("acted %v", got)
	}
	if a, _ := p.Lookup("net.ping"); a == nil {
		t.Error("not found")
	} else if b, _ := p.Lookup("net.ping"); a != b {
		t.Error("a tool is made twice for one program")
	}

	// Bad arguments and denials never reach the hook.
	before := len(got)
	for call, want := range map[string]string{`net.ping(1)`: "code 4", `net.ping()`: "code 4", `net.ping("a", 1, 2)`: "code 4", `net.down()`: "code 1003"} {
		if out, res := run(t, p, "emit tool."+call, neuroscript.Env{}); outcome(out, res) != want {
			t.Errorf("%s: %s", call, outcome(out, res))
		}
	}
	if len(got) != before {
		t.Errorf("acted %v", got[before:])
	}
	if out, res := run(t, set.Bind(Binding{}), `emit tool.net.ping("a")`, neuroscript.Env{}); outcome(out, res) != "code 1003" {
		t.Errorf("without a hook: %s", outcome(out, res))
	}
	if out, res := run(t, apply(t, r, Policy{Allow: []string{"meta.*"}}).Bind(Binding{}), `emit tool.meta.listTools()`, neuroscript.Env{}); outcome(out, res) != `["meta.listTools"]` {
		t.Errorf("got %s", outcome(out, res))
	}
}

func TestLookupOfPureToolsAllocatesNothing(t *testing.T) {
	for name, limits := range map[string]map[string]int64{"no limits": nil, "limits": {"str.*": 1 << 40}} {
		p := apply(t, standardRegistry(t), Policy{Allow: AllowStandard(), MaxCalls: limits}).Bind(Binding{})
		if n := testing.AllocsPerRun(100, func() {
			if tool, err := p.Lookup("str.toupper"); tool == nil || err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
