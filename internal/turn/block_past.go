package turn

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// onRecord reports whether a restored turn has an action or block on record, and known whether it
// has on record how the action ended after it was handed out, or what the block does.
func (m *Machine) onRecord(id string) (declared, known bool) {
	f := m.flight
	if f == nil || f.restore.blocks == nil {
		return false, false
	}
	if k := f.restore.blocks[id]; k != nil {
		return true, k.decided != nil
	}
	c := f.any(id)
	if c == nil || !c.known {
		return false, false
	}
	return true, c.phase.ended() && (c.phase.began() || c.State == messages.ActionOK || c.State == messages.ActionFailed)
}

// left reports whether a restored turn has the end of a block on record.
func (m *Machine) left(id string) bool {
	f := m.flight
	return f != nil && f.restore.blocks[id] != nil && f.restore.blocks[id].ended
}

// past is what the records of an earlier turn say of its control blocks.
type past struct {
	begun   []*messages.BlockBegin
	decided map[string]*messages.BlockDecided
	ended   map[string]*messages.BlockEnded
	calls   []*messages.ActionDeclared
	ends    map[string]*messages.ActionEnded
}

// pastOf reads the records of a turn; nil for one without blocks.
func pastOf(recs []*messages.Record) *past {
	p := &past{decided: map[string]*messages.BlockDecided{}, ended: map[string]*messages.BlockEnded{}, ends: map[string]*messages.ActionEnded{}}
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.BlockBegin:
			p.begun = append(p.begun, b)
		case *messages.BlockDecided:
			p.decided[b.ID] = b
		case *messages.BlockEnded:
			p.ended[b.ID] = b
		case *messages.ActionDeclared:
			p.calls = append(p.calls, b)
		case *messages.ActionEnded:
			p.ends[b.ID] = b
		}
	}
	if len(p.begun) == 0 {
		return nil
	}
	return p
}

// ordered returns the records in the order of the document: what stands in a block follows its
// begin, whenever it was recorded.
func (p *past) ordered(recs []*messages.Record) []*messages.Record {
	if p == nil {
		return recs
	}
	in := map[string][]*messages.Record{}
	for _, r := range recs {
		if around := blockAround(r.Body); around != "" {
			in[around] = append(in[around], r)
		}
	}
	out := make([]*messages.Record, 0, len(recs))
	var add func(r *messages.Record)
	add = func(r *messages.Record) {
		out = append(out, r)
		if b, ok := r.Body.(*messages.BlockBegin); ok {
			for _, child := range in[b.ID] {
				add(child)
			}
		}
	}
	for _, r := range recs {
		if blockAround(r.Body) == "" {
			add(r)
		}
	}
	return out
}

// blockAround is the id of the block that the action or block of a record stands in.
func blockAround(body messages.Body) string {
	switch b := body.(type) {
	case *messages.BlockBegin:
		return b.Block
	case *messages.ActionDeclared:
		return b.Block
	}
	return ""
}

// view is a block as it ended.
func (p *past) view(b *messages.BlockBegin) plan.View {
	v := plan.View{Action: messages.Action{ID: b.ID, OutputKey: b.OutputKey, OnError: messages.OnErrorFail}, State: plan.Cancelled}
	if b.Of != "" {
		v.OutputKey = "" // known in its iteration alone
	}
	end := p.ended[b.ID]
	if end == nil {
		return v
	}
	v.Reason = end.Reason
	if state, ok := plan.StateOf(end.State); ok {
		v.State = state
	}
	if v.State == plan.OK {
		v.Value = p.value(b)
	}
	return v
}

// value is the result of a block that ended well.
func (p *past) value(b *messages.BlockBegin) string {
	if b.BlockKind == kindForeach {
		return p.loop(b)
	}
	if b.BlockKind == kindIf {
		if d := p.decided[b.ID]; d != nil {
			return quote(d.Branch)
		}
		return "null"
	}
	type result struct{ id, value string }
	var all []result
	for _, c := range p.calls {
		if c.Block != b.ID || c.Mode == messages.ModeFireAndForget {
			continue
		}
		value := "null"
		if end := p.ends[c.ID]; end != nil && end.State == messages.ActionOK && end.Result != "" {
			value = end.Result
		}
		all = append(all, result{c.ID, value})
	}
	for _, c := range p.begun {
		if c.Block != b.ID {
			continue
		}
		value := "null"
		if v := p.view(c); v.State == plan.OK {
			value = v.Value
		}
		all = append(all, result{c.ID, value})
	}
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.id, b.id) })
	out := []byte{'{'}
	for i, r := range all {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(jsonstring.Append(out, r.id), ':'), r.value...)
	}
	return string(append(out, '}'))
}
