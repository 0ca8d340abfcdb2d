package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// described is what a test needs of an OpenAPI document.
type described struct {
	Paths map[string]map[string]operation
}

type operation struct {
	OperationID string
	Parameters  []struct{ Name, In string }
	RequestBody json.RawMessage
	Security    []map[string][]string
	Responses   map[string]struct {
		Content map[string]json.RawMessage
	}
}

// ofOpenAI reports whether the errors of an operation are those of OpenAI's API.
func (o *operation) ofOpenAI() bool {
	_, ok := o.Responses["default"].Content["application/json"]
	return ok && !strings.HasPrefix(o.OperationID, "mcp-")
}

func description(t *testing.T, d *door) (doc described) {
	t.Helper()
	d.call(200, &doc, "GET", "/openapi.json", "")
	if len(doc.Paths) == 0 {
		t.Fatal("the document describes nothing")
	}
	return doc
}

// The document names every route, its errors as problems and its streams as streams.
func TestDescription(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	var all []string
	for path, ops := range description(t, d).Paths {
		for method, op := range ops {
			all = append(all, strings.ToUpper(method)+" "+path)
			kind := "application/problem+json"
			if slices.Contains([]string{"chat-completion", "create-response", "list-models", "get-model"}, op.OperationID) {
				kind = "application/json" // of OpenAI's API
			}
			if _, ok := op.Responses["default"].Content[kind]; !ok {
				t.Errorf("%s %s: its errors are no problems", method, path)
			}
			stream := ""
			switch {
			case strings.HasSuffix(path, "/events") || op.OperationID == "submit":
				stream = "text/event-stream"
			case strings.HasSuffix(path, "/export"):
				stream = "application/jsonl"
			}
			if stream == "" {
				continue
			}
			if _, ok := op.Responses["200"].Content[stream]; !ok {
				t.Errorf("%s %s: no %s in %v", method, path, stream, op.Responses)
			}
		}
	}
	want := []string{
		"GET /v1/agents", "GET /v1/keys", "POST /v1/keys/rotate", "POST /v1/reload", "GET /v1/sessions", "GET /v1/sessions/{id}", "GET /v1/sessions/{id}/approvals",
		"GET /v1/sessions/{id}/decisions", "GET /v1/sessions/{id}/turns/{turn}/prompt", "GET /v1/sessions/{id}/events", "GET /v1/sessions/{id}/export", "GET /v1/sessions/{id}/parts/{digest}", "GET /v1/sessions/{id}/feeds", "GET /v1/sessions/{id}/runs", "PATCH /v1/sessions/{id}", "GET /v1/sessions/{id}/runs/{run}",
		"GET /v1/sessions/{id}/runs/{run}/events", "POST /v1/sessions", "POST /v1/sessions/{id}/approvals/{approval}", "POST /v1/sessions/{id}/runs",
		"POST /v1/sessions/{id}/runs/{run}/cancel",
		"GET /v1/approvals", "GET /v1/sessions/{id}/records", "GET /v1/usage", "GET /v1/health", "GET /v1/audit", "GET /v1/search", "DELETE /v1/sessions/{id}", "POST /v1/sessions/{id}/fork",
		"POST /v1/chat/completions", "POST /v1/responses", "GET /v1/models", "GET /v1/models/{model}", "GET /mcp", "POST /mcp", "DELETE /mcp", "GET /healthz", "GET /readyz", "GET /metrics",
		"GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp",
		"POST /v1/tokens", "GET /v1/tokens", "POST /v1/tokens/{token}/rotate", "DELETE /v1/tokens/{token}", "DELETE /v1/users/{user}",
		"GET /v1/webhooks", "GET /v1/webhooks/dead", "POST /v1/webhooks/dead/{letter}/retry", "DELETE /v1/webhooks/dead/{letter}",
	}
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Errorf("described: %q", all)
	}
}

// The states of a run are one enum of the description: both routes that show a run refer to it.
func TestRunStates(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	d.call(200, &doc, "GET", "/openapi.json", "")
	var refs []string
	for _, at := range []struct{ path, method, status string }{{"/v1/sessions/{id}/runs/{run}", "get", "200"}, {"/v1/sessions/{id}/runs", "post", "200"}, {"/v1/sessions/{id}/runs", "post", "202"}} {
		refs = append(refs, doc.Paths[at.path][at.method].Responses[at.status].Content["application/json"].Schema.Ref)
	}
	if refs = slices.Compact(refs); len(refs) != 1 {
		t.Fatalf("runs are shown as %q", refs)
	}
	name := refs[0][strings.LastIndexByte(refs[0], '/')+1:]
	want := []string{"queued", "running", "waiting", "interrupted", "ended"}
	if got := doc.Components.Schemas[name].Properties["state"].Enum; !slices.Equal(got, want) {
		t.Errorf("the states are %q", got)
	}
	for other, s := range doc.Components.Schemas { // a list has the same
		if got := s.Properties["state"].Enum; slices.Contains(got, "queued") && !slices.Equal(got, want) {
			t.Errorf("%s has other states of runs: %q", other, got)
		}
	}
}

