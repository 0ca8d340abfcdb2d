package neuroscript

import (
	"strings"
	"unsafe"

	"github.com/seed14be6753/stile/internal/neuroscript/syntax"
)

// opcode is what a node does. The order matters: opVar and opConst come first
// (leaves), and the binary operators stand together.
type opcode uint8

const (
	opConst opcode = iota // val
	opVar                 // slot
	opLast

	// Binary operators: a, b. opOr and opAnd short-circuit.
	opOr
	opAnd
	opAdd
	opSub
	opMul
	opDiv
	opMod
	opPow
	opLt
	opGt
	opLe
	opGe
	opEq
	opNe
	opBitAnd
	opBitOr
	opBitXor

	opChain // a: first operand; b: list of links, whose op is the operator and a the operand; n: links
	opNeg   // a
	opInvert
	opNot
	opSome
	opTypeof
	opIndex    // a[b]
	opField    // a.val
	opPath     // a: base; b: list of steps; n: steps
	opList     // a: list of elements; n
	opMap      // a: list of keys and values; n: pairs
	opTemplate // a: list of opConst, opVar, opLast
	opEval     // a
	opBuiltin  // slot: which; a: arguments; n
	opCall     // val: name; a: arguments; n
	opTool     // val: lower-cased name; a: arguments; n

	opStepIndex // a
	opStepField // val

	// Statements.
	opSetVar // slot, b: value
	opSet    // a: list of opTarget, b: value, n: targets; flag: must
	opTarget // slot, a: list of steps
	opExpr   // a
	opEmit   // a
	opWhisper
	opMust
	opFail
	opClearError
	opBreak
	opContinue
	opIf     // a: condition, b: opBlock, c: opBlock, opIf or nil
	opWhile  // a: condition, b: opBlock
	opFor    // slot, a: sequence, b: opBlock
	opReturn // a: list, n; flag: inside a handler
	opBlock  // a: list of statements; c: opHandler or nil
	opHandler
)

var binaryOpcodes = [...]opcode{
	syntax.OpOr: opOr, syntax.OpAnd: opAnd, syntax.OpBitOr: opBitOr, syntax.OpBitXor: opBitXor,
	syntax.OpBitAnd: opBitAnd, syntax.OpEq: opEq, syntax.OpNe: opNe, syntax.OpLt: opLt, syntax.OpGt: opGt,
	syntax.OpLe: opLe, syntax.OpGe: opGe, syntax.OpAdd: opAdd, syntax.OpSub: opSub, syntax.OpMul: opMul,
	syntax.OpDiv: opDiv, syntax.OpMod: opMod, syntax.OpPow: opPow,
	syntax.OpNeg: opNeg, syntax.OpInvert: opInvert, syntax.OpNot: opNot, syntax.OpSome: opSome,
	syntax.OpTypeof: opTypeof,
}

var opSigns = map[opcode]string{
	opAdd: "+", opSub: "-", opMul: "*", opDiv: "/", opMod: "%", opPow: "**", opLt: "<", opGt: ">", opLe: "<=",
	opGe: ">=", opBitAnd: "&", opBitOr: "|", opBitXor: "^", opNeg: "unary -", opInvert: "~",
}

// node is one step of a lowered program: names are slots, literals are values.
// Nodes of a unit lie in one slab and never change.
type node struct {
	op   opcode
	flag bool
	cost uint16 // gas on entry: 1 for the node, and 1 for each leaf operand that follows at once
	slot int32
	pos  uint32
	n    int32

	a, b, c *node
	next    *node // in a list
	val     Value
}

// unit is the code of a program or a function.
type unit struct {
	body  *node
	slots int              // variables
	names map[string]int32 // slots by name, for eval; nil when the unit has none
	lines []uint32         // for positions
}

// Program is a compiled program. It is immutable and safe for concurrent runs.
type Program struct {
	unit
	meta     []Meta
	size     int64
	misnamed error // of a constant spelled as in other languages (cure.go); nil for none
}

// Meta is one metadata line of a program (§2).
type Meta = syntax.Meta

// Metadata returns the metadata lines, in order, to be read only.
func (p *Program) Metadata() []Meta { return p.meta }

// Bytes is the memory the program holds, for cache bounds.
func (p *Program) Bytes() int64 { return p.size }

// Compile parses and checks a program (§3). An error is a *messages.Error with
// ERR_ACTIONS_PARSE, line, column and a detail that says what to write instead.
func Compile(src []byte) (*Program, error) {
	tree, err := syntax.Parse(src)
	if err != nil {
		return nil, err
	}
	c := newCompiler(tree)
	c.slotCount = len(tree.Symbols)
	p := &Program{meta: tree.Meta, misnamed: misnamed(tree)}
	p.body = c.block(tree.Command)
	p.slots = len(tree.Symbols)
	p.lines = tree.Lines()
	if c.evals {
		p.names = make(map[string]int32, len(tree.Symbols))
		for i, name := range tree.Symbols {
			p.names[name] = int32(i)
		}
	}
	// Strings alias the source; those with escapes are copies no longer than it.
	p.size = int64(unsafe.Sizeof(*p)) + 2*int64(len(src)) + int64(cap(c.slab))*int64(unsafe.Sizeof(node{})) +
		4*int64(cap(p.lines)) + int64(cap(p.meta))*int64(unsafe.Sizeof(Meta{}))
	if p.names != nil {
		p.size += 64 * int64(len(p.names))
	}
	return p, nil
}

