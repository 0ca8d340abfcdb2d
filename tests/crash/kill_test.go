package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/postgres"
)

// job is what a child process is to do: visit a session until it is done, or killed.
type job struct {
	Scenario string `json:"scenario"`
	Dir      string `json:"dir"`     // the data directory
	Outside  string `json:"outside"` // the file of the outside world
	// A database instead of a file in Dir.
	URL    string `json:"url,omitempty"`
	Schema string `json:"schema,omitempty"`
}

// live is the child: it tells its parent every piece of news in one write, at once.
func live(text string) {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.live(func(n news) {
			line, err := json.Marshal(n)
			if err == nil {
				_, err = os.Stdout.Write(append(line, '\n'))
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (j *job) live(tell func(news), after func(*stile.Runtime, *stile.Agent)) error {
	set := reference()
	i := slices.IndexFunc(set, func(sc scenario) bool { return sc.name == j.Scenario })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := stile.Config{Dir: j.Dir, IdleTimeout: -1}
	if j.URL != "" {
		store, err := postgres.Open(ctx, postgres.Options{URL: j.URL, Schema: j.Schema, Readers: 2})
		if err != nil {
			return err
		}
		defer store.Close()
		cfg.Store = store
	}
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		return err
	}
	agent := set[i].agent(outside{j.Outside}, nil)
	err = visit(ctx, rt, &set[i], agent, tell)
	if err == nil && after != nil {
		after(rt, agent)
	}
	if closed := rt.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// fuse says when to kill a process: after so many lines of its output and then a
// little later, or, with lines < 0, so long after its start.
type fuse struct {
	lines int
	delay time.Duration
}

func (f fuse) String() string {
	if f.lines < 0 {
		return fmt.Sprint("after ", f.delay)
	}
	return fmt.Sprintf("after line %d and %s", f.lines, f.delay)
}

// burn draws a fuse for a process that says about so many lines in about so long.
func burn(rnd *rand.Rand, lines int, long time.Duration) fuse {
	if rnd.IntN(3) == 0 {
		return fuse{-1, time.Duration(rnd.Int64N(int64(long)))}
	}
	return fuse{rnd.IntN(lines + 1), time.Duration(rnd.IntN(2000)) * time.Microsecond}
}

// run starts a process, hands over its lines, and kills it. It reports whether the
// process was killed before it ended by itself.
func (f fuse) run(t testing.TB, cmd *exec.Cmd, hear func(line []byte)) (killed bool) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A process that has ended cannot be killed any more, which is as good.
	slay := func() { time.AfterFunc(f.delay, func() { _ = cmd.Process.Kill() }) }
	if f.lines <= 0 {
		slay()
	}
	in := bufio.NewReader(out)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil { // a line without its end was not told
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		hear(line)
		if n == f.lines {
			slay()
		}
	}
	err = cmd.Wait()
	if err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("%s: the process failed: %v", f, err)
	}
	return err != nil
}

// A process that hosts tools of every class is killed at random moments, once or a
// few times in a row, over a real file or, where there is a server, a database; the
// last life comes to its end.
func TestKillHosts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	set, base := reference(), slices.Contains(stores(t), "postgres")
	calms := map[string]*calm{}
	long := map[string]time.Duration{}
	var sum verdict
	killed := 0
	// A quick machine is done before many a kill: some more are tried then.
	for i := 0; i < some() || killed < some()/3 && i < 8*some(); i++ {
		sc := set[i%len(set)]
		if calms[sc.name] == nil {
			began := time.Now()
			calms[sc.name] = unhurt(t, &sc, "sqlite", false)
			long[sc.name] = time.Since(began) + 100*time.Millisecond // what a process takes to start
		}
		rnd := rand.New(rand.NewPCG(*seed, uint64(i)))
		dir := t.TempDir()
		j := job{Scenario: sc.name, Dir: filepath.Join(dir, "data"), Outside: filepath.Join(dir, "outside")}
		if base && i/len(set)%2 != i%2 { // each scenario on both
			o := database(t)
			j.URL, j.Schema = o.URL, o.Schema
		}
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		told := newWitness()
		var fuses []fuse
		for range 1 + rnd.IntN(4)/3*rnd.IntN(4) {
			f := burn(rnd, calms[sc.name].heard, long[sc.name])
			fuses = append(fuses, f)
			cmd, tell := exec.Command(self), told.begin()
			cmd.Env = append(os.Environ(), childEnv+"="+string(text))
			if f.run(t, cmd, func(line []byte) {
				var n news
				if err := json.Unmarshal(line, &n); err != nil {
					t.Errorf("%v in %q", err, line)
				}
				tell(n)
			}) {
				killed++
			}
		}
		err = j.live(told.begin(), func(rt *stile.Runtime, agent *stile.Agent) {
			all := outside{j.Outside}.deeds(t)
			tr := &trial{sc: &sc, agent: agent, archive: rt.Archive(), told: told, deeds: deedsOf(mainSID, all), all: all, unhurt: calms[sc.name]}
			v, _ := tr.judge(context.Background())
			sum.add(v)
			for _, p := range v.problems {
				t.Errorf("seed %d, kill %d (%s, %v): %s", *seed, i, sc.name, fuses, p)
			}
		})
		if err != nil {
			t.Errorf("seed %d, kill %d (%s, %v): %v", *seed, i, sc.name, fuses, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
	t.Logf("seed %d: %d processes killed over %d journals: %d lost, %d doubled, %d unknown", *seed, killed, some(), sum.lost, sum.doubled, sum.unknown)
	if killed < some()/3 {
		t.Error("hardly anything was killed")
	}
}
