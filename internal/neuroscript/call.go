package neuroscript

import (
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// callFunc calls a library function (§12).
func (m *machine) callFunc(n *node) (Value, bool) {
	base, ok := m.push(n.a)
	if !ok {
		return Value{}, false
	}
	args := m.stack[base:]
	name := n.val.str()
	var f *function
	if m.env.Library != nil {
		f = m.env.Library.funcs[name]
	}
	if f == nil {
		m.stack = m.stack[:base]
		return Value{}, m.raiseAbout(n, name, CodeFuncNotFound, "there is no function "+name)
	}
	if len(args) < f.needs || len(args) > len(f.params) {
		m.stack = m.stack[:base]
		return Value{}, m.wrongCount(n, name, len(args), f.needs, len(f.params))
	}
	if !m.pay(n, gasLibrary) {
		return Value{}, false
	}
	if m.depth >= m.limits.Depth {
		return Value{}, m.trip(n, messages.ErrQuota, MeterDepth, m.limits.Depth)
	}
	slots := make([]Value, f.slots)
	m.predefine(slots)
	for i, v := range args {
		slots[f.params[i]] = v
	}
	m.stack = m.stack[:base]

	caller := m.frame()
	m.slots, m.owners, m.last, m.lines, m.names, m.loops, m.hbase = slots, nil, Value{}, f.lines, f.names, 0, len(m.handlers)
	m.depth++
	c := m.block(f.body)
	m.depth--
	m.setFrame(caller)

	switch c {
	case ctlNext:
		m.last = Value{}
		return Value{}, true
	case ctlReturn:
		m.last = m.ret
		return m.ret, true
	case ctlUnwind:
		// The place an author can look at is the call.
		m.err.Line, m.err.Col = m.position(n)
	case ctlBreach:
		m.breach.Line, m.breach.Col = m.position(n)
	}
	return Value{}, false
}

// frame is the part of a machine that a call puts aside.
type frame struct {
	slots  []Value
	owners []*owner
	last   Value
	lines  []uint32
	names  map[string]int32
	loops  int
	hbase  int
}

func (m *machine) frame() frame {
	return frame{m.slots, m.owners, m.last, m.lines, m.names, m.loops, m.hbase}
}

func (m *machine) setFrame(f frame) {
	m.slots, m.owners, m.last, m.lines, m.names, m.loops, m.hbase = f.slots, f.owners, f.last, f.lines, f.names, f.loops, f.hbase
}

func (m *machine) wrongCount(n *node, name string, have, least, most int) bool {
	num := func(i int) string { return string(appendNumber(nil, float64(i))) }
	want := num(least)
	if most > least {
		want += " to " + num(most)
	}
	return m.raise(n, CodeArgument, name+" takes "+want+" arguments, not "+num(have))
}

// maxToolName is the longest name, in bytes, that is looked up. A source could
// spell one of half a megabyte, and have it hashed for a few units of gas.
const maxToolName = 256

// callTool calls a tool (§11): arguments, lookup and policy, coercion, gas, run,
// size of the result.
func (m *machine) callTool(n *node) (Value, bool) {
	base, ok := m.push(n.a)
	if !ok {
		return Value{}, false
	}
	args := m.stack[base:]
	m.stack = m.stack[:base]
	name := n.val.str()
	if m.env.Tools == nil || len(name) > maxToolName {
		name = name[:min(len(name), maxToolName)]
		return Value{}, m.raiseAbout(n, name, CodeToolNotFound, "there is no tool."+name)
	}
	tool, err := m.env.Tools.Lookup(name)
	if err != nil {
		return Value{}, m.toolFailed(n, name, err)
	}
	if tool == nil {
		return Value{}, m.raiseAbout(n, name, CodeToolNotFound, "there is no tool."+name)
	}
	return m.invoke(n, tool, args)
}

// invoke calls a tool that was found.
func (m *machine) invoke(n *node, tool *Tool, args []Value) (Value, bool) {
	coerced, ok := m.coerceAll(n, tool, args)
	if !ok {
		m.about(tool.Name)
		return Value{}, false
	}
	appends := m.second && tool.Appends && len(coerced) == 2 && coerced[0].k == KindList
	in := int64(0)
	for i := range coerced {
		if appends && i == 0 {
			continue // none of it is looked at
		}
		in = addSize(in, coerced[i].Size())
	}
	if !m.charge(n, addSize(gasTool+(in+63)/64, max(0, tool.Gas)), 0, 0) {
		return Value{}, false
	}
	if counts := !m.second || !tool.Uncounted; counts {
		if m.counted >= m.limits.Tools {
			return Value{}, m.trip(n, messages.ErrQuota, MeterTools, m.limits.Tools)
		}
		m.counted++
	}
	m.toolCalls++
	if !m.poll(n) {
		return Value{}, false
	}
	if appends {
		return m.appended(n, coerced[0], coerced[1])
	}
	v, err := tool.Func(&Call{m: m, at: n, step: m.toolCalls}, coerced)
	// A deadline that passed meanwhile, or a charge that failed inside, counts
	// before whatever the tool says.
	if !m.poll(n) {
		return Value{}, false
	}
	if err != nil {
		m.toolFailed(n, tool.Name, err)
		m.about(tool.Name)
		return Value{}, false
	}
	out := v.Size()
	if !m.charge(n, (addSize(in, out)+63)/64-(in+63)/64, out, out) || !m.checkResult(n, tool.Name, v) {
		return Value{}, false
	}
	m.last = v
	return v, true
}

// toolFailed turns a tool's error into what it is for the program (§8.3).
func (m *machine) toolFailed(n *node, name string, err error) bool {
	if b := (*Breach)(nil); errors.As(err, &b) && b != nil {
		m.trip(n, b.Code, "", 0)
		m.breach.Meter, m.breach.Limit = b.Meter, b.Limit
		return false
	}
	code, message, details := CodeToolFailed, "", Value{}
	if e := (*ScriptError)(nil); errors.As(err, &e) && e != nil {
		code, message, details = e.Code, e.Message, e.Details
		if code == 0 {
			code = CodeToolFailed
		}
	} else {
		message = err.Error()
	}
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "\uFFFD")
	}
	size := addSize(int64(len(message)), details.Size())
	if !m.charge(n, (size+63)/64, details.Size(), size) {
		return false
	}
	if !m.checkResult(n, name, details) {
		return false
	}
	return m.raiseWith(n, code, message, details)
}

