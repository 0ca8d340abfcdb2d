package sim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// outside is the world behind the tools: it counts what is done to it, and knows
// what it answered.
type outside struct {
	deeds map[string]*deed  // by action
	byKey map[string]string // key → action
}

// deed is one action as the outside saw it.
type deed struct {
	class     messages.Class
	key       string
	starts    int
	refused   int // of these, answered that nothing was done
	done      int // times the effect happened
	answers   map[string]bool
	confirmed bool // told that it was cancelled, or never began
	cancelled bool // says the journal
}

func newOutside() outside {
	return outside{deeds: map[string]*deed{}, byKey: map[string]string{}}
}

// action names an action of a session for good: a turn that a crash forgot gives its
// index away, so the arguments belong to the name.
func action(c *client, inc messages.Incarnation, turnIndex int64, id, args string) string {
	return fmt.Sprintf("%d/%s/%d/%s/%s", c.n, inc, turnIndex, id, args)
}

func (o *outside) deed(name string) *deed {
	d := o.deeds[name]
	if d == nil {
		d = &deed{answers: map[string]bool{}}
		o.deeds[name] = d
	}
	return d
}

// begin is an attempt that may have its effect from now on.
func (o *outside) begin(s *shell, e *turn.StartAction) *deed {
	w := s.host.w
	name := action(s.client, s.inc, e.Turn, e.ID, e.Args)
	d := o.deed(name)
	if d.starts > 0 && d.key != e.Key {
		w.violated("effect", "action %s begins again under another key", name)
	}
	// A crash may forget a compensation that need not be on the disk, and a later turn makes it.
	again := s.audit.pair[s.audit.call(e.Turn, e.ID)] != nil && !durable(e.Class)
	if of, ok := o.byKey[e.Key]; ok && of != name && !again {
		w.violated("effect", "actions %s and %s have one key", of, name)
	}
	if key := keyOf(s, e); e.Key != key && !w.sulks {
		w.violated("effect", "action %s has the key %s, by its identity it is %s", name, e.Key, key)
	}
	want, found := classOf(e.Name), true
	if e.Type != "" {
		want, found = target(e.Type, e.Name)
	}
	if e.Class != want || !found {
		w.violated("effect", "action %s is %s, its target is %s and found %v", name, e.Class, want, found)
	}
	d.class, d.key = e.Class, e.Key
	o.byKey[e.Key] = name
	d.starts++
	w.stats.Effects++
	if d.class == messages.Effectful && d.starts > d.refused+1 {
		w.violated("effect", "effectful action %s begins %d times", name, d.starts)
	}
	if d.cancelled && durable(e.Class) {
		w.violated("effect", "action %s begins, and its journal says that it was cancelled", name)
	}
	d.confirmed = false
	return d
}

// keyOf is docs/spec/design.md §7, written once more.
func keyOf(s *shell, e *turn.StartAction) string {
	if m := s.audit.pair[s.audit.call(e.Turn, e.ID)]; m != nil { // docs/spec/extensions.md §4
		sum := sha256.Sum256(fmt.Appendf(nil, `["rollback",%q]`, m.act.key))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	args := sha256.Sum256([]byte(e.Args))
	id := fmt.Sprintf("[%q,%q,%d,%q,%q]", s.client.key.Tenant, s.inc.String(), e.Turn, e.ID, hex.EncodeToString(args[:]))
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// durable reports whether docs/spec/design.md §7 wants an action of that class on the disk
// before it begins.
func durable(c messages.Class) bool { return c == messages.Keyed || c == messages.Effectful }

// happen is the effect itself. A keyed tool knows its keys.
func (d *deed) happen() {
	if d.class == messages.Keyed && d.done > 0 {
		return
	}
	d.done++
}

func classOf(tool string) messages.Class {
	for _, t := range tools {
		if t.name == tool && t.class != "" {
			return t.class
		}
	}
	if tool == solo || kinds(tool) {
		return messages.ReadOnly
	}
	return messages.Effectful
}

// target finds what an action of a reply names.
func target(t messages.ActionType, name string) (class messages.Class, found bool) {
	switch t {
	case messages.TypeTool:
		return classOf(name), name == solo || kinds(name) || slices.Contains(toolNames, name)
	case messages.TypeInternal:
		return messages.Idempotent, internals(name)
	case messages.TypeRelic, messages.TypeWorkflow:
		if onShelf(t, name) {
			return messages.Idempotent, true
		}
		class, found = relics[name]
		return class, found && t == messages.TypeRelic
	case messages.TypeAgent:
		_, found = agents[name]
		return messages.Keyed, found
	case messages.TypeLLM:
		return messages.ReadOnly, name == solo
	}
	return "", false
}

// said remembers an answer of a tool.
func (d *deed) said(state messages.ActionState, result string) {
	d.answers[string(state)+" "+result] = true
	if state == messages.ActionCancelled {
		d.confirmed = true
	}
}

// recorded checks the terminal record of an action against what the outside knows.
func (o *outside) recorded(w *world, name string, class messages.Class, started bool, b *messages.ActionEnded) {
	d := o.deed(name)
	d.cancelled = b.State == messages.ActionCancelled
	if !started {
		if d.starts > 0 && durable(class) {
			w.violated("effect", "action %s ends %s, as if it had not begun", name, b.State)
		}
		if b.State == messages.ActionOK || b.State == messages.ActionUnknown {
			w.violated("effect", "action %s is %s and never began", name, b.State)
		}
		return
	}
	switch b.State {
	case messages.ActionOK, messages.ActionFailed:
		if !d.answers[string(b.State)+" "+b.Result] {
			w.violated("effect", "action %s is recorded %s %s, which no tool said", name, b.State, b.Result)
		}
	case messages.ActionCancelled:
		if durable(class) && !d.confirmed {
			w.violated("effect", "action %s is recorded as cancelled, and it may have happened", name)
		}
	case messages.ActionUnknown:
	default: // also skipped: it began
		w.violated("effect", "action %s ends in state %q", name, b.State)
	}
}

// judge counts at the end.
func (o *outside) judge(w *world) {
	for _, name := range slices.Sorted(maps.Keys(o.deeds)) {
		d := o.deeds[name]
		if d.done > 1 && (d.class == messages.Effectful || d.class == messages.Keyed) {
			w.violated("effect", "%s action %s happened %d times", d.class, name, d.done)
		}
		if d.cancelled && durable(d.class) && d.done > 0 {
			w.violated("effect", "action %s was cancelled and happened", name)
		}
	}
}
