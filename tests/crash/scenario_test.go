package crash

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// scenario is one turn, or a few, of the reference set.
type scenario struct {
	name    string
	dialect string
	classes []messages.Class // of the calls of each turn
	change  func(*manifest.Manifest)
	reply   func(*scenario, llm.Request) string
	submits int
	halts   bool // recovery: halt
	denies  bool // what needs confirmation is denied
	// shelves: its actions change a relic; delegates: they are agents.
	shelves, delegates bool
	// lingers: its model waits in the middle of a reply until what it has asked an agent for
	// is being done.
	lingers bool
	// told: its prompts have a feed, which it says and acts on.
	told bool
	// undoes: its actions are members of groups, which are rolled back; blocks: they stand in
	// control blocks; streams: their results grow.
	undoes, blocks, streams bool
	// talks: its provider keeps the conversation.
	talks bool
}

// every class of effect (docs/spec/design.md §7).
var every = []messages.Class{messages.Pure, messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful}

// reference is the reference set. A dialect that is added gets its turns here.
func reference() []scenario {
	var set []scenario
	for _, class := range every {
		set = append(set, scenario{name: "aeiou/" + string(class), dialect: "aeiou", classes: []messages.Class{class, class}, reply: program, submits: 1})
	}
	set = append(set,
		scenario{name: "aeiou/mixed", dialect: "aeiou", classes: every, reply: program, submits: 2},
		scenario{
			name: "aeiou/halt", dialect: "aeiou", classes: []messages.Class{messages.Effectful, messages.Keyed}, reply: program, submits: 2, halts: true,
			change: func(m *manifest.Manifest) { m.Loop.Recovery = messages.RecoverHalt },
		},
	)
	for _, class := range every {
		set = append(set, scenario{name: "cortex/" + string(class), dialect: "cortex", classes: []messages.Class{class, class}, reply: stream, submits: 1})
	}
	set = append(set,
		scenario{name: "cortex/mixed", dialect: "cortex", classes: every, reply: stream, submits: 2},
		scenario{
			name: "cortex/strict", dialect: "cortex", classes: []messages.Class{messages.Keyed, messages.Effectful}, reply: stream, submits: 1,
			change: func(m *manifest.Manifest) { m.Stream.Durability = manifest.DurabilityStrict },
		},
	)
	for _, class := range every {
		set = append(set, scenario{name: "cogency/" + string(class), dialect: "cogency", classes: []messages.Class{class, class}, reply: batch, submits: 1})
	}
	set = append(set, scenario{name: "cogency/mixed", dialect: "cogency", classes: every, reply: batch, submits: 2})
	// A search of an action token is done by a tool of its class; a pass and a continue
	// follow, each of which takes back what was shown before it.
	for _, class := range every[1:] {
		set = append(set, scenario{
			name: "kitsu/" + string(class), dialect: "kitsu", classes: []messages.Class{class}, reply: token, submits: 2,
			change: func(m *manifest.Manifest) { m.Kitsu.Search, m.Loop.Busy = "world."+string(class), messages.Enqueue },
		})
	}
	for _, d := range []manifest.Durability{manifest.DurabilityStrict, manifest.DurabilityUnit} {
		set = append(set, scenario{
			name: "kitsu/" + string(d), dialect: "kitsu", classes: []messages.Class{messages.Keyed}, reply: token, submits: 1,
			change: func(m *manifest.Manifest) { m.Kitsu.Search, m.Stream.Durability = "world.keyed", d },
		})
	}
	// Turns that wait for a person, and outlive their process meanwhile.
	confirm := func(m *manifest.Manifest) {
		m.Approval.Tools = map[string]messages.GateAnswer{"world.keyed": messages.GateConfirm, "world.effectful": messages.GateConfirm}
	}
	asks := []messages.Class{messages.ReadOnly, messages.Keyed, messages.Effectful}
	set = append(set,
		scenario{name: "aeiou/confirm", dialect: "aeiou", classes: asks, reply: program, submits: 1, change: confirm},
		scenario{name: "cortex/confirm", dialect: "cortex", classes: asks, reply: stream, submits: 2, change: confirm},
		scenario{name: "cogency/confirm", dialect: "cogency", classes: asks, reply: batch, submits: 1, change: confirm},
		scenario{
			name: "kitsu/confirm", dialect: "kitsu", classes: []messages.Class{messages.Effectful}, reply: token, submits: 1,
			change: func(m *manifest.Manifest) {
				m.Kitsu.Search, m.Approval.Tools = "world.effectful", map[string]messages.GateAnswer{"search": messages.GateConfirm}
			},
		},
		scenario{name: "aeiou/denied", dialect: "aeiou", classes: asks, reply: program, submits: 1, change: confirm, denies: true},
		scenario{name: "cortex/denied", dialect: "cortex", classes: asks, reply: stream, submits: 1, change: confirm, denies: true},
	)
	set = append(set,
		scenario{name: "cortex/relic", dialect: "cortex", reply: shelve, submits: 2, change: shelf, shelves: true},
		scenario{name: "cortex/agent", dialect: "cortex", reply: delegate, submits: 1, delegates: true},
		lingering,
		scenario{name: "cortex/feed", dialect: "cortex", reply: informed, submits: 1, change: newspaper, told: true},
	)
	undone := []messages.Class{messages.ReadOnly, messages.Keyed, messages.Effectful}
	set = append(set,
		scenario{
			name: "cortex/rollback", dialect: "cortex", classes: undone, reply: undo, submits: 1, undoes: true,
			change: func(m *manifest.Manifest) { m.Extensions = []string{"rollback"} },
		},
		scenario{
			name: "cortex/rollback-halt", dialect: "cortex", classes: undone, reply: stay, submits: 1, undoes: true,
			change: func(m *manifest.Manifest) {
				m.Extensions, m.Rollback.On, m.Loop.MaxTurns = []string{"rollback"}, &[]string{messages.CauseHalt}, 1
			},
		},
	)
	set = append(set, scenario{
		name: "cortex/blocks", dialect: "cortex", classes: undone, reply: nest, submits: 1, blocks: true,
		change: func(m *manifest.Manifest) { m.Extensions = []string{"if", "foreach", "parallel"} },
	})
	for _, d := range []manifest.Durability{manifest.DurabilityStrict, manifest.DurabilityCheckpoint} {
		set = append(set, scenario{
			name: "cortex/stream-" + string(d), dialect: "cortex", classes: undone, reply: pour, submits: 1, streams: true,
			change: func(m *manifest.Manifest) { m.Extensions, m.Stream.Durability = []string{"stream"}, d },
		})
	}
	set = append(set, scenario{
		name: "cortex/agent-stream", dialect: "cortex", reply: relay, submits: 1, delegates: true, streams: true,
		change: func(m *manifest.Manifest) { m.Extensions = []string{"stream"} },
	})
	for _, d := range []manifest.Durability{manifest.DurabilityStrict, manifest.DurabilityCheckpoint, manifest.DurabilityUnit} {
		set = append(set, scenario{
			name: "plain/" + string(d), dialect: "plain", reply: poem, submits: 2,
			change: func(m *manifest.Manifest) { m.Stream.Durability = d },
		})
	}
	keeping, asked := []string{"cogency"}, 1
	if *full {
		keeping, asked = append(keeping, "plain", "kitsu"), 2
	}
	for _, d := range keeping {
		sc := scenario{name: d + "/talk", dialect: d, reply: poem, submits: asked, talks: true, change: func(m *manifest.Manifest) {
			m.Model.Mode = manifest.ModeResume
			if d == "kitsu" {
				m.Kitsu.Search, m.Loop.Busy = "world.effectful", messages.Enqueue
			}
		}}
		switch d {
		case "cogency":
			sc.reply, sc.classes = batch, undone
		case "kitsu":
			sc.reply, sc.classes = token, []messages.Class{messages.Effectful}
		}
		set = append(set, sc)
	}
	set = append(set, scenario{
		name: "cortex/talk", dialect: "cortex", reply: informed, submits: asked, told: true, talks: true,
		change: func(m *manifest.Manifest) {
			newspaper(m)
			m.Model.Mode, m.ContextFeedsAt = manifest.ModeResume, manifest.FeedsAtEnd
		},
	})
	return set
}