// checkResult walks a value a tool made: it must be one the language could have
// made itself.
func (m *machine) checkResult(n *node, name string, v Value) bool {
	if v.depth() > MaxValueDepth {
		return m.tooDeep(n)
	}
	switch flaw(v) {
	case CodeEvaluation:
		return m.raise(n, CodeEvaluation, "tool."+name+" gave a number that is not finite")
	case CodeToolFailed:
		return m.raise(n, CodeToolFailed, "tool."+name+" gave a text that is not UTF-8")
	}
	return true
}

// flaw finds what is wrong with a value of bounded depth; 0 when nothing is.
func flaw(v Value) int {
	switch v.k {
	case KindNumber:
		if !isFinite(v.num()) {
			return CodeEvaluation
		}
	case KindString:
		if !utf8.ValidString(v.str()) {
			return CodeToolFailed
		}
	case KindError:
		if !utf8.ValidString(v.fault().message) {
			return CodeToolFailed
		}
		return flaw(v.fault().details)
	case KindList:
		for _, e := range v.list().elems {
			if code := flaw(e); code != 0 {
				return code
			}
		}
	case KindMap:
		for _, e := range v.dict().entries {
			if !utf8.ValidString(e.Key) {
				return CodeToolFailed
			}
			if code := flaw(e.Value); code != 0 {
				return code
			}
		}
	}
	return 0
}

// coerceAll checks the number of arguments and turns each into its parameter's
// type. The result is a slice of its own, one value per parameter.
func (m *machine) coerceAll(n *node, tool *Tool, args []Value) ([]Value, bool) {
	needs := 0
	for _, p := range tool.Params {
		if !p.Optional {
			needs++
		}
	}
	if len(args) < needs || len(args) > len(tool.Params) {
		return nil, m.wrongCount(n, "tool."+tool.Name, len(args), needs, len(tool.Params))
	}
	out := make([]Value, len(tool.Params))
	for i, v := range args {
		p := &tool.Params[i]
		if v.IsNil() {
			if !p.Optional {
				return nil, m.raise(n, CodeArgument, "tool."+tool.Name+": "+p.Name+" is required and is nil")
			}
			continue
		}
		v, fits, ok := m.coerce(n, p.Type, v)
		if !ok {
			return nil, false
		}
		if !fits {
			return nil, m.raise(n, CodeArgument, "tool."+tool.Name+": "+p.Name+" must be "+p.Type+", not "+describe(v))
		}
		out[i] = v
	}
	return out, true
}

