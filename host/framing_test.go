package host_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
)

// answers sends bytes over a connection of its own, so many at a time, and gives the
// statuses that come until the host closes it.
func answers(t *testing.T, conn net.Conn, sent string, step int) (got []int) {
	t.Helper()
	defer conn.Close()
	go func() {
		for len(sent) > 0 {
			n := min(step, len(sent))
			if _, err := io.WriteString(conn, sent[:n]); err != nil {
				return // the host has heard enough
			}
			sent = sent[n:]
		}
	}()
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			var reset net.Error
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &reset) {
				t.Fatal(err)
			}
			return got
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return append(got, res.StatusCode)
		}
		got = append(got, res.StatusCode)
	}
}

// A request with two ends is refused, and what lies between them is none: over any way to
// write it, in any pieces, also behind good requests. What is chunked ends its connection.
func TestRequestsWithTwoEnds(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	addr := strings.TrimPrefix(d.url, "http://")
	const next = "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	post := func(head, body string) string {
		return "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head + "\r\n" + body
	}
	body := `{"agent": "nobody"}`
	sized := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for name, c := range map[string]struct {
		sent string
		want []int
	}{
		"length, then chunked":   {post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+next), []int{400}},
		"chunked, then length":   {post("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", "0\r\n\r\n"+next), []int{400}},
		"in other letters":       {post("transfer-encoding: chunked\r\ncontent-LENGTH: 6\r\n", "0\r\n\r\n"+next), []int{400}},
		"length of nothing":      {post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "0\r\n\r\n"+next), []int{400}},
		"bare line ends":         {strings.ReplaceAll(post("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", ""), "\r\n", "\n") + "0\r\n\r\n" + next, []int{400}},
		"a line that goes on":    {post("Transfer-Encoding: chunked\r\nContent-Length:\r\n 6\r\n", "0\r\n\r\n"+next), []int{400}},
		"a length far away":      {post("Transfer-Encoding: chunked\r\nContent-Length:"+strings.Repeat(" ", 400)+"6\r\n", "0\r\n\r\n"+next), []int{400}},
		"behind a good one":      {post(sized, body) + post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+next), []int{404, 400}},
		"HTTP/1.0":               {strings.Replace(post("Connection: keep-alive\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"+next), "HTTP/1.1", "HTTP/1.0", 1), []int{400}},
		"chunked alone":          {post("Transfer-Encoding: chunked\r\n", chunked+next), []int{404}},
		"length alone":           {post(sized, body) + post(sized, body) + next, []int{404, 404, 200}},
		"empty lines in between": {post(sized, body) + "\r\n\r\n" + next, []int{404, 200}},
	} {
		for _, step := range []int{1 << 20, 1} {
			t.Run(fmt.Sprint(name, " by ", step), func(t *testing.T) {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				got := answers(t, conn, c.sent, step)
				// What comes at once with a bad one may be refused before its turn.
				if name == "behind a good one" && len(got) == 1 && got[0] == 400 {
					return
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%v, want %v", got, c.want)
				}
			})
		}
	}
}

// Over TLS, where the head cannot be seen, nothing behind it is a request all the same.
func TestTwoEndsOverTLS(t *testing.T) {
	pair := goodNow(t, t.TempDir(), "cert.pem", "key.pem")
	d, _ := secured(t, pair, false)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "https://"), &tls.Config{RootCAs: pair.Roots})
	if err != nil {
		t.Fatal(err)
	}
	sent := "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	if got := answers(t, conn, sent, len(sent)); len(got) != 1 || got[0] != 400 {
		t.Errorf("%v", got)
	}
}
