// Command mutate breaks the code on purpose and asks the simulator what it notices.
// Every mutation of mutations.txt is built with an overlay, so that no file of the
// tree changes, and simulated from seed 1; the table of what was caught, by which
// invariant and after how many turns is written to internal/sim/MUTATIONS.md. What the simulator
// does not come across in so many turns, or has no part of, the tests of the room itself must
// notice, of the machine where the room is below it, or those of the whole where a shell or a
// door is broken. It fails when a mutation does not apply any more, does not build, or is
// noticed by no test.
//
// Names try some of the list, -in those of files below a folder, and -new those that have no
// row yet; the others' rows stay as they are. The table is written after every mutation, so that a pass can be stopped
// and gone on with.
//
//	go run ./docs/internal/mutate [-new] [-in FOLDER] [-turns N] [name...]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/sim"
)

const (
	list   = "docs/internal/mutate/mutations.txt"
	table  = "internal/sim/MUTATIONS.md"
	module = "github.com/seed14be6753/stile"
)

// mutation replaces text that stands once in a file.
type mutation struct {
	name, file, before, after string
}

// verdict is what the simulation says.
type verdict struct {
	OK      bool        `json:"ok"`
	Turns   int64       `json:"turns"`
	Failure sim.Failure `json:"failure"`
	// Test is the one that fails where the simulator found nothing.
	Test string `json:"-"`
}

func main() {
	turns := flag.Int("turns", 10_000, "turns within which a mutation must be noticed")
	beside := flag.Int("j", runtime.GOMAXPROCS(0), "how many to try side by side")
	fresh := flag.Bool("new", false, "try those that the table does not have")
	in := flag.String("in", "", "try those of files below this folder")
	flag.Parse()
	if err := run(flag.Args(), *in, *fresh, *turns, max(1, *beside)); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// trial is what became of a mutation.
type trial struct {
	verdict
	err error
}

func run(only []string, in string, fresh bool, turns, beside int) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	all, err := parse(string(text))
	if err != nil {
		return err
	}
	simulated, err := simulated()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	whole, rows := all, earlier()
	all = slices.DeleteFunc(slices.Clone(all), func(m mutation) bool {
		return len(only) > 0 && !slices.Contains(only, m.name) || !strings.HasPrefix(m.file, in) || fresh && rows[m.name] != ""
	})
	trials := make([]chan trial, len(all))
	for i := range trials {
		trials[i] = make(chan trial, 1)
	}
	next := make(chan int, len(all))
	for i := range all {
		next <- i
	}
	close(next)
	for n := range beside {
		go func() {
			for i := range next {
				most := turns
				if !slices.Contains(simulated, path.Dir(all[i].file)) {
					most = 0
				}
				v, err := all[i].try(filepath.Join(dir, fmt.Sprint(n)), most)
				trials[i] <- trial{v, err}
			}
		}()
	}
	var missed []error
	for i, m := range all { // in the order of the list, whichever ends first
		v := <-trials[i]
		delete(rows, m.name)
		switch {
		case v.err != nil:
			missed = append(missed, fmt.Errorf("%s: %w", m.name, v.err))
		case v.OK && v.Test == "":
			missed = append(missed, fmt.Errorf("%s: not noticed in %d turns", m.name, v.Turns))
		case v.OK:
			after := fmt.Sprintf("not in %d", v.Turns)
			if v.Turns == 0 {
				after = "–" // the simulator has no part of the file
			}
			fmt.Printf("%-60s %s, %s\n", m.name, v.Test, after)
			rows[m.name] = fmt.Sprintf("| %s | [%s](../../%s) | – | %s | %s |\n", m.name, m.file, m.file, after, cell(v.Test))
		default:
			fmt.Printf("%-60s %-14s seed %-4d after %6d turns: %s\n", m.name, v.Failure.Invariant, v.Failure.Seed, v.Turns, short(v.Failure.Detail))
			rows[m.name] = fmt.Sprintf("| %s | [%s](../../%s) | %s | %d | %s |\n", m.name, m.file, m.file, v.Failure.Invariant, v.Turns, cell(short(v.Failure.Detail)))
		}
		if rows[m.name] == "" {
			fmt.Println("MISSED", missed[len(missed)-1])
		}
		if err := write(whole, rows); err != nil {
			return err
		}
	}
	return errors.Join(missed...)
}

