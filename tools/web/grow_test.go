package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// grown reads an answer of a form; pieces is what was shown of it.
func grown(t testing.TB, form, kind string, body io.Reader, most int64) (result, pieces string, broken, err error) {
	t.Helper()
	var shown strings.Builder
	call := &tools.Call{Sink: func(_ context.Context, text string) error { shown.WriteString(text); return nil }}
	g := growing{form: form, key: secret, call: call}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
	result, broken, err = g.read(t.Context(), resp, most)
	return result, shown.String(), broken, err
}

// However the answer is cut, the result is the same, and the pieces are its text.
func TestGrowing(t *testing.T) {
	for _, c := range []struct{ form, answer, want string }{
		{StreamEvents, "data: one\n\ndata:two\n\n", `["one","two"]`},
		{StreamEvents, "\ufeffdata: {\"b\": 1.0, \"a\": \"\\u0078\"}\r\n\r\ndata: [DONE]\r\n\r\n", `[{"b":1.0,"a":"x"},"[DONE]"]`},
		{StreamEvents, "data: a\rdata: b\r\rdata: c\r\r", `["a\nb","c"]`},
		{StreamEvents, ": ping\n\nevent: tick\ndata: 7\nid: 3\nretry: 10\n\nevent: lost\n\nevent: message\ndata\n\n", `[{"data":7,"event":"tick"},""]`},
		{StreamEvents, "data: one\n\ndata: cut", `["one"]`}, // an event without its blank line is none
		{StreamEvents, "data: " + secret + "\n\ndata: {\"k\":\"k3y\\/with+s\\u0069gns\"}\n\n", `["[redacted]",{"k":"[redacted]"}]`},
		{StreamEvents, "", `[]`},
		{StreamLines, "one\r\nzw\xc3\xb6lf \xc3\nend " + secret, `"one\r\nzwölf ` + "\ufffd" + `\nend [redacted]"`},
		{StreamLines, "", `""`},
		{StreamJSONLines, "{\"b\":1e2, \"a\":[ ]}\n\n\r\n9007199254740993\r\n\"x\"", `[{"b":1e2,"a":[]},9007199254740993,"x"]`},
		{StreamJSONLines, "1\n\n{\"a\":1,\"a\":2}\n", "line 3 of the answer is no JSON"},
	} {
		for name, body := range map[string]io.Reader{"whole": strings.NewReader(c.answer), "byte by byte": iotest.OneByteReader(strings.NewReader(c.answer)), "with its end": iotest.DataErrReader(strings.NewReader(c.answer))} {
			got, pieces, broken, err := grown(t, c.form, eventStream, body, 1<<20)
			if err != nil {
				got = err.Error()
			}
			if broken != nil || !strings.HasSuffix(got, c.want) {
				t.Errorf("%s, %s: %q: %s, %v, want %s", c.form, name, c.answer, got, broken, c.want)
			}
			if err == nil && pieces != plan.StreamedText(got) {
				t.Errorf("%s, %s: %q: shown %q", c.form, name, c.answer, pieces)
			}
		}
	}
}

// An answer that is too long, of another kind, or breaks off.
func TestGrowingBadly(t *testing.T) {
	ever := readerFunc(func(p []byte) (int, error) { return copy(p, "data: x\n\n"), nil })
	if _, pieces, broken, _ := grown(t, StreamEvents, eventStream+"; charset=utf-8", ever, 100); !errors.Is(broken, errTooLong) || len(pieces) != 44 {
		t.Errorf("%v after %d bytes", broken, len(pieces))
	}
	if _, _, _, err := grown(t, StreamEvents, "text/html", ever, 100); err == nil || !strings.Contains(err.Error(), "status 200, and the answer is text/html, not text/event-stream") {
		t.Error(err)
	}
	short := io.MultiReader(strings.NewReader("data: x\n\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, pieces, broken, _ := grown(t, StreamEvents, eventStream, short, 100); !errors.Is(broken, io.ErrUnexpectedEOF) || pieces != "\"x\"\n" {
		t.Errorf("%v after %q", broken, pieces)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// An endpoint that streams: what it asks for, pieces that come before the end, a refusal, and a
// stream that does not end.
func TestStreamingEndpoint(t *testing.T) {
	seen := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the end of the connection
		if r.URL.Path == "/v1/refused" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", eventStream)
		fmt.Fprintf(w, "data: %s\n\n", r.Header.Get("Accept"))
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/v1/ever" {
			<-r.Context().Done()
			return
		}
		<-seen // the client has the first event
		fmt.Fprint(w, "data: end\n\n")
	}))
	defer server.Close()
	x := relic(t, server, func(s *Service) {
		s.Endpoints = []Endpoint{{Name: "get", Path: "/get", Stream: StreamEvents}, {Name: "refused", Path: "/refused", Stream: StreamEvents}, {Name: "ever", Method: "POST", Path: "/ever", Stream: StreamEvents}}
	})
	pieces := ""
	call := &tools.Call{Sink: func(_ context.Context, text string) error {
		if pieces += text; pieces == text {
			close(seen)
		}
		return nil
	}}
	if got, err := x.Run(t.Context(), call, `{"operation":"get"}`); err != nil || got != `["text/event-stream","end"]` || pieces != plan.StreamedText(got) {
		t.Errorf("%s, %v; shown %q", got, err, pieces)
	}
	var failed *neuroscript.ScriptError
	if _, err := x.Run(t.Context(), call, `{"operation":"refused"}`); !errors.As(err, &failed) || !strings.Contains(failed.Message, "status 403: no") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	call.Sink = func(context.Context, string) error {
		cancel(messages.Errorf(messages.ErrCancelled, "stop"))
		return nil
	}
	var lost *tools.Unsettled
	if _, err := x.Run(ctx, call, `{"operation":"ever"}`); !errors.As(err, &lost) {
		t.Error(err)
	}
}

// FuzzGrowing checks that the pieces of any answer are its result's text, however it is cut.
func FuzzGrowing(f *testing.F) {
	f.Add("data: one\n\nevent: a\rdata: {}\r\n\r\n", 0)
	f.Add("one\n\xff\n", 1)
	f.Add("{\"a\":1}\n[2]", 2)
	f.Fuzz(func(t *testing.T, answer string, form int) {
		forms := []string{StreamEvents, StreamLines, StreamJSONLines}
		one := forms[uint(form)%3]
		result, pieces, broken, err := grown(t, one, eventStream, strings.NewReader(answer), 1<<20)
		again, cut, _, err2 := grown(t, one, eventStream, iotest.OneByteReader(strings.NewReader(answer)), 1<<20)
		if broken != nil || (err == nil) != (err2 == nil) || result != again || pieces != cut {
			t.Fatalf("%q and %q, %q and %q, %v, %v, %v", result, again, pieces, cut, broken, err, err2)
		}
		if err == nil && plan.StreamedText(result) != pieces {
			t.Fatalf("%q was shown of %q", pieces, result)
		}
	})
}
