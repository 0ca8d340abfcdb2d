package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// Bounds of an expression (docs/spec/extensions.md §1).
const (
	MaxBytes = 1024
	MaxNodes = 64 // references, calls, scalars, brackets of literals, operators
	MaxDepth = 16 // of ( ! [ {
)

// Why an expression has no result.
const (
	WhySyntax  = "syntax"  // it does not parse
	WhyLimit   = "limit"   // it is too long, too large or nested too deeply
	WhyType    = "type"    // a value has the wrong type for what is done with it
	WhyUnknown = "unknown" // a name, a path or an id is unknown
)

// Error says why and at which byte of the expression there is no result. The model is told
// of it: a condition that does not parse is the model's to mend.
type Error struct {
	Why    string
	At     int // from 0
	Detail string
}

func (e *Error) Error() string { return "at byte " + strconv.Itoa(e.At) + ": " + e.Detail }

// Expr is an expression that parses. It is immutable.
type Expr struct {
	root   *node
	needs  []string
	awaits []string
}

// Needs are the names whose values the expression reads, in order, each once: those of
// references, of empty and of length.
func (e *Expr) Needs() []string { return e.needs }

// Awaits are the names and ids whose end alone it waits for, those of exists and status, in
// order, without the ones it needs.
func (e *Expr) Awaits() []string { return e.awaits }

// node is a part of an expression: an operator, a call, a reference or a literal.
type node struct {
	op          string // "$" is a reference, "=" a literal; else an operator or a function
	at          int
	ref         Ref
	value       string // of a literal; the id that status is asked for
	refAt       int    // of a call's reference
	left, right *node  // right alone for !
}

