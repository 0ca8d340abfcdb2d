package resume

import (
	"bufio"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

var update = flag.Bool("update", false, "write what the scripts give")

// A script is a life: each line is an input, and behind it stand the effects and the state.
//
//	ask s q1 a1 q2 | run=1 model=m at=3m tells auto     a prompt of four messages
//	  also passing, if more follows that is not to stay, unfit, and ends=5m, when the provider ends the connection
//	connected at=55m fixed same | began | ended | left | settled kept
//	failed why=lost|limit|network|stays gone reason=X elsewhere | gone X | close
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s gives\n%s", file, got)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	var out strings.Builder
	var l Life
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "  "):
			continue // of the last time
		case line == "" || line[0] == '#':
			if strings.HasPrefix(line, "##") {
				l = Life{}
			}
			fmt.Fprintln(&out, line)
			continue
		}
		fmt.Fprintln(&out, line)
		for _, e := range l.Step(input(t, line)) {
			switch e := e.(type) {
			case Note:
				fmt.Fprintf(&out, "  note %s %d %s\n", e.Session.What, e.Session.Session, e.Session.Reason)
			case Send:
				fmt.Fprintf(&out, "  send over %d behind %d%s\n", e.Session, e.Sent, map[bool]string{true: ", and takes back"}[e.Passing])
			case Connect:
				fmt.Fprintf(&out, "  %s\n", map[bool]string{false: "connect", true: "connect to the same"}[e.Same])
			case Shut:
				fmt.Fprintf(&out, "  shut %s %s\n", e.What, e.Reason)
			default:
				fmt.Fprintf(&out, "  %s\n", e.effect())
			}
		}
		fmt.Fprintf(&out, "  %s\n", l.State())
	}
	return out.String()
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// marks is the rolling digest of messages that are words.
func marks(words []string) []messages.Digest {
	all := []messages.Digest{{}}
	for i, w := range words {
		all = append(all, sha256.Sum256([]byte(fmt.Sprint(all[i], w))))
	}
	return all
}

func input(t *testing.T, line string) Input {
	t.Helper()
	prompt, with, _ := strings.Cut(line, " | ")
	words := strings.Fields(prompt)
	if with == "" {
		with = strings.Join(words[1:], " ")
	}
	set := map[string]string{}
	for _, w := range strings.Fields(with) {
		key, value, _ := strings.Cut(w, "=")
		set[key] = value
	}
	has := func(key string) bool { _, ok := set[key]; return ok }
	at := func(key string) (when time.Time) {
		if !has(key) {
			return when
		}
		d, err := time.ParseDuration(set[key])
		if err != nil {
			t.Fatal(line, err)
		}
		return epoch.Add(d)
	}
	switch words[0] {
	case "ask":
		in := Ask{Run: 1, Model: set["model"], Marks: marks(words[1:]), Tells: has("tells"), Auto: has("auto"), Now: at("at"), Unfit: has("unfit"), Passing: has("passing"), Ends: at("ends")}
		if has("run") {
			if _, err := fmt.Sscan(set["run"], &in.Run); err != nil {
				t.Fatal(line, err)
			}
		}
		return in
	case "connected":
		return Connected{Expires: at("at"), Fixed: has("fixed"), Same: has("same")}
	case "began":
		return Began{}
	case "ended":
		return Ended{}
	case "left":
		return Left{}
	case "settled":
		return Settled{Kept: has("kept")}
	case "failed":
		why := map[string]Failure{"": Other, "lost": Lost, "limit": Limit, "network": Network, "stays": Stays}
		return Failed{Why: why[set["why"]], Gone: has("gone"), Reason: set["reason"], Elsewhere: has("elsewhere")}
	case "gone":
		return Gone{Reason: words[1]}
	case "close":
		return Close{}
	}
	t.Fatalf("unknown input %q", line)
	return nil
}

// Whatever comes in whatever order, one request is in flight at most, what is sent fits the
// prompt, and a closed life does nothing.
func FuzzLife(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x00\x05\x02\x04\x00\x06\x00\x07"))
	words := []string{"s", "q1", "a1", "q2", "a2", "q3", "a3", "q4"}
	f.Fuzz(func(t *testing.T, in []byte) {
		var l Life
		n := 2
		for i, b := range in {
			var step Input
			switch b % 11 {
			case 0, 1:
				n = min(n+2, len(words))
				step = Ask{Run: int64(b / 11 % 3), Marks: marks(words[:n]), Tells: b&64 != 0, Auto: b&128 != 0, Now: epoch.Add(time.Duration(i) * time.Minute), Passing: b&32 != 0, Unfit: b == 11*9, Ends: epoch.Add(time.Duration(b) * time.Minute)}
			case 2:
				n = 2
				step = Ask{Run: int64(i), Marks: marks([]string{"other", "q1"}), Model: string(b), Auto: b&128 != 0}
			case 3:
				step = Connected{Expires: epoch.Add(time.Duration(b) * time.Minute), Fixed: b&64 != 0, Same: b&128 != 0}
			case 4:
				step = Began{}
			case 5:
				step = Ended{}
			case 6:
				step = Left{}
			case 7:
				step = Settled{Kept: b&64 != 0}
			case 8, 9:
				step = Failed{Why: Failure(b / 11 % 5), Gone: b&64 != 0, Elsewhere: b&128 != 0, Reason: "X"}
			case 10:
				step = Gone{Reason: ReasonIdle}
			}
			was := l.State()
			asks := 0
			for _, e := range l.Step(step) {
				if c, ok := e.(Connect); ok && c.Same && !(l.fixed && l.lasts()) {
					t.Fatalf("connects to the same, which had %+v", l.past)
				}
				switch e := e.(type) {
				case Send:
					if asks++; e.Sent < 0 || e.Sent >= len(l.ask.Marks)-1 || e.Session != l.session || l.State() != Asking {
						t.Fatalf("%+v of %d messages in %s", e, len(l.ask.Marks)-1, l.State())
					}
				case Connect, Settle, Alone, Fail:
					asks++
				}
			}
			if asks > 1 {
				t.Fatalf("%T in %s began %d things", step, was, asks)
			}
		}
		l.Step(Close{})
		if more := l.Step(Ask{Marks: marks(words)}); more != nil || l.State() != Closed {
			t.Fatalf("closed, and %v", more)
		}
	})
}
