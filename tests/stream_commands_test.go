package tests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// The lines of commands are shown while they run, and the events of a service: each of these
// goes on when a line of it has been seen. One line is no JSON, one program fails behind its first line, and one is another
// action that does not stream.
func TestStreamedCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // commands cannot be limited: TestCommandTool
	}
	const until = `until [ -e seen.$1 ]; do sleep 0.01; done; `
	heard := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"n\": 1}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-heard
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer server.Close()
	dir := write(t, "agent.yaml", "dialect: cortex\nextensions: [stream]\nloop: {strict: [unseen]}\nmodel: {script: main.jsonl}\nimport: {tools: [text, items, bad, breaks], relics: [r]}\n",
		"relics/r.yaml", "name: r\nservice_type: http\nconnection: {private: true, base_url: \""+server.URL+"\"}\ninterface: {endpoints: [{name: tail, path: /, stream: events}]}\n",
		"tools/text.yaml", "name: text\nclass: read_only\nimplementation: {type: command, stream: lines, entrypoint: [/bin/sh, text.sh, a]}\n",
		"tools/items.yaml", "name: items\nclass: read_only\nimplementation: {type: command, stream: json_lines, entrypoint: [/bin/sh, list.sh, b]}\n",
		"tools/bad.yaml", "name: bad\nclass: read_only\nimplementation: {type: command, stream: json_lines, entrypoint: [/bin/sh, bad.sh, c]}\n",
		"tools/breaks.yaml", "name: breaks\nclass: read_only\nimplementation: {type: command, stream: lines, entrypoint: [/bin/sh, breaks.sh, d]}\n",
		"text.sh", `printf 'one\nzw\303\266lf'; `+until+`printf ' and \303\nlast'`,
		"list.sh", `printf '{ "b":1.0, "a":"<" }\n\n[1,'; `+until+`printf ' 2]\r\n"x"'`,
		"bad.sh", `printf '1\n'; `+until+`printf 'x\n'; exec cat`,
		"breaks.sh", `printf 'half\n'; `+until+`echo oh >&2; exit 3`,
		"main.jsonl", `{"chunks":[{"text":"<action id=\"a\" mode=\"async\">{\"name\":\"text\",\"stream\":true}</action><action id=\"b\" mode=\"async\">{\"name\":\"items\",\"stream\":true}</action><action id=\"c\" mode=\"async\">{\"name\":\"bad\",\"stream\":true}</action>`+
			`<action id=\"d\" mode=\"async\">{\"name\":\"breaks\",\"stream\":true}</action><action id=\"e\" mode=\"async\">{\"name\":\"items\",\"depends_on\":[\"b\"]}</action><action id=\"f\" type=\"relic\" mode=\"async\">{\"name\":\"r\",\"stream\":true,\"parameters\":{\"operation\":\"tail\"}}</action><response final=\"true\">${b.partial}$e</response>"}],"finish":"stop"}`+"\n")
	rt := start(t, stile.Config{})
	a := load(t, dir)
	s := open(t, rt, "stream", a)
	run := submit(t, s, "go")
	seen := newScreen(t)
	for u, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seen.update(u)
		if u.Delta != nil && u.Delta.Action == "f" && seen.results["f"] == "{\"n\":1}\n" {
			close(heard)
		}
		if u.Delta != nil && u.Delta.Action != "" {
			if err := os.WriteFile(filepath.Join(dir, "seen."+u.Delta.Action), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantDone(t, decision(t, run))
	got := ends(t, s)
	for id, want := range map[string]string{
		"a": `ok "one\nzwölf and ` + "\ufffd" + `\nlast"`, "b": `ok [{"a":"<","b":1},[1,2],"x"]`, "c": `failed error "line 2 of the result is no JSON`,
		"d": `failed error "exit status 3: oh"`, "e": `ok [{"a":"<","b":1},[1,2],"x"]`,
		"f": `ok [{"n":1},"[DONE]"]`,
	} {
		if !strings.HasPrefix(got[id], want) {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	const list = "{\"a\":\"<\",\"b\":1}\n[1,2]\n\"x\"\n"
	if text := said(t, s); text != list+`[{"a":"<","b":1},[1,2],"x"]` {
		t.Errorf("said %q", text)
	}
	texts := map[string]string{}
	for _, c := range bodies[*messages.ActionChunk](records(t, s)) {
		texts[c.ID] += string(c.Bytes)
	}
	if texts["a"] != "one\nzwölf and \ufffd\nlast" || texts["b"] != list || texts["c"] != "1\n" || texts["d"] != "half\n" || texts["e"] != "" {
		t.Errorf("recorded %q", texts)
	}
	replays(t, rt, a)
}

// What streams is named, and needs its extension.
func TestStreamsAreOff(t *testing.T) {
	dir := write(t, "agent.yaml", "dialect: cortex\nmodel: {script: main.jsonl}\nimport: {tools: [text], relics: [r]}\n", "main.jsonl", "{}\n",
		"tools/text.yaml", "name: text\nimplementation: {type: command, stream: lines, entrypoint: [/bin/sh]}\n",
		"relics/r.yaml", "name: r\nservice_type: http\nconnection: {base_url: \"http://127.0.0.1\"}\ninterface: {endpoints: [{name: a, path: /, stream: events}]}\n")
	_, err := stile.LoadAgent(filepath.Join(dir, "agent.yaml"))
	for _, want := range []string{"tools/text.yaml:2:41: implementation.stream", "relics/r.yaml:4:52: interface.endpoints[0].stream", "extensions: [stream]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
