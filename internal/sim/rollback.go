package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Groups of actions that are undone together (docs/spec/extensions.md §4). A model puts actions
// of several turns in groups, which fail, are rolled back because it asks for it, or because
// their run ends; between them hosts die. The checks read the records alone.

// grouped is a reply of cortex with groups.
func (a *author) grouped() []byte {
	var b strings.Builder
	if !a.calm {
		for range a.rnd.IntN(3) {
			name := a.one("g", "h", "i", "j", "none")
			for range a.rnd.IntN(4) {
				a.member(&b, name)
			}
			if a.rnd.IntN(2) == 0 {
				fmt.Fprintf(&b, `<rollback group=%q/>`, a.one(name, name, "g"))
			}
		}
	}
	return append([]byte(b.String()), a.stream()...)
}

// member is an action of a group, mostly with a compensation.
func (a *author) member(b *strings.Builder, group string) {
	a.head(b, "")
	name := toolNames[a.rnd.IntN(len(toolNames))]
	fmt.Fprintf(b, `{"name":%q,"parameters":{"what":%q},"group":%q`, name, a.one("a", "b", "b", a.ref()), group)
	if a.rnd.IntN(5) > 0 {
		undo := toolNames[a.rnd.IntN(len(toolNames))]
		if a.rnd.IntN(12) == 0 {
			undo = "w.gone"
		}
		fmt.Fprintf(b, `,"rollback":{"name":%q,"parameters":{"of":%q,"what":"${params.what}"}}`, undo, a.one("$result", "$result", "$result", "plain", "plain", "${result.none}"))
	}
	if a.rnd.IntN(3) > 0 {
		fmt.Fprintf(b, `,"on_error":%q`, a.one("rollback", "skip", "skip"))
	}
	b.WriteString("}</action>")
}

// groups are those of the open run, as an audit reads them.
type groups struct {
	group map[string]*group // nil for a session without any
	pair  map[*act]*member  // a compensation: the member that it undoes
	whole bool              // of the dialect: groups are read
	blind sabotage          // how the audit misreads them
}

// group is a group of the open run.
type group struct {
	cause   string
	members []*member
}

// member is an action of a group.
type member struct {
	turn   int64
	act    *act
	undo   string
	end    int64 // seq of its end, 0 while it is open
	undone int   // compensations of it
}

func (g *groups) beginRun() {
	if g.whole {
		g.group, g.pair = map[string]*group{}, map[*act]*member{}
	}
}

// owed reports whether a member is to be undone when its group is closed, and is not.
func (a *audit) owed(m *member) bool {
	if m.undo == "" || m.undone > 0 || m.end == 0 {
		return false
	}
	unknown := a.rules.Rollback.Unknown != a.blind.presumes
	return m.act.state == messages.ActionOK || m.act.state == messages.ActionUnknown && unknown
}

// enlists takes the declaration of an action that has to do with groups.
func (a *audit) enlists(r *messages.Record, c *act, b *messages.ActionDeclared) error {
	switch {
	case b.Compensates != "" && a.blind.sulks:
		c.undoes = true
		return nil
	case b.Compensates != "":
		return a.undoes(r, c, b)
	case b.Group == "":
		return nil
	case a.group == nil:
		return fmt.Errorf("action %s is of group %s, which is off", b.ID, b.Group)
	}
	g := a.group[b.Group]
	if g == nil {
		g = &group{}
		a.group[b.Group] = g
	}
	if len(g.members) < turn.MaxMembers {
		c.group = g
		g.members = append(g.members, &member{turn: r.Turn, act: c, undo: b.Rollback})
		if a.blind.slams {
			g.cause = messages.CauseAsked
		}
	}
	return nil
}

