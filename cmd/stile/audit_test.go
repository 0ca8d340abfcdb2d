package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/audit"
)

// The audit log is checked offline, its head finds what the chain cannot, and a backup has
// it.
func TestAuditVerify(t *testing.T) {
	dir := t.TempDir()
	data, copied, again := filepath.Join(dir, "data"), filepath.Join(dir, "copy"), filepath.Join(dir, "again")
	if a := stileDo(t, "audit", "verify", "--dir", data); a.status != int(exitUsage) {
		t.Errorf("without a log: %+v", a)
	}
	must(t, "run", example("plain/agent.yaml"), "hello", "--dir", data)
	for range 4 {
		must(t, "tokens", "create", "--dir", data)
	}
	holds(t, must(t, "audit", "verify", "--dir", data), "4 lines in 1 file", "each follows the one before", "head ")
	var rep audit.Report
	if err := json.Unmarshal([]byte(must(t, "audit", "verify", "--dir", data, "--json")), &rep); err != nil || rep.Lines != 4 || len(rep.Head) != 64 {
		t.Fatalf("%+v %v", rep, err)
	}

	must(t, "backup", copied, "--dir", data)
	must(t, "restore", copied, "--dir", again)
	must(t, "tokens", "create", "--dir", again)
	holds(t, must(t, "audit", "verify", "--dir", again, "--head", rep.Head), "5 lines in 1 file", "each follows")

	path := filepath.Join(data, audit.Name)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(bytes.Replace(was, []byte(`"tenant":"local"`), []byte(`"tenant":"other"`), 1))
	a := stileDo(t, "audit", "verify", path)
	if a.status != int(exitDifference) {
		t.Errorf("%+v", a)
	}
	holds(t, a.out, "audit.jsonl:2 does not follow")
	// A tail that is cut with care, the file beside it too, is found by a head alone.
	put(was[:bytes.LastIndexByte(was[:len(was)-1], '\n')+1])
	if a := stileDo(t, "audit", "verify", path); a.status != int(exitDifference) {
		t.Errorf("%+v", a)
	}
	if err := os.Remove(path + audit.HeadSuffix); err != nil {
		t.Fatal(err)
	}
	must(t, "audit", "verify", path)
	if a := stileDo(t, "audit", "verify", path, "--head", rep.Head); a.status != int(exitDifference) {
		t.Errorf("%+v", a)
	}
}

// Files of a log that settings name are the host's, those that are put aside later too.
func TestAuditFilesAreTheHosts(t *testing.T) {
	a := &app{console: console{env: func(string) string { return "" }}}
	a.own = append(a.own, auditFiles("logs/audit.jsonl")...)
	for _, want := range []string{"logs/audit.jsonl", "logs/audit.jsonl.head", "logs/audit.jsonl.*"} {
		if !slices.Contains(a.protected(), want) {
			t.Errorf("%s is not among %q", want, a.protected())
		}
	}
	for _, none := range []string{"", "-", "off"} {
		if got := auditFiles(none); got != nil {
			t.Errorf("%q: %q", none, got)
		}
	}
}
