package prompt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

const kindForeach = "foreach"

// loop is what a turn has on record of a loop.
type loop struct {
	each, blocks []string // ids of what stands in it, and which of them are blocks
	count        int64
}

// block takes a record of a control block, which is an entry among the calls of its turn.
func (t *turnOf) block(body messages.Body) {
	switch b := body.(type) {
	case *messages.BlockBegin:
		if t.byID == nil {
			t.byID = map[string]int{}
		}
		t.byID[b.ID], t.blocks = len(t.calls), true
		t.calls = append(t.calls, messages.Call{ID: b.ID, Control: b.BlockKind, Block: b.Block, Of: b.Of})
		if b.BlockKind == kindForeach {
			if t.loops == nil {
				t.loops = map[string]*loop{}
			}
			t.loops[b.ID] = &loop{each: b.Each, blocks: b.EachBlocks}
		}
	case *messages.BlockDecided:
		if c := t.call(b.ID); c != nil {
			c.Branch = b.Branch
		}
		if l := t.loops[b.ID]; l != nil {
			l.count = b.Count
		}
	case *messages.BlockEnded:
		if c := t.call(b.ID); c != nil {
			c.State, c.Reason, c.OK, c.Failed = b.State, b.Reason, b.OK, b.Failed
		}
	}
}

// reported returns the calls in order, with one entry for a loop: the list of its results, why the
// first of its instances that failed did, and how those were undone that a rollback met.
func (t *turnOf) reported() []messages.Call {
	if len(t.loops) == 0 {
		return t.inOrder()
	}
	all := slices.Clone(t.inOrder())
	for i := range all {
		c := &all[i]
		l := t.loops[c.ID]
		if l == nil || c.Of != "" || l.count == 0 {
			continue
		}
		c.Value = t.list(l, c.ID)
		var failed []string
		for _, in := range all {
			if in.Of == "" || in.Control != "" || t.loopOf(in.Block) != c.ID {
				continue
			}
			if undoneWorse(c.RolledBack, in.RolledBack) {
				c.RolledBack = in.RolledBack
			}
			why := wrong(&in)
			if why == "" || len(failed) > maxNamed {
				continue
			}
			if len(failed) == maxNamed {
				failed = append(failed, "…")
				continue
			}
			failed = append(failed, in.ID+": "+why)
		}
		c.Failures = strings.Join(failed, "; ")
	}
	return slices.DeleteFunc(all, func(c messages.Call) bool { return c.Of != "" })
}

// wrong says why an instance failed, or why it could not be undone; "" for neither.
func wrong(c *messages.Call) string {
	switch {
	case c.RolledBack != "" && c.RolledBack != messages.ActionOK:
		return strings.TrimSuffix("rollback "+string(c.RolledBack)+" "+c.RolledBackWhy, " ")
	case c.State == messages.ActionOK || c.State == "" || c.Reason == messages.BranchNotTaken:
		return ""
	}
	return string(c.State) + " " + c.Reason
}

// undoneWorse reports whether an instance was undone worse than those before it: unknown is worse
// than ok, failed is worst.
func undoneWorse(was, now messages.ActionState) bool {
	order := []messages.ActionState{"", messages.ActionOK, messages.ActionUnknown, messages.ActionFailed}
	return slices.Index(order, now) > slices.Index(order, was)
}

// loopOf returns the outermost loop that a block is or is in; "" for none.
func (t *turnOf) loopOf(id string) (outermost string) {
	for id != "" {
		if t.loops[id] != nil {
			outermost = id
		}
		i, ok := t.byID[id]
		if !ok {
			break
		}
		id = t.calls[i].Block
	}
	return outermost
}

// maxNamed is how many failures of a loop are named.
const maxNamed = 20

// list is what the iterations of a loop came to.
func (t *turnOf) list(l *loop, id string) string {
	_, outer, _ := strings.Cut(id, "[")
	if outer != "" {
		outer = "[" + outer
	}
	ids := slices.DeleteFunc(slices.Clone(l.each), func(id string) bool { return slices.Contains(l.blocks, id) })
	slices.Sort(ids)
	return listed(l.count, func(out []byte, suffix string) []byte {
		if len(ids) == 1 {
			return append(out, t.resultOf(ids[0]+suffix)...)
		}
		out = append(out, '{')
		for i, id := range ids {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(jsonstring.Append(out, strings.TrimSuffix(id, outer)), ':'), t.resultOf(id+suffix)...)
		}
		return append(out, '}')
	})
}

func listed(count int64, item func(out []byte, suffix string) []byte) string {
	out := []byte{'['}
	for i := range count {
		if i > 0 {
			out = append(out, ',')
		}
		out = item(out, "["+strconv.FormatInt(i, 10)+"]")
	}
	return string(append(out, ']'))
}

// resultOf is the result of an instance: of what stands in a loop within, the list of its own.
func (t *turnOf) resultOf(id string) string {
	if i, ok := t.byID[id]; ok {
		if c := &t.calls[i]; c.State == messages.ActionOK && c.Value != "" {
			return c.Value
		}
		return "null"
	}
	for _, l := range t.loops {
		if slices.Contains(l.each, id) && l.count > 0 {
			return listed(l.count, func(out []byte, suffix string) []byte { return append(out, t.resultOf(id+suffix)...) })
		}
	}
	return "null"
}

// inOrder returns the calls in the order of the document: what stands in a control block behind
// the block, whenever it was declared.
func (t *turnOf) inOrder() []messages.Call {
	if !t.blocks {
		return t.calls
	}
	in := map[string][]int{}
	for i := range t.calls {
		if around := t.calls[i].Block; around != "" {
			in[around] = append(in[around], i)
		}
	}
	out := make([]messages.Call, 0, len(t.calls))
	var add func(i int)
	add = func(i int) {
		out = append(out, t.calls[i])
		if t.calls[i].Control != "" {
			for _, child := range in[t.calls[i].ID] {
				add(child)
			}
		}
	}
	for i := range t.calls {
		if t.calls[i].Block == "" {
			add(i)
		}
	}
	return out
}
