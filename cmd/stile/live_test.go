package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// screen is a terminal that knows what live writes and fails on anything else. lines is
// all that it shows, what has scrolled away too.
type screen struct {
	t             testing.TB
	columns, rows int
	lines         [][]rune
	y, x          int
	writes        int
}

func (s *screen) Write(p []byte) (int, error) {
	s.writes++
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		switch r := text[i]; {
		case r == '\n':
			s.y, s.x = s.y+1, 0
		case r == '\r':
			s.x = 0
		case r == 0x1b:
			j := i + 2
			for ; text[j] < '@'; j++ {
			}
			n, _ := strconv.Atoi(string(text[i+2 : j]))
			if text[i+1] != '[' {
				s.t.Fatalf("an escape %q", text[i:j+1])
			}
			switch text[j] {
			case 'm':
			case 'A':
				if n > s.rows || n > s.y {
					s.t.Fatalf("up %d rows from row %d of a terminal with %d", n, s.y, s.rows)
				}
				s.y -= n
			case 'K':
				if s.y < len(s.lines) && s.x < len(s.lines[s.y]) {
					s.lines[s.y] = s.lines[s.y][:s.x]
				}
			case 'J':
				if s.y < len(s.lines) {
					s.lines = s.lines[:s.y+1]
					s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
				}
			default:
				s.t.Fatalf("an escape %q", text[i:j+1])
			}
			i = j
		case r < 0x20 && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0:
			s.t.Fatalf("the character %q reached the terminal", r)
		default:
			s.put(r)
		}
	}
	return len(p), nil
}

func (s *screen) put(r rune) {
	w := runeWidth(r)
	if s.x+w > s.columns {
		s.y, s.x = s.y+1, 0
	}
	for len(s.lines) <= s.y {
		s.lines = append(s.lines, nil)
	}
	line := s.lines[s.y]
	for len(line) < s.x {
		line = append(line, ' ')
	}
	if w == 0 {
		return
	}
	line = append(line[:s.x], append([]rune{r}, line[min(s.x+1, len(line)):]...)...)
	s.lines[s.y] = line
	s.x++
	if w == 2 {
		if len(line) == s.x {
			s.lines[s.y] = append(line, 0)
		} else {
			s.lines[s.y][s.x] = 0
		}
		s.x++
	}
}

