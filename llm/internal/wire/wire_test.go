package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type seen struct {
	name, data string
	loose      bool
}

func events(r io.Reader, limit int) (all []seen, err error) {
	in := NewReader(r, limit)
	for {
		ev, err := in.Next()
		if err != nil {
			return all, err
		}
		all = append(all, seen{ev.Name, string(ev.Data), ev.Loose})
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []seen
	}{
		{"", nil},
		{"\n\n\n", nil},
		{"data: a\n\n", []seen{{"", "a", false}}},
		{"data:a\n\ndata:  b\n\n", []seen{{"", "a", false}, {"", " b", false}}},
		{"event: x\ndata: a\ndata: b\n\ndata: c\n\n", []seen{{"x", "a\nb", false}, {"", "c", false}}},
		{"event: x\n\ndata: c\n\n", []seen{{"", "c", false}}},
		{"data\n\n", []seen{{"", "", false}}},
		{"data: \ndata:\n\n", []seen{{"", "\n", false}}},
		{": c\nid: 1\nretry: 2\nfoo: bar\ndata: a\n\n", []seen{{"", "a", false}}},
		{"data: a\r\n\r\ndata: b\r\n\r\n", []seen{{"", "a", false}, {"", "b", false}}},
		{"event: x\r\ndata: a\r\ndata: b\r\n\r\n", []seen{{"x", "a\nb", false}}},
		{"data: a\r\rdata: b\r\r", []seen{{"", "a", false}, {"", "b", false}}},
		{"data: a\r\n\ndata: b\n\r\n", []seen{{"", "a", false}, {"", "b", false}}},
		{"\ufeffdata: a\n\n", []seen{{"", "a", false}}},
		{"\ufeff\ufeffdata: a\n\n", nil},
		{"data: a\n\n\ufeffdata: b\n\n", []seen{{"", "a", false}}},
		{"\xef\xbbdata: a\n\n", nil},
		{"data: a\n", []seen{{"", "a", true}}},
		{"data: a", []seen{{"", "a", true}}},
		{"data: a\n\nevent: x", []seen{{"", "a", false}}},
		{"data: a\n\nda", []seen{{"", "a", false}}},
		{"data: x: y\n\n", []seen{{"", "x: y", false}}},
		{"data: \xff\xfe\n\n", []seen{{"", "\xff\xfe", false}}},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "one byte": iotest.OneByteReader(strings.NewReader(c.in)), "data and error": iotest.DataErrReader(strings.NewReader(c.in))} {
			got, err := events(r, 0)
			if !errors.Is(err, io.EOF) || !slices.Equal(got, c.want) {
				t.Errorf("%q, %s: %+v, %v; want %+v", c.in, name, got, err, c.want)
			}
		}
	}
	boom := errors.New("boom")
	if got, err := events(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(boom)), 0); !errors.Is(err, boom) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// An event is handed on when its blank line has come, and not a byte later.
func TestReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		if end == "\r\n\r\n" {
			end = "\r\n\r" // the LF may come when it likes
		}
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, "data: a"+end) }()
		ev, err := NewReader(pr, 0).Next()
		if err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", end, ev.Data, err)
		}
		_ = pw.Close()
	}
}

func TestReaderBound(t *testing.T) {
	for limit := 8; limit < 64; limit++ {
		for size := range 2 * limit {
			for _, in := range []string{"data: " + strings.Repeat("x", size) + "\n\n", strings.Repeat("data:x\n", size) + "\n", ":" + strings.Repeat("c", size)} {
				for _, one := range []bool{false, true} {
					var r io.Reader = strings.NewReader(in)
					if one {
						r = iotest.OneByteReader(r)
					}
					got, err := events(r, limit)
					if size > limit && strings.HasPrefix(in, "data") && !errors.Is(err, errOversized) {
						t.Fatalf("limit %d: %d bytes pass: %v", limit, size, err)
					}
					if 2*size+7 < limit && (!errors.Is(err, io.EOF) || in[0] == 'd' && size > 0 && len(in) < limit && len(got) != 1) {
						t.Fatalf("limit %d: %d bytes are refused: %v, %v", limit, size, got, err)
					}
				}
			}
		}
	}
}

