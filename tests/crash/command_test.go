package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// binary is the command, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stile-crash")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "stile")
	build := exec.Command("go", "build", "-tags", "lite", "-o", path, "github.com/seed14be6753/stile/cmd/stile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make run compiled it already
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var binaryDir string

func removeBinary() {
	if binaryDir != "" {
		os.RemoveAll(binaryDir) // what is left behind is in the system's folder for such things
	}
}

// reply is a line of a model's script: its text in chunks, a few milliseconds apart.
func reply(t *testing.T, contains, text string) string {
	t.Helper()
	type chunk struct {
		AtMS int    `json:"at_ms"`
		Text string `json:"text"`
	}
	line := struct {
		Match  map[string]string `json:"match"`
		Chunks []chunk           `json:"chunks"`
	}{Match: map[string]string{"contains": contains}}
	for i := range pieces {
		line.Chunks = append(line.Chunks, chunk{3 * i, text[i*len(text)/pieces : (i+1)*len(text)/pieces]})
	}
	b, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// commandAgents writes agents that the command can run: a manifest each, with a
// scripted model.
func commandAgents(t *testing.T, dir string) (manifests []string) {
	t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("notes.txt", "rope 3\nsail 4\n")
	write("log.txt", "all is well\n")
	step := func(n int, action string, lines ...string) string {
		return "command\n" + strings.Join(lines, "\n") + fmt.Sprintf("\n emit \"step %d ends\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\": %q})\nendcommand\n", n, action)
	}
	// No call stands in two steps, and no step is taken twice: killed three times, a run
	// would have the third one like it, which is a loop.
	write("aeiou.jsonl", reply(t, "restarted", step(0, "continue", ` emit "the host was gone"`))+
		reply(t, "step 0 ends", step(3, "done", ` emit "it is back"`))+
		reply(t, "step 2 ends", step(3, "done", ` emit "enough"`))+
		reply(t, "step 1 ends", step(2, "continue", ` set now = tool.time.now()`, ` emit tool.file.read("log.txt")`))+
		reply(t, "message", step(1, "continue", ` emit tool.file.read("notes.txt")`, ` emit tool.file.stat("notes.txt")`, ` whisper self, "read"`)))
	write("plain.jsonl", reply(t, "message", strings.Repeat("And the rope went over the stile.\n", 250)))
	manifests = append(manifests, write("aeiou.yaml", "name: aeiou\ndialect: aeiou\nmodel: {provider: scripted, script: aeiou.jsonl}\ntools: [file.read, file.stat, time.now]\n"))
	for _, d := range []string{"strict", "checkpoint", "unit"} {
		manifests = append(manifests, write(d+".yaml", "name: plain\ndialect: plain\nmodel: {provider: scripted, script: plain.jsonl}\nstream: {durability: "+d+"}\n"))
	}
	return manifests
}

// update is a line of stile run --json.
type update struct {
	Type, Hash, Unit, Text string
	Seq, Off               int64
}

func (u *update) news() news {
	if u.Type != "delta" {
		return news{Seen: &seen{u.Seq, u.Hash, u.Type}}
	}
	d := &delta{Off: u.Off, Text: u.Text}
	fmt.Sscanf(u.Unit, "%d.%d", &d.Turn, &d.Unit)
	return news{Delta: d}
}

// The command itself is killed while it runs an agent, and run again on the same
// directory: run after run ends as it should, and verify and replay agree.
func TestKillCommand(t *testing.T) {
	stileBin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	agents := commandAgents(t, t.TempDir())
	var sum verdict
	killed := 0
	// A quick machine is done before many a kill: some more are tried then.
	for i := 0; i < some() || killed < some()/3 && i < 8*some(); i++ {
		manifest := agents[i%len(agents)]
		rnd := rand.New(rand.NewPCG(*seed, uint64(i)<<32))
		dir := t.TempDir()
		told := newWitness()
		submit := func(f fuse, n int) bool {
			cmd := exec.Command(stileBin, "run", manifest, fmt.Sprint("message ", n), "--json", "--session", session, "--dir", dir)
			tell := told.begin()
			return f.run(t, cmd, func(line []byte) {
				var u update
				if err := json.Unmarshal(line, &u); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				tell(u.news())
			})
		}
		var fuses []fuse
		for n := range 1 + rnd.IntN(3) {
			f := burn(rnd, 40, 250*time.Millisecond)
			fuses = append(fuses, f)
			if submit(f, n) {
				killed++
			}
		}
		submit(fuse{lines: 1 << 30}, len(fuses))
		for _, command := range [][]string{{"verify", session}, {"replay", session}} {
			var stderr bytes.Buffer
			cmd := exec.Command(stileBin, append(command, "--dir", dir)...)
			cmd.Stderr = &stderr
			if out, err := cmd.Output(); err != nil {
				t.Errorf("seed %d, kill %d (%v): %s: %v\n%s%s", *seed, i, fuses, command[0], err, out, &stderr)
			}
		}
		v := judgeCommand(t, manifest, dir, told)
		sum.add(v)
		for _, p := range v.problems {
			t.Errorf("seed %d, kill %d (%s, %v): %s", *seed, i, filepath.Base(manifest), fuses, p)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
	t.Logf("seed %d: %d commands killed over %d directories: %d lost, %d doubled, %d unknown", *seed, killed, some(), sum.lost, sum.doubled, sum.unknown)
	if killed < some()/3 {
		t.Error("hardly anything was killed")
	}
}

// judgeCommand holds what the command printed against the journal. The command
// submits without a key: who did not see its input submits anew, and that is one run
// more.
func judgeCommand(t *testing.T, manifest, dir string, told *witness) (v verdict) {
	t.Helper()
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ar.Close(); err != nil {
			t.Error(err)
		}
	}()
	agent, err := stile.LoadAgent(manifest)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	head, err := ar.Head(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	var recs []*stile.Record
	runs := 0
	for r, err := range ar.Records(ctx, head.Inc) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
		if r.Body.Kind() == messages.KindInput {
			runs++
		}
	}
	tr := &trial{sc: &scenario{submits: runs}, agent: agent, archive: ar, told: told}
	tr.proved(ctx, &v, head)
	tr.kept(&v, recs)
	tr.shown(ctx, &v, head, recs)
	tr.ended(&v, recs)
	found := tr.outcome(&v, recs)
	for run, said := range found.decisions {
		if said != "DONE" && said != "HALT(ERR_CRASH)" {
			v.fault("run %d ended %s", run+1, said)
		}
	}
	if last := recs[len(recs)-1]; last.Body.Kind() != messages.KindRunEnd || found.decisions[len(found.decisions)-1] != "DONE" {
		v.fault("the last run, which was not killed, ended %v", found.decisions)
	}
	if got, err := ar.Head(ctx, session); err != nil || got.Pending() {
		v.fault("something is left open: %+v, %v", got, err)
	}
	return v
}
