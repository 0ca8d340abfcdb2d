package tests

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// reached is what a blocking target tells a test.
type reached struct {
	begun   chan struct{} // it is at work
	stopped chan struct{} // it was told to stop
}

// blocks is the body of a tool that ends with its context alone.
func (r *reached) blocks(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
	close(r.begun)
	<-ctx.Done()
	close(r.stopped)
	return neuroscript.Value{}, ctx.Err()
}

// ends waits until the target was told to stop.
func (r *reached) ends(t *testing.T) {
	t.Helper()
	<-r.stopped
}

// target is a type of action, as an agent's folder with one action "a" that blocks.
type target struct {
	name  string
	yaml  string
	files []string
	body  string // of the action, without its timeout
	typ   string
	setup func(t *testing.T, dir string, a *stile.Agent, r *reached) (gone func(t *testing.T))
}

// dead reports whether no process of the number is left but a zombie.
func dead(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	return ok && rest[0] == 'Z'
}

func targets() []target {
	all := []target{
		{
			name: "go tool", yaml: "import: {tools: [own.block]}\n", typ: "tool", body: `"name":"own.block"`,
			setup: func(_ *testing.T, _ string, a *stile.Agent, r *reached) func(*testing.T) {
				a.Tools = []tools.Tool{tool("own.block", messages.Effectful, r.blocks)}
				return r.ends
			},
		},
		{
			name: "llm", yaml: "import: {llms: [l]}\ndefine: {llms: [{name: l, template: question}]}\n", typ: "llm", body: `"name":"l"`,
			setup: func(_ *testing.T, _ string, a *stile.Agent, r *reached) func(*testing.T) {
				own := a.Model
				a.Model = model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
					if prompt(req) != "question" {
						return own.Stream(ctx, req)
					}
					return func(yield func(llm.Chunk, error) bool) {
						_, err := r.blocks(ctx, nil)
						yield(llm.Chunk{}, err)
					}
				})
				return r.ends
			},
		},
		{
			name: "workflow", yaml: "import: {tools: [own.block], workflows: [w]}\ndefine: {workflows: [{name: w, steps: [{id: s, name: own.block}]}]}\n", typ: "workflow", body: `"name":"w"`,
			setup: func(_ *testing.T, _ string, a *stile.Agent, r *reached) func(*testing.T) {
				a.Tools = []tools.Tool{tool("own.block", messages.Effectful, r.blocks)}
				return r.ends
			},
		},
		{
			name: "relic", yaml: "import: {relics: [r]}\ndefine: {relics: [{name: r, service_type: http, connection: {base_url: \"${URL}\", private: true}, interface: {endpoints: [{name: get, path: /}]}}]}\nenvironment: {allow: [URL]}\n",
			typ: "relic", body: `"name":"r","parameters":{"operation":"get"}`,
			setup: func(_ *testing.T, _ string, _ *stile.Agent, r *reached) func(*testing.T) { return r.ends },
		},
		{
			name: "agent", yaml: "import: {agents: [child]}\n", typ: "agent", body: `"name":"child","parameters":{"message":"do"}`,
			setup: func(_ *testing.T, _ string, a *stile.Agent, r *reached) func(*testing.T) {
				w := worker("child", "cortex", `<action id="t">{"name":"own.block"}</action><response>$t</response>`)
				w.Tools = []tools.Tool{tool("own.block", messages.Effectful, r.blocks)}
				w.Manifest.Import.Tools = []string{"own.block"}
				a.Agents = []*stile.Agent{w}
				return r.ends
			},
		},
		{
			name: "agent of an agent", yaml: "import: {agents: [top]}\n", typ: "agent", body: `"name":"top","parameters":{"message":"do"}`,
			setup: func(_ *testing.T, _ string, a *stile.Agent, r *reached) func(*testing.T) {
				w := worker("child", "cortex", `<action id="t">{"name":"own.block"}</action><response>$t</response>`)
				w.Tools = []tools.Tool{tool("own.block", messages.Effectful, r.blocks)}
				w.Manifest.Import.Tools = []string{"own.block"}
				top := worker("top", "cortex", delegations("child", "async", 1)+"<response>$a</response>")
				top.Agents, top.Manifest.Import.Agents = []*stile.Agent{w}, []string{"child"}
				a.Agents = []*stile.Agent{top}
				return r.ends
			},
		},
	}
	if runtime.GOOS == "linux" {
		all = append(all, target{
			name: "command", yaml: "import: {tools: [own.block]}\n", typ: "tool", body: `"name":"own.block"`,
			files: []string{
				"tools/own.block.yaml", "kind: Tool\nname: own.block\nimplementation: {type: command, entrypoint: [/bin/sh, block.sh]}\n",
				"block.sh", "cd at\nsleep 600 &\necho $$ $! > pids.part\nmv pids.part pids\nwait\n",
				"at/here", "",
			},
			setup: func(_ *testing.T, dir string, _ *stile.Agent, r *reached) func(*testing.T) {
				var pids []int
				go func() {
					defer close(r.begun)
					for { // until it has said who it is
						b, err := os.ReadFile(filepath.Join(dir, "at", "pids"))
						if err != nil {
							runtime.Gosched()
							continue
						}
						for _, f := range strings.Fields(string(b)) {
							n, _ := strconv.Atoi(f)
							pids = append(pids, n)
						}
						return
					}
				}()
				return func(t *testing.T) {
					if len(pids) != 2 {
						t.Fatalf("processes %v", pids)
					}
					for _, pid := range pids {
						for !dead(pid) { // the kernel takes its time after the signal
							runtime.Gosched()
						}
					}
				}
			},
		})
	}
	return all
}