// lingering is the scenario whose agents work while its reply has no end: a kill then ends
// the turn, and leaves the agents without a parent.
var lingering = scenario{name: "cortex/agent-early", dialect: "cortex", reply: delegate, submits: 1, delegates: true, lingers: true}

// agent makes the scenario's agent for one life.
func (sc *scenario) agent(o outside, g *gate) *stile.Agent {
	m := manifest.Default(sc.dialect)
	m.Name = "killed"
	var own []tools.Tool
	if sc.dialect != "plain" {
		for _, class := range every {
			t := act(o, g, class)
			own = append(own, t)
			m.Import.Tools = append(m.Import.Tools, t.Name)
		}
	}
	if sc.change != nil {
		sc.change(m)
	}
	if sc.told {
		own = append(own, headlines(o))
		m.Import.Tools = append(m.Import.Tools, newsTool)
	}
	a := &stile.Agent{Manifest: m, Tools: own, Model: speaker{sc, g}}
	if sc.talks {
		a.Model = keeper{speaker{sc, g}}
	}
	if sc.delegates {
		m.Import.Agents = []string{"helper"}
		a.Agents = []*stile.Agent{helper(o, g)}
	}
	return a
}

// speaker is the scenario's model. It is a function of what it is told, as a model
// is; a crash is nothing to it but a sentence in its prompt.
type speaker struct {
	sc   *scenario
	gate *gate
}

