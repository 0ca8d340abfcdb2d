package neuroscript

import "github.com/seed14be6753/stile/internal/neuroscript/syntax"

// template fills in a raw string (§6.5). The placeholders were found by the
// parser; its work is paid once, by the length of the result.
func (m *machine) template(n *node) (Value, bool) {
	most := m.affordable()
	total := int64(0)
	for p := n.a; p != nil && total <= most; p = p.next {
		v := m.part(p)
		if !m.renderable(n, v) {
			return Value{}, false
		}
		total += textLen(v, most-total)
	}
	if !m.newString(n, total) {
		return Value{}, false
	}
	b := make([]byte, 0, total)
	for p := n.a; p != nil; p = p.next {
		b = m.part(p).AppendText(b)
	}
	return adopt(b), true
}

func (m *machine) part(p *node) Value {
	switch p.op {
	case opConst:
		return p.val
	case opVar:
		return m.slots[p.slot]
	}
	return m.last
}

// interpolate is eval(s): the same replacement in a string made at run time. It
// pays by the longer of text and result, because the text is scanned.
func (m *machine) interpolate(n *node, v Value) (Value, bool) {
	if v.k != KindString {
		return Value{}, m.raise(n, CodeType, "eval needs a string, not "+v.k.String())
	}
	s := v.str()
	if !m.charge(n, work(int64(len(s))), 0, 0) {
		return Value{}, false
	}
	most := m.affordable()
	total, from := int64(0), 0
	for {
		p := syntax.NextPlaceholder(s, from)
		if p.Kind == syntax.PlaceNone {
			break
		}
		w := m.placeholder(p)
		if !m.renderable(n, w) {
			return Value{}, false
		}
		total += int64(p.Start - from)
		total += textLen(w, max(0, most-total))
		from = p.End
		if total > most {
			break
		}
	}
	total += int64(len(s) - from)
	rest := max(0, work(total)-work(int64(len(s))))
	if !m.charge(n, rest, StringBase+total, StringBase+total) {
		return Value{}, false
	}
	b := make([]byte, 0, total)
	from = 0
	for {
		p := syntax.NextPlaceholder(s, from)
		if p.Kind == syntax.PlaceNone {
			return adopt(append(b, s[from:]...)), true
		}
		b = append(b, s[from:p.Start]...)
		b = m.placeholder(p).AppendText(b)
		from = p.End
	}
}

func (m *machine) placeholder(p syntax.Placeholder) Value {
	switch p.Kind {
	case syntax.PlaceLast:
		return m.last
	case syntax.PlaceText:
		return String(p.Text)
	}
	if slot, ok := m.names[p.Text]; ok {
		return m.slots[slot]
	}
	return Value{}
}
