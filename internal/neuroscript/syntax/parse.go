package syntax

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// parser reads statements and expressions by recursive descent with one token of
// look-ahead.
type parser struct {
	scanner
	t        Tree
	symbols  symbolTable
	nesting  int  // §13.5
	loops    int  // loops around the current statement, of the same function
	handlers int  // handlers around it
	inFunc   bool // return is allowed
}

// Parse reads a program: exactly one command block (§3). An error is a
// *messages.Error with ERR_ACTIONS_PARSE, line, column and byte offset.
func Parse(src []byte) (*Tree, error) {
	p := newParser(src)
	if p.err == nil {
		p.next()
		p.program()
	}
	return p.finish(messages.ErrActionsParse)
}

// ParseLibrary reads a source of functions (§12). An error is a *messages.Error
// with ERR_CONFIG: a library is loaded by the host, not by the author of a reply.
func ParseLibrary(src []byte) (*Tree, error) {
	p := newParser(src)
	if p.err == nil {
		p.next()
		p.library()
	}
	return p.finish(messages.ErrConfig)
}

func newParser(src []byte) *parser {
	p := new(parser)
	p.atStart = true
	if len(src) > MaxSourceBytes {
		p.failFor("LIMIT", MaxSourceBytes, "the source has more than "+strconv.Itoa(MaxSourceBytes)+" bytes")
		return p
	}
	p.src = string(src)
	p.t.Source = p.src
	if offset := badUTF8(p.src); offset >= 0 {
		p.lines = lineTable(p.src)
		p.fail(offset, "the source is not valid UTF-8")
		return p
	}
	if offset := strings.IndexByte(p.src, 0); offset >= 0 {
		p.lines = lineTable(p.src)
		p.fail(offset, "the source contains a NUL")
		return p
	}
	// A guess that fits ordinary programs; longer ones grow.
	guess := min(len(src)/4+16, 4096)
	p.t.Nodes = make([]Node, 1, guess)
	p.t.Strings = make([]string, 0, guess/6+4)
	p.t.Numbers = make([]float64, 0, guess/12+4)
	p.lines = make([]uint32, 0, min(len(src)/24+8, 4096))
	p.symbols.init(&p.t)
	return p
}

// badUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func badUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func lineTable(src string) []uint32 {
	s := scanner{src: src}
	for i := 0; i < len(src); {
		if n := s.lineEnd(i); n > 0 {
			i += n
			s.newline(i)
		} else {
			i++
		}
	}
	return s.lines
}

func (p *parser) finish(code messages.Code) (*Tree, error) {
	if p.err != nil {
		// An error may be reported behind lines not yet counted, or before ones
		// that were: the table answers both.
		line, col := Position(p.lines, uint32(p.err.offset))
		return nil, &messages.Error{
			Code: code, Reason: p.err.reason, Detail: p.err.detail,
			Line: line, Col: col, Offset: int64(p.err.offset), HasOffset: true,
		}
	}
	p.t.lines = p.lines
	t := p.t
	return &t, nil
}

func (p *parser) add(n Node) Ref {
	p.t.Nodes = append(p.t.Nodes, n)
	return Ref(len(p.t.Nodes) - 1)
}

func (p *parser) str(s string) Ref {
	p.t.Strings = append(p.t.Strings, s)
	return Ref(len(p.t.Strings) - 1)
}

func (p *parser) symbol(name string) Ref { return p.symbols.intern(&p.t, name) }

// chain appends n to the list from first to last.
func (p *parser) chain(first, last *Ref, n Ref) {
	if *first == 0 {
		*first = n
	} else {
		p.t.Nodes[*last].Next = n
	}
	*last = n
}

// enter counts one more nesting; leave takes it back.
func (p *parser) enter() bool {
	if p.nesting++; p.nesting > MaxNesting {
		p.failFor("LIMIT", p.start, "brackets, arguments, operators and blocks nest more than "+strconv.Itoa(MaxNesting)+" deep")
		return false
	}
	return true
}

func (p *parser) leave() { p.nesting-- }

// expect passes over a token.
func (p *parser) expect(t token, want string) bool {
	if p.tok != t {
		hint := ""
		if p.tok == tokAssign {
			hint = p.exprHint()
		}
		p.unexpected(want, hint)
		return false
	}
	p.next()
	return true
}

