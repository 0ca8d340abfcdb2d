package page_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// What the page says of an event: one line, with what the record says and nothing that it
// leaves out.
func TestWords(t *testing.T) {
	cases := []struct{ event, class, text string }{
		{`{"type":"user","text":"hello"}`, "user", "hello"},
		{`{"type":"user","body":{"userdata":"{}"}}`, "user", "{}"},
		{`{"type":"respond","text":"Ahoy."}`, "said", "Ahoy."},
		{`{"type":"think","text":"so"}`, "other", "so"},
		{`{"type":"call","body":{"id":"a","name":"read","args":"{}"}}`, "said", "a read {}"},
		{`{"type":"call","body":{"id":"a","name":"read","args":"{}","block":"p"}}`, "said", "a read {} (in p)"},
		{`{"type":"call","body":{"id":"undo:a","name":"drop","args":"{}","compensates":"a"}}`, "said", "undo:a drop {} (undoes a)"},
		{`{"type":"result","body":{"id":"a","state":"skipped","reason":"branch_not_taken"}}`, "said", "a skipped branch_not_taken"},
		{`{"type":"block.begin","body":{"id":"c","kind":"if","test":"length($l) > 0"}}`, "said", "c if length($l) > 0"},
		{`{"type":"block.begin","body":{"id":"p","kind":"parallel","block":"c"}}`, "said", "p parallel (in c)"},
		{`{"type":"block.begin","body":{"id":"l","kind":"foreach","in":"$list","as":"x"}}`, "said", "l foreach $list"},
		{`{"type":"block.decided","body":{"id":"c","branch":"else"}}`, "other", "c takes else"},
		{`{"type":"block.decided","body":{"id":"p"}}`, "other", "p"},
		{`{"type":"block.decided","body":{"id":"l","count":3,"items_digest":"00"}}`, "other", "l has 3 items"},
		{`{"type":"block.decided","body":{"id":"l","items_digest":"00"}}`, "other", "l has 0 items"},
		{`{"type":"block.ended","body":{"id":"c","state":"ok"}}`, "said", "c ok"},
		{`{"type":"block.ended","body":{"id":"p","state":"failed","ok":1,"failed":2,"reason":"child_failed:a"}}`, "said", "p failed 1 ok, 2 failed child_failed:a"},
		{`{"type":"block.ended","body":{"id":"p","state":"failed","failed":2}}`, "said", "p failed 0 ok, 2 failed"},
		{`{"type":"rollback.begin","body":{"group":"trip","cause":"error:car"}}`, "said", "trip error:car"},
		{`{"type":"run.end","body":{"decision":"HALT","reason":"ERR_QUOTA","detail":"gas"}}`, "halt", "HALT ERR_QUOTA gas"},
		{`{"type":"run.end","body":{"decision":"DONE"}}`, "said", "DONE"},
		{`{"type":"turn.decided","body":{"decision":"CONTINUE"}}`, "other", "CONTINUE"},
		{`{"type":"turn.begin"}`, "other", ""},
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("node is required: %v", err)
		}
		t.Log("ran without node")
		return
	}
	events := make([]json.RawMessage, len(cases))
	for i, c := range cases {
		events[i] = json.RawMessage(c.event)
	}
	in, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
		import { readFileSync } from "node:fs";
		const source = readFileSync("app/words.js", "utf8");
		const { words } = await import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
		process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(words)));`)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	var got [][2]string
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil || len(got) != len(cases) {
		t.Fatalf("%v: %d of %d events", err, len(got), len(cases))
	}
	for i, c := range cases {
		if want := [2]string{c.class, c.text}; got[i] != want {
			t.Errorf("%s: the page shows %q, want %q", c.event, got[i], want)
		}
	}
}
