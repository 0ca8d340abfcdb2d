package main

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
)

// page is the table of what is used, and why in this version.
const page = "docs/dependencies.md"

// row is a line of a table of the page.
type row struct{ path, version, reason string }

var cells = regexp.MustCompile("^\\| `([^`]+)` \\|(.*)\\|$")

// rowsOf reads the tables of the page. A row without a use or a reason is an error.
func rowsOf(text string) ([]row, error) {
	var rows []row
	for line := range strings.Lines(text) {
		m := cells.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rest := strings.Split(m[2], "|")
		for i := range rest {
			rest[i] = strings.TrimSpace(rest[i])
		}
		if len(rest) != 3 || rest[0] == "" || rest[1] == "" || rest[2] == "" {
			return nil, fmt.Errorf("%s: the row of %s has not a version, a use and a reason", page, m[1])
		}
		rows = append(rows, row{m[1], rest[0], rest[2]})
	}
	return rows, nil
}

// outdated says which modules have a newer version than their row, with the row's reason.
// It asks the network, and what cannot be asked is said.
func outdated(out io.Writer, rows []row) error {
	for _, r := range rows {
		if first, _, _ := strings.Cut(r.path, "/"); !strings.Contains(first, ".") {
			continue // of npm
		}
		got, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", moduleOf(r.path)+"@latest").Output()
		newest := strings.TrimSpace(string(got))
		switch {
		case err != nil:
			fmt.Fprintf(out, "%s %s: cannot be asked: %v\n", r.path, r.version, err)
		case newest != r.version:
			fmt.Fprintf(out, "%s %s → %s: %s\n", r.path, r.version, newest, r.reason)
		}
	}
	return nil
}

// moduleOf returns the module of a command.
func moduleOf(path string) string {
	module, _, _ := strings.Cut(path, "/cmd/")
	return module
}
