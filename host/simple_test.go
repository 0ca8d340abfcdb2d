package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// simplySpoken is an agent with three tools that answers with these replies.
func simplySpoken(t *testing.T, name, dialect string, replies ...string) *stile.Agent {
	t.Helper()
	type in struct {
		V string `json:"v"`
	}
	a := &stile.Agent{Manifest: manifest.Default(dialect), Model: stile.ScriptedModel(replies...)}
	a.Manifest.Name = name
	for _, tool := range []struct {
		name  string
		class stile.Class
		do    func(context.Context, in) (string, error)
	}{
		{"lab.echo", stile.ReadOnly, func(_ context.Context, in in) (string, error) { return in.V, nil }},
		{"lab.fail", stile.ReadOnly, func(context.Context, in) (string, error) { return "", errors.New("no luck") }},
		{"lab.pay", stile.Effectful, func(_ context.Context, in in) (string, error) { return "paid " + in.V, nil }},
	} {
		if dialect == "plain" {
			break
		}
		made, err := stile.DefineTool(tool.name, tool.name, tool.class, tool.do)
		if err != nil {
			t.Fatal(err)
		}
		a.Tools, a.Manifest.Import.Tools = append(a.Tools, made), append(a.Manifest.Import.Tools, tool.name)
	}
	return a
}

const (
	simpleCalls   = `<execute>[{"name":"lab.echo","args":{"v":"a"}},{"name":"lab.pay","args":{"v":"b"}},{"name":"lab.fail","args":{}}]</execute>`
	simpleProgram = `command
  emit "hi"
  whisper self, "remember"
  set x = tool.lab.pay("3")
  emit x
  emit tool.aeiou.magic("LOOP", {"action": "%s"})
endcommand
`
)

// What a run of each dialect is in the simple format: type and content of each event, but
// for metrics.
var simpleRuns = []struct {
	name, dialect string
	replies, want []string
}{
	{"plain", "plain", []string{"<think>hm</think> Hello, Ada. "}, []string{
		"user go", "think hm", "respond Hello, Ada.", "end ",
	}},
	{"cogency", "cogency", []string{"<think>I must look</think>Let me see.\n" + simpleCalls, "It is <done>.\n<end>"}, []string{
		"user go", "think I must look", "respond Let me see.",
		`call {"name":"lab.echo","args":{"v":"a"}}`, `call {"name":"lab.pay","args":{"v":"b"}}`, `call {"name":"lab.fail","args":{}}`, "execute ",
		`result [{"tool":"lab.echo","status":"success","outcome":"ok","content":"a"},{"tool":"lab.pay","status":"success","outcome":"ok","content":"paid b"},{"tool":"lab.fail","status":"failure","content":"argument v: missing"}]`,
		"respond It is <done>.", "end ",
	}},
	{"a batch that does not run", "cogency", []string{`<execute>[1]</execute>`, "Sorry."}, []string{
		"user go", `error execute_shape`, `result [{"tool":"","status":"failure"`, "respond Sorry.", "end ",
	}},
	{"cortex", "cortex", []string{
		`<thought>look</thought><action type="tool" id="a" mode="sync">{"name":"lab.echo","parameters":{"v":"x"}}</action><action type="tool" id="b" mode="async">{"name":"lab.pay","parameters":{"v":"y"}}</action><action type="tool" id="c" show="none">{"name":"lab.echo","parameters":{"v":"z"}}</action>`,
		`<response final="true">It is x.</response>`,
	}, []string{
		"user go", "think look",
		`call {"name":"lab.echo","args":{"v":"x"}}`, "execute ", `result [{"tool":"lab.echo","status":"success","outcome":"ok","content":"x"}]`,
		`call {"name":"lab.pay","args":{"v":"y"}}`, "execute ", `result [{"tool":"lab.pay","status":"success","outcome":"ok","content":"paid y"}]`,
		"respond It is x.", "end ",
	}},
	{"kitsu", "kitsu", []string{"Good morning.\n<action:search query=\"trains\">", "There are trains."}, []string{
		"user go", "respond Good morning.", `call {"name":"search"`, "execute ", `result [{"tool":"search"`, "respond keeps 0", "respond There are trains.", "end ",
	}},
	{"aeiou", "aeiou", []string{fmt.Sprintf(simpleProgram, "done")}, []string{
		"user go", "respond hi", "think remember",
		`call {"name":"lab.pay","args":["3"]}`, "execute ", `result [{"tool":"lab.pay","status":"success","outcome":"ok","content":"paid 3"}]`,
		"respond paid 3", "end ",
	}},
	{"a program that gives up", "aeiou", []string{"command\n  emit tool.aeiou.magic(\"LOOP\", {\"action\": \"abort\"})\nendcommand\n"}, []string{
		"user go", "error ", "end ",
	}},
	{"a model that fails", "plain", nil, []string{"user go", "error ERR_MODEL", "end "}},
}

