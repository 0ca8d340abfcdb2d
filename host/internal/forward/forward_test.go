package forward

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var (
	secret = []byte(strings.Repeat("s", MinSecret))
	noon   = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
)

func request(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://stile.example/v1/sessions/a/runs?stream=token", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Traceparent", "00-1-2-01")
	return r
}

func signed(t *testing.T, body string) *http.Request {
	t.Helper()
	r := request(body)
	Sign(secret, r, []byte(body), Claim{From: "f", To: "t", Peer: "10.0.0.9:1", For: "c", At: noon})
	return r
}

// A proof is good once, for the request that it was made for.
func TestProof(t *testing.T) {
	v := &Verifier{Secret: secret}
	r := signed(t, "body")
	r.Header.Set("X-Other", "added on the way")
	c, err := v.Verify(r, noon.Add(Window))
	if err != nil || c != (Claim{From: "f", To: "t", Peer: "10.0.0.9:1", For: "c", At: c.At}) || !c.At.Equal(noon) {
		t.Fatalf("%+v, %v", c, err)
	}
	if b, err := io.ReadAll(r.Body); string(b) != "body" || err != nil {
		t.Errorf("the body is %q, %v", b, err)
	}
	if r.Header.Get("X-Other") != "" || r.Header.Get(Proof) != "" || r.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("the head is %v", r.Header)
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		at     time.Time
		want   error
	}{
		{name: "another method", change: func(r *http.Request) { r.Method = http.MethodPut }, want: ErrForged},
		{name: "another path", change: func(r *http.Request) { r.URL.Path = "/v1/sessions/b/runs" }, want: ErrForged},
		{name: "another query", change: func(r *http.Request) { r.URL.RawQuery = "stream=none" }, want: ErrForged},
		{name: "another host", change: func(r *http.Request) { r.Host = "other.example" }, want: ErrForged},
		{name: "a longer body", change: func(r *http.Request) { r.ContentLength = 5 }, want: ErrForged},
		{name: "a body of no length", change: func(r *http.Request) { r.ContentLength = -1 }, want: ErrForged},
		{name: "another length in the proof", change: func(r *http.Request) {
			r.ContentLength = 5
			r.Header.Set(Proof, strings.Replace(r.Header.Get(Proof), "length=4", "length=5", 1))
		}, want: ErrForged},
		{name: "another digest in the proof", change: func(r *http.Request) {
			r.Header.Set(Proof, strings.Replace(r.Header.Get(Proof), "body=", "body=00", 1))
		}, want: ErrForged},
		{name: "another token", change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer y") }, want: ErrForged},
		{name: "a second token", change: func(r *http.Request) { r.Header.Add("Authorization", "Bearer y") }, want: ErrForged},
		{name: "without a header", change: func(r *http.Request) { r.Header.Del("Traceparent") }, want: ErrForged},
		{name: "without a proof", change: func(r *http.Request) { r.Header.Del(Proof) }, want: ErrForged},
		{name: "two proofs", change: func(r *http.Request) { r.Header.Add(Proof, r.Header.Get(Proof)) }, want: ErrForged},
		{name: "for another host", change: func(r *http.Request) {
			r.Header.Set(Proof, strings.Replace(r.Header.Get(Proof), "to=t", "to=u", 1))
		}, want: ErrForged},
		{name: "for another purpose", change: func(r *http.Request) {
			r.Header.Set(Proof, strings.Replace(r.Header.Get(Proof), "for=c", "for=d", 1))
		}, want: ErrForged},
		{name: "a name less", change: func(r *http.Request) {
			r.Header.Set(Proof, strings.Replace(r.Header.Get(Proof), "Authorization%2C", "", 1))
		}, want: ErrForged},
		{name: "late", at: noon.Add(Window + time.Second), want: ErrLate},
		{name: "early", at: noon.Add(-Window - time.Second), want: ErrLate},
	} {
		r, at := signed(t, "body"), noon
		r.Body = untouched{t}
		if c.change != nil {
			c.change(r)
		}
		if !c.at.IsZero() {
			at = c.at
		}
		if _, err := v.Verify(r, at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	other := &Verifier{Secret: []byte(strings.Repeat("o", MinSecret))}
	if _, err := other.Verify(signed(t, "body"), noon); !errors.Is(err, ErrForged) {
		t.Errorf("another secret: %v", err)
	}
	other.Old = [][]byte{[]byte(strings.Repeat("p", MinSecret)), secret}
	if _, err := other.Verify(signed(t, "body"), noon); err != nil {
		t.Errorf("an old secret: %v", err)
	}
}

// untouched is a body that nothing is read of.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("a body is read before its head is proved")
	return 0, io.EOF
}
func (untouched) Close() error { return nil }

// A body that is not the one that was proved ends with an error, however it is read.
func TestProofOfBody(t *testing.T) {
	for _, c := range []struct {
		body string
		want error
	}{{"body", nil}, {"b0dy", ErrForged}, {"bod", ErrForged}, {"body, and more", ErrForged}, {"", ErrForged}} {
		for _, reader := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			r := signed(t, "body")
			r.Body = io.NopCloser(reader(strings.NewReader(c.body)))
			if _, err := (&Verifier{Secret: secret}).Verify(r, noon); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(r.Body); !errors.Is(err, c.want) || string(b) != c.body {
				t.Errorf("%q: %q, %v", c.body, b, err)
			}
		}
	}
}

// A proof that is shown again is refused as long as its time would be good.
func TestProofOnce(t *testing.T) {
	v := &Verifier{Secret: secret}
	r := signed(t, "")
	proof := r.Header.Get(Proof)
	for i, at := range []time.Duration{-Window, -Window, 0, Window} {
		r := request("")
		r.Header.Set(Proof, proof)
		_, err := v.Verify(r, noon.Add(at))
		if i == 0 && err != nil || i > 0 && !errors.Is(err, ErrAgain) {
			t.Errorf("shown at %v: %v", at, err)
		}
	}
	for i := range 10 {
		v.fresh("later", noon.Add(time.Duration(i)*time.Hour))
	}
	if n := len(v.now) + len(v.last); n > 2 {
		t.Errorf("%d nonces are kept", n)
	}
}

func TestEvents(t *testing.T) {
	const stream = "retry: 1000\n\nevent: a\nid: 1\ndata: {}\n\n: heartbeat\n\nevent: b\nid: 2.1.0.3\ndata: {\"id: 9\":1}\n\nevent: c\nid: 3\nda"
	for size := 1; size <= len(stream); size++ {
		var e Events
		var got strings.Builder
		for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
			p, err := e.Whole([]byte(rest[:min(size, len(rest))]))
			if err != nil {
				t.Fatal(err)
			}
			got.Write(p)
		}
		if want := stream[:strings.LastIndex(stream, "\n\n")+2]; got.String() != want || e.Last != "2.1.0.3" {
			t.Fatalf("in pieces of %d: %q, last %q", size, got.String(), e.Last)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("from=f&to=t&at=1&nonce=00&names=A&code=00")
	f.Add("%zz")
	f.Fuzz(func(t *testing.T, proof string) {
		r := request("")
		r.Header.Set(Proof, proof)
		if _, err := (&Verifier{Secret: secret}).Verify(r, noon); err == nil {
			t.Errorf("%q is believed", proof)
		}
	})
}