// Slots every unit begins with.
const (
	slotSelf         = int32(syntax.SymSelf)
	slotUserdata     = int32(syntax.SymUserdata)
	slotSID          = int32(syntax.SymSID)
	slotTurnIndex    = int32(syntax.SymTurnIndex)
	slotErrorMessage = int32(syntax.SymErrorMessage)
	fixedSlots       = 5
)

// compiler lowers one tree. A tree node becomes at most one node, so that the slab
// never grows and nodes can point to each other.
type compiler struct {
	t         *syntax.Tree
	slab      []node
	local     map[syntax.Ref]int32 // slots of a function's names; nil: slot = symbol
	slotCount int
	evals     bool
}

func newCompiler(t *syntax.Tree) *compiler {
	size := len(t.Nodes)
	if len(t.Funcs) > 0 {
		// The functions of a source share its tree: their slabs grow in pieces.
		size = 0
	}
	return &compiler{t: t, slab: make([]node, 0, size)}
}

func (c *compiler) add(op opcode, pos uint32) *node {
	if len(c.slab) == cap(c.slab) {
		c.slab = make([]node, 0, 64)
	}
	c.slab = append(c.slab, node{op: op, pos: pos, cost: 1})
	return &c.slab[len(c.slab)-1]
}

func (c *compiler) symbol(s syntax.Ref) int32 {
	if c.local == nil || s < fixedSlots {
		return int32(s)
	}
	slot, ok := c.local[s]
	if !ok {
		slot = int32(c.slotCount)
		c.slotCount++
		c.local[s] = slot
	}
	return slot
}

// list lowers a list of expressions.
func (c *compiler) list(ref syntax.Ref) *node {
	var first *node
	for last := &first; ref != 0; ref = c.t.Nodes[ref].Next {
		*last = c.expr(ref)
		last = &(*last).next
	}
	return first
}

func (n *node) leaf() bool { return n.op <= opVar }

// expr lowers an expression. It recurses with the nesting of the source only.
func (c *compiler) expr(ref syntax.Ref) *node {
	s := &c.t.Nodes[ref]
	switch s.Kind {
	case syntax.Nil:
		return c.add(opConst, s.Pos)
	case syntax.True, syntax.False:
		n := c.add(opConst, s.Pos)
		n.val = Bool(s.Kind == syntax.True)
		return n
	case syntax.Number:
		n := c.add(opConst, s.Pos)
		n.val = Number(c.t.Numbers[s.A])
		return n
	case syntax.String, syntax.TemplateText:
		n := c.add(opConst, s.Pos)
		n.val = String(c.t.Strings[s.A])
		return n
	case syntax.Var, syntax.TemplateVar:
		n := c.add(opVar, s.Pos)
		n.slot = c.symbol(s.A)
		return n
	case syntax.Last, syntax.TemplateLast:
		return c.add(opLast, s.Pos)
	case syntax.Template:
		n := c.add(opTemplate, s.Pos)
		n.a = c.list(s.A)
		return n
	case syntax.List:
		n := c.add(opList, s.Pos)
		n.a, n.n = c.list(s.A), int32(s.B)
		return n
	case syntax.Map:
		n := c.add(opMap, s.Pos)
		n.a, n.n = c.list(s.A), int32(s.B)
		return n
	case syntax.Unary:
		n := c.add(binaryOpcodes[s.Op], s.Pos)
		n.a = c.expr(s.A)
		return n
	case syntax.Binary:
		n := c.add(binaryOpcodes[s.Op], s.Pos)
		n.a, n.b = c.expr(s.A), c.expr(s.B)
		if n.op > opAnd {
			if n.a.leaf() {
				n.cost++
				if n.b.leaf() {
					n.cost++
				}
			}
		}
		return n
	case syntax.Chain:
		n := c.add(opChain, s.Pos)
		n.a = c.expr(s.A)
		for last, ref := &n.b, s.B; ref != 0; ref = c.t.Nodes[ref].Next {
			link := &c.t.Nodes[ref]
			l := c.add(binaryOpcodes[link.Op], link.Pos)
			l.a = c.expr(link.A)
			*last = l
			last = &l.next
			n.n++
		}
		return n
	case syntax.Access:
		return c.access(s)
	case syntax.Eval:
		c.evals = true
		n := c.add(opEval, s.Pos)
		n.a = c.expr(s.A)
		return n
	case syntax.Call:
		name := c.t.Strings[s.A]
		n := c.add(opCall, s.Pos)
		if id, ok := builtinByName(name); ok {
			n.op, n.slot = opBuiltin, int32(id)
		}
		n.val = String(name)
		n.a, n.n = c.list(s.B), int32(s.C)
		return n
	case syntax.ToolCall:
		n := c.add(opTool, s.Pos)
		n.val = String(strings.ToLower(c.t.Strings[s.A]))
		n.a, n.n = c.list(s.B), int32(s.C)
		return n
	}
	panic("neuroscript: a tree node that is no expression")
}

