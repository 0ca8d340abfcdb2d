package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// The scripts in testdata drive a plan with commands and record what it says. A
// block is commands, "----", and the answers; go test -update writes the latter
// anew, and the diff is the review. Commands, one a line, # comments:
//
//	new [parallel=N] [actions=N] [occupied=N] [bytes=N] [growth=N] [dotted=1]   a plan in its first generation
//	env NAME JSON | env NAME pending | env NAME absent               what the environment knows
//	begin, end, forget, vacate
//	declare ID [MODE] [stream=1] [key=K] [name=N] [type=T] [on_error=E] [deps=a,b] [PARAMETERS]
//	reject ID; started ID; park ID; resume ID; cancel ID REASON
//	ok ID [JSON]; failed|cancelled|unknown ID REASON
//	did ID [JSON]              started, then ok
//	cancelall REASON [detached]
//	feed NAME                  it is ready
//	chunk ID QUOTED; again ID  the result of an action with stream grows, or begins again
//	rewind                     take back what the response has of it
//	text QUOTED; textend; textgo   a response: more bytes, its end, look again
//	resolve JSON
//	state
//
// An id may be written with its generation: a@1.
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
			w, g := strings.Split(string(want), "\n"), strings.Split(got, "\n")
			for i := range max(len(w), len(g)) {
				if i >= len(w) || i >= len(g) || w[i] != g[i] {
					t.Fatalf("%s:%d\n  want %s\n  got  %s", file, i+1, at(w, i), at(g, i))
				}
			}
		})
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}

// runScript gives the script with the answers as they are now.
func runScript(t *testing.T, script string) string {
	var out strings.Builder
	r := &rig{t: t}
	answers := false
	for line := range strings.SplitSeq(strings.TrimSuffix(script, "\n"), "\n") {
		switch {
		case line == "----":
			answers = true
			out.WriteString("----\n" + r.said.String())
			r.said.Reset()
		case line == "":
			answers = false
			out.WriteString("\n")
		case answers:
		default:
			out.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				r.command(line)
			}
		}
	}
	if r.said.Len() > 0 {
		t.Error("the script ends without ----")
	}
	return out.String()
}

type mapped map[string]struct {
	value  string
	status Status
}

func (m mapped) Lookup(name string) (string, Status) { v := m[name]; return v.value, v.status }

type rig struct {
	t    *testing.T
	p    *Plan
	gen  int
	env  mapped
	text *Text
	said strings.Builder
}

func (r *rig) command(line string) {
	word, rest, _ := strings.Cut(line, " ")
	first, more, _ := strings.Cut(rest, " ")
	ref := Ref{r.gen, first}
	if id, gen, ok := strings.Cut(first, "@"); ok {
		n, err := strconv.Atoi(gen)
		if err != nil {
			r.t.Fatal(line)
		}
		ref = Ref{n, id}
	}
	var effs []Effect
	var err error
	switch word {
	case "new":
		r.env, r.gen = mapped{}, 1
		o := Options{Environment: r.env}
		for f := range strings.FieldsSeq(rest) {
			k, v, _ := strings.Cut(f, "=")
			n, _ := strconv.Atoi(v)
			if k == "dotted" {
				o.Dotted = n > 0
				continue
			}
			*map[string]*int{
				"parallel": &o.Parallel, "actions": &o.Actions, "occupied": &o.Occupied,
				"bytes": &o.ParameterBytes, "growth": &o.GrowthBytes,
			}[k] = n
		}
		r.p, r.text = New(o), nil
		err = r.p.Begin()
	case "env":
		e := r.env[first]
		switch more {
		case "pending":
			e.status = Pending
		case "absent":
			e.status = Absent
		default:
			e.value, e.status = more, Present
		}
		r.env[first] = e
	case "begin":
		if err = r.p.Begin(); err == nil {
			r.gen++
		}
	case "end":
		effs, err = r.p.End(nil)
	case "forget":
		r.p.Forget()
	case "vacate":
		effs = r.p.Vacate(nil)
	case "declare":
		effs, err = r.p.Declare(nil, r.action(rest))
	case "reject":
		effs, err = r.p.Reject(nil, first)
	case "started":
		effs, err = r.p.Started(nil, ref)
	case "park":
		effs, err = r.p.Park(nil, ref)
	case "resume":
		effs, err = r.p.Resume(nil, ref)
	case "cancel":
		effs, err = r.p.Cancel(nil, ref, more)
	case "cancelall":
		reason, detached := strings.CutSuffix(rest, " detached")
		effs = r.p.CancelAll(nil, reason, detached)
	case "did":
		if effs, err = r.p.Started(nil, ref); err == nil {
			effs, err = r.p.Ended(effs, ref, Outcome{State: OK, Value: more})
		}
	case "ok":
		effs, err = r.p.Ended(nil, ref, Outcome{State: OK, Value: more})
	case "failed", "cancelled", "unknown", "skipped", "running":
		s := map[string]State{"failed": Failed, "cancelled": Cancelled, "unknown": Unknown, "skipped": Skipped, "running": Running}[word]
		effs, err = r.p.Ended(nil, ref, Outcome{State: s, Reason: more})
	case "chunk":
		s, fault := strconv.Unquote(more)
		if fault != nil {
			r.t.Fatal(line, fault)
		}
		err = r.p.Chunk(ref, []byte(s))
	case "again":
		r.p.Again(ref)
	case "rewind":
		fmt.Fprintf(&r.said, "%d stay\n", r.text.Rewind())
	case "feed":
		effs = r.p.FeedReady(nil, first)
	case "text", "textend", "textgo":
		r.respond(word, rest)
	case "resolve":
		s, fault := r.p.Resolve(rest)
		err = fault
		fmt.Fprintf(&r.said, "resolved %s\n", s)
	case "state":
		r.state()
	default:
		r.t.Fatalf("unknown command %q", line)
	}
	for _, e := range effs {
		r.effect(e)
	}
	if err != nil {
		fmt.Fprintf(&r.said, "error: %v\n", err)
	}
}