// Whatever ends a turn or an action reaches what it began, of every type and at every
// depth; and nothing of a turn is recorded behind its decision, also when what it began
// answers later.
func TestEndsReachEveryType(t *testing.T) {
	for _, tg := range targets() {
		for _, how := range []string{"cancel", "timeout", "turn_wall", "run_wall", "drain"} {
			t.Run(tg.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				r := &reached{begun: make(chan struct{}), stopped: make(chan struct{})}
				yaml, body, rest := "dialect: cortex\nloop: {strict: [unseen]}\nname: boss\n"+tg.yaml, tg.body, "<response>$a</response>"
				mode := "async"
				switch how {
				case "timeout":
					body += `,"timeout":0.5`
				case "turn_wall", "run_wall":
					yaml += "quotas: {" + how + ": 500ms}\n"
				case "drain":
					rest = "<response>end</response>"
				}
				server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
					close(r.begun)
					<-req.Context().Done()
					close(r.stopped)
				}))
				defer server.Close()
				yaml = strings.ReplaceAll(yaml, "${URL}", server.URL)
				dir := write(t, append([]string{"agent.yaml", yaml + "model: {script: none.jsonl}\n"}, tg.files...)...)
				// Agents of Go are not looked for in files.
				a := &stile.Agent{Dir: dir}
				if strings.Contains(tg.yaml, "agents:") {
					a.Manifest = boss(nil).Manifest
					a.Manifest.Import.Agents = []string{strings.TrimSuffix(strings.Split(tg.yaml, "[")[1], "]}\n")}
					switch how {
					case "turn_wall":
						a.Manifest.Quotas.TurnWall = 500e6
					case "run_wall":
						a.Manifest.Quotas.RunWall = 500e6
					}
				} else {
					a = load(t, dir)
				}
				a.Model = scripted.New(fmt.Sprintf(`<action id="a" type="%s" mode="%s">{%s}</action>%s`, tg.typ, mode, body, rest))
				gone := tg.setup(t, dir, a, r)
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				run := submit(t, s, "go")
				<-r.begun
				if how == "cancel" {
					if err := run.Cancel(t.Context(), "test"); err != nil {
						t.Fatal(err)
					}
				}
				o := decision(t, run)
				switch how {
				case "cancel":
					wantHalt(t, o, messages.ErrCancelled)
				case "turn_wall", "run_wall":
					wantHalt(t, o, messages.ErrTimeout, how)
				default:
					wantDone(t, o)
				}
				gone(t)
				settled(t, rt)
				replays(t, rt, a)
			})
		}
	}
}

// settled wants every session at rest, with nothing of a turn behind its decision and
// one end for every action.
func settled(t *testing.T, rt *stile.Runtime) {
	t.Helper()
	for h, err := range rt.Archive().Sessions(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		s, err := rt.Find(t.Context(), h.SID)
		if err != nil {
			t.Fatal(err)
		}
		recs := records(t, s)
		decided, open := map[int64]int64{}, map[string]int64{}
		for _, r := range recs {
			if at := decided[r.Turn]; at > 0 && r.Body.Kind() != messages.KindRunEnd {
				t.Errorf("%s: record %d (%s) of turn %d, which was decided by %d", s.SID(), r.Seq, r.Body.Kind(), r.Turn, at)
			}
			switch b := r.Body.(type) {
			case *messages.TurnDecided:
				decided[r.Turn] = r.Seq
			case *messages.ActionDeclared:
				open[b.ID] = r.Seq
			case *messages.ActionEnded:
				if open[b.ID] == 0 {
					t.Errorf("%s: a second end of %s at %d", s.SID(), b.ID, r.Seq)
				}
				delete(open, b.ID)
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: without an end: %v", s.SID(), open)
		}
		if now := records(t, s); len(now) != len(recs) {
			t.Errorf("%s went on from %d to %d", s.SID(), len(recs), len(now))
		}
		state, err := rt.Archive().Status(t.Context(), h)
		if err != nil || h.Open || h.Queued > 0 || state != stile.StatusIdle {
			t.Errorf("%s is %s, %v", h.SID, state, err)
		}
	}
}
