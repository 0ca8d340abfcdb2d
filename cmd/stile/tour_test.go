package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// The tour runs, twice in one directory, and every session ends as it must, in
// the order of the decisions; what it wrote verifies and replays.
func TestTour(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, prefix := range []string{"tour-1-", "tour-2-"} {
		out := must(t, "tour", "--dir", data, "--examples", examples)
		var decisions []string
		for _, line := range strings.Split(out, "\n") {
			f := strings.Fields(line)
			if len(f) < 2 || !strings.HasPrefix(line, "  ") {
				continue
			}
			switch f[0] {
			case "CONTINUE", "DONE", "ABORT":
				decisions = append(decisions, f[0])
			case "HALT":
				decisions = append(decisions, f[0]+" "+strings.TrimSuffix(f[1], ":"))
			}
		}
		want := []string{
			"DONE", "DONE",
			"CONTINUE", "CONTINUE", "DONE",
			"CONTINUE", "DONE",
			"CONTINUE", "DONE", "CONTINUE", "CONTINUE", "DONE", "CONTINUE", "CONTINUE", "DONE",
			"DONE",
			"CONTINUE", "DONE", "CONTINUE", "DONE", "CONTINUE", "DONE",
			"CONTINUE", "CONTINUE", "CONTINUE", "CONTINUE", "DONE",
			"HALT ERR_TOKEN_MISSING",
			"HALT ERR_TOKEN_VERIFY/UNKNOWN_KID",
			"CONTINUE", "HALT ERR_TOKEN_SCOPE/TURN",
			"HALT ERR_QUOTA",
			"HALT ERR_QUOTA",
			"HALT ERR_CRASH", "DONE",
			"CONTINUE", "CONTINUE", "HALT ERR_NO_PROGRESS",
			"HALT ERR_MAGIC_TOOL_INTERNAL",
		}
		if !slices.Equal(decisions, want) {
			t.Errorf("decisions\n%q\nwant\n%q", decisions, want)
		}
		// What the ledger's turns say, in order, and that the streams are carried.
		holds(t, out, "ledger  ", "turn     1\n", "call     #1 file.read", "stores.csv: 360 entries, 60 days", "CONTINUE",
			"turn     2  the prompt carries OUTPUT ", "SCRATCHPAD", "line 101, day 17: rum should be 5313, book says 5217", "CONTINUE",
			"turn     3  the prompt carries", `file.read ["stores.csv",101,1]`, "missing: 96 gills of rum", "DONE")
		// What the streaming session did while its model spoke.
		holds(t, out, "research  ", "call     north file.read", "call     north_kestrels math.Subtract", "CONTINUE",
			"20 in the north valley, 8 in the east, 14 in the west; 42 in all.", "DONE")
		must(t, "replay", prefix+"research", "--dir", data)
		// What belongs together is undone together, the last first.
		holds(t, out, "booking  ", "Ada, it is all booked", "car failed: conflict", "rollback ben3: error:car", "call     undo:hotel bookings", ", undoes hotel",
			"call     undo:flight bookings", "On 4 May you have flight, hotel and car.", "DONE",
			"block    together takes then", "block    back has 2 items", "block    together failed: child_failed:car", "rollback car4: error:car", ", undoes seat[",
			"block    leave parallel", "block    leave ok, 2 ok, 0 failed", "Two seats on 4 May.", "DONE")
		must(t, "replay", prefix+"booking", "--dir", data)
		holds(t, out, "newsroom  ", "stile runs in session local:local:"+prefix+"newsroom.reporter.", "Hollow Lane: new steps, no key")
		must(t, "replay", prefix+"newsroom", "--dir", data)
		holds(t, must(t, "sessions", "list", "--json", "--prefix", "local:local:"+prefix+"newsroom.headline.", "--dir", data), `"parent":"local:local:`+prefix+`newsroom"`)
		// The small model: nothing of the machine is shown, and what was replaced is said.
		holds(t, out, "companion  ", "says     Let me see.\n", "says     Oslo will be wet until Friday.\n", "gate     #1 search: confirm by meta-controller",
			"approve by tour", "is taken back", "says     There are three trains tomorrow.", "says     It stands on a fence")
		if strings.Contains(out, "<action:") || strings.Contains(out, "[INTERNAL]") {
			t.Error("something of the machine is shown")
		}
		must(t, "replay", prefix+"companion", "--dir", data)
		said := "Its programs are confined: " + confine.Probe().Layers()
		if confine.Probe().Err() != nil {
			said = "This host cannot confine its programs, so it says isolation: none."
		}
		// What the coder did: the test failed, the source was changed, the test passes.
		holds(t, out, "coder  ", said, `shell {"command":"go test`, "#2 failed", "call     #1 edit", "ok, ", `ok \texample.com/roman`, "The tests pass.", "DONE")
		fixed, err := os.ReadFile(filepath.Join(data+"-work", prefix+"coder", "module", "roman.go"))
		if err != nil || !strings.Contains(string(fixed), "for n >= x.value {") {
			t.Errorf("the module was not fixed: %v\n%s", err, fixed)
		}
		must(t, "replay", prefix+"coder", "--dir", data)
		// The meters of the two breaches.
		holds(t, out, "endless-loop  ", "HALT ", "ERR_QUOTA/GAS", "memory-bomb  ", "HALT ", "ERR_QUOTA/VALUE")
		for _, s := range slices.Concat(sound, crippled) {
			holds(t, out, "RESULT", prefix+s.name+" ", " ok\n")
		}
		if strings.Contains(out, "WRONG") {
			t.Error("a session is called wrong")
		}
		holds(t, out, "  stile verify --dir "+data+"\n", "  stile replay "+prefix+"ledger --dir "+data+"\n")
		must(t, "replay", prefix+"ledger", "--dir", data)
	}
	holds(t, must(t, "verify", "--dir", data), "36 sessions, 0 with problems")
}

