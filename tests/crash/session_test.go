package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Actions that happen inside the runtime: key-value relics, whose changes are records of
// the session, and agents, whose work is in sessions of their own. Both are killed at
// every point of every journal there is.

const mainSID = "local:local:" + session

// childRecords is added to the number of a record of a child session, to tell the points
// of its journal from those of its parent's.
const childRecords = 10_000

// shelf gives the scenario's agent a key-value relic.
func shelf(m *manifest.Manifest) {
	m.Define.Relics = []manifest.Relic{{Name: "notes", ServiceType: "key_value"}}
	m.Import.Relics = []string{"notes"}
}

// shelve counts in a relic, in each step once alone and twice side by side, and quotes
// what it came to.
func shelve(_ *scenario, req llm.Request) string {
	step, cut := steps(req)
	text := fmt.Sprintf("<thought>step %d begins</thought>", step)
	quoted := ""
	switch {
	case cut:
		quoted = ", what was cut off is not done again"
	case step < turns:
		add := func(id, mode string) {
			text += fmt.Sprintf(`<action type="relic" id="%s" mode="%s">{"name":"notes","parameters":{"operation":"add","key":"n"}}</action>`, id, mode)
		}
		add("a", "sync")
		add("b", "async")
		add("c", "async")
		text += `<action type="relic" id="d" depends_on="b,c">{"name":"notes","parameters":{"operation":"get","key":"n"}}</action>`
		quoted = ", it is ${a.value}, then ${d.value}"
	}
	return text + fmt.Sprintf(`<response final="%v">step %d ends%s. </response>`, step == turns, step, quoted)
}

// delegate has an agent do something, in each step but the last.
func delegate(_ *scenario, req llm.Request) string {
	step, cut := steps(req)
	text := fmt.Sprintf("<thought>step %d begins</thought>", step)
	quoted := ""
	switch {
	case cut:
		quoted = ", what was cut off is not done again"
	case step < turns:
		text += fmt.Sprintf(`<action type="agent" id="a">{"name":"helper","parameters":{"message":"step %d"}}</action>`, step)
		quoted = ", it $a"
	}
	return text + fmt.Sprintf(`<response final="%v">step %d ends%s. </response>`, step == turns, step, quoted)
}

// relay is delegate with the agent's answer shown and quoted as it grows.
func relay(sc *scenario, req llm.Request) string {
	return strings.NewReplacer(`"}}</action>`, `"},"stream":true}</action>`, "$a", "${a.partial}").Replace(delegate(sc, req))
}

// steps reads from a prompt which step comes, and whether a crash cut off the one before.
func steps(req llm.Request) (step int, cut bool) {
	step = 1
	for _, m := range req.Messages {
		if m.Role == messages.RoleAssistant && strings.Contains(m.Text, "</response>") { // of this run, as it was written
			if said := stepped.FindAllStringSubmatch(m.Text, -1); said != nil {
				step = min(int(said[len(said)-1][1][0]-'0')+1, turns)
			}
		}
	}
	return step, strings.Contains(req.Messages[len(req.Messages)-1].Text, "restarted")
}

// helper is the agent that others delegate to: two effects, and then its answer.
func helper(o outside, g *gate) *stile.Agent {
	m := manifest.Default("cortex")
	m.Name, m.Summary = "helper", "Helps."
	own := []tools.Tool{act(o, g, messages.Keyed), act(o, g, messages.Effectful)}
	m.Import.Tools = []string{own[0].Name, own[1].Name}
	return &stile.Agent{Manifest: m, Tools: own, Model: speaker{&helping, g}}
}

var helping = scenario{name: "helper", dialect: "cortex", classes: []messages.Class{messages.Keyed, messages.Effectful}, submits: 1, reply: help}

// help does two things and then says so. What a crash cut off it leaves.
func help(_ *scenario, req llm.Request) string {
	asked := ""
	for _, m := range req.Messages {
		switch {
		case strings.Contains(m.Text, "restarted"):
			return "<response>did what could be done</response>"
		case m.Role == messages.RoleAssistant && strings.Contains(m.Text, "</response>"):
			return "<response>did it all</response>"
		case m.Role == messages.RoleUser && strings.Contains(m.Text, "step "):
			_, after, _ := strings.Cut(m.Text, "step ")
			asked = after[:1]
		}
	}
	return fmt.Sprintf(`<action id="k" mode="async">{"name":"world.keyed","parameters":{"what":"%s-k"}}</action>`+
		`<action id="e" mode="async">{"name":"world.effectful","parameters":{"what":"%s-e"}}</action><response final="false">on it</response>`, asked, asked)
}

// settle waits until the child sessions have nothing left to do.
func settle(ctx context.Context, rt *stile.Runtime) error {
	for head, err := range rt.Archive().Sessions(ctx, "") {
		if err != nil {
			return err
		}
		if head.SID == mainSID {
			continue
		}
		s, err := rt.Find(ctx, head.SID)
		if err != nil {
			return err
		}
		for run := range head.Run {
			if _, err := s.Run(run + 1).Decision(ctx); err != nil {
				return fmt.Errorf("run %d of %s: %w", run+1, head.SID, err)
			}
		}
	}
	return nil
}

