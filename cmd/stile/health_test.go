package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a host says of itself is the exit status, of the address that is named or of the settings'.
func TestHealth(t *testing.T) {
	hang := make(chan struct{})
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "starting.test":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"title":"Busy","detail":"the host is starting"}`)
		case "other.test":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		case "silent.test":
			<-hang
		default:
			_, _ = io.WriteString(w, "ok\n")
		}
		if len(r.Header["Authorization"]) > 0 {
			t.Error("a token was shown")
		}
	})
	srv := httptest.NewServer(answers)
	defer srv.Close()
	secure := httptest.NewTLSServer(answers)
	defer secure.Close()
	defer close(hang)
	gone := httptest.NewServer(answers)
	gone.Close()
	dir := t.TempDir()
	plain := write(t, dir, "plain.yaml", "listen: 0.0.0.0:"+srv.URL[strings.LastIndex(srv.URL, ":")+1:]+"\n")
	tls := write(t, dir, "tls.yaml", "listen: "+strings.TrimPrefix(secure.URL, "https://")+"\ntls_cert: a.pem\ntls_key: a.key\n")
	for name, c := range map[string]struct {
		args   []string
		status int
		out    string
	}{
		"ready":                 {[]string{"--host", srv.URL}, 0, "ready\n"},
		"alive":                 {[]string{"--host", srv.URL, "--live"}, 0, "alive\n"},
		"of the settings":       {[]string{"--config", plain}, 0, "ready\n"},
		"of settings with TLS":  {[]string{"--config", tls}, 0, "ready\n"},
		"a foreign certificate": {[]string{"--host", secure.URL}, 1, "certificate"},
		"no host":               {[]string{"--host", gone.URL}, 1, "refused"},
		"no address":            {[]string{"--host", "localhost"}, 2, "want an address"},
		"no time":               {[]string{"--host", srv.URL, "--timeout", "0s"}, 2, "more than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			a := stileDo(t, append([]string{"health"}, c.args...)...)
			if a.status != c.status || !strings.Contains(a.out+a.err, c.out) {
				t.Errorf("status %d, %s%s", a.status, a.out, a.err)
			}
		})
	}
	for host, want := range map[string]string{"starting.test": "is not ready: Busy: the host is starting", "other.test": "is not ready: 502", "silent.test": "no answer in time"} {
		t.Run(host, func(t *testing.T) {
			a := &app{console: console{out: io.Discard}}
			client := &http.Client{Transport: renamed{host}}
			ctx := t.Context()
			if host == "silent.test" { // its time is over before it answers
				late, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				ctx = late
			}
			if err := a.health(ctx, client, srv.URL, false); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// renamed asks under another name.
type renamed struct{ host string }

func (n renamed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = n.host
	return http.DefaultTransport.RoundTrip(r)
}