// However a stream arrives, its events are the same; and the reader holds no more than
// its bound.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata: a\rdata: b\n\r\n", "\ufeff: c\n\ndata\n\n", "data: a\n\nda", strings.Repeat("x", 5000) + "\n\n"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		const limit = 256
		want, wantErr := events(strings.NewReader(s), limit)
		for _, ev := range want {
			if len(ev.data) > limit {
				t.Fatalf("an event of %d bytes", len(ev.data))
			}
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		in := NewReader(readFunc(func(p []byte) (int, error) {
			if s == "" {
				return 0, io.EOF
			}
			n := copy(p, s[:min(len(s), 1+rng.IntN(9))])
			s = s[n:]
			return n, nil
		}), limit)
		var got []seen
		for {
			ev, err := in.Next()
			if cap(in.line) > 4*limit+4096 || cap(in.data) > 4*limit {
				t.Fatalf("holds %d and %d bytes", cap(in.line), cap(in.data))
			}
			if err != nil {
				// A line over the bound is seen earlier when it comes in pieces: the
				// buffer may have held it whole.
				if errors.Is(wantErr, io.EOF) != errors.Is(err, io.EOF) && !errors.Is(err, errOversized) {
					t.Fatalf("%v, want %v", err, wantErr)
				}
				if errors.Is(err, io.EOF) && !slices.Equal(got, want) {
					t.Fatalf("%+v, want %+v", got, want)
				}
				break
			}
			got = append(got, seen{ev.Name, string(ev.Data), ev.Loose})
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Text is what encoding/json makes of the literal, where that is text at all, and cut
// into several literals at any character it is the same.
func FuzzText(f *testing.F) {
	for _, s := range []string{`""`, `"a"`, `"\u00e9\n\"\\"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, "\"\xff\"", `"\`, `"\u12"`, `"\x"`, `a`, `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lit string) {
		var tx text
		ok := tx.add([]byte(lit))
		tx.flush()
		got := string(tx.take())
		var want string
		if err := json.Unmarshal([]byte(lit), &want); err != nil || len(lit) == 0 || lit[0] != '"' || !utf8.ValidString(lit) {
			return // stricter: control characters, blanks around it
		}
		if strings.TrimSpace(lit) != lit {
			return
		}
		if !ok || got != want {
			t.Fatalf("%q: %q %v, want %q", lit, got, ok, want)
		}
	})
}

// No body of an error panics or leaks, and every one gets a kind.
func FuzzRefusal(f *testing.F) {
	for _, s := range []string{
		``, `{`, `[]`, `[{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"},{"retryDelay":"34s"}]}}]`, `{"error":"text"}`,
		`{"object":"error","code":429,"type":"x"}`, `{"error":{"code":"a b"}}`, `{"type":"error","error":{"type":"overloaded_error"}}`, `{"error":null}`,
	} {
		f.Add([]byte(s), 400)
	}
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		r, _ := parseRefusal(body)
		fail := r.failure(status, 0)
		if fail.Kind == "" || harmless(fail.Code) != fail.Code || fail.RetryAfter < 0 {
			t.Fatalf("%+v", fail)
		}
	})
}