// awaited: no child goes on for an action that had ended, at the time over, when its process
// began, and no child is cancelled as one that is not waited for before its action has ended.
func (tr *trial) awaited(v *verdict, recs []*stile.Record, over time.Time) {
	i := slices.IndexFunc(tr.told.lives, over.Before)
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ModelRequest:
			if !over.IsZero() && i >= 0 && r.TS.After(tr.told.lives[i]) {
				v.fault("turn %d is asked of the model, and the action has ended in an earlier life", r.Turn)
			}
		case *messages.Control:
			if b.What == messages.ControlCancel && strings.HasSuffix(b.By, "not waited for any more") && (over.IsZero() || over.After(r.TS)) {
				v.fault("cancelled by %s, and it was waited for", b.By)
			}
		}
	}
}

// relics: every change stands in the journal once, whatever was repeated, and is what one
// after the other makes of the value.
func (tr *trial) relics(v *verdict, recs []*stile.Record) {
	keys, changes := map[string]bool{}, map[string]int{}
	sum, cut := int64(0), map[int64]bool{}
	for _, r := range recs {
		if d, ok := r.Body.(*messages.TurnDecided); ok {
			cut[r.Turn] = d.Resumed
		}
	}
	for _, r := range recs {
		id := fmt.Sprint(r.Turn, " ")
		switch b := r.Body.(type) {
		case *messages.RelicChanged:
			if keys[b.Key] {
				v.fault("doubled: record %d changes %s again under its key", r.Seq, b.Relic)
			}
			keys[b.Key] = true
			changes[id+b.ID]++
			sum++
			var result struct{ Value int64 }
			if err := json.Unmarshal([]byte(b.Result), &result); err != nil || result.Value != sum {
				v.fault("record %d makes it %s, it is the %dth (%v)", r.Seq, b.Result, sum, err)
			}
		case *messages.ActionEnded:
			want := 1
			if b.ID == "d" {
				want = 0
			}
			if n := changes[id+b.ID]; n > want || b.State == messages.ActionOK && n != want || b.State == messages.ActionCancelled && n > 0 {
				v.fault("lost: action %s%s ended %s and changed %d times", id, b.ID, b.State, n)
			}
		}
	}
	if want := int64(3 * (turns - 1) * tr.sc.submits); !slices.Contains(slices.Collect(maps.Values(cut)), true) && sum != want {
		v.fault("lost: %d changes, and no turn was cut off; unhurt %d", sum, want)
	}
}

// helped judges the sessions of agents: each is one, whose run came to one end, and its
// effects are counted as those of others.
func (tr *trial) helped(ctx context.Context, v *verdict, recs []*stile.Record) {
	named, over := map[string]bool{}, map[string]time.Time{}
	childOf, doubted := map[string]string{}, map[string]bool{}
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			named[b.Child] = true
			childOf[fmt.Sprint(r.Turn, b.ID)] = b.Child
		case *messages.ActionEnded:
			child := childOf[fmt.Sprint(r.Turn, b.ID)]
			over[child] = r.TS
			doubted[child] = b.State == messages.ActionUnknown && len(b.Children) > 0
		}
	}
	for head, err := range tr.archive.Sessions(ctx, "") {
		if err != nil {
			v.fault("the sessions cannot be listed: %v", err)
			return
		}
		if head.SID == mainSID {
			continue
		}
		if !named[head.SID] {
			v.fault("no action asked for session %s", head.SID)
		}
		if head.Open || head.Queued > 0 || head.Run > 1 {
			v.fault("session %s is at run %d, open %v", head.SID, head.Run, head.Open)
		}
		if head.Run == 0 { // its parent died before it said what to do
			continue
		}
		child := &trial{sc: &helping, agent: helper(outside{}, nil), archive: tr.archive, told: newWitness(), torn: tr.torn}
		child.deeds = deedsOf(head.SID, tr.all)
		var own []*stile.Record
		for r, err := range tr.archive.Records(ctx, head.Inc) {
			if err != nil {
				v.fault("the journal of %s cannot be read: %v", head.SID, err)
				return
			}
			own = append(own, r)
		}
		var found verdict
		child.proved(ctx, &found, head)
		child.ended(&found, own)
		child.happened(&found, own)
		tr.awaited(&found, own, over[head.SID])
		if doubted[head.SID] && found.unknown == 0 {
			found.fault("its action is unknown, and all that it did is known")
		}
		for i := range found.problems {
			found.problems[i] += " (in " + head.SID + ")"
		}
		v.add(found)
	}
	// The model of the parent never asks for the same thing twice.
	did := map[string]int{}
	for _, d := range tr.all {
		if did[d.What]++; d.Class == messages.Effectful && did[d.What] > tr.sc.submits {
			v.fault("doubled: %s %s happened %d times", d.Tool, d.What, did[d.What])
		}
	}
}

// A child whose parent's action has ended is not cancelled when the host dies in between. One
// kill ends the parent's turn while the child works, a second one comes when the end of the
// child's action is on disk; the process that wakes the child then finds that no action waits.
func TestOrphans(t *testing.T) {
	sc := lingering
	for _, store := range []string{"memory", "sqlite"} {
		t.Run(store, func(t *testing.T) {
			calm := unhurt(t, &sc, store, false)
			for _, first := range []point{{midReply, 2}, {beforeEffect, 1}, {afterEffect, 2}} {
				for n := range int64(orphanPlaces) {
					if killed, _ := kill(t, &sc, store, false, calm, first, point{anyPlace, n + 1}); killed == 0 {
						t.Errorf("no process died %s", first)
					}
				}
			}
		})
	}
}

// orphanPlaces is how many places a life that recovers passes until children are told.
const orphanPlaces = 8
