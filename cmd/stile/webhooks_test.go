package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A webhook of the settings, with its secret in the environment; what could not be delivered is listed, sent
// again and forgotten by the command; a reload takes a mistake up neither nor tells the secret.
func TestWebhooksCommand(t *testing.T) {
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	var status atomic.Int64
	status.Store(http.StatusGone)
	got := make(chan string, 8)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		got <- r.Header.Get("Webhook-Id")
	}))
	defer endpoint.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "stile.yaml")
	settings := func(hook string) {
		t.Helper()
		manifest, err := filepath.Abs("../../examples/plain/agent.yaml")
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("agents: [%s]\nlisten: 127.0.0.1:0\ndir: data\nwebhooks:\n  ci: {%s}\n", manifest, hook)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := "url: " + endpoint.URL + "/hidden, networks: [127.0.0.0/8], secret_env: HOOK_SECRET, events: [run.ended]"
	env := map[string]string{"HOOK_SECRET": secret}
	for hook, want := range map[string]string{
		"url: https://hooks.example.com":                                       "secret_env or secret_file",
		"url: https://hooks.example.com, secret_env: NO_SUCH":                  "NO_SUCH is not set",
		"url: https://hooks.example.com, secret_file: absent":                  "absent",
		"url: http://hooks.example.com, secret_env: HOOK_SECRET":               "webhooks.ci.url",
		"url: https://hooks.example.com, secret_env: HOOK_SECRET, events: [x]": "webhooks.ci.events",
		"url: https://hooks.example.com, secret: x":                            "webhooks.ci.secret",
	} {
		settings(hook)
		if a := (call{args: []string{"serve", "--config", config}, env: env}).do(t); a.status != 2 || !strings.Contains(a.err, want) || strings.Contains(a.err, secret) {
			t.Errorf("%s: %+v", hook, a)
		}
	}
	settings(good)
	url, stop := served(t, env, "--config", config)
	holds(t, must(t, "webhooks", "list", "--host", url), "WEBHOOK", "ci", endpoint.URL, "run.ended", "0")
	ask(t, "POST", url+"/v1/sessions", "", `{"agent": "plain", "id": "s"}`)
	if code, body := ask(t, "POST", url+"/v1/sessions/s/runs?wait=1m", "", `{"input": "hello"}`); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	id := <-got
	dead := func() string {
		t.Helper()
		for {
			if list := must(t, "webhooks", "dead", "--host", url); strings.Contains(list, id) {
				return list
			}
		}
	}
	if list := dead(); strings.Contains(list, "hidden") || strings.Contains(list, secret) {
		t.Errorf("%s", list)
	}
	holds(t, must(t, "webhooks", "dead", "--json", "--host", url), `"session":"s"`)
	settings("url: http://hooks.example.com, secret_env: HOOK_SECRET")
	if code, body := ask(t, "POST", url+"/v1/reload", "", ""); code < 400 || strings.Contains(body, secret) {
		t.Errorf("%d %s", code, body)
	}
	settings(good)
	if code, body := ask(t, "POST", url+"/v1/reload", "", ""); code != 200 || strings.Contains(body, "webhooks") {
		t.Errorf("%d %s", code, body)
	}
	status.Store(http.StatusOK)
	holds(t, must(t, "webhooks", "retry", "--all", "--host", url), "1 event again on the way")
	if again := <-got; again != id {
		t.Errorf("sent again as %s, was %s", again, id)
	}
	if a := stileDo(t, "webhooks", "retry", "--host", url); a.status != 2 {
		t.Errorf("%+v", a)
	}
	if a := stileDo(t, "webhooks", "drop", "ci."+id, "--host", url); a.status == 0 || !strings.Contains(a.err, "no such dead letter") {
		t.Errorf("%+v", a)
	}
	stop()
	b, err := os.ReadFile(filepath.Join(dir, "data", webhookFile))
	if err != nil || strings.Contains(string(b), secret) || strings.Contains(string(b), "hidden") {
		t.Errorf("%s %v", b, err)
	}
}