func simpleAgents(t *testing.T) (all []*stile.Agent) {
	for i, c := range simpleRuns {
		a := simplySpoken(t, fmt.Sprint("a", i), c.dialect, c.replies...)
		if c.dialect == "kitsu" {
			a.Manifest.Kitsu.Search = "lab.echo"
		}
		all = append(all, a)
	}
	return all
}

// conversation is what a stream says: a line for each event but metrics, texts joined.
func conversation(t *testing.T, all []event) (lines []string) {
	t.Helper()
	var unit any
	for _, e := range all {
		kind, content := e.data["type"].(string), e.data["content"].(string)
		if at, ok := e.data["timestamp"].(float64); !ok || at < 1.5e9 || e.name != "message" || e.id == "" {
			t.Errorf("%+v", e)
		}
		switch text := kind == "think" || kind == "respond"; {
		case kind == "metric":
			continue
		case e.data["keep"] != nil:
			content = fmt.Sprint("keeps ", e.data["keep"], content)
		case text && e.data["unit"] == unit:
			lines[len(lines)-1] += content
			continue
		case text:
			unit = e.data["unit"]
		case kind == "error":
			content = e.data["code"].(string) + " " + content
		}
		lines = append(lines, kind+" "+content)
	}
	return lines
}

// The words of docs/spec/cogency.md §3, for every dialect, over HTTP: whole and as text grows,
// in the answer to the submit, and from any event on.
func TestSimpleFormat(t *testing.T) {
	d := serve(t, host.Config{}, simpleAgents(t)...)
	for i, c := range simpleRuns {
		t.Run(c.name, func(t *testing.T) {
			path := fmt.Sprintf("/v1/sessions/s%d", i)
			d.session(fmt.Sprint("s", i), fmt.Sprint("a", i))
			live := conversation(t, events(t, d.ask("POST", path+"/runs?format=simple&stream=token", `{"input": "go"}`).Body, 1000))
			for _, stream := range []string{"event", "token"} {
				for _, of := range []string{"/events", "/runs/1/events"} {
					query := path + of + "?format=simple&stream=" + stream
					first := events(t, d.ask("GET", query, "").Body, len(c.want))
					whole := events(t, d.ask("GET", path+"/runs/1/events?format=simple&stream="+stream, "").Body, 1000)
					if fmt.Sprint(first) != fmt.Sprint(whole[:len(first)]) {
						t.Errorf("%s begins\n%v, and the run's events\n%v", query, first, whole)
					}
					for at, e := range whole {
						rest := whole[at+1:]
						if len(rest) == 0 {
							continue
						}
						if got := events(t, d.ask("GET", query, "", "Last-Event-ID", e.id).Body, len(rest)); fmt.Sprint(got) != fmt.Sprint(rest) {
							t.Errorf("%s behind %s:\n%v, want\n%v", query, e.id, got, rest)
						}
					}
					got := conversation(t, whole)
					if stream == "token" && fmt.Sprint(got) != fmt.Sprint(live) {
						t.Errorf("live it was\n%q, afterwards\n%q", live, got)
					}
					if !slices.EqualFunc(got, c.want, func(got, want string) bool {
						return strings.HasPrefix(strings.TrimSpace(got), strings.TrimSpace(want))
					}) && stream == "event" {
						t.Errorf("%s:\n%q, want\n%q", query, got, c.want)
					}
				}
			}
			last := events(t, d.ask("GET", path+"/runs/1/events?format=simple", "").Body, 1000)
			if res := d.ask("GET", path+"/runs/1/events?format=simple", "", "Last-Event-ID", last[len(last)-1].id); res.StatusCode != http.StatusNoContent {
				t.Errorf("behind the end: %s", res.Status)
			}
		})
	}
	for _, id := range []string{"x", "2-", "2-0", "2-3", "2-1-1", "-1"} {
		d.refused(400, messages.ErrInvalid, "GET", "/v1/sessions/s0/events?format=simple&after="+id, "")
	}
	d.refused(400, messages.ErrInvalid, "GET", "/v1/sessions/s0/events?after=2-1", "")
	d.refused(422, messages.ErrInvalid, "GET", "/v1/sessions/s0/events?format=other", "")
}

