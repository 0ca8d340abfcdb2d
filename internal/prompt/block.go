package prompt

import "github.com/seed14be6753/stile/messages"

// block takes a record of a control block, which is an entry among the calls of its turn.
func (t *turnOf) block(body messages.Body) {
	switch b := body.(type) {
	case *messages.BlockBegin:
		if t.byID == nil {
			t.byID = map[string]int{}
		}
		t.byID[b.ID], t.blocks = len(t.calls), true
		t.calls = append(t.calls, messages.Call{ID: b.ID, Control: b.BlockKind, Block: b.Block})
	case *messages.BlockDecided:
		if c := t.call(b.ID); c != nil {
			c.Branch = b.Branch
		}
	case *messages.BlockEnded:
		if c := t.call(b.ID); c != nil {
			c.State, c.Reason, c.OK, c.Failed = b.State, b.Reason, b.OK, b.Failed
		}
	}
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