// A session that ends otherwise than expected makes the tour fail, by name.
func TestTourNoticesAWrongEnd(t *testing.T) {
	t.Setenv("GOROOT", filepath.Join(t.TempDir(), "gone")) // the coder is left out: building takes its time
	noToken := &sound[slices.IndexFunc(sound, func(s stop) bool { return s.name == "no-token" })]
	before := noToken.runs[0].want
	defer func() { noToken.runs[0].want = before }()
	noToken.runs[0].want = []ending{halts(messages.ErrTokenParse)}
	a := stileDo(t, "tour", "--dir", filepath.Join(t.TempDir(), "data"), "--examples", examples)
	if a.status != int(exitFailure) || !strings.Contains(a.err, "1 session ended otherwise than expected") {
		t.Errorf("status %d, %q", a.status, a.err)
	}
	holds(t, a.out, "tour-1-no-token", "HALT ERR_TOKEN_PARSE", "HALT ERR_TOKEN_MISSING", "WRONG")
}

// Where Go is not installed the coder is left out, and says so; everything else is as ever.
func TestTourWithoutToolchain(t *testing.T) {
	t.Setenv("GOROOT", filepath.Join(t.TempDir(), "gone"))
	out := must(t, "tour", "--dir", filepath.Join(t.TempDir(), "data"), "--examples", examples)
	holds(t, out, "coder  Left out: there is no Go toolchain here.", "no-token", "RESULT", "tour-1-no-progress")
	if strings.Contains(out, "tour-1-coder") || strings.Contains(out, "WRONG") {
		t.Errorf("%s", out)
	}
}

// An archive is its files, byte for byte; one that names a file outside, or twice, is
// refused.
func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := unpack(dir, "about it\n-- a.txt --\none\n\n-- d/b --\n-- no file\n-- c --\n"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.txt": "one\n\n", "d/b": "-- no file\n", "c": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for _, bad := range []string{"-- ../x --\n", "-- /x --\n", "-- a --\n-- a --\n"} {
		if unpack(dir, bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Away from the repository the examples are those of the binary, beside the data directory;
// what somebody made of them stays.
func TestExamplesOfTheBinary(t *testing.T) {
	t.Chdir(t.TempDir())
	a := &app{dir: "data"}
	for range 2 {
		dir, err := a.ownExamples()
		if err != nil || dir != "data-examples" {
			t.Fatalf("%q, %v", dir, err)
		}
	}
	for _, s := range slices.Concat(sound, crippled) {
		if _, err := os.Stat(filepath.Join("data-examples", filepath.FromSlash(s.manifest))); err != nil {
			t.Error(err)
		}
	}
	mine := filepath.Join("data-examples", "plain", "agent.yaml")
	if err := os.WriteFile(mine, []byte("name: mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ownExamples(); err == nil || !strings.Contains(err.Error(), mine) {
		t.Errorf("a changed file: %v", err)
	}
	if b, _ := os.ReadFile(mine); string(b) != "name: mine" {
		t.Errorf("it was overwritten: %q", b)
	}
}