// pieces is into how many pieces a reply is cut.
const pieces = 4

// Stream implements llm.Model.
func (m speaker) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text := m.sc.reply(m.sc, req)
		var begun, dead <-chan struct{}
		if m.sc.lingers && strings.Contains(text, "</action>") {
			begun, dead = m.gate.effect()
		}
		if err := m.gate.at(beforeReply); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		for i := range pieces {
			if !yield(llm.Chunk{Text: []byte(text[i*len(text)/pieces : (i+1)*len(text)/pieces])}, nil) {
				return
			}
			if i == pieces/2 {
				if begun != nil {
					select {
					case <-begun:
					case <-dead:
					case <-ctx.Done():
					}
				}
				if err := m.gate.at(midReply); err != nil {
					yield(llm.Chunk{}, err)
					return
				}
			}
		}
		if err := m.gate.at(afterReply); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 1, Output: 2}}, nil)
	}
}

// turns is how many turns a run of the aeiou scenarios takes.
const turns = 3

var stepped = regexp.MustCompile(`step (\d) ends`)

// program does the scenario's calls in the first turns and ends with the last. What
// a crash cut off it does not do again: it says so and goes on, as the model is told
// to.
func program(sc *scenario, req llm.Request) string {
	told := req.Messages[len(req.Messages)-1].Text
	step := 1
	if m := stepped.FindAllStringSubmatch(told, -1); m != nil {
		n, _ := strconv.Atoi(m[len(m)-1][1])
		step = n%turns + 1
	}
	lines := []string{
		"command", " on error as e do", `  emit "error " + e.code`, "  clear_error", " endon",
		fmt.Sprintf(` emit "step %d begins"`, step), ` whisper self, "so far so good"`,
	}
	switch {
	case strings.Contains(told, "restarted"):
		lines = append(lines, ` emit "what was cut off is not done again"`)
	case step < turns:
		for i, class := range sc.classes {
			lines = append(lines, fmt.Sprintf(` set r = tool.world.%s("%d-%d")`, class, step, i), ` emit "it " + r`)
		}
	}
	action := "continue"
	if step == turns {
		action = "done"
	}
	return strings.Join(append(lines, fmt.Sprintf(` emit "step %d ends"`, step),
		fmt.Sprintf(` emit tool.aeiou.magic("LOOP", {"action": "%s"})`, action), "endcommand\n"), "\n")
}