// coerce turns v into a type (§11). ok is false after a breach.
func (m *machine) coerce(n *node, typ string, v Value) (_ Value, fits, ok bool) {
	switch typ {
	case "any", "":
		return v, true, true
	case "string":
		return v, v.k == KindString, true
	case "list":
		return v, v.k == KindList, true
	case "map":
		return v, v.k == KindMap, true
	case "error":
		return v, v.k == KindError, true
	case "timedate":
		return v, v.k == KindTimeDate, true
	case "int", "float":
		f, numeric, paid := m.numberOf(n, v)
		if !numeric || typ == "int" && !isIntegral(f) {
			return v, false, paid
		}
		return Number(f), true, true
	case "bool":
		switch v.k {
		case KindBool:
			return v, true, true
		case KindNumber:
			return Bool(v.num() != 0), true, true
		case KindString:
			switch s := v.str(); {
			case s == "1" || strings.EqualFold(s, "true"):
				return Bool(true), true, true
			case s == "0" || strings.EqualFold(s, "false"):
				return Bool(false), true, true
			}
		}
		return v, false, true
	}
	if inner, found := strings.CutPrefix(typ, "list<"); found && strings.HasSuffix(inner, ">") {
		return m.coerceList(n, inner[:len(inner)-1], v)
	}
	return v, false, true
}

// coerceList turns the elements of a list; it pays 1 per element.
func (m *machine) coerceList(n *node, typ string, v Value) (_ Value, fits, ok bool) {
	if v.k != KindList {
		return v, false, true
	}
	elems := v.list().elems
	if !m.pay(n, int64(len(elems))) {
		return v, false, false
	}
	out := elems
	for i, e := range elems {
		w, fits, ok := m.coerce(n, typ, e)
		if !ok || !fits {
			return v, false, ok
		}
		if w != e && &out[0] == &elems[0] {
			// The first element that changes: the list is copied, and paid as a clone.
			own := ListBase + ListSlot*int64(len(elems))
			if !m.charge(n, 1+int64(len(elems)+15)/16, own, 0) {
				return v, false, false
			}
			out = append([]Value(nil), elems...)
		}
		if w != e {
			out[i] = w
		}
	}
	if len(out) == 0 || &out[0] == &elems[0] {
		return v, true, true
	}
	return List(out), true, true
}

// ChargeGas pays for work a tool is about to do, such as n·⌈log2(n+1)⌉ of a sort.
// The error is a *Breach: return it, the run is over.
func (c *Call) ChargeGas(n int64) error {
	return c.breach(c.m.charge(c.at, max(0, n), 0, 0))
}

// ChargeBytes pays for memory a tool is about to use beside its result, which is
// paid for when it is returned. The error is a *Breach.
func (c *Call) ChargeBytes(n int64) error {
	return c.breach(c.m.charge(c.at, 0, max(0, n), 0))
}

// CheckValue tells, before it is made, whether a result of this charged size
// (Value.Size) would pass the meters; it charges nothing. The error is the *Breach
// that returning the result would be.
func (c *Call) CheckValue(bytes int64) error {
	m := c.m
	if m.breach != nil {
		return m.breach
	}
	switch {
	case bytes/64 > m.gasLimit-m.gas:
		return c.breach(m.trip(c.at, messages.ErrQuota, MeterGas, m.gasLimit))
	case bytes > m.allocLimit-m.alloc:
		return c.breach(m.trip(c.at, messages.ErrQuota, MeterAlloc, m.allocLimit))
	case bytes > m.valueLimit:
		return c.breach(m.trip(c.at, messages.ErrQuota, MeterValue, m.valueLimit))
	}
	return nil
}

// RemainingBytes is the charged size a result can have at most.
func (c *Call) RemainingBytes() int64 {
	m := c.m
	if m.breach != nil {
		return 0
	}
	gas := min(m.gasLimit-m.gas, math.MaxInt64/64-1)
	return min(m.allocLimit-m.alloc, m.valueLimit, gas*64+63)
}

// ParseJSON reads a JSON text as FromJSON does. It pays for the scan, and stops
// with a *Breach where the value would be larger than the meters allow.
func (c *Call) ParseJSON(text string) (Value, error) {
	if err := c.ChargeGas(work(int64(len(text)))); err != nil {
		return Value{}, err
	}
	p := jsonParser{s: text, most: c.RemainingBytes()}
	v, err := p.document()
	if p.large {
		if err := c.CheckValue(p.size); err != nil {
			return Value{}, err
		}
	}
	return v, err
}

// Equal compares as == does and pays for it. The error is a *Breach.
func (c *Call) Equal(a, b Value) (bool, error) {
	eq, ok := c.m.equal(c.at, a, b)
	return eq, c.breach(ok)
}

func (c *Call) breach(ok bool) error {
	if ok {
		return nil
	}
	return c.m.breach
}