// resize wraps the lines anew that are too long now, as terminals do.
func (s *screen) resize(columns int) {
	var lines [][]rune
	y := 0
	for i, line := range s.lines {
		for len(line) > columns {
			lines = append(lines, line[:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
		if i == s.y {
			y = len(lines) - 1
		}
	}
	s.lines, s.y, s.columns = lines, y, columns
	s.x = min(s.x, columns)
}

func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(strings.ReplaceAll(string(line), "\x00", ""), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// stage is a run shown on a screen.
type stage struct {
	*screen
	*live
	seq int64
	at  time.Time
}

func newStage(t testing.TB, columns, rows int) *stage {
	s := &stage{screen: &screen{t: t, columns: columns, rows: rows}, at: time.Unix(1000, 0)}
	s.live = newLive(s.screen, true, func() (int, int) { return s.screen.columns, s.screen.rows }, func() time.Time { return s.at })
	return s
}

func (s *stage) rec(b messages.Body) {
	s.t.Helper()
	s.seq++
	if err := s.live.update(stile.Update{Record: &messages.Record{Seq: s.seq, TS: s.at, Turn: 1, Run: 1, Body: b}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) says(unit int, kind messages.Kind, off int, text string) {
	s.t.Helper()
	d := &messages.Delta{Unit: messages.UnitID{Turn: 1, N: unit}, Kind: kind, Off: int64(off + len(text)), Text: text}
	if err := s.live.update(stile.Update{Delta: d}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) want(when, want string) {
	s.t.Helper()
	if got := s.screen.String(); got != want {
		s.t.Errorf("%s the screen shows\n%s\nwant\n%s", when, got, want)
	}
}

// A run as it looks while it goes on: thought, actions with state and time, response.
func TestLiveScreens(t *testing.T) {
	s := newStage(t, 60, 12)
	s.rec(&messages.TurnBegin{Dialect: "cortex"})
	s.says(0, messages.ThoughtUnit, 0, "Two no")
	s.want("early", "turn     1\nthought  Two no\n")
	s.says(0, messages.ThoughtUnit, 6, "tes.\nBoth are needed")
	s.rec(&messages.ActionDeclared{ID: "north", Name: "file.read", Args: `{"path":"north.txt"}`})
	s.rec(&messages.ActionStarted{ID: "north", Attempt: 1})
	s.rec(&messages.ActionDeclared{ID: "east", Name: "file.read", Args: `{"path":"east.txt","and":"more than there is room for"}`})
	s.want("declared", `turn     1
thought  Two notes.
         Both are needed
actions  north        file.read          running     0.0 s
         east         file.read          waiting
`)
	s.at = s.at.Add(1250 * time.Millisecond)
	s.live.tick()
	s.rec(&messages.ActionEnded{ID: "north", State: messages.ActionOK, Result: `"text"`})
	s.rec(&messages.ActionStarted{ID: "east", Attempt: 1})
	s.rec(&messages.UnitText{UnitKind: messages.ThoughtUnit, Unit: "1.0", Text: "Two notes.\nBoth are needed.", Complete: true})
	s.at = s.at.Add(2 * time.Second)
	s.says(1, messages.ResponseUnit, 0, "# Birds 🐦 and \x1b[31mred\x1b[2J")
	s.want("answering", `turn     1
thought  Two notes.
         Both are needed.
says     # Birds 🐦 and \u{1b}[31mred\u{1b}[2J
actions  north        file.read          ok          1.2 s
         east         file.read          running     2.0 s
`)
	s.rec(&messages.ActionEnded{ID: "east", State: messages.ActionFailed, Reason: "error", Result: `"no luck"`})
	s.rec(&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: "1.1", Text: "# Birds 🐦 and \x1b[31mred\x1b[2J", Complete: true})
	s.rec(&messages.TurnDecided{Decision: messages.Done})
	if err := s.live.end(); err != nil {
		t.Fatal(err)
	}
	got := s.screen.String()
	for _, want := range []string{"actions  north        file.read          ok          1.2 s", "failed      2.0 s", "error: \"no luck\"", "\nDONE     (0 ms)\n"} {
		if !strings.Contains(got, want) && !strings.Contains(strings.ReplaceAll(got, "\n", ""), want) {
			t.Errorf("at the end the screen has no %q:\n%s", want, got)
		}
	}
	if strings.Count(got, "actions  ") != 1 || strings.Count(got, "says ") != 1 {
		t.Errorf("something is left over:\n%s", got)
	}
}

// Whatever comes at whatever size, and however the terminal is resized meanwhile: what is
// finished is there once and whole, no row is too long, nothing of a model gets through.
func TestLiveAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{"birds", "船が", "🐦", "a\tb", "\x1b[2J", "\x9b1m", "very-long-word-without-any-blank-in-it-that-has-to-be-cut", "é", "\n", " ", "\r"}
	for range 60 {
		s := newStage(t, 20+r.IntN(80), 3+r.IntN(20))
		resized := false
		var texts []string
		for unit := range 4 {
			kind := []messages.Kind{messages.ThoughtUnit, messages.ResponseUnit}[r.IntN(2)]
			text := ""
			for range r.IntN(30) {
				text += words[r.IntN(len(words))]
			}
			for off := 0; off < len(text); {
				n := min(1+r.IntN(9), len(text)-off)
				s.says(unit, kind, off, text[off:off+n])
				off += n
				if id := fmt.Sprint("a", r.IntN(40)); r.IntN(3) == 0 && s.live.row(id) == nil {
					s.rec(&messages.ActionDeclared{ID: id, Name: "x.\x1b[1my", Args: "{}"})
				} else if r.IntN(2) == 0 {
					s.rec(&messages.ActionStarted{ID: id, Attempt: 1})
				} else {
					s.rec(&messages.ActionEnded{ID: id, State: messages.ActionOK, Result: "\"\x1b[2J\""})
				}
				s.at = s.at.Add(time.Second)
				s.live.tick()
				if r.IntN(40) == 0 {
					resized = true
					s.screen.resize(20 + r.IntN(80))
				}
			}
			s.rec(&messages.UnitText{UnitKind: kind, Unit: fmt.Sprintf("1.%d", unit), Text: text, Complete: true})
			texts = append(texts, text)
		}
		actions := len(s.live.rows)
		s.rec(&messages.TurnDecided{Decision: messages.Done})
		if err := s.live.end(); err != nil {
			t.Fatal(err)
		}
		if resized {
			continue // how a terminal wraps what has scrolled away is its own
		}
		all := strings.ReplaceAll(s.screen.String(), "\n", "")
		for _, text := range texts {
			for _, line := range strings.Split(harmless(text), "\n") {
				want := blanks.Replace(line)
				if !strings.Contains(blanks.Replace(all), want) {
					t.Fatalf("the line %q is not on the screen\n%s", want, s.screen)
				}
			}
		}
		if got := strings.Count(all, "x.\\u{1b}[1my"); got != actions {
			t.Fatalf("%d actions of %d\n%s", got, actions, s.screen)
		}
	}
}

// blanks takes out what a screen shows as nothing.
var blanks = strings.NewReplacer(" ", "", "\t", "")

// A frame that shows nothing new is not written.
func TestLiveWritesWhatChanges(t *testing.T) {
	s := newStage(t, 80, 24)
	s.says(0, messages.ResponseUnit, 0, "x")
	n := s.writes
	for range 10 {
		s.live.tick()
	}
	if s.writes != n {
		t.Errorf("%d frames in which nothing changed", s.writes-n)
	}
	s.rec(&messages.ActionDeclared{ID: "a", Name: "n"})
	if s.writes != n+1 {
		t.Errorf("%d writes for one frame", s.writes-n)
	}
	s.live.out = failing{}
	s.seq++
	if err := s.live.update(stile.Update{Record: &messages.Record{Body: &messages.Note{Text: "x"}}}); err == nil {
		t.Error("a failed write is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A finished line is broken at spaces, and its further rows stand under its text.
func TestLiveWraps(t *testing.T) {
	s := newStage(t, 40, 12)
	s.says(0, messages.ResponseUnit, 0, "Short.\nA stile lets people over a fence one at a time.\n")
	s.rec(&messages.UnitText{UnitKind: messages.ResponseUnit, Unit: "1.0", Text: "Short.\nA stile lets people over a fence one at a time.\n", Complete: true})
	s.rec(&messages.TurnDecided{Decision: messages.Done})
	s.want("wrapped", "says     Short.\n         A stile lets people over a\n         fence one at a time.\nDONE     (0 ms)\n")
}

// A running action shows how far it is, until it has ended; what came over the wire reads back.
func TestLiveProgress(t *testing.T) {
	s := newStage(t, 120, 12)
	s.rec(&messages.TurnBegin{Dialect: "cortex"})
	s.rec(&messages.ActionDeclared{ID: "i", Name: "files.index", Args: `{}`})
	s.rec(&messages.ActionStarted{ID: "i", Attempt: 1})
	for _, c := range []struct {
		d    messages.Delta
		want string
	}{
		{messages.Delta{Off: 3, Total: 10, Text: "notes\x1b[2J.txt"}, `3 of 10 notes\u{1b}[2J.txt`},
		{messages.Delta{Off: 4}, "4"},
		{messages.Delta{Text: "last ones"}, "last ones"},
	} {
		c.d.Kind, c.d.Action, c.d.Run, c.d.Seq, c.d.Unit.Turn = messages.KindProgress, "i", 1, 7, 1
		line, err := stile.AppendUpdate(nil, stile.Update{Delta: &c.d})
		if err != nil {
			t.Fatal(err)
		}
		d, err := parseProgress(line)
		if err != nil || *d != c.d {
			t.Fatalf("%s reads as %+v, %v", line, d, err)
		}
		if err := s.live.update(stile.Update{Delta: d}); err != nil {
			t.Fatal(err)
		}
		s.want("under way", "turn     1\nactions  i            files.index        running     0.0 s  "+c.want+"\n")
	}
	s.rec(&messages.ActionEnded{ID: "i", State: messages.ActionOK, Result: `"ok"`})
	late := &messages.Delta{Kind: messages.KindProgress, Action: "i", Off: 10, Total: 10}
	if err := s.live.update(stile.Update{Delta: late}); err != nil {
		t.Fatal(err)
	}
	s.want("ended", "turn     1\nactions  i            files.index        ok          0.0 s  4 B: \"ok\"\n")
	if _, err := parseProgress([]byte(`{"action": 1}`)); err == nil {
		t.Error("an action that is a number is read")
	}
}
