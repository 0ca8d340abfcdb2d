package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Loops (docs/spec/extensions.md §2). The plan makes the iterations; here the items are fixed by
// the record of the decision, and the instances counted.

const (
	kindForeach = "foreach"
	// MaxInstances bounds the instances of a turn's loops where the manifest does not bound the
	// actions of a run.
	MaxInstances = 1024
	// reasonListChanged is of a loop that was decided in an earlier life, over other items.
	reasonListChanged = "list_changed"
	reasonQuotaWord   = "quota"
)

// decideLoop decides a loop. In a life after the decision the items must be the same.
func (m *Machine) decideLoop(t *plan.Tree, ref plan.Ref) plan.Decision {
	f := m.flight
	d := m.graph.plan.Judge(ref)
	var decided *messages.BlockDecided
	if k := f.restore.blocks[ref.ID]; k != nil {
		decided = k.decided
	}
	digest := messages.Digest(sha256.Sum256([]byte(d.Basis)))
	if d.State.Terminal() {
		return d
	}
	need := int64(len(d.Items) * t.Instances())
	f.instances += need
	if decided != nil {
		if decided.ItemsDigest != digest {
			return plan.Decision{State: plan.Failed, Reason: reasonListChanged}
		}
		return d
	}
	limit := cmp.Or(m.limits().Actions, MaxInstances)
	if left := limit - max(m.state.Open.Actions, f.instances-need); need > left {
		f.instances -= need
		return plan.Decision{State: plan.Failed, Reason: reasonQuotaWord + ": " + strconv.FormatInt(need, 10) + " actions, and " + strconv.FormatInt(max(0, left), 10) + " are left"}
	}
	hold := LazyHold
	if m.effectful(t, "") {
		hold = 0
	}
	m.persist(&messages.BlockDecided{ID: ref.ID, Count: int64(len(d.Items)), ItemsDigest: digest}, hold)
	return d
}

// patternsOf fills in what stands in a loop and has a value.
func patternsOf(body *messages.BlockBegin, t *plan.Tree) {
	keyed := false
	t.Each(func(id, key string, block bool) {
		body.Each, body.EachKeys = append(body.Each, id), append(body.EachKeys, key)
		if block {
			body.EachBlocks = append(body.EachBlocks, id)
		}
		keyed = keyed || key != ""
	})
	if !keyed {
		body.EachKeys = nil
	}
}

// patterns are what stands in the loops of an earlier turn.
func (p *past) patterns(b *messages.BlockBegin) (all []plan.View) {
	for i, id := range b.Each {
		v := plan.View{Action: messages.Action{ID: id}, State: plan.Skipped}
		if i < len(b.EachKeys) && b.Of == "" {
			v.OutputKey = b.EachKeys[i]
		}
		if d := p.decided[b.ID]; d != nil && p.ended[b.ID] != nil {
			v.State, v.Value = plan.OK, p.list(b, id)
		}
		all = append(all, v)
	}
	return all
}

// list is what the instances of id in a loop came to.
func (p *past) list(b *messages.BlockBegin, id string) string {
	out := []byte{'['}
	for i := range p.countOf(b) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.resultOf(id+"["+strconv.FormatInt(i, 10)+"]")...)
	}
	return string(append(out, ']'))
}

func (p *past) countOf(b *messages.BlockBegin) int64 {
	if d := p.decided[b.ID]; d != nil {
		return d.Count
	}
	return 0
}

// resultOf is the result of an action, a block or what stands in a loop; null for others.
func (p *past) resultOf(id string) string {
	if end := p.ends[id]; end != nil {
		if end.State == messages.ActionOK && end.Result != "" {
			return end.Result
		}
		return "null"
	}
	for _, b := range p.begun {
		if b.ID == id {
			if v := p.view(b); v.State == plan.OK {
				return v.Value
			}
			return "null"
		}
		if slices.Contains(b.Each, id) && p.decided[b.ID] != nil {
			return p.list(b, id)
		}
	}
	return "null"
}

// loop is the value of a loop that ended well.
func (p *past) loop(b *messages.BlockBegin) string {
	ids := slices.DeleteFunc(slices.Clone(b.Each), func(id string) bool { return slices.Contains(b.EachBlocks, id) })
	slices.Sort(ids)
	out := []byte{'['}
	for i := range p.countOf(b) {
		if i > 0 {
			out = append(out, ',')
		}
		suffix := "[" + strconv.FormatInt(i, 10) + "]"
		switch {
		case len(ids) == 1:
			out = append(out, p.resultOf(ids[0]+suffix)...)
		default:
			out = append(out, '{')
			for j, id := range ids {
				if j > 0 {
					out = append(out, ',')
				}
				name, _, _ := strings.Cut(id, "[")
				out = append(append(jsonstring.Append(out, name), ':'), p.resultOf(id+suffix)...)
			}
			out = append(out, '}')
		}
	}
	return string(append(out, ']'))
}
