package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// modelCase is a line of a corpus's index: a model that speaks by a script, and how
// its session must end. testdata/models/README.md says what the members mean.
type modelCase struct {
	Name     string
	Why      string          // what the model does, and what the rule is
	Dialect  string          // default aeiou
	Manifest json.RawMessage // what differs from the defaults
	Library  string          // functions the program may call
	Pad      int             // bytes that stand for PADDING in the script
	Submit   []modelSubmit   // default: one "go"

	// The decision of the last submit's run; those before it end DONE.
	Decision     stile.Decision // default: HALT for adversarial models, DONE for benign ones
	Reason       messages.Code
	Detail       string // part of the run's detail
	Verification string // of the last turn
	Emitted      string // part of what the last turn emitted, token lines aside
	Lints        []messages.Code
	Turns        int64 // of the last submit's run, exactly

	// Bounds over the whole case.
	Calls   int64 // recorded actions, but for those said while their turn was being stopped
	Bytes   int64 // of replies, OUTPUT and SCRATCHPAD
	Gas     int64
	Seconds int64 // of the session's clock
}

type modelSubmit struct {
	Session string // default "s"
	Text    string
}

// modelBounds holds for cases that name no bound.
var modelBounds = modelCase{Calls: 257, Bytes: 4 << 20, Gas: 1_000_000, Seconds: 1}

// A corpus of models that mean harm must always be halted, for the right reason and
// in time; one of models that mean well never. A case is a script and a line of the
// index, so that a session that went wrong somewhere can be added without a line of Go.
func TestModels(t *testing.T) {
	for _, corpus := range []struct {
		folder   string
		decision stile.Decision
		least    int
	}{{"adversarial", stile.Halt, 100}, {"benign", stile.Done, 60}} {
		t.Run(corpus.folder, func(t *testing.T) {
			cases, unused := readModels(t, corpus.folder)
			if len(unused) > 0 {
				t.Errorf("scripts without a line in the index: %v", unused)
			}
			if len(cases) < corpus.least {
				t.Errorf("%d cases, want at least %d", len(cases), corpus.least)
			}
			ends, right := map[string]int{}, 0
			for _, c := range cases {
				if c.Decision == "" {
					c.Decision = corpus.decision
				}
				t.Run(c.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						how := c.run(t, corpus.folder)
						ends[how]++
						if !t.Failed() {
							right++
						}
					})
				})
			}
			var table strings.Builder
			w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
			for _, how := range slices.Sorted(maps.Keys(ends)) {
				fmt.Fprintf(w, "%s\t%d\n", how, ends[how])
			}
			fmt.Fprintf(w, "as expected\t%d of %d\n", right, len(cases))
			_ = w.Flush()
			t.Logf("%s models:\n%s", corpus.folder, table.String())
		})
	}
}