// write makes the table of the rows there are, in the order of the list.
func write(all []mutation, rows map[string]string) error {
	var page strings.Builder
	have := 0
	for _, m := range all {
		if rows[m.name] != "" {
			have++
		}
	}
	fmt.Fprintf(&page, "# What the simulator notices\n\nMade by `make mutants` from [the list of mutations](../../%s): each breaks one place of the code, and worlds from seed 1 on are run until an invariant of the [package comment](doc.go) fails. *After* is the number of turns decided in the worlds before that one. Where the simulator did not come across it, *after* says in how many turns, and the last column which test noticed.\n\nOf %d mutations %d were tried and noticed.\n\n", list, len(all), have)
	page.WriteString("| mutation | where | invariant | after | what the failure says |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range all {
		page.WriteString(rows[m.name])
	}
	return os.WriteFile(table, []byte(page.String()), 0o644)
}

// earlier reads the rows of the table as it is.
func earlier() map[string]string {
	rows := map[string]string{}
	text, err := os.ReadFile(table)
	if err != nil {
		return rows
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ["); ok && strings.HasPrefix(line, "| ") {
			rows[name] = line
		}
	}
	return rows
}

// short keeps the first line of a detail, without what differs from run to run.
func short(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clip.Short(s, 110)
}

func cell(s string) string {
	return "`" + strings.NewReplacer("|", "¦", "`", "'").Replace(s) + "`"
}

// parse reads the list: "# name", the file, lines to find behind "- " and the lines
// that replace them behind "+ ". Blanks at the ends of lines do not count.
func parse(text string) (all []mutation, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			all = append(all, mutation{name: name})
			continue
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s: %q stands before the first name", list, line)
		}
		m := &all[len(all)-1]
		switch {
		case strings.HasPrefix(line, "- "):
			m.before += line[2:] + "\n"
		case line == "+":
		case strings.HasPrefix(line, "+ "):
			m.after += line[2:] + "\n"
		default:
			m.file = line
		}
	}
	return all, nil
}

// simulated are the folders of the packages that the simulator runs.
func simulated() ([]string, error) {
	out, err := exec.Command("go", "list", "-deps", module+"/docs/internal/mutate/world").Output()
	if err != nil {
		return nil, fmt.Errorf("what the simulator runs cannot be listed: %w", err)
	}
	var all []string
	for p := range strings.Lines(string(out)) {
		if room, ok := strings.CutPrefix(strings.TrimSpace(p), module+"/"); ok {
			all = append(all, room)
		}
	}
	return all, nil
}

// try builds the command with the mutation and runs it; with 0 turns it runs tests alone.
func (m *mutation) try(dir string, turns int) (v verdict, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return v, err
	}
	src, err := os.ReadFile(m.file)
	if err != nil {
		return v, err
	}
	lines := strings.SplitAfter(string(src), "\n")
	changed, err := m.apply(lines)
	if err != nil {
		return v, err
	}
	here, err := filepath.Abs(m.file)
	if err != nil {
		return v, err
	}
	other := filepath.Join(dir, "other.go")
	if err := os.WriteFile(other, []byte(changed), 0o644); err != nil {
		return v, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {here: other}})
	if err != nil {
		return v, err
	}
	config, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "world")
	if err := os.WriteFile(config, overlay, 0o644); err != nil {
		return v, err
	}
	if turns == 0 {
		if out, err := exec.Command("go", "build", "-overlay", config, module+"/"+path.Dir(m.file)).CombinedOutput(); err != nil {
			return v, fmt.Errorf("it does not build: %s", out)
		}
		return verdict{OK: true, Test: m.failing(config)}, nil
	}
	if out, err := exec.Command("go", "build", "-overlay", config, "-o", binary, module+"/docs/internal/mutate/world").CombinedOutput(); err != nil {
		return v, fmt.Errorf("it does not build: %s", out)
	}
	worlds := exec.Command(binary, fmt.Sprint(turns))
	var out bytes.Buffer
	worlds.Stdout = &out
	worlds.WaitDelay = time.Second
	var endless atomic.Bool
	if err := worlds.Start(); err != nil {
		return v, err
	}
	late := time.AfterFunc(3*time.Minute, func() {
		endless.Store(true)
		_ = worlds.Process.Kill()
	})
	defer late.Stop()
	_ = worlds.Wait() // its status says what its summary says
	switch err := json.Unmarshal(out.Bytes(), &v); {
	case err != nil && endless.Load():
		v.Failure = sim.Failure{Seed: 1, Invariant: "rest", Detail: "a step does not end"}
	case err != nil:
		v.Failure = sim.Failure{Seed: 1, Invariant: "step", Detail: "the simulator crashes"}
	}
	if v.OK {
		v.Test = m.failing(config)
	}
	return v, nil
}