func (c *compiler) access(s *syntax.Node) *node {
	first := &c.t.Nodes[s.B]
	if first.Next != 0 {
		n := c.add(opPath, s.Pos)
		n.a = c.expr(s.A)
		n.b, n.n = c.steps(s.B)
		return n
	}
	if first.Kind == syntax.StepField {
		n := c.add(opField, s.Pos)
		n.a = c.expr(s.A)
		n.val = String(c.t.Strings[first.A])
		return n
	}
	n := c.add(opIndex, s.Pos)
	n.a, n.b = c.expr(s.A), c.expr(first.A)
	if n.a.leaf() {
		n.cost++
		if n.b.leaf() {
			n.cost++
		}
	}
	return n
}

func (c *compiler) steps(ref syntax.Ref) (first *node, count int32) {
	for last := &first; ref != 0; ref = c.t.Nodes[ref].Next {
		s := &c.t.Nodes[ref]
		n := c.add(opStepIndex, s.Pos)
		if s.Kind == syntax.StepField {
			n.op = opStepField
			n.val = String(c.t.Strings[s.A])
		} else {
			n.a = c.expr(s.A)
		}
		*last = n
		last = &n.next
		count++
	}
	return first, count
}

// block lowers a block with its handler.
func (c *compiler) block(ref syntax.Ref) *node {
	s := &c.t.Nodes[ref]
	n := c.add(opBlock, s.Pos)
	if s.B != 0 {
		h := &c.t.Nodes[s.B]
		n.c = c.add(opHandler, h.Pos)
		n.c.slot = -1
		if h.A >= 0 {
			n.c.slot = c.symbol(h.A)
		}
		n.c.b = c.block(h.B)
	}
	last := &n.a
	for ref = s.A; ref != 0; ref = c.t.Nodes[ref].Next {
		*last = c.stmt(ref)
		last = &(*last).next
	}
	return n
}

var simpleStatements = [...]opcode{
	syntax.CallStmt: opExpr, syntax.Emit: opEmit, syntax.Must: opMust, syntax.Fail: opFail, syntax.Whisper: opWhisper,
	syntax.ClearError: opClearError, syntax.Break: opBreak, syntax.Continue: opContinue,
}

func (c *compiler) stmt(ref syntax.Ref) *node {
	s := &c.t.Nodes[ref]
	switch s.Kind {
	case syntax.Set:
		target := &c.t.Nodes[s.A]
		if s.C == 1 && target.B == 0 && !s.Flag {
			n := c.add(opSetVar, s.Pos)
			n.slot = c.symbol(target.A)
			n.b = c.expr(s.B)
			return n
		}
		n := c.add(opSet, s.Pos)
		n.flag, n.n = s.Flag, int32(s.C)
		for last, ref := &n.a, s.A; ref != 0; ref = c.t.Nodes[ref].Next {
			t := &c.t.Nodes[ref]
			l := c.add(opTarget, t.Pos)
			l.slot = c.symbol(t.A)
			l.a, l.n = c.steps(t.B)
			*last = l
			last = &l.next
		}
		n.b = c.expr(s.B)
		return n
	case syntax.If:
		// An else if hangs on its if: a loop, because chains do not nest.
		var first *node
		for last := &first; ; {
			n := c.add(opIf, s.Pos)
			n.a, n.b = c.expr(s.A), c.block(s.B)
			*last = n
			last = &n.c
			if s.C == 0 {
				return first
			}
			if next := &c.t.Nodes[s.C]; next.Kind == syntax.If {
				s = next
				continue
			}
			n.c = c.block(s.C)
			return first
		}
	case syntax.While:
		n := c.add(opWhile, s.Pos)
		n.a, n.b = c.expr(s.A), c.block(s.B)
		return n
	case syntax.For:
		n := c.add(opFor, s.Pos)
		n.slot = c.symbol(s.A)
		n.a, n.b = c.expr(s.B), c.block(s.C)
		return n
	case syntax.Return:
		n := c.add(opReturn, s.Pos)
		n.flag, n.n = s.Flag, int32(s.B)
		n.a = c.list(s.A)
		return n
	}
	n := c.add(simpleStatements[s.Kind], s.Pos)
	if s.A != 0 {
		n.a = c.expr(s.A)
	}
	if s.B != 0 {
		n.b = c.expr(s.B)
	}
	return n
}