// readModels reads an index, and returns the scripts that it does not use.
func readModels(t *testing.T, folder string) (cases []modelCase, unused []string) {
	t.Helper()
	dir := filepath.Join("testdata", "models", folder)
	index, err := os.ReadFile(filepath.Join(dir, "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{"index.jsonl": true}
	for n, line := range bytes.Split(bytes.TrimSpace(index), []byte{'\n'}) {
		var c modelCase
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			t.Fatalf("%s index, line %d: %v", folder, n+1, err)
		}
		if c.Why == "" || c.Turns == 0 || used[c.Name+".jsonl"] {
			t.Fatalf("%s index, line %d: %q needs a reason, turns, and a name of its own", folder, n+1, c.Name)
		}
		used[c.Name+".jsonl"] = true
		cases = append(cases, c)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !used[f.Name()] {
			unused = append(unused, f.Name())
		}
	}
	return cases, unused
}

// run plays a case and gives how it ended.
func (c modelCase) run(t *testing.T, folder string) string {
	a := c.agent(t, folder)
	t.Cleanup(func() { time.Sleep(time.Hour) }) // a closing runtime leaves deaf tools behind
	rt := start(t, stile.Config{})
	began := time.Now()
	if c.Submit == nil {
		c.Submit = []modelSubmit{{Text: "go"}}
	}
	var o stile.Outcome
	var last []*stile.Record // of the last run
	var calls, size, gas int64
	begun := map[string]int64{} // turns of actions, by id
	for i, in := range c.Submit {
		if in.Session == "" {
			in.Session = "s"
		}
		s := open(t, rt, in.Session, a)
		run := submit(t, s, in.Text)
		if o = decision(t, run); i < len(c.Submit)-1 {
			wantDone(t, o)
		}
		last = nil
		for _, r := range records(t, s) {
			if r.Run != run.Ordinal() {
				continue
			}
			last = append(last, r)
			switch b := r.Body.(type) {
			case *messages.ActionDeclared:
				calls++
			case *messages.ActionStarted:
				begun[b.ID] = r.Turn
			case *messages.ActionEnded:
				if b.State == messages.ActionCancelled && begun[b.ID] != r.Turn {
					calls--
				}
			case *messages.ModelReply:
				size += b.Length
			case *messages.TurnDecided:
				size += b.OutputBytes + b.ScratchBytes
				gas = max(gas, b.GasUsed)
			}
		}
	}
	took := time.Since(began)
	end := string(o.Decision)
	if o.Reason != "" {
		end += " " + string(o.Reason)
	}
	t.Logf("%s after %d turns, %d calls, %d bytes, %d gas, %s: %s", end, o.Turns, calls, size, gas, took, o.Detail)
	if o.Decision != c.Decision || o.Reason != c.Reason {
		t.Errorf("ended %s(%s), want %s(%s)", o.Decision, o.Reason, c.Decision, c.Reason)
	}
	if !strings.Contains(o.Detail, c.Detail) {
		t.Errorf("detail %q does not say %q", o.Detail, c.Detail)
	}
	if o.Turns != c.Turns {
		t.Errorf("%d turns, want %d", o.Turns, c.Turns)
	}
	for _, b := range []struct {
		what              string
		got, limit, other int64
	}{
		{"calls", calls, c.Calls, modelBounds.Calls},
		{"bytes", size, c.Bytes, modelBounds.Bytes},
		{"gas", gas, c.Gas, modelBounds.Gas},
		{"seconds", int64(took / time.Second), c.Seconds, modelBounds.Seconds},
	} {
		if b.limit == 0 {
			b.limit = b.other
		}
		if b.got > b.limit {
			t.Errorf("%d %s, want at most %d", b.got, b.what, b.limit)
		}
	}
	if o.Turn == nil {
		return end
	}
	if o.Turn.Verification != c.Verification {
		t.Errorf("verification %q, want %q", o.Turn.Verification, c.Verification)
	}
	for _, l := range c.Lints {
		if !lints(last)[l] {
			t.Errorf("no %s", l)
		}
	}
	if said := strings.Join(saidLast(last), "\n"); !strings.Contains(said, c.Emitted) {
		t.Errorf("the last turn said %.300q, want %q", said, c.Emitted)
	}
	if rep, err := rt.Replay(t.Context(), "s", a); err != nil {
		t.Errorf("the journal does not replay: %v (%d records)", err, rep.Records)
	}
	return end
}

// lints gathers those of decisions and those of the reply.
func lints(recs []*stile.Record) map[messages.Code]bool {
	all := map[messages.Code]bool{}
	for _, d := range bodies[*messages.TurnDecided](recs) {
		for _, l := range d.Lints {
			all[l] = true
		}
	}
	for _, l := range bodies[*messages.Lint](recs) {
		all[l.Code] = true
	}
	return all
}

// saidLast lists what the last turn emitted, or responded.
func saidLast(recs []*stile.Record) (all []string) {
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.TurnBegin:
			all = nil
		case *messages.Emit:
			if !b.Candidate {
				all = append(all, b.Text)
			}
		case *messages.UnitText:
			all = append(all, b.Text)
		}
	}
	return all
}

func (c modelCase) agent(t *testing.T, folder string) *stile.Agent {
	t.Helper()
	file := c.Name + ".jsonl"
	text, err := os.ReadFile(filepath.Join("testdata", "models", folder, file))
	if err != nil {
		t.Fatal(err)
	}
	if c.Pad > 0 {
		text = bytes.ReplaceAll(text, []byte("PADDING"), bytes.Repeat([]byte{'x'}, c.Pad))
	}
	script, err := scripted.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	doc := map[string]any{"name": "model", "dialect": "aeiou"}
	if c.Dialect != "" {
		doc["dialect"] = c.Dialect
	}
	if len(c.Manifest) > 0 {
		if err := json.Unmarshal(c.Manifest, &doc); err != nil {
			t.Fatal(err)
		}
	}
	own := modelTools()
	names := []string{"session.output"}
	for _, tool := range own {
		names = append(names, tool.Name)
	}
	doc["import"] = map[string]any{"tools": names}
	whole, err := json.Marshal(doc) // YAML too
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse(c.Name, whole)
	if err != nil {
		t.Fatal(err)
	}
	if m.Loop.Repairs == nil { // the first mistake of a script is its end
		m.Loop.Repairs = new(int64)
	}
	a := &stile.Agent{Manifest: m, Model: script, Tools: own}
	if c.Library != "" {
		a.Library = []neuroscript.Source{{Name: "case", Text: []byte(c.Library)}}
	}
	return a
}
