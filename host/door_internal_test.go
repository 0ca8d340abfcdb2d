package host

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
)

// The door for hosts refuses a forged head before it reads any of the body, and a body that is not the
// one that was proved.
func TestDoorProvesTheHeadFirst(t *testing.T) {
	secret := []byte(strings.Repeat("s", forward.MinSecret))
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	s, err := New(Config{Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{s: s, proofs: forward.Verifier{Secret: secret}}
	srv := httptest.NewServer(c.door())
	defer srv.Close()
	const body = `{"agent":"none"}`
	for _, one := range []struct {
		name, sent, with string
		length           int
		want             int
	}{
		{"proved", body, string(secret), len(body), http.StatusNotFound},
		{"another body", strings.Replace(body, "none", "nine", 1), string(secret), len(body), http.StatusForbidden},
		{"another secret, and no body comes", "", strings.Repeat("o", forward.MinSecret), len(body), http.StatusForbidden},
		{"no proof, and no body comes", "", "", 12 << 20, http.StatusForbidden},
		{"another length, and no body comes", "", string(secret), 12 << 20, http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodPost, srv.URL+beginPattern[len("POST "):], nil)
		r.Header.Set("Content-Type", "application/json")
		if one.with != "" {
			forward.Sign([]byte(one.with), r, []byte(body), forward.Claim{At: time.Now()})
		}
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.URL.RequestURI(), r.Host, one.length)
		_ = r.Header.Write(conn)
		_, _ = io.WriteString(conn, "\r\n"+one.sent)
		answers := bufio.NewReader(conn)
		resp, err := http.ReadResponse(answers, r)
		for err == nil && resp.StatusCode < http.StatusOK {
			resp, err = http.ReadResponse(answers, r)
		}
		if err != nil || resp.StatusCode != one.want {
			t.Errorf("%s: %+v, %v", one.name, resp, err)
		}
		conn.Close()
	}
}
