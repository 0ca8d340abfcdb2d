package syntax

import "sort"

// Ref names a node of a Tree. The zero Ref is no node.
type Ref int32

// Kind says what a node is.
type Kind uint8

// The kinds of nodes, with the meaning of a node's fields. "list at X" is a chain
// of nodes from X along Next.
const (
	KindNone Kind = iota

	// Expressions.
	Nil
	True
	False
	Number   // A: index in Numbers
	String   // A: index in Strings
	Template // A: list of TemplateText, TemplateVar, TemplateLast; B: bytes of its source text
	List     // A: list of elements, B: their number
	Map      // A: list of key, value, key, value …, B: number of pairs
	Var      // A: index in Symbols
	Last
	Call     // A: name in Strings, B: list of arguments, C: their number
	ToolCall // as Call; the name is as written, without "tool."
	Eval     // A: operand
	Unary    // Op, A: operand
	Binary   // Op, A and B: operands
	Chain    // A: first operand, B: list of Link, at least two; operators of one level, from left to right
	Access   // A: base, B: list of StepIndex and StepField

	// Parts of expressions.
	TemplateText // A: index in Strings
	TemplateVar  // A: index in Symbols
	TemplateLast
	Link      // Op, A: right operand
	StepIndex // A: expression
	StepField // A: index in Strings

	// Statements.
	Set    // A: list of Target, B: value, C: number of targets; Flag: "= must"
	Target // A: index in Symbols, B: list of StepIndex and StepField
	CallStmt
	Emit       // A: expression, as in CallStmt, Must
	Whisper    // A: target, B: text
	Must       // also mustbe
	Fail       // A: expression or none
	ClearError //
	Break
	Continue
	If     // A: condition, B: Block, C: Block, If (else if) or none
	While  // A: condition, B: Block
	For    // A: index in Symbols, B: sequence, C: Block
	Return // A: list of expressions, B: their number; Flag: inside a handler

	Block   // A: list of statements, B: Handler or none
	Handler // A: index in Symbols or -1, B: Block
)

// Op is an operator.
type Op uint8

// The operators.
const (
	OpNone Op = iota
	OpOr
	OpAnd
	OpBitOr
	OpBitXor
	OpBitAnd
	OpEq
	OpNe
	OpLt
	OpGt
	OpLe
	OpGe
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpMod
	OpPow

	OpNeg
	OpInvert // ~
	OpNot    // not and no
	OpSome
	OpTypeof
)

var opNames = [...]string{"", "or", "and", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "**", "-", "~", "not", "some", "typeof"}

// String returns the operator as written.
func (o Op) String() string { return opNames[o] }

// Node is one node; Kind gives its fields their meaning.
type Node struct {
	Kind    Kind
	Op      Op
	Flag    bool
	Pos     uint32 // byte offset in the source
	A, B, C Ref
	Next    Ref // in a list
}

// Symbols every scope begins with: the predefined names, which programs cannot
// write (§5), and the name handlers write (§8.1).
const (
	SymSelf Ref = iota
	SymUserdata
	SymSID
	SymTurnIndex
	SymErrorMessage
)

const firstReadOnlySymbol, lastReadOnlySymbol = SymSelf, SymTurnIndex

// Meta is one metadata line (§2).
type Meta struct{ Key, Value string }

// Param is a parameter of a function.
type Param struct {
	Symbol   Ref
	Optional bool
}

// Func is one function of a library (§12).
type Func struct {
	Name    string
	Pos     uint32
	Params  []Param // needs before optional
	Returns []string
	Meta    []Meta
	Body    Ref // Block
}

// Tree is a parsed source. It is immutable.
type Tree struct {
	Source  string
	Nodes   []Node // Nodes[0] is no node
	Numbers []float64
	Strings []string
	Symbols []string // variable names; all functions of a library share the table
	Meta    []Meta
	Command Ref    // Block; none in a library
	Funcs   []Func // none in a program

	lines []uint32 // offsets at which lines 2, 3, … begin
}

// Position returns the 1-based line and column (in bytes) of a byte offset. A line
// ends with LF, CRLF or CR.
func (t *Tree) Position(offset uint32) (line, col int) { return Position(t.lines, offset) }

// Lines returns the offsets at which lines 2, 3, … begin, to be read only.
func (t *Tree) Lines() []uint32 { return t.lines }

// Position finds a byte offset in the line table of a tree (Tree.Lines), which may
// outlive its tree.
func Position(lines []uint32, offset uint32) (line, col int) {
	i := sort.Search(len(lines), func(i int) bool { return lines[i] > offset })
	if i == 0 {
		return 1, int(offset) + 1
	}
	return i + 1, int(offset-lines[i-1]) + 1
}