// Parse reads an expression. Its error is of WhySyntax or WhyLimit.
func Parse(text string) (*Expr, *Error) {
	if len(text) > MaxBytes {
		return nil, &Error{WhyLimit, MaxBytes, "more than " + strconv.Itoa(MaxBytes) + " bytes: do part of it in an action"}
	}
	p := parser{scan: scanner{text: text}}
	p.advance()
	root := p.or()
	if p.err == nil && p.token.kind != tokenEnd {
		p.unexpected("an operator or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	e := &Expr{root: root, needs: names(p.needs), awaits: names(p.awaits)}
	e.awaits = slices.DeleteFunc(e.awaits, func(n string) bool { return slices.Contains(e.needs, n) })
	return e, nil
}

func names(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// parser reads by recursive descent, one token ahead. After the first error it stays where
// it is.
type parser struct {
	scan          scanner
	token         token
	nodes, depth  int
	needs, awaits []string
	err           *Error
}

func (p *parser) advance() {
	if p.err == nil {
		p.token = p.scan.next()
	}
}

// unexpected refuses the token.
func (p *parser) unexpected(wanted string) {
	if p.err != nil {
		return
	}
	detail := p.token.bad
	switch {
	case p.token.kind == tokenEnd:
		detail = "the expression ends where " + wanted + " must stand"
	case detail == "":
		detail = wanted + " must stand here"
	}
	p.err = &Error{WhySyntax, p.token.at, detail}
	p.token = token{}
}

// is reports whether the token is an operator.
func (p *parser) is(ops ...string) bool {
	return p.err == nil && p.token.kind == tokenOperator && slices.Contains(ops, p.token.text)
}

// count takes the token as a node.
func (p *parser) count() {
	if p.nodes++; p.nodes > MaxNodes && p.err == nil {
		p.err = &Error{WhyLimit, p.token.at, "more than " + strconv.Itoa(MaxNodes) + " parts: do part of it in an action"}
	}
}

// open takes the token as one that opens a level.
func (p *parser) open() {
	if p.depth++; p.depth > MaxDepth && p.err == nil {
		p.err = &Error{WhyLimit, p.token.at, "nested more than " + strconv.Itoa(MaxDepth) + " deep"}
	}
}

func (p *parser) or() *node  { return p.chain("||", p.and) }
func (p *parser) and() *node { return p.chain("&&", p.comparison) }

// chain reads operands between operators of one kind, from left to right.
func (p *parser) chain(op string, operand func() *node) *node {
	left := operand()
	for p.is(op) {
		p.count()
		n := &node{op: op, at: p.token.at, left: left}
		p.advance()
		n.right = operand()
		left = n
	}
	return left
}

func (p *parser) comparison() *node {
	left := p.unary()
	if !p.is("==", "!=", "<", "<=", ">", ">=") {
		return left
	}
	p.count()
	n := &node{op: p.token.text, at: p.token.at, left: left}
	p.advance()
	n.right = p.unary()
	return n
}

func (p *parser) unary() *node {
	if !p.is("!") {
		return p.primary()
	}
	p.count()
	p.open()
	n := &node{op: "!", at: p.token.at}
	p.advance()
	if p.err == nil {
		n.right = p.unary()
	}
	p.depth--
	return n
}

const operand = "a reference, a literal, a call or ("

func (p *parser) primary() *node {
	if p.err != nil {
		return nil
	}
	switch t := p.token; {
	case t.kind == tokenRef:
		p.count()
		p.needs = append(p.needs, t.ref.Name)
		p.advance()
		return &node{op: "$", at: t.at, ref: t.ref, refAt: t.at}
	case p.is("("):
		p.open()
		p.advance()
		n := p.or()
		p.close(")")
		return n
	case t.kind == tokenWord && isFunction(t.text):
		return p.call()
	}
	n := &node{op: "=", at: p.token.at}
	var literal strings.Builder
	p.literal(&literal, operand)
	if p.err == nil {
		n.value, _ = jsonvalue.Normal(literal.String())
	}
	return n
}

// close takes the bracket that ends a level.
func (p *parser) close(bracket string) {
	if !p.is(bracket) {
		p.unexpected("an operator or " + bracket)
	}
	p.advance()
	p.depth--
}

// literal reads a JSON value, in which brackets nest and references have no place.
func (p *parser) literal(b *strings.Builder, wanted string) {
	if p.err != nil {
		return
	}
	switch t := p.token; {
	case t.kind == tokenNumber, t.kind == tokenString, t.kind == tokenWord && (t.text == "true" || t.text == "false" || t.text == "null"):
		p.count()
		b.WriteString(t.text)
		p.advance()
	case p.is("["):
		p.list(b, "]", func() { p.literal(b, "a literal") })
	case p.is("{"):
		p.list(b, "}", func() {
			if p.token.kind != tokenString {
				p.unexpected("a name in quotes")
			}
			b.WriteString(p.token.text)
			p.advance()
			if !p.is(":") {
				p.unexpected(":")
			}
			b.WriteByte(':')
			p.advance()
			p.literal(b, "a literal")
		})
	default:
		p.unexpected(wanted)
	}
}

// list reads what stands between brackets, with commas between.
func (p *parser) list(b *strings.Builder, closing string, item func()) {
	p.count()
	p.open()
	b.WriteString(p.token.text)
	p.advance()
	for n := 0; p.err == nil && (n > 0 || !p.is(closing)); n++ {
		if item(); !p.is(",") {
			break
		}
		b.WriteByte(',')
		p.advance()
	}
	if !p.is(closing) {
		p.unexpected(", or " + closing)
	}
	b.WriteString(closing)
	p.advance()
	p.depth--
}

// The functions.
const (
	fnExists = "exists"
	fnEmpty  = "empty"
	fnLength = "length"
	fnStatus = "status"
)

func isFunction(word string) bool {
	return word == fnExists || word == fnEmpty || word == fnLength || word == fnStatus
}

// call reads a function with its argument.
func (p *parser) call() *node {
	p.count()
	n := &node{op: p.token.text, at: p.token.at}
	p.advance()
	if !p.is("(") {
		p.unexpected("( behind the function")
	}
	p.advance()
	t := p.token
	n.refAt = t.at
	switch {
	case p.err != nil:
		return n
	case n.op == fnStatus && t.kind == tokenString:
		n.value = jsonvalue.Meant(t.text)
		p.awaits = append(p.awaits, n.value)
	case n.op == fnStatus:
		p.unexpected("an id in quotes")
	case t.kind != tokenRef:
		p.unexpected("a reference")
	default:
		n.ref = t.ref
		if n.op == fnExists {
			p.awaits = append(p.awaits, t.ref.Name)
		} else {
			p.needs = append(p.needs, t.ref.Name)
		}
	}
	p.advance()
	if !p.is(")") {
		p.unexpected(")")
	}
	p.advance()
	return n
}

// maxShown bounds a value in an error.
const maxShown = 60

func shown(v string) string { return clip.Short(v, maxShown) }
