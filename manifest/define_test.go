package manifest

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// Every mistake of a definition is named with its place.
func TestAdopt(t *testing.T) {
	for _, c := range []struct {
		name, kind, file string
		want             []string // line:col key reason
	}{
		{"empty", "LLM", "", []string{"1:1  MISSING"}},
		{"llm", "LLM", "name: x\ntemplate: $a ${b.c} $$5\nmodel: m\nallow_models: [m, n]\ntimeout: 3s\nx-note: 1\n", nil},
		{"no template", "LLM", "name: x\n", []string{"1:1 template MISSING"}},
		{"other name", "LLM", "name: y\ntemplate: t\n", []string{"1:7 name BAD_VALUE"}},
		{"model", "LLM", "name: x\ntemplate: $model\nmodel: k\nallow_models: [m, m]\nscript: s\nkind: Tool\n", []string{"2:11 template BAD_VALUE", "3:8 model BAD_VALUE", "4:19 allow_models[1] DUPLICATE", "5:9 script BAD_VALUE", "6:7 kind BAD_VALUE"}},
		{"no alias here", "LLM", "name: x\ntemplate: t\ntools: [a]\n", []string{"3:1 tools UNKNOWN_KEY"}},
		{"env", "LLM", "name: x\ntemplate: ${NOPE}\nsummary: ${NOPE}\n", []string{"3:10 summary UNDEFINED_ENV"}},
		{"workflow", "Workflow", "name: x\ninputs: [{name: a, type: integer, default: 3, enum: [3, 4]}]\nsteps:\n  - {id: s, name: t.t, parameters: {p: $a, q: [\"${u.v}\", \"at $HOME\"]}, depends_on: [u]}\n  - {id: u, type: llm, name: l}\noutput: [$s, {k: $u}]\n", nil},
		{"no steps", "Workflow", "name: x\n", []string{"1:1 steps MISSING"}},
		{"steps", "Workflow", "name: x\nsteps:\n  - {id: 1a, name: t.t}\n  - {name: t.t, type: agent, on_error: no, retry: 9}\n", []string{"3:10 steps[0].id BAD_VALUE", "4:5 steps[1].id MISSING", "4:40 steps[1].on_error BAD_VALUE", "4:51 steps[1].retry BAD_VALUE"}},
		{"same id", "Workflow", "name: x\nsteps: [{id: a, name: t.t}, {id: a, name: t.t}]\n", []string{"2:34 steps[1].id DUPLICATE"}},
		{"id of an input", "Workflow", "name: x\ninputs: [{name: a}, {name: a}]\nsteps: [{id: a, name: t.t}]\n", []string{"2:28 inputs[1].name DUPLICATE", "3:14 steps[0].id DUPLICATE"}},
		{"cycle", "Workflow", "name: x\nsteps:\n  - {id: a, name: t.t, depends_on: [b]}\n  - {id: b, name: t.t, parameters: {p: $a}}\n", []string{"4:5 steps[1].depends_on BAD_VALUE"}},
		{"itself", "Workflow", "name: x\nsteps: [{id: a, name: t.t, depends_on: [a]}]\n", []string{"2:40 steps[0].depends_on BAD_VALUE"}},
		{"no such step", "Workflow", "name: x\nsteps: [{id: a, name: t.t, depends_on: [b]}]\n", []string{"2:40 steps[0].depends_on BAD_VALUE"}},
		{"names", "Workflow", "name: x\nsteps: [{id: a, name: t.t, parameters: {p: [{q: $later}, $a]}}, {id: later, name: t.t}]\noutput: $none\n", []string{"2:40 steps[0].parameters BAD_VALUE", "2:40 steps[0].parameters BAD_VALUE", "3:9 output BAD_VALUE"}},
		{"defaults", "Workflow", "name: x\ninputs: [{name: a, type: string, default: 3}, {name: b, required: true, default: c}, {name: c, type: integer, default: 1.5}]\nsteps: [{id: s, name: t.t}]\n", []string{"2:43 inputs[0].default BAD_VALUE", "2:82 inputs[1].default BAD_VALUE", "2:120 inputs[2].default BAD_VALUE"}},
		{"relic", "Relic", "name: x\nservice_type: http\nconnection: {base_url: \"https://x.example/v1\", secret: KEY, header: X-Key, hosts: [y.example], max_bytes: 64KiB}\ninterface: {type: REST, endpoints: [{name: get, path: \"/a/{id}\", parameters: [{name: id, type: string, required: true}]}]}\n", nil},
		{"relic without", "Relic", "name: x\nservice_type: http\nconnection: {header: A}\n", []string{"1:1 interface.endpoints MISSING", "3:13 connection.base_url MISSING", "3:22 connection.header BAD_VALUE"}},
		{"endpoints", "Relic", "name: x\nservice_type: http\nconnection: {base_url: 'https://u:secret@x', secret: sk-123}\ninterface:\n  endpoints:\n  - {name: a, path: a}\n  - {name: a, path: '/{b}', method: get}\n  - {name: c, path: '/${X}?q', parameters: [{name: operation}]}\n", []string{
			"3:24 connection.base_url BAD_VALUE", "3:54 connection.secret BAD_VALUE", "6:21 interface.endpoints[0].path BAD_VALUE", "7:12 interface.endpoints[1].name DUPLICATE",
			"7:21 interface.endpoints[1].path BAD_VALUE", "7:37 interface.endpoints[1].method BAD_VALUE", "8:21 interface.endpoints[2].path BAD_VALUE", "8:21 interface.endpoints[2].path BAD_VALUE", "8:52 interface.endpoints[2].parameters[0].name BAD_VALUE",
		}},
		{"file", "Relic", "name: x\nservice_type: sql\nconnection: {driver: sqlite, path: data/x.db, max_rows: 10, max_bytes: 1KiB}\ninterface: {endpoints: [{name: a, query: 'SELECT ${X}'}, {name: b, exec: 'DELETE FROM t', class: keyed}]}\n", nil},
		{"server", "Relic", "name: x\nservice_type: sql\nconnection: {driver: postgres, secret: DB_URL}\ninterface: {endpoints: [{name: a, query: SELECT 1, class: read_only}]}\n", nil},
		{"database without", "Relic", "name: x\nservice_type: sql\nconnection: {secret: DB_URL, base_url: 'http://x', hosts: [h], header: H, private: true}\ninterface:\n  endpoints:\n  - {name: a}\n  - {name: b, path: /, method: GET, query: SELECT 1, exec: DELETE}\n  - {name: c, query: SELECT 1, class: keyed}\n  - {name: d, exec: DELETE, class: read_only}\n", []string{
			"3:13 connection.driver MISSING", "3:40 connection.base_url BAD_VALUE", "3:59 connection.hosts BAD_VALUE", "3:72 connection.header BAD_VALUE", "3:84 connection.private BAD_VALUE",
			"6:5 interface.endpoints[0] MISSING", "7:21 interface.endpoints[1].path BAD_VALUE", "7:32 interface.endpoints[1].method BAD_VALUE", "7:60 interface.endpoints[1].exec BAD_VALUE",
			"8:39 interface.endpoints[2].class BAD_VALUE", "9:36 interface.endpoints[3].class BAD_VALUE",
		}},
		{"file elsewhere", "Relic", "name: x\nservice_type: sql\nconnection: {driver: sqlite, path: ../x.db, secret: A}\ninterface: {endpoints: [{name: a, query: SELECT 1}]}\n", []string{"3:36 connection.path BAD_VALUE", "3:53 connection.secret BAD_VALUE"}},
		{"server without", "Relic", "name: x\nservice_type: sql\nconnection: {driver: postgres, path: x.db}\ninterface: {endpoints: [{name: a, query: SELECT 1}]}\n", []string{"3:13 connection.secret MISSING", "3:38 connection.path BAD_VALUE"}},
		{"service with statements", "Relic", "name: x\nservice_type: http\nconnection: {base_url: 'http://x', max_rows: 3, driver: sqlite}\ninterface: {endpoints: [{name: a, query: SELECT 1}]}\n", []string{"3:46 connection.max_rows BAD_VALUE", "3:57 connection.driver BAD_VALUE", "4:25 interface.endpoints[0].path MISSING", "4:42 interface.endpoints[0].query BAD_VALUE"}},
		{"command", "Tool", "kind: Tool\nname: x.y\nclass: read_only\nparameters: [{name: a}]\nimplementation: {type: command, entrypoint: [run, '${A} $b'], resources: {memory: 64MiB, cpu: 3s, files: 9, output: 1KiB, timeout: 500ms}}\n", nil},
		{"command without", "Tool", "name: x\nimplementation: {resources: {memory: 3, cpu: 1500ms, files: 4}}\n", []string{
			"2:17 implementation.type MISSING", "2:17 implementation.entrypoint MISSING", "2:38 implementation.resources.memory BAD_VALUE", "2:46 implementation.resources.cpu BAD_VALUE", "2:61 implementation.resources.files BAD_VALUE",
		}},
		{"command that is confined", "Tool", "name: x\nimplementation: {type: command, entrypoint: [run], confine: {read: [a], write: [/b], network: {loopback: true}}}\n", nil},
		{"command that is trusted", "Tool", "name: x\nimplementation: {type: command, entrypoint: [run], confine: {isolation: none}}\n", nil},
		{"command that is confined and not", "Tool", "name: x\nimplementation: {type: command, entrypoint: [run], confine: {isolation: guard, read: [''], network: true}}\n", []string{
			"2:73 implementation.confine.isolation BAD_VALUE", "2:87 implementation.confine.read[0] BAD_VALUE",
		}},
		{"command of one word", "Tool", "name: x\nimplementation: {type: command, entrypoint: [run]}\n", nil},
		{"wrong kind", "Feed", "name: x\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Default("cortex")
			err := m.Adopt(Wanted{Kind: c.kind, Name: map[bool]string{true: "x.y", false: "x"}[c.name == "command"]}, "f.yaml", []byte(c.file), os.LookupEnv)
			var got []string
			var found []*messages.Error
			if err != nil && c.kind != "Feed" {
				found = mistakes(t, err)
			}
			for _, e := range found {
				got = append(got, fmt.Sprintf("%d:%d %s %s", e.Line, e.Col, e.Field, e.Reason))
				if e.File != "f.yaml" && c.kind != "Feed" {
					t.Errorf("file %q", e.File)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v\n got %q\nwant %q", err, got, c.want)
			}
			if n := len(m.Define.LLMs) + len(m.Define.Workflows) + len(m.Define.Relics) + len(m.Define.Tools); (n == 1) != (err == nil) {
				t.Errorf("%d definitions are there", n)
			}
		})
	}
}

