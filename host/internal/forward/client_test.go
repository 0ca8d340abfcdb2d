package forward

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
)

// What a client sends is believed as it arrives, whatever the client's request has in its head.
func TestRequestArrives(t *testing.T) {
	c := &Client{Secret: secret, Self: func() string { return "f" }, Now: func() time.Time { return noon }}
	for _, one := range []struct {
		name string
		head http.Header
		body string
	}{
		{"plain", http.Header{"User-Agent": {"curl"}, "Accept": {"a", "b"}}, "body"},
		{"no user agent", http.Header{"Accept": {"*/*"}}, "body"},
		{"an empty user agent", http.Header{"User-Agent": {""}}, "body"},
		{"no head", http.Header{}, ""},
		{"of a connection", http.Header{"Connection": {"close, x-hop"}, "X-Hop": {"1"}, "Te": {"trailers"}, "Content-Length": {"9"}}, "body"},
		{"a forged proof", http.Header{Proof: {"from=x"}}, ""},
	} {
		r := request(one.body)
		r.Header = one.head
		out := c.Request(context.Background(), r, []byte(one.body), stile.Peer{ID: "t", Address: "10.0.0.1:8472"}, "")
		var wire bytes.Buffer
		if err := out.Write(&wire); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatal(err)
		}
		claim, err := (&Verifier{Secret: secret}).Verify(got, noon)
		if err != nil || claim.From != "f" || claim.To != "t" {
			t.Errorf("%s: %+v, %v", one.name, claim, err)
			continue
		}
		if b, err := io.ReadAll(got.Body); err != nil || string(b) != one.body {
			t.Errorf("%s: the body is %q, %v", one.name, b, err)
		}
	}
}
