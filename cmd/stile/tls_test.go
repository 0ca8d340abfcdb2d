package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/certtest"
)

// A host with a certificate says and speaks https; flags go before the settings, whose
// paths are those of their folder.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	pair := certtest.Write(t, dir, "cert.pem", "key.pem", time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	stale := certtest.Write(t, dir, "old.pem", "oldkey.pem", time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	config := write(t, dir, "stile.yaml", "memory: true\nlisten: 127.0.0.1:0\ntls_cert: cert.pem\ntls_key: key.pem\n")
	flags := []string{"--tls-cert", pair.Cert, "--tls-key", pair.Key}
	for _, c := range []struct {
		env  map[string]string
		args []string
	}{
		{args: []string{"--config", config}},
		{args: append([]string{"--memory", "--listen", "127.0.0.1:0"}, flags...)},
		{args: append([]string{"--config", write(t, dir, "old.yaml", "memory: true\nlisten: 127.0.0.1:0\ntls_cert: old.pem\ntls_key: oldkey.pem\n")}, flags...)},
		{
			args: []string{"--memory", "--listen", "127.0.0.1:0", "--tls-cert", pair.Cert},
			env:  map[string]string{"STILE_TLS_CERT": stale.Cert, "STILE_TLS_KEY": pair.Key},
		},
	} {
		url, stop := served(t, c.env, append([]string{example("plain/agent.yaml")}, c.args...)...)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pair.Roots}, DisableKeepAlives: true}}
		res, err := client.Get(url + "/healthz")
		if err != nil || !strings.HasPrefix(url, "https://") {
			t.Errorf("%q: %s: %v", c.args, url, err)
		} else {
			res.Body.Close()
		}
		if got := stop(); got != 0 {
			t.Errorf("%q: status %d", c.args, got)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{flags[:2], "tls_key: ERR_CONFIG: a certificate is given, and no key"},
		{flags[2:], "tls_cert: ERR_CONFIG: a key is given, and no certificate"},
		{[]string{"--tls-cert", pair.Cert, "--tls-key", stale.Key}, "tls_key: ERR_CONFIG: is not the key of cert.pem"},
		{[]string{"--tls-cert", pair.Cert, "--tls-key", filepath.Join(dir, "nokey.pem")}, "nokey.pem"},
		{append([]string{"--listen", "0.0.0.0:0"}, flags...), "does not authenticate"},
	} {
		args := append([]string{"serve", example("plain/agent.yaml"), "--memory"}, c.args...)
		if a := stileDo(t, args...); a.status != 2 || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: status %d, %s", args, a.status, a.err)
		}
	}
}

// Doctor knows when a certificate is no good, and says it early.
func TestDoctorCertificate(t *testing.T) {
	dir := t.TempDir()
	day := 24 * time.Hour
	now := time.Now()
	pair := func(name string, from, to time.Duration) string {
		certtest.Write(t, dir, name+".pem", name+".key", now.Add(from), now.Add(to))
		return "tls_cert: " + name + ".pem\ntls_key: " + name + ".key\n"
	}
	good, open := pair("good", -day, 60*day), pair("open", -day, 60*day)
	if err := os.Chmod(filepath.Join(dir, "open.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		status         int
		text           string
		state, details string
	}{
		"good":        {0, good, isOK, "good until"},
		"soon":        {0, pair("soon", -day, 5*day), isWarn, "good until"},
		"expired":     {1, pair("expired", -2*day, -day), isFail, "expired"},
		"to come":     {1, pair("later", day, 60*day), isFail, "on"},
		"another":     {0, good + "hosts: [localhost, stile.example.com]\n", isWarn, "stile.example.com"},
		"key for all": {0, open, isWarn, "chmod 600"},
		"no key":      {1, "tls_cert: good.pem\n", isFail, "no key"},
		"no pair":     {1, "tls_cert: good.pem\ntls_key: open.key\n", isFail, "not the key"},
		"none":        {0, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := write(t, dir, "stile.yaml", "memory: true\nlisten: 127.0.0.1:0\n"+c.text)
			f := findings(t, c.status, call{args: []string{example("plain/agent.yaml"), "--config", config}})["certificate"]
			if f.State != c.state || !strings.Contains(f.Detail, c.details) {
				t.Errorf("%+v, want %s: %s", f, c.state, c.details)
			}
		})
	}
	must(t, "tokens", "create", "--dir", dir)
	wide := write(t, dir, "stile.yaml", "dir: .\nlisten: 0.0.0.0:0\n")
	if f := findings(t, 0, call{args: []string{example("plain/agent.yaml"), "--config", wide}})["certificate"]; f.State != isWarn || !strings.Contains(f.Detail, "proxy") {
		t.Errorf("%+v", f)
	}
}