// hostile are values for any parameter, member or header.
var hostile = []string{
	"", "s", "0", "1", "-1", "9007199254740993", "99999999999999999999", "1e9", "NaN", "null", "true", "x", "..", "../../etc/passwd", "%2e%2e%2f", "a:b:c",
	"local:other:s", "1.1.0.5", "1.1.99999.5", "18446744073709551615.1.1.1", "\x00", "ü", "\xff\xfe", "🦀", "<script>", "'; DROP TABLE records;--", "${HOME}", "{{7*7}}",
	"https://example.com", "\r\nX-Evil: 1", "token", "event", "reject", "interrupt", strings.Repeat("a", 129), strings.Repeat("9", 5000), strings.Repeat("[", 2000),
}

// Whatever a client sends to a described route, it gets an answer that is described:
// never a failure of the host, never a word about its insides.
func TestHostileRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func() string { return hostile[rnd.IntN(len(hostile))] }
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "hello"}`)
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	answers := map[int]int{}
	for path, ops := range description(t, d).Paths {
		for method, op := range ops {
			for range 60 {
				target, query, header := path, url.Values{}, http.Header{}
				for _, p := range op.Parameters {
					switch v := pick(); p.In {
					case "path":
						if rnd.IntN(2) == 0 {
							v = "s"
						}
						target = strings.ReplaceAll(target, "{"+p.Name+"}", url.PathEscape(v))
					case "query":
						if rnd.IntN(2) == 0 {
							query.Set(p.Name, v)
						}
					case "header":
						if v = strings.Map(printable, v); rnd.IntN(2) == 0 {
							header.Set(p.Name, v)
						}
					}
				}
				var body io.Reader
				if op.RequestBody != nil {
					body = strings.NewReader(hostileBody(rnd, pick))
					header.Set("Content-Type", "application/json")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), d.url+target+"?"+query.Encode(), body)
				if err != nil {
					cancel()
					continue // no client could send it
				}
				req.Header = header
				res, err := client.Do(req)
				if err != nil {
					t.Fatalf("seed %d: %s %s: %v", seed, method, req.URL, err)
				}
				answers[res.StatusCode]++
				// Of a stream the beginning is enough: some have no end.
				got := make([]byte, 64<<10)
				n, _ := io.ReadAtLeast(res.Body, got, 1)
				cancel()
				res.Body.Close()
				if res.StatusCode >= 500 {
					t.Errorf("seed %d: %s %s: %s %s", seed, method, req.URL, res.Status, got[:n])
				}
				whole := got[:n]
				if res.ContentLength != int64(n) {
					whole = nil
				}
				d.form().fits(t, method, path, res, whole)
				for _, bad := range []string{home, "goroutine ", "panic", ".go:"} {
					if strings.Contains(string(got[:n]), bad) {
						t.Errorf("seed %d: %s %s tells %q: %s", seed, method, req.URL, bad, got[:n])
					}
				}
			}
		}
	}
	if answers[200] == 0 || answers[400] == 0 || answers[422] == 0 || answers[404] == 0 {
		t.Errorf("the requests were not varied: %v", answers)
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func hostileBody(rnd *rand.Rand, pick func() string) string {
	str := func() string {
		b, err := json.Marshal(pick())
		if err != nil {
			panic(err) // a string
		}
		return string(b)
	}
	switch rnd.IntN(6) {
	case 0:
		return pick()
	case 1:
		return str()
	case 2:
		return "[" + str() + "]"
	default:
		var members []string
		for _, name := range []string{"agent", "id", "input", "policy", "allow", "digest", "reason", "scopes", "expires_in_s", "other"} {
			if rnd.IntN(3) > 0 {
				value := str()
				switch rnd.IntN(5) {
				case 0:
					value = "7"
				case 1:
					value = "true"
				case 2:
					value = `"talker"`
				}
				members = append(members, `"`+name+`": `+value)
			}
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
}

// A body of nothing but mistakes is answered with the first of them.
func TestManyMistakes(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	var body strings.Builder
	body.WriteString(`{"agent": "talker"`)
	for i := range 20000 {
		fmt.Fprintf(&body, `, "m%d": 1`, i)
	}
	body.WriteString("}")
	p := d.refused(422, messages.ErrInvalid, "POST", "/v1/sessions", body.String())
	if !strings.HasPrefix(p.Field, "body.m") || !strings.HasSuffix(p.Detail, "; and 19980 more") || len(p.Detail) > 2000 {
		t.Errorf("%q: %.3000s", p.Field, p.Detail)
	}
}