func TestRefusalWords(t *testing.T) {
	for body, want := range map[string]llm.Failure{
		`[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","retryDelay":"34.5s"}]}}]`: {Kind: llm.KindRateLimit, Status: 429, Code: "RESOURCE_EXHAUSTED", RetryAfter: 34500 * time.Millisecond, Retryable: true},
		`{"object":"error","message":"gone","type":"NotFoundError","param":null,"code":404}`:                    {Kind: llm.KindRequest, Status: 404, Code: "NotFoundError"},
		`{"error":{"type":"authentication_error"}}`:                                                             {Kind: llm.KindAuth, Code: "authentication_error"},
		`{"error":"the context size is exceeded"}`:                                                              {Kind: llm.KindContext},
		`{"error":{"code":"rate limit exceeded, call us"}}`:                                                     {Kind: llm.KindServer, Retryable: true},
		`{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`:                              {Kind: llm.KindRequest, Code: "invalid_request_error"},
	} {
		r, ok := parseRefusal([]byte(body))
		if got := r.failure(0, 0); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
	for _, body := range []string{`{}`, `{"error":null}`, `{"error":{}`, `[]`, `7`, `{"error":7}`, `{"code":429}`} {
		if r, ok := parseRefusal([]byte(body)); ok {
			t.Errorf("%s is an error: %+v", body, r)
		}
	}
}

// Who meets a server for the first time is told what to look at.
func TestRequestWords(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{404, "404 page not found", "nothing at this address"},
		{404, `{"detail":"Not Found"}`, "nothing at this address"},
		{404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, "nothing at this address"},
		{404, `{"error":{"message":"Invalid URL (POST /v1/v1/responses)","type":"invalid_request_error","param":null,"code":null}}`, "nothing at this address"},
		{200, `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`, "nothing at this address"},
		{404, `{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, "no model of this name"},
		{400, `{"error":{"message":"no","code":"model_not_found"}}`, "no model of this name"},
		{404, `{"error":{"code":404,"message":"models/m is not found for API version v1beta","status":"NOT_FOUND"}}`, "no model of this name"},
		{307, "", "redirects"},
		{400, `{"error":{"message":"no","param":"max_tokens"}}`, "max_tokens"},
		{200, "<html>", "is base_url right?"},
		{200, `{"choices":[]}`, "is base_url right?"},
	} {
		m := New(Config{Vendor: plainVendor{}, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}, nil
		})})
		if _, err := ask(t.Context(), m); err == nil || !strings.Contains(err.Error(), c.want) || llm.FailureOf(err).Retryable {
			t.Errorf("%d %s: %v, want %s", c.status, c.body, err, c.want)
		}
	}
}

// So is who starts the server last.
func TestNetworkWords(t *testing.T) {
	tls := httptest.NewUnstartedServer(nil)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	defer tls.Close()
	plain := httptest.NewServer(nil)
	defer plain.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, want := range map[string]string{
		gone.URL: "is the server running?",
		tls.URL:  "certificate is not trusted",
		"https" + strings.TrimPrefix(plain.URL, "http"): "is base_url http, not https?",
	} {
		base := NewBase()
		m := New(Config{Vendor: plainVendor{url: url}, Base: base})
		if _, err := ask(t.Context(), m); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%v, want %s", err, want)
		}
		m.CloseIdleConnections()
	}
}

// plain is a vendor without an SDK.
type plainVendor struct {
	requests int
	url      string
}

func (v plainVendor) Send(ctx context.Context, client *http.Client, _ *Ask) error {
	var first error
	for range max(v.requests, 1) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(v.url, "http://provider.invalid/"), nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if first == nil {
			first = err
		}
		if err == nil {
			_ = res.Body.Close()
		}
	}
	return first
}

func (plainVendor) Events() Events { return plainEvents{} }

type plainEvents struct{}

func (plainEvents) Event(_ Event, r *Reply) error {
	r.Finish(messages.FinishComplete)
	r.Over()
	return nil
}

func (e plainEvents) Whole(_ []byte, r *Reply) error { return e.Event(Event{}, r) }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func ask(ctx context.Context, m *Model) (finish messages.Finish, err error) {
	for c, e := range m.Stream(ctx, llm.Request{Messages: []messages.Message{{Role: messages.RoleUser, Text: "x"}}}) {
		finish, err = c.Finish, e
	}
	return finish, err
}

// The answer must begin in time; then it may take as long as the turn allows.
func TestFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := ask(t.Context(), New(Config{Vendor: plainVendor{}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}))
		f := llm.FailureOf(err)
		if f.Kind != llm.KindNetwork || !f.Retryable || time.Since(began) != DefaultFirstByte || !strings.Contains(err.Error(), "in time") {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		finish, err := ask(t.Context(), New(Config{Vendor: plainVendor{}, FirstByte: time.Second, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
				Body: io.NopCloser(readFunc(func(p []byte) (int, error) {
					time.Sleep(time.Hour)
					if req.Context().Err() != nil {
						return 0, req.Context().Err()
					}
					return copy(p, "data: {}\n\n"), nil
				})),
			}, nil
		})}))
		if finish != messages.FinishComplete || err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v, %v after %v", finish, err, time.Since(began))
		}
		// What explains a refusal has no more time than that.
		began = time.Now()
		_, err = ask(t.Context(), New(Config{Vendor: plainVendor{}, FirstByte: time.Second, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: io.NopCloser(readFunc(func([]byte) (int, error) {
				<-req.Context().Done()
				return 0, req.Context().Err()
			}))}, nil
		})}))
		if f := llm.FailureOf(err); f.Kind != llm.KindOverloaded || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// An SDK that asked twice would spend a key twice: the second request is refused.
func TestOneRequest(t *testing.T) {
	asked := 0
	_, err := ask(t.Context(), New(Config{Vendor: plainVendor{requests: 3}, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		return nil, errors.New("no route")
	})}))
	if f := llm.FailureOf(err); asked != 1 || f.Kind != llm.KindNetwork {
		t.Errorf("%d requests, %v", asked, err)
	}
	if _, err := newClient(NewBase()).Get("http://provider.invalid/"); err == nil || !strings.Contains(err.Error(), "exchange") {
		t.Errorf("a request outside an exchange: %v", err)
	}
}

func TestCheckBaseURL(t *testing.T) {
	for s, ok := range map[string]bool{
		"": true, "http://localhost:11434/v1": true, "https://api.example.com": true, "https://[::1]:8000/v1/": true,
		"localhost:11434": false, "/v1": false, "ftp://host/": false, "http://": false, "https://me:pw@host": false, "https://host/?key=1": false, "https://host/#x": false, "http://ho st": false,
	} {
		err := CheckBaseURL(s)
		if (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
		if err != nil && (messages.CodeOf(err) != messages.ErrConfig || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// The longest rest of a key is read where its keys are, and refused where it is none.
func TestKeyRest(t *testing.T) {
	for said, ok := range map[string]bool{"": true, "30s": true, "1h": true, "2h": false, "0s": false, "soon": false, "-1m": false} {
		m := &Maker{Vendor: "X", Prefixes: []string{"X"}, Lookup: func(name string) (string, bool) {
			switch {
			case name == "X_API_KEY":
				return "k", true
			case name == KeyRest && said != "":
				return said, true
			}
			return "", false
		}}
		_, err := m.keysOf(llm.Settings{})
		if (err == nil) != ok || err != nil && messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%q: %v", said, err)
		}
	}
}