// stream does the scenario's calls as actions of a reply that is acted on while it
// streams: the first one alone, the others side by side, each quoted in the text that
// follows. It goes on from the step that the model's own words in the prompt show.
func stream(sc *scenario, req llm.Request) string {
	var told strings.Builder
	for _, m := range req.Messages {
		if m.Role == messages.RoleAssistant && strings.Contains(m.Text, "</response>") { // of this run, as it was written
			told.WriteString(m.Text)
		}
	}
	step := 1
	if m := stepped.FindAllStringSubmatch(told.String(), -1); m != nil {
		n, _ := strconv.Atoi(m[len(m)-1][1])
		step = min(n+1, turns)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<thought>step %d begins</thought>", step)
	quoted := ""
	switch {
	case strings.Contains(req.Messages[len(req.Messages)-1].Text, "restarted"):
		quoted = ", what was cut off is not done again"
	case step < turns:
		for i, class := range sc.classes {
			mode := "async"
			if i == 0 {
				mode = "sync"
			}
			fmt.Fprintf(&b, `<action id="a%d" mode="%s">{"name": "world.%s", "parameters": {"what": "%d-%d"}}</action>`, i, mode, class, step, i)
			quoted += fmt.Sprintf(", it $a%d", i)
		}
	}
	fmt.Fprintf(&b, `<response final="%v">step %d ends%s. </response>`, step == turns, step, quoted)
	return b.String()
}

// undo is stream with the actions of each step as a group, which the step rolls back.
func undo(sc *scenario, req llm.Request) string {
	text := stay(sc, req)
	if !strings.Contains(text, "<action") {
		return text
	}
	at := strings.Index(text, "<response")
	return text[:at] + `<rollback group="g"/>` + text[at:]
}

// stay is undo without the rollback.
func stay(sc *scenario, req llm.Request) string {
	text := stream(sc, req)
	if strings.Contains(text, "step 2 begins") { // one step acts: a group is closed for the rest of the run
		return strings.Replace(actions.ReplaceAllString(text, ""), ", it $a0, it $a1, it $a2", "", 1)
	}
	for i := len(sc.classes) - 1; i >= 0; i-- {
		// An effect is undone by a keyed call, and a keyed call by an effect.
		class := sc.classes[len(sc.classes)-1-i]
		if class == messages.ReadOnly || sc.classes[i] == messages.ReadOnly {
			class = sc.classes[i]
		}
		text = strings.Replace(text, fmt.Sprintf(`-%d"}}</action>`, i), fmt.Sprintf(
			`-%d"}, "group": "g", "rollback": {"name": "world.%s", "parameters": {"what": "undo of ${result}"}}}</action>`, i, class), 1)
	}
	return text
}

// untaken is the action of nest that never begins.
const untaken = "n"

// nest is stream with the actions of the first step in control blocks: behind one that is known a
// condition, a group in its branch, and a loop over what the group gave.
func nest(sc *scenario, req llm.Request) string {
	text := stream(sc, req)
	all := actions.FindString(text)
	switch {
	case all == "":
		return text
	case strings.Contains(text, "step 2 begins"): // one step acts
		return strings.Replace(strings.Replace(text, all, "", 1), ", it $a0, it $a1, it $a2", "", 1)
	}
	first, rest, _ := strings.Cut(all, "</action>")
	return strings.Replace(strings.Replace(text, all, first+`</action><if id="c" test="exists($a0)"><parallel id="p" fail="all">`+rest+
		`</parallel><else><action id="`+untaken+`">{"name": "world.effectful", "parameters": {"what": "never"}}</action></else></if>`+
		`<foreach id="l" in="$p"><action id="e">{"name": "world.keyed", "parameters": {"what": "each ${item.key}"}}</action></foreach>`, 1),
		", it $a2", ", it $a2, each $l", 1)
}

// pour is stream with results that grow, quoted while they do.
func pour(sc *scenario, req llm.Request) string {
	return strings.NewReplacer(`}}</action>`, `}, "stream": true}</action>`, "$a1", "${a1.partial}", "$a2", "${a2.partial}").Replace(stream(sc, req))
}

var actions = regexp.MustCompile(`<action .*</action>`)

// batch does the scenario's calls as one batch a turn, side by side. Told of a restart
// it ends the run.
func batch(sc *scenario, req llm.Request) string {
	step := 1
	for _, m := range req.Messages {
		switch {
		case m.Role == messages.RoleUser && strings.HasPrefix(m.Text, "please"):
			step = 1
		case m.Role == messages.RoleAssistant:
			if said := stepped.FindStringSubmatch(m.Text); said != nil {
				n, _ := strconv.Atoi(said[1])
				step = min(n+1, turns)
			}
		}
	}
	text := fmt.Sprintf("<think>step %d begins</think>step %d ends. ", step, step)
	if step == turns || strings.Contains(req.Messages[len(req.Messages)-1].Text, "restarted") {
		return text
	}
	var calls []string
	for i, class := range sc.classes {
		calls = append(calls, fmt.Sprintf(`{"name": "world.%s", "args": {"what": "%d-%d"}}`, class, step, i))
	}
	return text + "<execute>[" + strings.Join(calls, ", ") + "]</execute>"
}

// token asks for a search, then for a pass more, and then says what came of it.
func token(_ *scenario, req llm.Request) string {
	told := req.Messages[len(req.Messages)-1].Text
	switch {
	case strings.Contains(told, `{"action":"continue"`):
		return "It is so.\n"
	case strings.Contains(told, `{"action":"search"`):
		return "One moment.\n<action:continue reason=\"to look again\">\n"
	}
	return "Let me look.\n<action:search query=\"1-0\">\n"
}

// poem is a text long enough for chunk records of its own.
func poem(_ *scenario, req llm.Request) string {
	return fmt.Sprintf("An answer to %d messages.\n", len(req.Messages)) + strings.Repeat("And the rope went over the stile.\n", 250)
}