// A reader that is cut while text grows and comes back with the last id has it all, once.
func TestSimpleResumes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	// Each piece has text to show: the reader may have all that was said before, and waits.
	pieces := []string{"<think>ï ", "see", "</think>pïece 0\n"}
	for i := range 39 {
		pieces = append(pieces, fmt.Sprintf("pïece %d\n", i+1))
	}
	goOn := make(chan struct{}, len(pieces))
	man := manifest.Default("cogency")
	man.Name = "talker"
	d := serve(t, host.Config{}, &stile.Agent{Manifest: man, Model: speaks(pieces, goOn)})
	d.session("s", "talker")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`)
	var all []event
	last, cuts := "", 0
	for left := len(pieces); len(all) == 0 || all[len(all)-1].data["type"] != "end"; cuts++ {
		for range min(left, 1+rnd.IntN(4)) {
			goOn <- struct{}{}
			left--
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", d.url+"/v1/sessions/s/runs/1/events?format=simple&after="+last, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got := events(t, res.Body, 1)
		cancel()
		res.Body.Close()
		if all = append(all, got...); len(got) > 0 {
			last = got[len(got)-1].id
		}
	}
	want := []string{"user go", "think ï see", "respond " + strings.TrimPrefix(strings.Join(pieces[2:], ""), "</think>"), "end "}
	if got := conversation(t, all); fmt.Sprint(got) != fmt.Sprint(want) || cuts < 4 {
		t.Errorf("%d cuts: %q, want %q", cuts, got, want)
	}
	before := 0.0
	for _, e := range all {
		if at := e.data["timestamp"].(float64); at < before {
			t.Errorf("%v is older than what came before it", e.data)
		} else {
			before = at
		}
	}
}

// A run that a user ends, or that another takes the place of; and one that waits.
func TestSimpleEnds(t *testing.T) {
	man := manifest.Default("plain")
	man.Name = "mute"
	asks := simplySpoken(t, "asks", "cogency", `<execute>[{"name":"lab.pay","args":{"v":"b"}}]</execute>`, "Paid.")
	asks.Manifest.Approval.Tools = map[string]messages.GateAnswer{"lab.pay": messages.GateConfirm}
	d := serve(t, host.Config{}, asks, &stile.Agent{Manifest: man, Model: speaks([]string{"x"}, nil)})
	wait := func(path string, want ...string) {
		t.Helper()
		var got []string
		for res, last := d.ask("GET", path+"?format=simple", ""), ""; len(got) < len(want); res = d.ask("GET", path+"?format=simple", "", "Last-Event-ID", last) {
			e := events(t, res.Body, 1)
			res.Body.Close()
			last = e[0].id
			got = append(got, conversation(t, e)...)
		}
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	d.session("m", "mute")
	d.call(202, nil, "POST", "/v1/sessions/m/runs", `{"input": "one"}`)
	d.call(202, nil, "POST", "/v1/sessions/m/runs", `{"input": "two", "policy": "interrupt"}`)
	wait("/v1/sessions/m/runs/1/events", "user one", "interrupt superseded by run 2", "end ")
	d.call(204, nil, "POST", "/v1/sessions/m/runs/2/cancel", "")
	wait("/v1/sessions/m/runs/2/events", "user two", "cancelled ", "end ")
	d.session("a", "asks")
	d.call(202, nil, "POST", "/v1/sessions/a/runs", `{"input": "pay"}`)
	wait("/v1/sessions/a/runs/1/events", "user pay", "call ", "interrupt waiting for approval: lab.pay")
}

// A call that outlives its run is told of when it ends, also to who came later.
func TestSimpleOutlives(t *testing.T) {
	release := make(chan struct{})
	slow, err := stile.DefineTool("lab.slow", "waits", stile.ReadOnly, func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "at last", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	man := manifest.Default("cortex")
	man.Name, man.Import.Tools = "slow", []string{"lab.slow"}
	d := serve(t, host.Config{}, &stile.Agent{Manifest: man, Tools: []stile.Tool{slow}, Model: stile.ScriptedModel(
		`<action id="f" type="tool" mode="fire_and_forget">{"name":"lab.slow"}</action><response final="true">Bye.</response>`,
	)})
	d.session("s", "slow")
	all := events(t, d.ask("POST", "/v1/sessions/s/runs?format=simple&stream=event", `{"input": "go"}`).Body, 100)
	end := all[len(all)-1]
	res := d.ask("GET", "/v1/sessions/s/events?format=simple&after="+end.id, "")
	close(release)
	got := conversation(t, events(t, res.Body, 1))
	if want := `[result [{"tool":"lab.slow","status":"success","outcome":"ok","content":"at last"}]]`; end.data["type"] != "end" || fmt.Sprint(got) != want {
		t.Errorf("behind %v: %q", end, got)
	}
}

// Over a WebSocket the format is the same.
func TestSimpleOverSocket(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`)
	conn, _, err := dial(t.Context(), d.url+"/v1/sessions/s/runs/1/events?format=simple", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	var all []event
	for {
		f, err := readFrame(t.Context(), t, conn)
		if err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusNormalClosure {
				t.Errorf("closed with %v: %v", code, err)
			}
			break
		}
		all = append(all, event{f.Event, f.ID, f.Data})
	}
	if got := conversation(t, all); fmt.Sprint(got) != "[user go respond hello end ]" {
		t.Errorf("%q", got)
	}
}

// The front end of the seed, word for word, over HTTP.
func TestSimpleFrontEnd(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("node is required: %v", err)
		}
		t.Log("ran without node")
		return
	}
	d := serve(t, host.Config{}, simplySpoken(t, "agent", "cogency", "<think>I must look</think>Let me see.\n"+simpleCalls, "It is done.", "<think>I must look</think>Let me see.\n"+simpleCalls, "It is done."))
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "testdata/simple.test.mjs")
	cmd.Env = append(os.Environ(), "STILE_URL="+d.url)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