// What a file defined is in the effective manifest, and reads back the same: a journal
// keeps that. References are not taken for the environment's.
func TestDefineCanonical(t *testing.T) {
	m := Default("cortex")
	m.Import.LLMs, m.Import.Workflows = []string{"l"}, []string{"w"}
	if m.Digest() != (&Manifest{Dialect: "cortex", Loop: m.Loop, Import: m.Import}).Digest() {
		t.Error("a manifest without definitions changed its digest")
	}
	files := map[string]string{
		"llms/l.yaml":      "name: l\ntemplate: \"${NOPE} $$ ${a.b}\"\nsystem: $5 ${X}\nsummary: ${ROOT}\n",
		"workflows/w.yaml": "name: w\ntimeout: 90s\ninputs: [{name: a, default: {k: $x}, enum: [1, $y]}]\nsteps: [{id: s, name: t.t, parameters: {p: \"${a.k}\", n: [1, 2.5, true]}, retry: 2, on_error: skip}]\noutput: {v: \"${s.x}\", t: \"$HOME $$\"}\n",
	}
	m.Environment.Variables = map[string]string{"ROOT": "expanded"}
	for _, w := range m.Wants() {
		if err := m.Adopt(w, w.File, []byte(files[w.File]), os.LookupEnv); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.Wants()) != 0 {
		t.Errorf("wants %v", m.Wants())
	}
	if l := m.Define.LLMs[0]; l.Template != "${NOPE} $$ ${a.b}" || l.Summary != "expanded" {
		t.Errorf("%+v", l)
	}
	back, err := Parse("kept", m.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	if string(back.Canonical()) != string(m.Canonical()) || !strings.Contains(string(back.Canonical()), `"v":"${s.x}"`) {
		t.Errorf("%s\nreads back as\n%s", m.Canonical(), back.Canonical())
	}
	a, err := back.Define.Workflows[0].Steps[0].Action()
	if err != nil || a.Args != `{"n":[1,2.5,true],"p":"${a.k}"}` || a.Retry != 2 || a.Type != "tool" || a.Mode != "async" {
		t.Errorf("%+v, %v", a, err)
	}
}
