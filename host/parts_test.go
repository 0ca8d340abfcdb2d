package host_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// seer is a model that takes pictures and PDF, and says what it sees.
type seer struct{}

func (seer) TakesPart(mediaType string) bool { return mediaType != "text/plain" }

func (seer) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	var said strings.Builder
	for _, m := range req.Messages {
		if m.Role == messages.RoleUser {
			said.WriteString("[" + m.Text)
			for _, p := range m.Parts {
				fmt.Fprintf(&said, " %s %s %d", p.Type, p.Name, len(req.Files[p.Digest]))
			}
			said.WriteString("]")
		}
	}
	return func(yield func(llm.Chunk, error) bool) {
		if yield(llm.Chunk{Text: []byte(said.String())}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=" // the head of a PNG of one pixel, 29 bytes

// Pictures and files come in by every door that has a form for them, and stay in the session.
func TestParts(t *testing.T) {
	pdf := base64.StdEncoding.EncodeToString([]byte("%PDF-1.7"))
	const seen = "[look image/png  29 application/pdf a.pdf 8]"
	bubble(t, host.Config{}, []*stile.Agent{agentOf("seer", seer{})}, func(t *testing.T, c client) {
		if w := c.raw(t.Context(), "POST", "/v1/sessions", `{"id": "s", "agent": "seer"}`); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
		for _, row := range [][2]string{
			{`{"input": "look", "parts": [{"data": "` + dot + `"}, {"name": "a.pdf", "type": "application/pdf", "data": "` + pdf + `"}]}`, seen},
			{`{"input": "and now?"}`, seen + "[and now?]"},
		} {
			w := c.raw(t.Context(), "POST", "/v1/sessions/s/runs?wait=1m", row[0])
			var v struct{ Text string }
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 || v.Text != row[1] {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		for _, path := range []string{"/v1/sessions/s/records", "/v1/sessions/s/events?wait=none"} {
			if w := c.raw(t.Context(), "GET", path, ""); strings.Contains(w.Body.String(), dot) {
				t.Errorf("%s has the bytes", path)
			}
		}
		if got := c.chat(0, `{"model": "seer", "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,`+dot+`", "detail": "low"}},
			{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,`+pdf+`"}}]}]}`); got.text != seen {
			t.Errorf("chat: %+v", got)
		}
		first := c.respond(`{"model": "seer", "input": [{"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "data:image/png;base64,` + dot + `"},
			{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,` + pdf + `"}]}]}`)
		if first.Text != seen {
			t.Errorf("responses: %+v", first)
		}
		if got := c.respond(`{"model": "seer", "input": "and now?"` + previous(first.ID) + `}`); got.Text != seen+"[and now?]" {
			t.Errorf("responses, the next: %+v", got)
		}
	})
}

// What is no part is refused where it is wrong, and nothing is begun or fetched.
func TestPartsRefused(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("seer", seer{})}, func(t *testing.T, c client) {
		if w := c.raw(t.Context(), "POST", "/v1/sessions", `{"id": "s", "agent": "seer"}`); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
		for body, field := range map[string]string{
			`{"data": "` + dot + `\n"}`:                              "parts[0].data",
			`{"data": "iVBORw0KGgo"}`:                                "parts[0].data",
			`{"data": "` + strings.Repeat("=", 100_000) + `"}`:       "parts[0].data",
			`{"data": "iVBORw0KGgp="}`:                               "parts[0].data",
			`{"data": "", "type": "image/png"}`:                      "parts[0].data",
			`{"data": "` + dot + `", "type": "image/gif"}`:           "parts[0].data",
			`{"data": "aGVsbG8="}`:                                   "parts[0].type",
			`{"data": "` + dot + `", "name": "../x"}`:                "parts[0].name",
			strings.Repeat(`{"data": ""},`, 70_000) + `{"data": ""}`: "body.parts",
		} {
			w := c.raw(t.Context(), "POST", "/v1/sessions/s/runs", `{"input": "x", "parts": [`+body+`]}`)
			var p struct{ Code, Field string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code/100 != 4 || p.Code != "ERR_INVALID" || p.Field != field {
				t.Errorf("%.60s: %d %.300s", body, w.Code, w.Body)
			}
		}
		for _, uri := range []string{"https://example.com/x.png", "file:///etc/passwd", "data:image/png," + dot, "data:;base64," + dot, ""} {
			for i, got := range []struct{ code, param string }{
				func() (g struct{ code, param string }) {
					r := c.chat(0, `{"model": "seer", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": `+strconv.Quote(uri)+`}}]}]}`)
					g.code, g.param = r.code, r.param
					return g
				}(),
				func() (g struct{ code, param string }) {
					r := c.respond(`{"model": "seer", "input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": ` + strconv.Quote(uri) + `}]}]}`)
					g.code, g.param = r.code, r.param
					return g
				}(),
			} {
				if got.code != "ERR_INVALID" || !strings.Contains(got.param, "content[1]") {
					t.Errorf("%d %q: %+v", i, uri, got)
				}
			}
		}
		w := c.raw(t.Context(), "GET", "/v1/sessions/s", "")
		var v struct{ Run int64 }
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Run != 0 {
			t.Errorf("%s", w.Body)
		}
	})
}

// Where a message comes in there is room for what it may bring along; its text has none beyond its own
// bound, and no other request has that room.
func TestRoomForParts(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("seer", seer{})}, func(t *testing.T, c client) {
		if w := c.raw(t.Context(), "POST", "/v1/sessions", `{"id": "s", "agent": "seer"}`); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
		sized := func(n int) string {
			head, _ := base64.StdEncoding.DecodeString(dot)
			return `{"data": "` + base64.StdEncoding.EncodeToString(append(head, make([]byte, n-len(head))...)) + `"}`
		}
		most := sized(stile.MaxPartBytes)
		var bytes struct{ Data string }
		if err := json.Unmarshal([]byte(most), &bytes); err != nil {
			t.Fatal(err)
		}
		image := `{"type": "image_url", "image_url": {"url": "data:image/png;base64,` + strings.ReplaceAll(bytes.Data, "/", `\/`) + `"}}`
		input := `{"type": "input_image", "image_url": "data:image/png;base64,` + bytes.Data + `"}`
		for name, row := range map[string]struct {
			path, body string
			status     int
		}{
			"all there may be": {"/v1/sessions/s/runs?wait=1m&stream=none", `{"input": "look", "parts": [` + most + `,` + most + `]}`, 200},
			"more than all":    {"/v1/sessions/s/runs", `{"input": "look", "parts": [` + most + `,` + most + `,` + most + `]}`, 413},
			"a text too long":  {"/v1/sessions/s/runs", `{"input": "` + strings.Repeat("x", 2<<20) + `"}`, 422},
			"another request":  {"/v1/sessions", `{"id": "t", "agent": "` + strings.Repeat("x", 2<<20) + `"}`, 413},
			"chat":             {"/v1/chat/completions", `{"model": "seer", "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, ` + image + `, ` + image + `]}]}`, 200},
			"chat, earlier":    {"/v1/chat/completions", `{"model": "seer", "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, ` + image + `]}, {"role": "assistant", "content": "A dot."}, {"role": "user", "content": [{"type": "text", "text": "and here"}, ` + image + `]}]}`, 200},
			"chat, too long":   {"/v1/chat/completions", `{"model": "seer", "messages": [{"role": "user", "content": "` + strings.Repeat("x", 2<<20) + `"}]}`, 413},
			"chat, many parts": {"/v1/chat/completions", `{"model": "seer", "messages": [{"role": "user", "content": [` + strings.Repeat(`{"type":"file"},`, 100_000) + image + `]}]}`, 413},
			"chat, too much":   {"/v1/chat/completions", `{"model": "seer", "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, ` + image + `, ` + image + `, ` + image + `]}]}`, 413},
			"responses":        {"/v1/responses", `{"model": "seer", "input": [{"role": "user", "content": [{"type": "input_text", "text": "look"}, ` + input + `, ` + input + `]}]}`, 200},
			"responses, text":  {"/v1/responses", `{"model": "seer", "input": "` + strings.Repeat("x", 2<<20) + `"}`, 413},
			"tools":            {"/mcp", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"text": "` + strings.Repeat("x y ", 1<<19) + `"}}`, 413},
		} {
			w := c.raw(t.Context(), "POST", row.path, row.body)
			if w.Code != row.status {
				t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
			}
		}
	})
}

// A tool of MCP takes parts with its message, and refuses those of a question about an earlier run.
func TestToolParts(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("seer", seer{}))
	ses := toolClient(t, d, "", nil)
	parts := []any{map[string]any{"name": "a.png", "data": dot}}
	if res, a, text := callTool(t, ses, "seer", map[string]any{"message": "look", "session": "s", "parts": parts}); res.IsError || a.Text != "[look image/png a.png 29]" {
		t.Errorf("%+v %q", a, text)
	}
	if res, a, text := callTool(t, ses, "seer", map[string]any{"message": "and now?", "session": "s"}); res.IsError || a.Text != "[look image/png a.png 29][and now?]" {
		t.Errorf("%+v %q", a, text)
	}
	head, _ := base64.StdEncoding.DecodeString(dot)
	large := base64.StdEncoding.EncodeToString(append(head, make([]byte, stile.MaxPartBytes-len(head))...))
	if res, a, text := callTool(t, ses, "seer", map[string]any{"message": "look", "session": "l", "parts": []any{map[string]any{"data": large}, map[string]any{"data": large}}}); res.IsError || a.Text != "[look image/png  4194304 image/png  4194304]" {
		t.Errorf("%+v %.200q", a, text)
	}
	for name, args := range map[string]map[string]any{
		"no base64":      {"message": "x", "parts": []any{map[string]any{"data": "%"}}},
		"no picture":     {"message": "x", "parts": []any{map[string]any{"data": "aGVsbG8=", "type": "image/png"}}},
		"not taken":      {"message": "x", "parts": []any{map[string]any{"data": "aGVsbG8="}}},
		"without a text": {"parts": parts},
		"with a run":     {"session": "s", "run": 1, "parts": parts},
	} {
		if res, _, text := callTool(t, ses, "seer", args); !res.IsError || !strings.Contains(text, "ERR_INVALID") {
			t.Errorf("%s: %v %q", name, res.IsError, text)
		}
	}
}

// unread counts what is read of a long body.
type unread struct{ n int }

func (u *unread) Read(b []byte) (int, error) {
	u.n += len(b)
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// A body is read when its caller is known, and not before.
func TestLongBodiesNeedACaller(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("seer", seer{}))
	for _, path := range []string{"/v1/sessions/s/runs", "/v1/chat/completions", "/v1/responses", "/mcp"} {
		body := &unread{}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost"+path, body)
		r.ContentLength = 11 << 20
		w := httptest.NewRecorder()
		d.srv.Handler().ServeHTTP(w, r)
		if w.Code != 401 || body.n > 0 {
			t.Errorf("%s: %d, %d bytes were read", path, w.Code, body.n)
		}
	}
}

// A part is served as the file that it is, to who may read its session, and as nothing else.
func TestPartIsServed(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("seer", seer{})}, func(t *testing.T, c client) {
		for _, id := range []string{"s", "other"} {
			if w := c.raw(t.Context(), "POST", "/v1/sessions", `{"id": "`+id+`", "agent": "seer"}`); w.Code != 201 {
				t.Fatal(w.Code, w.Body)
			}
		}
		html := base64.StdEncoding.EncodeToString([]byte("%PDF-1.7<script>alert(1)</script>"))
		if w := c.raw(t.Context(), "POST", "/v1/sessions/s/runs?wait=1m", `{"input": "look", "parts": [{"data": "`+dot+`"}, {"name": "ä b.pdf", "data": "`+html+`"}]}`); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
		var page struct {
			Records []struct {
				Body struct{ Parts []messages.Part }
			}
		}
		w := c.raw(t.Context(), "GET", "/v1/sessions/s/records?kind=input", "")
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Records) != 1 || len(page.Records[0].Body.Parts) != 2 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		for i, want := range []struct{ kind, name, data string }{{"image/png", "", dot}, {"application/pdf", "filename*=utf-8''%C3%A4%20b.pdf", html}} {
			digest := page.Records[0].Body.Parts[i].Digest.String()
			w := c.raw(t.Context(), "GET", "/v1/sessions/s/parts/"+digest, "")
			h := w.Header()
			if got := base64.StdEncoding.EncodeToString(w.Body.Bytes()); w.Code != 200 || got != want.data {
				t.Errorf("%d %s", w.Code, got)
			}
			if h.Get("Content-Type") != want.kind || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename") || !strings.Contains(h.Get("Content-Disposition"), want.name) || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%v", h)
			}
			if w := c.raw(t.Context(), "GET", "/v1/sessions/other/parts/"+digest, ""); w.Code != 404 {
				t.Errorf("another session: %d %s", w.Code, w.Body)
			}
		}
		for digest, status := range map[string]int{strings.Repeat("0", 64): 404, "x": 404, strings.Repeat("0", 65): 422} {
			if w := c.raw(t.Context(), "GET", "/v1/sessions/s/parts/"+digest, ""); w.Code != status {
				t.Errorf("%s: %d %s", digest, w.Code, w.Body)
			}
		}
	})
}
