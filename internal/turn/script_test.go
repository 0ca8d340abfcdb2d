package turn

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/parse"
)

// The scripts in testdata drive a session with commands and record the whole
// conversation. A block is commands, "----", and what they brought about; go test
// -update writes the latter anew, and the diff is the review. command_test.go
// says what commands there are.
var update = flag.Bool("update", false, "write the expectations of testdata anew")

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s\n%s", file, firstDiff(string(want), got))
			}
		})
	}
}

func firstDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < len(w) || i < len(g); i++ {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d:\n  want %s\n  got  %s", i+1, a, b)
		}
	}
	return "equal"
}

// runScript gives the script back with the expectations that are true now.
func runScript(t testing.TB, text string) string {
	var out strings.Builder
	s := &script{t: t}
	var block []string
	skipping := false
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case line == "----":
			out.WriteString("----\n")
			for _, cmd := range block {
				s.run(cmd)
			}
			out.WriteString(s.out.String())
			s.out.Reset()
			block, skipping = nil, true
		case line == "":
			skipping = false
			out.WriteString("\n")
		case skipping:
		default:
			out.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				block = append(block, line)
			}
		}
	}
	if len(block) > 0 {
		t.Fatalf("commands without ----: %q", block)
	}
	return out.String()
}

// script is the state of one script.
type script struct {
	t      testing.TB
	r      *rig
	out    strings.Builder
	handle uint64
	auto   bool  // acknowledge at once what is eager
	hush   bool  // print nothing
	brief  bool  // leave out publications of records, timers and what is held
	last   Ident // of the last turn seen in flight
	prev   Ident // of the one before

	dialect parse.Dialect // of such a session
	decoder parse.Decoder // of the reply, where the dialect acts while it streams
	hearing Ident         // whose reply it is
	spoken  *Decoded
}

func (s *script) printf(format string, args ...any) {
	if !s.hush {
		fmt.Fprintf(&s.out, format+"\n", args...)
	}
}

func (s *script) run(line string) {
	s.t.Helper()
	if rest, ok := strings.CutPrefix(line, "repeat "); ok {
		count, cmd, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		for i := 1; i <= n; i++ {
			for _, one := range strings.Split(strings.ReplaceAll(cmd, "$i", strconv.Itoa(i)), "; ") {
				s.run(one)
			}
		}
		return
	}
	if rest, ok := strings.CutPrefix(line, "quiet "); ok {
		was := s.hush
		s.hush = true
		s.run(rest)
		s.hush = was
		return
	}
	c := parseCommand(s.t, line)
	do, ok := commands[c.name]
	if !ok {
		s.t.Fatalf("unknown command: %s", line)
	}
	if s.r == nil && c.name != "session" {
		s.t.Fatalf("%s before session", line)
	}
	do(s, c)
	for name := range c.args {
		if !c.used[name] {
			s.t.Fatalf("%s: no reader of %s", line, name)
		}
	}
}

// step feeds one input and prints what came of it. Effects that wait are marked.
func (s *script) step(in Input) {
	s.t.Helper()
	before := s.r.m.Dropped()
	effects, ready, err := s.r.step(in)
	if err != nil {
		s.printf("error %v", err)
		return
	}
	now := map[Effect]bool{}
	for _, e := range ready {
		now[e] = true
	}
	for _, e := range effects {
		_, timer := e.(*SetTimer)
		_, stop := e.(*StopTimer)
		if s.brief && (timer || stop) {
			continue
		}
		text := render(e, s.r.now.UTC())
		if _, ok := e.(*CancelAction); ok && !now[e] {
			now[e], text = true, text+" withdrawn" // the outbox gave a copy that says so
		}
		if !now[e] {
			text = fmt.Sprintf("held@%d %s", e.after(), text)
			if s.brief && s.auto {
				continue
			}
		}
		s.printf("%s", text)
	}
	if d := s.r.m.Dropped() - before; d > 0 {
		s.printf("dropped %d", d)
	}
	if id, ok := s.r.m.Flight(); ok && id != s.last {
		s.prev, s.last = s.last, id
	}
	if s.auto {
		eager := false
		for _, e := range effects {
			p, ok := e.(*Persist)
			eager = eager || ok && p.Hold == 0
		}
		if eager {
			s.ack(int64(len(s.r.log)))
		}
	}
}

func (s *script) ack(seq int64) {
	for _, e := range s.r.ack(seq) {
		if p, ok := e.(*Publish); ok && s.brief && p.Update.Record != nil {
			continue
		}
		s.printf("> %s", render(e, s.r.now.UTC()))
	}
}

// command is a parsed line: name, words, and key=value pairs whose values may be
// Go-quoted.
type command struct {
	t     testing.TB
	line  string
	name  string
	words []string
	args  map[string]string
	used  map[string]bool
}

func parseCommand(t testing.TB, line string) *command {
	t.Helper()
	c := &command{t: t, line: line, args: map[string]string{}, used: map[string]bool{}}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key := ""
		if i := strings.IndexAny(rest, "= \""); i > 0 && rest[i] == '=' {
			key, rest = rest[:i], rest[i+1:]
		}
		var val string
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			val, _ = strconv.Unquote(q)
			rest = rest[len(q):]
		} else {
			val, rest, _ = strings.Cut(rest, " ")
		}
		switch {
		case key != "":
			c.args[key] = val
		case c.name == "":
			c.name = val
		default:
			c.words = append(c.words, val)
		}
	}
	return c
}

func (c *command) str(key, def string) string {
	c.used[key] = true
	if v, ok := c.args[key]; ok {
		return v
	}
	return def
}

func (c *command) num(key string, def int64) int64 {
	v := c.str(key, "")
	if v == "" {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		c.t.Fatalf("%s: %v", c.line, err)
	}
	return n
}

func (c *command) dur(key string) time.Duration {
	v := c.str(key, "0s")
	d, err := time.ParseDuration(v)
	if err != nil {
		c.t.Fatalf("%s: %v", c.line, err)
	}
	return d
}

func (c *command) word(i int) string {
	if i < len(c.words) {
		return c.words[i]
	}
	c.t.Fatalf("%s: a word is missing", c.line)
	return ""
}

func (c *command) flag(name string) bool {
	for _, w := range c.words {
		if w == name {
			return true
		}
	}
	return false
}
