package neuroscript

import (
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// ctl is how a statement or block ended.
type ctl uint8

const (
	ctlNext     ctl = iota
	ctlBreak        // for the loop m.ctlLoop
	ctlContinue     // for the loop m.ctlLoop
	ctlReturn       // m.ret
	ctlFault        // m.err is set; no handler has seen it yet
	ctlUnwind       // m.err is set; no handler of this frame cleared it
	ctlBreach       // m.breach is set
)

// failed tells a breach from a script error after a failed evaluation.
func (m *machine) failed() ctl {
	if m.breach != nil {
		return ctlBreach
	}
	return ctlFault
}

// block executes a block. An error of one of its statements goes to the handlers
// at once, while the blocks around the statement are still being executed: so a
// handler that clears it lets the innermost failing statement's successor run
// (§8.1 rule 4). Errors inside nested blocks were treated so there.
func (m *machine) block(b *node) ctl {
	if b.c != nil {
		m.handlers = append(m.handlers, activeHandler{b.c, m.loops})
		c := m.statements(b.a)
		m.handlers = m.handlers[:len(m.handlers)-1]
		return c
	}
	return m.statements(b.a)
}

func (m *machine) statements(first *node) ctl {
	for s := first; s != nil; s = s.next {
		if m.gas++; m.gas >= m.gasStop && !m.tick(s) {
			return ctlBreach
		}
		var c ctl
		switch s.op {
		case opSetVar:
			if v, ok := m.eval(s.b); ok {
				m.slots[s.slot] = v
				continue
			}
			c = m.failed()
		case opIf:
			c = m.ifStmt(s)
		case opWhile:
			c = m.while(s)
		default:
			c = m.stmt(s)
		}
		if c == ctlNext {
			continue
		}
		if c == ctlFault {
			if c = m.handle(); c == ctlNext {
				continue
			}
		}
		return c
	}
	return ctlNext
}

func (m *machine) stmt(s *node) ctl {
	switch s.op {
	case opSet:
		return m.set(s)
	case opExpr:
		if _, ok := m.eval(s.a); !ok {
			return m.failed()
		}
	case opEmit:
		v, ok := m.eval(s.a)
		if !ok || !m.emit(s, v) {
			return m.failed()
		}
	case opWhisper:
		target, ok := m.eval(s.a)
		if !ok {
			return m.failed()
		}
		v, ok := m.eval(s.b)
		if !ok || !m.whisper(s, target, v) {
			return m.failed()
		}
	case opMust:
		v, ok := m.eval(s.a)
		if !ok || !v.Truthy() && !m.mustFailed(s, v) {
			return m.failed()
		}
	case opFail:
		m.fail(s)
		return m.failed()
	case opClearError:
		m.cleared = true
	case opBreak:
		m.ctlLoop = m.loops
		return ctlBreak
	case opContinue:
		m.ctlLoop = m.loops
		return ctlContinue
	case opFor:
		return m.forEach(s)
	case opReturn:
		return m.returnStmt(s)
	}
	return ctlNext
}

// ifStmt executes an if and its else ifs, each of which is a statement.
func (m *machine) ifStmt(s *node) ctl {
	for {
		v, ok := m.eval(s.a)
		if !ok {
			return m.failed()
		}
		if v.Truthy() {
			return m.block(s.b)
		}
		if s.c == nil {
			return ctlNext
		}
		if s.c.op != opIf {
			return m.block(s.c)
		}
		s = s.c
		if m.gas++; m.gas >= m.gasStop && !m.tick(s) {
			return ctlBreach
		}
	}
}

// while pays 1 per test.
func (m *machine) while(s *node) ctl {
	m.loops++
	own := m.loops
	for {
		if m.gas++; m.gas >= m.gasStop && !m.tick(s) {
			return ctlBreach
		}
		v, ok := m.eval(s.a)
		if !ok {
			m.loops = own - 1
			return m.failed()
		}
		if !v.Truthy() {
			break
		}
		if c := m.block(s.b); c != ctlNext {
			if c, again := m.loopEnd(c, own); !again {
				return c
			}
		}
	}
	m.loops = own - 1
	return ctlNext
}

// loopEnd treats the end of a loop body that was no ordinary one: again tells
// whether the loop goes on, else it ends with c.
func (m *machine) loopEnd(c ctl, own int) (_ ctl, again bool) {
	if (c == ctlBreak || c == ctlContinue) && m.ctlLoop == own {
		if c == ctlContinue {
			return ctlNext, true
		}
		c = ctlNext
	}
	m.loops = own - 1
	return c, false
}

// forEach fixes the sequence, pays 1 per element for that and 1 per iteration.
func (m *machine) forEach(s *node) ctl {
	seq, ok := m.eval(s.a)
	if !ok {
		return m.failed()
	}
	count := int64(0)
	switch seq.k {
	case KindNil:
	case KindList:
		count = int64(len(seq.list().elems))
	case KindMap:
		count = int64(len(seq.dict().entries))
	case KindString:
		count = int64(utf8.RuneCountInString(seq.str()))
	default:
		m.raise(s, CodeType, "for each needs a list, map, string or nil, not "+seq.k.String())
		return ctlFault
	}
	if !m.pay(s, count) {
		return ctlBreach
	}
	m.loops++
	own := m.loops
	text := ""
	if seq.k == KindString {
		text = seq.str()
	}
	for i := range count {
		if m.gas++; m.gas >= m.gasStop && !m.tick(s) {
			return ctlBreach
		}
		switch seq.k {
		case KindList:
			m.slots[s.slot] = seq.list().elems[i]
		case KindMap:
			m.slots[s.slot] = seq.dict().entries[i].Value
		case KindString:
			_, n := utf8.DecodeRuneInString(text)
			if !m.charge(s, 0, StringBase+int64(n), StringBase+int64(n)) {
				return ctlBreach
			}
			m.slots[s.slot] = String(text[:n])
			text = text[n:]
		}
		if c := m.block(s.b); c != ctlNext {
			if c, again := m.loopEnd(c, own); !again {
				return c
			}
		}
	}
	m.loops = own - 1
	return ctlNext
}

// set assigns to several targets, to elements, or with must.
func (m *machine) set(s *node) ctl {
	v, ok := m.eval(s.b)
	if !ok {
		return m.failed()
	}
	if s.flag && (v.k == KindNil || v.IsErrorLike()) {
		m.mustFailed(s, v)
		return m.failed()
	}
	if s.n == 1 {
		if !m.assign(s.a, v) {
			return m.failed()
		}
		return ctlNext
	}
	if v.k != KindList {
		m.raise(s, CodeType, "a set of several names needs a list, not "+v.k.String())
		return ctlFault
	}
	elems := v.list().elems
	if len(elems) != int(s.n) {
		m.raise(s, CodeCount, "a set of "+string(appendNumber(nil, float64(s.n)))+" names got a list of "+string(appendNumber(nil, float64(len(elems)))))
		return ctlFault
	}
	i := 0
	for t := s.a; t != nil; t = t.next {
		if !m.assign(t, elems[i]) {
			return m.failed()
		}
		i++
	}
	return ctlNext
}

// emit appends a rendering to OUTPUT; everything is checked before (§7, §13.1).
func (m *machine) emit(s *node, v Value) bool {
	text, ok := m.emission(s, v, m.limits.Output, &m.result.OutputBytes)
	if !ok {
		return false
	}
	if int64(len(text)) > m.limits.Line {
		for rest := text; rest != ""; {
			line, after, _ := strings.Cut(rest, "\n")
			if int64(len(line)) > m.limits.Line {
				return m.trip(s, messages.ErrEnvSize, MeterLine, m.limits.Line)
			}
			rest = after
		}
	}
	m.emits++
	m.result.OutputBytes += int64(len(text)) + 1
	if m.env.Emit != nil {
		m.env.Emit(text)
	}
	return true
}

func (m *machine) whisper(s *node, target, v Value) bool {
	if target.k != KindString {
		return m.raise(s, CodeType, "the target of whisper is a string, such as self, not "+target.k.String())
	}
	text, ok := m.emission(s, v, m.limits.Scratch, &m.result.ScratchBytes)
	if !ok {
		return false
	}
	m.emits++
	m.result.ScratchBytes += int64(len(text)) + 1
	if m.env.Whisper != nil {
		m.env.Whisper(target.str(), text)
	}
	return true
}

// emission pays for a rendering, also of a string, checks the count and the
// stream's size, and renders. A breach of the stream is ERR_ENV_SIZE also when the
// host lowered the limit: so says docs/spec/design.md §8, where docs/spec/neuroscript.md §13.1 would
// have ERR_QUOTA.
func (m *machine) emission(s *node, v Value, limit int64, used *int64) (string, bool) {
	if !m.renderable(s, v) {
		return "", false
	}
	size := textLen(v, m.affordable())
	if !m.charge(s, work(size), 0, 0) {
		return "", false
	}
	if m.emits >= m.limits.Emits {
		return "", m.trip(s, messages.ErrQuota, MeterEmits, m.limits.Emits)
	}
	if size+1 > limit-*used {
		return "", m.trip(s, messages.ErrEnvSize, MeterOutput, limit)
	}
	if v.k == KindString {
		return v.str(), true
	}
	return adopt(v.AppendText(make([]byte, 0, size))).str(), true
}

// mustFailed raises code 5; of an error it keeps the message, and the error itself
// as details.
func (m *machine) mustFailed(s *node, v Value) bool {
	message, details := "must failed: the value is "+v.k.String(), Value{}
	switch {
	case v.IsErrorLike():
		text, ok := m.memberText(s, v, "message")
		if !ok || !m.pay(s, work(int64(len(text)))) {
			return false
		}
		message, details = "must failed: "+text, v
	case v.k == KindBool:
		message = "must failed: the condition is false"
	}
	return m.raiseWith(s, CodeMust, message, details)
}

// errorMember reads a member of an error or an error-like map.
func errorMember(v Value, key string) Value {
	if v.k == KindError {
		return v.fault().member(key)
	}
	member, _ := v.MapGet(key)
	return member
}

func (m *machine) memberText(s *node, v Value, key string) (string, bool) {
	return m.rendered(s, errorMember(v, key))
}

// fail raises code 1 with a rendering, or an error-like value's own code, message
// and details.
func (m *machine) fail(s *node) {
	if s.a == nil {
		m.raise(s, CodeFail, "fail statement executed")
		return
	}
	v, ok := m.eval(s.a)
	if !ok {
		return
	}
	if !v.IsErrorLike() {
		if text, ok := m.rendered(s, v); ok {
			m.raise(s, CodeFail, text)
		}
		return
	}
	code := CodeFail
	if i, ok := errorMember(v, "code").AsInt(); ok {
		code = int(i)
	}
	if text, ok := m.memberText(s, v, "message"); ok {
		m.raiseWith(s, code, text, errorMember(v, "details"))
	}
}

func (m *machine) returnStmt(s *node) ctl {
	if s.flag {
		m.raise(s, CodeReturnViolation, "return is not allowed inside a handler")
		return ctlFault
	}
	switch s.n {
	case 0:
		m.ret = Value{}
	case 1:
		v, ok := m.eval(s.a)
		if !ok {
			return m.failed()
		}
		m.ret = v
	default:
		v, ok := m.listLiteral(s)
		if !ok {
			return m.failed()
		}
		m.ret = v
	}
	return ctlReturn
}

// handle offers m.err to the handlers around the failing statement, from the
// inside out, until one clears it (§8.1). It gives ctlNext when one did: the
// caller goes on behind the statement. A handler that left with break or continue
// after clearing gives those, for the loop around its block.
//
// While a handler runs, it and all handlers around it are out of reach: an error
// inside it finds only handlers written in its body. One that none of these clears
// replaces the error and goes on outwards.
func (m *machine) handle() ctl {
	top, base, loops, cleared := len(m.handlers), m.hbase, m.loops, m.cleared
	m.hbase = top
	c := ctlUnwind
	for i := top - 1; i >= base && c == ctlUnwind; i-- {
		c = m.runHandler(m.handlers[i])
	}
	m.hbase, m.loops, m.cleared = base, loops, cleared
	return c
}

// runHandler runs one handler for m.err. It gives ctlUnwind when the error, or a
// new one, goes on outwards.
func (m *machine) runHandler(h activeHandler) ctl {
	err, n := m.err, h.node
	length := int64(len(err.Message))
	bytes := StringBase + length
	size := bytes
	if n.slot >= 0 {
		size = addSize(ErrorBase+length, err.Details.Size())
		bytes += ErrorBase + length
	}
	if !m.charge(n, 1, bytes, size) {
		return ctlBreach
	}
	m.slots[slotErrorMessage] = String(err.Message)
	if n.slot >= 0 {
		m.slots[n.slot] = newError(err.Code, err.Message, err.Details, err.Line)
	}
	m.loops, m.cleared, m.err = h.loops, false, nil
	switch c := m.block(n.b); c {
	case ctlNext, ctlBreak, ctlContinue:
		if m.cleared {
			return c
		}
		m.err = err
		return ctlUnwind
	default:
		return c // ctlUnwind with the new error, ctlBreach
	}
}