// undoes takes the declaration of a compensation: of a member that ended ok, of a closed
// group, once, when all of the group have ended, the latest end first, and one at a time.
func (a *audit) undoes(r *messages.Record, c *act, b *messages.ActionDeclared) error {
	of := b.CompensatesTurn
	if of == 0 {
		of = r.Turn
	}
	if a.unwinds() {
		return fmt.Errorf("%s begins beside another compensation", b.ID)
	}
	for name, g := range a.group {
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.turn == of && m.act.id == b.Compensates })
		if i < 0 {
			continue
		}
		m := g.members[i]
		switch tool, _ := jsonvalue.Member(m.undo, "name"); {
		case g.cause == "":
			return fmt.Errorf("%s undoes a member of group %s, which is not rolled back", b.ID, name)
		case !a.owed(m):
			return fmt.Errorf("%s undoes action %s of turn %d, which ended %q and was undone %d times", b.ID, b.Compensates, of, m.act.state, m.undone)
		case jsonvalue.Meant(tool) != b.Name:
			return fmt.Errorf("%s calls %s, action %s is undone by %s", b.ID, b.Name, b.Compensates, m.undo)
		}
		for _, o := range g.members {
			if o.end == 0 {
				return fmt.Errorf("%s begins, and member %s of group %s has not ended", b.ID, o.act.id, name)
			}
			if late := o.end > m.end; o != m && a.owed(o) && late != a.blind.muddles {
				return fmt.Errorf("%s comes before the compensation of %s, which ended later", b.ID, o.act.id)
			}
		}
		m.undone++
		c.undoes, a.pair[c] = true, m
		return nil
	}
	return fmt.Errorf("%s undoes action %s of turn %d, which is of no group", b.ID, b.Compensates, of)
}

// closes takes the record that a group is rolled back.
func (a *audit) closes(b *messages.RollbackBegin) error {
	g := a.group[b.Group]
	if a.blind.hushes || a.blind.slams {
		return nil
	}
	if g == nil || g.cause != "" {
		return fmt.Errorf("group %s is rolled back twice, or is none", b.Group)
	}
	why, of, _ := strings.Cut(b.Cause, ":")
	allowed := false
	switch why {
	case messages.CauseError:
		allowed = slices.ContainsFunc(g.members, func(m *member) bool {
			always := m.act.onError == messages.OnErrorRollback
			failed := m.act.state == messages.ActionFailed && m.act.onError != messages.OnErrorSkip
			return m.act.id == of && m.end > 0 && (failed && (a.rules.Rollback.Error || always) || m.act.state == messages.ActionUnknown && always)
		})
	case messages.CauseAsked:
		allowed = true // the reply says so
	case messages.CauseHalt:
		allowed = a.rules.Rollback.Halt
	case messages.CauseCancel:
		allowed = a.rules.Rollback.Cancel && a.gaveUp()
	}
	if !allowed {
		return fmt.Errorf("group %s is rolled back for %s, which is no reason", b.Group, b.Cause)
	}
	g.cause = b.Cause
	return nil
}

// endsMember takes the end of an action.
func (a *audit) endsMember(seq int64, c *act) {
	if c.group == nil {
		return
	}
	for _, m := range c.group.members {
		if m.act == c {
			if m.end = seq; a.blind.repents {
				m.undone++
			}
		}
	}
}

// hopeless reports whether nothing could undo an action.
func (c *act) hopeless() bool {
	if c.group == nil {
		return false
	}
	i := slices.IndexFunc(c.group.members, func(m *member) bool { return m.act == c })
	tool, declared := jsonvalue.Member(c.group.members[i].undo, "name")
	_, found := target(messages.TypeTool, jsonvalue.Meant(tool))
	return declared && !found
}

// unwinds reports whether a compensation has no end.
func (a *audit) unwinds() bool {
	for _, c := range a.calls {
		if c.undoes && !c.ended {
			return true
		}
	}
	return false
}

// closed reports whether the group of an action is rolled back: the action does not begin.
func (c *act) closed() bool { return c.group != nil && c.group.cause != "" }

// unwound checks that a turn is decided when nothing is left to undo of a closed group, and
// that a run which ends badly has closed what it has to.
func (a *audit) unwound(b *messages.TurnDecided) error {
	for name, g := range a.group {
		for _, m := range g.members {
			switch owed := a.owed(m); {
			case !owed:
			case g.cause != "":
				return fmt.Errorf("decided, and action %s of turn %d is not undone, group %s is rolled back for %s", m.act.id, m.turn, name, g.cause)
			case b.Decision != messages.Halt || b.Repair || b.Resumed:
			case b.Reason == messages.ErrCancelled && a.rules.Rollback.Cancel, b.Reason != messages.ErrCancelled && a.rules.Rollback.Halt:
				return fmt.Errorf("the run ends %s, and group %s is not rolled back", b.Reason, name)
			}
		}
	}
	return nil
}