// outer are the rooms that the simulator runs no part of and the machine's tests neither:
// the tests of the whole come behind their own.
var outer = []string{
	"actors", "feeds", "host", "supervisor", "internal/feedvalues", "internal/compiler", "internal/delegate", "internal/follow", "internal/hub", "internal/learn", ".",
}

// inner are the rooms whose own tests alone must notice.
var inner = []string{"host/internal/responses", "internal/attempt", "internal/directory", "internal/history", "internal/intake", "internal/load", "internal/pool", "internal/program", "internal/relics", "internal/reply", "internal/resume", "internal/talk", "internal/wake"}

// failing names a test of the room, of the machine or of the whole that the mutation makes
// fail; "" when there is none.
func (m *mutation) failing(overlay string) string {
	room := path.Dir(m.file)
	rooms := []string{"internal/turn", room}
	switch {
	case slices.Contains(outer, room):
		rooms = []string{room, ".", "tests"}
	case slices.Contains(inner, room):
		rooms = []string{room}
	}
	for i, room := range rooms {
		if slices.Contains(rooms[:i], room) {
			continue
		}
		folder := "./" + room
		if room == "." {
			folder = "."
		}
		out, err := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "3m", path.Join(module, room)).CombinedOutput()
		if err == nil {
			continue
		}
		for line := range strings.Lines(string(out)) {
			name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(name, " ")
			if passes(room, name) {
				return "go test " + folder + ": " + name
			}
			fmt.Fprintf(os.Stderr, "mutate: %s of %s fails without the mutation, too\n", name, folder)
			break
		}
		if _, cause, found := bytes.Cut(append([]byte("\n"), out...), []byte("\npanic: ")); found { // on a goroutine of no test, or out of time
			return "go test " + folder + ": panic: " + short(string(cause))
		}
	}
	return ""
}

// passes reports that a test of the room passes on the code as it is: only then does its
// failure speak of the mutation.
func passes(room, test string) bool {
	return exec.Command("go", "test", "-vet=off", "-timeout", "3m", "-count", "1", "-run", "^"+test+"$", path.Join(module, room)).Run() == nil
}

// apply replaces the lines, whatever their indentation.
func (m *mutation) apply(lines []string) (string, error) {
	want := strings.Split(strings.TrimSuffix(m.before, "\n"), "\n")
	at := -1
	for i := range lines[:max(0, len(lines)-len(want)+1)] {
		fits := true
		for k, w := range want {
			fits = fits && strings.TrimSpace(lines[i+k]) == strings.TrimSpace(w)
		}
		if fits && at >= 0 {
			return "", errors.New("its text stands twice in " + m.file)
		}
		if fits {
			at = i
		}
	}
	if at < 0 {
		return "", errors.New("its text is not in " + m.file)
	}
	return strings.Join(lines[:at], "") + m.after + strings.Join(lines[at+len(want):], ""), nil
}
