package host_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/certtest"
	"github.com/seed14be6753/stile/messages"
)

// goodNow makes a pair that is good for an hour.
func goodNow(t *testing.T, dir, cert, key string) certtest.Pair {
	t.Helper()
	return certtest.Write(t, dir, cert, key, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
}

// secured serves over TLS; the client trusts the pair.
func secured(t *testing.T, pair certtest.Pair, http2 bool) (*door, *http.Client) {
	t.Helper()
	cert, err := host.OpenCertificate(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, host.Config{Certificate: cert}, agentOf("talker", speaks([]string{"hello ", "there"}, always())))
	d.url = "https" + strings.TrimPrefix(d.url, "http")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Roots}, ForceAttemptHTTP2: http2}
	t.Cleanup(transport.CloseIdleConnections)
	return d, &http.Client{Transport: transport}
}

// Over TLS everything is as without, over HTTP/1.1 and HTTP/2: a run that is followed, a
// stream that is resumed, a socket.
func TestTLS(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			d, client := secured(t, goodNow(t, t.TempDir(), "cert.pem", "key.pem"), proto == "HTTP/2.0")
			ask := func(method, path, body, last string) []byte {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if last != "" {
					req.Header.Set("Last-Event-ID", last)
				}
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode/100 != 2 || res.Proto != proto {
					t.Fatalf("%s %s %s, %v", res.Proto, res.Status, b, err)
				}
				return b
			}
			ask("POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, "")
			whole := events(t, bytes.NewReader(ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`, "")), 100)
			if len(whole) < 5 || whole[len(whole)-1].name != "run.end" {
				t.Fatalf("%+v", whole)
			}
			rest := events(t, bytes.NewReader(ask("GET", "/v1/sessions/s/runs/1/events", "", whole[2].id)), 100)
			if len(rest) == 0 || rest[len(rest)-1].id != whole[len(whole)-1].id {
				t.Errorf("%+v", rest)
			}
			if proto != "HTTP/1.1" {
				return // a socket begins with an upgrade, which HTTP/2 has not
			}
			conn, _, err := websocket.Dial(t.Context(), "wss"+strings.TrimPrefix(d.url, "https")+"/v1/sessions/s/runs/1/events", &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			var f frame
			if _, b, err := conn.Read(t.Context()); err != nil || json.Unmarshal(b, &f) != nil || f.Event != "input" {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// Who speaks an old TLS, or none, gets no further.
func TestTLSRefuses(t *testing.T) {
	pair := goodNow(t, t.TempDir(), "cert.pem", "key.pem")
	d, _ := secured(t, pair, false)
	addr := strings.TrimPrefix(d.url, "https://")
	if c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pair.Roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		c.Close()
		t.Error("TLS 1.1 was taken")
	}
	res, err := http.Get("http://" + addr + "/v1/agents")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest || bytes.Contains(b, []byte("talker")) {
		t.Errorf("%s %s", res.Status, b)
	}
}

// The suites of TLS 1.2 with CBC and SHA-1 are not taken, and those that are good are; a
// browser is told to stay with TLS, unless it came by a name of loopback.
func TestTLSIsStrict(t *testing.T) {
	pair := goodNow(t, t.TempDir(), "cert.pem", "key.pem")
	cert, err := host.OpenCertificate(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, host.Config{Certificate: cert, Hosts: []string{"stile.example"}}, agentOf("talker", speaks(nil, always())))
	addr := strings.TrimPrefix(d.url, "http://")
	dial := func(suites ...uint16) error {
		c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pair.Roots, MaxVersion: tls.VersionTLS12, CipherSuites: suites})
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if good := strings.Contains(s.Name, "GCM") || strings.Contains(s.Name, "CHACHA"); s.SupportedVersions[0] == tls.VersionTLS12 && !good && dial(s.ID) == nil || strings.HasSuffix(s.Name, "CBC_SHA") && dial(s.ID) == nil {
			t.Errorf("%s is taken", s.Name)
		}
	}
	good := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	if err := dial(good...); err != nil {
		t.Error(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Roots}}}
	defer client.CloseIdleConnections()
	for name, want := range map[string]string{"stile.example": "max-age=31536000", "localhost": "", "127.0.0.1:8471": "", "[::1]": ""} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+addr+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = name
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != 200 || res.Header.Get("Strict-Transport-Security") != want {
			t.Errorf("%s: %s %q", name, res.Status, res.Header.Get("Strict-Transport-Security"))
		}
	}
	if res := serve(t, host.Config{}, agentOf("talker", speaks(nil, always()))).ask("GET", "/healthz", ""); res.Header.Get("Strict-Transport-Security") != "" {
		t.Error("a host without TLS asks for it")
	}
}

// A certificate that is renewed is shown from the next connection on. While its files are
// no pair, or gone, the one before stays.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	pair := goodNow(t, dir, "cert.pem", "key.pem")
	d, _ := secured(t, pair, false)
	shown := func() *big.Int {
		t.Helper()
		c, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber
	}
	is := func(want certtest.Pair, when string) {
		t.Helper()
		if got := shown(); got.Cmp(want.Serial) != 0 {
			t.Errorf("%s: certificate %v, want %v", when, got, want.Serial)
		}
	}
	is(pair, "at first")
	next := goodNow(t, dir, "cert2.pem", "key2.pem")
	if err := os.Rename(next.Cert, pair.Cert); err != nil {
		t.Fatal(err)
	}
	is(pair, "with another's key")
	if err := os.Rename(next.Key, pair.Key); err != nil {
		t.Fatal(err)
	}
	is(next, "renewed")
	for _, path := range []string{pair.Cert, pair.Key} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	is(next, "without files")
	is(goodNow(t, dir, "cert.pem", "key.pem"), "with files again")
}

// What is no certificate with its key is refused, by setting and without what is in it.
func TestCertificateRefused(t *testing.T) {
	dir := t.TempDir()
	one, other := goodNow(t, dir, "cert.pem", "key.pem"), goodNow(t, dir, "cert2.pem", "key2.pem")
	text := filepath.Join(dir, "text.pem")
	if err := os.WriteFile(text, []byte("no PEM of ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ cert, key, field, says string }{
		"no key":             {one.Cert, "", "tls_key", "no key"},
		"no certificate":     {"", one.Key, "tls_cert", "no certificate"},
		"another's key":      {one.Cert, other.Key, "tls_key", "not the key of cert.pem"},
		"exchanged":          {one.Key, one.Cert, "tls_cert", "no certificate in PEM"},
		"text":               {text, one.Key, "tls_cert", "no certificate in PEM"},
		"text for a key":     {one.Cert, text, "tls_key", "no key in PEM"},
		"a file not there":   {filepath.Join(dir, "none.pem"), one.Key, "tls_cert", "cannot be read"},
		"a key not there":    {one.Cert, filepath.Join(dir, "none.pem"), "tls_key", "cannot be read"},
		"a folder for a key": {one.Cert, dir, "tls_key", "cannot be read"},
	} {
		_, err := host.OpenCertificate(c.cert, c.key)
		var e *messages.Error
		if messages.CodeOf(err) != messages.ErrConfig || !errors.As(err, &e) || e.Field != c.field || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TLS alone lets nobody in from elsewhere: who calls has to be known as well.
func TestTLSDoesNotAuthenticate(t *testing.T) {
	pair := goodNow(t, t.TempDir(), "cert.pem", "key.pem")
	cert, err := host.OpenCertificate(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := (host.Config{Certificate: cert}).Listen(t.Context(), net.JoinHostPort("0.0.0.0", "0")); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("%v, %v", l, err)
	}
}
