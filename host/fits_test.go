package host_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A form is a description of a host, to which its answers are held.
type form struct {
	doc      map[string]any
	paths    [][]string // by segment
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

var forms sync.Map // of descriptions, by their SHA-256

// formOf reads the description of a host.
func formOf(t testing.TB, srv *host.Server) *form {
	t.Helper()
	b, err := srv.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	key := sha256.Sum256(b)
	if f, ok := forms.Load(key); ok {
		return f.(*form)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	f := &form{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler()}
	f.compiler.DefaultDraft(jsonschema.Draft2020)
	f.compiler.AssertFormat()
	if err := f.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	for path := range f.doc["paths"].(map[string]any) {
		f.paths = append(f.paths, strings.Split(path, "/"))
	}
	forms.Store(key, f)
	return f
}

// at follows members from the document on, over references.
func (f *form) at(v any, names ...string) (map[string]any, string) {
	var place strings.Builder
	place.WriteString("#")
	for i := 0; ; i++ {
		m, _ := v.(map[string]any)
		if to, ok := m["$ref"].(string); ok {
			place.Reset()
			place.WriteString(to)
			v = f.doc
			for _, name := range strings.Split(to, "/")[1:] {
				v = v.(map[string]any)[name]
			}
			m, _ = v.(map[string]any)
		}
		if i == len(names) {
			return m, place.String()
		}
		v = m[names[i]]
		place.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(names[i]))
	}
}

// valid judges JSON by the schema at a place.
func (f *form) valid(place string, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.compiler.Compile("openapi.json" + place)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// path is the described path of a request; "" for none.
func (f *form) path(asked string) string {
	asked, _, _ = strings.Cut(asked, "?")
	segments := strings.Split(asked, "/")
next:
	for _, p := range f.paths {
		if len(p) != len(segments) {
			continue
		}
		for i := range p {
			if p[i] != segments[i] && (!strings.HasPrefix(p[i], "{") || segments[i] == "") {
				continue next
			}
		}
		return strings.Join(p, "/")
	}
	return ""
}

// fits holds an answer to the description: its status has a name where it is a refusal, its type
// is one of those that the status has, and JSON fits the schema. A body that is nil was not read.
func (f *form) fits(t testing.TB, method, asked string, res *http.Response, body []byte) {
	t.Helper()
	path := f.path(asked)
	op, _ := f.at(f.doc, "paths", path, strings.ToLower(method))
	if op == nil {
		return // there is no such route
	}
	status := strconv.Itoa(res.StatusCode)
	names := []string{"paths", path, strings.ToLower(method), "responses", status}
	out, place := f.at(f.doc, names...)
	if out == nil {
		if res.StatusCode < 500 && res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s %s: the description does not name %d: %.300s", method, path, res.StatusCode, body)
			return
		}
		names[4] = "default"
		out, place = f.at(f.doc, names...)
	}
	kinds, _ := out["content"].(map[string]any)
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kinds == nil && kind == "" {
		return
	}
	if _, ok := kinds[kind]; !ok || err != nil {
		t.Errorf("%s %s: %d is %q, and by the description %v: %.300s", method, path, res.StatusCode, kind, kinds, body)
		return
	}
	if body == nil || !strings.HasSuffix(kind, "json") {
		return
	}
	if err := f.valid(place+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", body); err != nil {
		t.Errorf("%s %s: %d %.1000s\n%v", method, path, res.StatusCode, body, err)
	}
}

// The records of all kinds, the deltas, and the events of streams in both formats are as the
// description says.
func TestEventsFit(t *testing.T) {
	d := serve(t, host.Config{}, simpleAgents(t)...)
	f := d.form()
	rng := specimen.Seed(t)
	const records, all = "#/components/schemas/Record", "#/components/schemas/StreamEvent"
	for _, b := range specimen.Bodies() {
		for range 8 {
			specimen.Fill(rng, b)
			r := &messages.Record{SID: "local:me:s", Seq: 1, Body: b, Raw: journal.AppendBody(nil, b), Sig: &messages.Receipt{KID: "k", Sig: []byte("s")}}
			if err := f.valid(records, journal.AppendRecord(nil, r)); err != nil {
				t.Errorf("%s: %s\n%v", b.Kind(), r.Raw, err)
			}
		}
	}
	erased := &messages.Record{SID: "local:me:s", Seq: 1, Body: &messages.Note{}}
	if err := f.valid(records, journal.AppendRecord(nil, erased)); err != nil {
		t.Error(err)
	}
	if f.valid(records, []byte(`{"type": "note", "body": null}`)) == nil || f.valid(all, []byte(`{"event": "error", "data": {}}`)) == nil {
		t.Error("what is no record and no event fits")
	}
	unit := messages.UnitID{Turn: 1}
	for name, delta := range map[string]*messages.Delta{
		"delta":    {Seq: 3, Run: 1, Unit: unit, Kind: messages.KindThought, Off: 2, Text: "ab", Thought: &messages.Block{N: 2, Parent: 1, Depth: 2, Label: "why"}},
		"retract":  {Seq: 3, Run: 1, Unit: unit, Retract: true},
		"progress": {Seq: 3, Run: 1, Kind: messages.KindProgress, Action: "a", Off: 1, Total: 2, Text: "half"},
	} {
		line, err := stile.AppendUpdate(nil, stile.Update{Delta: delta})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.valid(all, []byte(`{"event": "`+name+`", "id": "3", "data": `+string(line)+`}`)); err != nil {
			t.Errorf("%s\n%v", line, err)
		}
	}
	for i, c := range simpleRuns {
		path := "/v1/sessions/s" + strconv.Itoa(i)
		d.session("s"+strconv.Itoa(i), "a"+strconv.Itoa(i))
		for _, query := range []string{"?stream=token", "?stream=token&format=simple"} {
			for _, e := range events(t, d.ask("POST", path+"/runs"+query, `{"input": "go"}`).Body, 1000) {
				b, err := json.Marshal(map[string]any{"event": e.name, "id": e.id, "data": e.data})
				if err != nil {
					t.Fatal(err)
				}
				if err := f.valid(all, b); err != nil {
					t.Errorf("%s %s: %s\n%v", c.name, query, b, err)
				}
			}
		}
		// All that is seen of a session by looking at it.
		for _, of := range []string{"", "/runs", "/runs/1", "/runs/1?wait=10s", "/decisions", "/approvals", "/feeds", "/turns/last/prompt?reply=true", "/export"} {
			d.call(200, nil, "GET", path+of, "")
		}
	}
	for _, path := range []string{"/v1/agents", "/v1/keys", "/v1/models", "/v1/models/a0", "/v1/sessions", "/v1/usage", "/healthz", "/readyz", "/metrics"} {
		d.call(200, nil, "GET", path, "")
	}
}