func (p *parser) unexpected(want, hint string) {
	if p.err != nil {
		return
	}
	detail := "unexpected " + p.describe() + ": expected " + want
	if hint != "" {
		detail += "; " + hint
	}
	p.fail(p.start, detail)
}

// program parses { meta | NL } "command" block "endcommand" { NL } EOF.
func (p *parser) program() {
	p.t.Meta = p.metadata(p.t.Meta)
	if p.tok != kwCommand {
		switch {
		case p.tok == kwFunc:
			p.fail(p.start, forbidden(kwFunc))
		case p.tok == kwOn:
			p.fail(p.start, "handlers and events stand in no place outside the command block: a program is one command … endcommand block")
		case p.tok == tokEOF:
			p.unexpected("`command`", "a program is one command … endcommand block")
		case p.tok == tokIdent && strings.EqualFold(p.text, "command"):
			p.fail(p.start, "keywords are lower-case: write `command`")
		default:
			p.unexpected("`command`", "a program is one command … endcommand block; text around it is not part of ACTIONS")
		}
		return
	}
	pos := p.start
	p.next()
	if p.tok != tokNL {
		p.unexpected("a line end after command", "each statement has a line of its own")
		return
	}
	p.next()
	p.t.Meta = p.metadata(p.t.Meta)
	p.t.Command = p.body(pos)
	if p.tok != kwEndcommand {
		p.blockEnd("endcommand", pos)
		return
	}
	p.next()
	if p.tok != tokNL && p.tok != tokEOF {
		p.unexpected("a line end after endcommand", "")
		return
	}
	p.blankLines()
	switch p.tok {
	case tokEOF:
	case kwCommand:
		p.fail(p.start, "a program has exactly one command block: move the statements into the first one")
	case kwFunc:
		p.fail(p.start, forbidden(kwFunc))
	default:
		p.unexpected("nothing after endcommand", "blank lines and comments only")
	}
}

// library parses { meta | NL } { func { NL } } EOF.
func (p *parser) library() {
	p.t.Meta = p.metadata(p.t.Meta)
	for p.tok == kwFunc {
		p.function()
		p.blankLines()
	}
	switch p.tok {
	case tokEOF:
	case kwCommand:
		p.fail(p.start, "a source holds functions or a command block, never both")
	default:
		p.unexpected("`func`", "")
	}
}

func (p *parser) blankLines() {
	for p.tok == tokNL {
		p.next()
	}
}

// metadata parses { meta | NL }. A line is cut at # or --, then split at the
// first colon (§2).
func (p *parser) metadata(list []Meta) []Meta {
	for p.tok == tokMeta || p.tok == tokNL {
		if p.tok == tokMeta {
			text := p.text
			if i := strings.IndexByte(text, '#'); i >= 0 {
				text = text[:i]
			}
			if i := strings.Index(text, "--"); i >= 0 {
				text = text[:i]
			}
			key, value, _ := strings.Cut(text, ":")
			key = strings.Trim(key, " \t")
			if key == "" {
				p.unexpected("`:: key: value`", "the key is missing")
				return list
			}
			list = append(list, Meta{key, strings.Trim(value, " \t")})
		}
		p.next()
	}
	return list
}

// symbolTable finds the index of a name in Tree.Symbols: open addressing over
// indices, so that a name costs no allocation of its own.
type symbolTable struct {
	slots []int32 // index + 1; 0 is free
	small [64]int32
}

func (s *symbolTable) init(t *Tree) {
	s.slots = s.small[:]
	t.Symbols = make([]string, 0, 16)
	for _, name := range [...]string{"self", "userdata", "sid", "turn_index", "system_error_message"} {
		s.intern(t, name)
	}
}

func hashName(name string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return h ^ h>>15
}

func (s *symbolTable) intern(t *Tree, name string) Ref {
	mask := uint32(len(s.slots) - 1)
	i := hashName(name) & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if ref := s.slots[i] - 1; t.Symbols[ref] == name {
			return Ref(ref)
		}
	}
	t.Symbols = append(t.Symbols, name)
	s.slots[i] = int32(len(t.Symbols))
	if 2*len(t.Symbols) > len(s.slots) {
		s.grow(t)
	}
	return Ref(len(t.Symbols) - 1)
}

func (s *symbolTable) grow(t *Tree) {
	s.slots = make([]int32, 2*len(s.slots))
	mask := uint32(len(s.slots) - 1)
	for ref, name := range t.Symbols {
		i := hashName(name) & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = int32(ref + 1)
	}
}