func (r *rig) action(rest string) *messages.Action {
	a := &messages.Action{Name: "t"}
	head, params, ok := strings.Cut(rest, "{")
	if ok {
		a.Args = "{" + params
	}
	for i, f := range strings.Fields(head) {
		k, v, has := strings.Cut(f, "=")
		switch {
		case i == 0:
			a.ID = f
			if f == "-" {
				a.ID = ""
			}
		case !has:
			a.Mode = f
		case k == "stream":
			a.Stream = true
		case k == "key":
			a.OutputKey = v
		case k == "name":
			a.Name = v
		case k == "type":
			a.Type = messages.ActionType(v)
		case k == "on_error":
			a.OnError = v
		case k == "deps":
			a.DependsOn = strings.Split(v, ",")
		case k == "parameters":
			a.Args = v
		default:
			r.t.Fatalf("unknown member %q", f)
		}
	}
	return a
}

func (r *rig) respond(word, rest string) {
	if r.text == nil {
		r.text = r.p.Text()
	}
	var shown []byte
	switch word {
	case "text":
		s, err := strconv.Unquote(rest)
		if err != nil {
			r.t.Fatal(rest, err)
		}
		shown = r.text.Push(nil, []byte(s))
	case "textend":
		shown = r.text.End(nil)
	default:
		shown = r.text.Resume(nil)
	}
	fmt.Fprintf(&r.said, "shown %q", shown)
	if w, waits := r.text.Waits(); waits {
		fmt.Fprintf(&r.said, " waits for %s%s", w.Action.ID, w.Feed)
	}
	if from, ok := r.text.Flowed(); ok {
		fmt.Fprintf(&r.said, " grows from %d", from)
	}
	if n := r.text.Held(); n > 0 {
		fmt.Fprintf(&r.said, " holds %d", n)
	}
	if r.text.Done() {
		r.said.WriteString(" done")
		r.text = nil
	}
	r.said.WriteByte('\n')
}

func (r *rig) effect(e Effect) {
	fmt.Fprintf(&r.said, "%s %s%s", e.Kind, e.Ref.ID, e.Feed)
	if e.Ref.Generation > 0 && e.Ref.Generation != r.gen {
		fmt.Fprintf(&r.said, "@%d", e.Ref.Generation)
	}
	if e.Kind == Dispatch {
		fmt.Fprintf(&r.said, " %s", e.Parameters)
	}
	if e.Kind == End {
		fmt.Fprintf(&r.said, " %s", e.State)
	}
	if e.Reason != "" {
		fmt.Fprintf(&r.said, " %s", e.Reason)
	}
	if e.Place != "" {
		fmt.Fprintf(&r.said, " at %s", e.Place)
	}
	r.said.WriteByte('\n')
}

func (r *rig) state() {
	for _, v := range r.p.Generation() {
		fmt.Fprintf(&r.said, "%s %s", v.ID, v.State)
		if v.Reason != "" {
			fmt.Fprintf(&r.said, " %s", v.Reason)
		}
		if v.Value != "" {
			fmt.Fprintf(&r.said, " %s", v.Value)
		}
		r.said.WriteByte('\n')
	}
	if id, closed := r.p.Gate(); closed {
		fmt.Fprintf(&r.said, "gate closed by %s\n", id)
	}
	fmt.Fprintf(&r.said, "complete %v, stalled %v\n", r.p.Complete(), r.p.Stalled())
}
