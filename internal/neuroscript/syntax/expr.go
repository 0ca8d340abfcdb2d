package syntax

import "strconv"

// expr parses one expression.
func (p *parser) expr() Ref { return p.binary(1) }

// binary parses operands joined by operators of precedence prec or tighter.
// Operators of one level make one Chain, so that the tree never grows deeper with
// the length of a line; the recursion per nesting is the number of levels.
func (p *parser) binary(prec uint8) Ref {
	left := p.unary()
	for {
		level := binaryOps[p.tok].prec
		if level < prec {
			return left
		}
		var first, last Ref
		links := 0
		for binaryOps[p.tok].prec == level {
			op, pos := binaryOps[p.tok].op, p.start
			p.next()
			right := p.binary(level + 1)
			link := p.add(Node{Kind: Link, Op: op, Pos: uint32(pos), A: right})
			if links == 0 {
				first = link
			} else {
				p.t.Nodes[last].Next = link
			}
			last = link
			links++
		}
		n := &p.t.Nodes[first]
		if links == 1 {
			// The only link becomes the operator itself.
			n.Kind, n.B, n.A = Binary, n.A, left
			left = first
		} else {
			left = p.add(Node{Kind: Chain, Pos: n.Pos, A: left, B: first})
		}
	}
}

// unary parses prefix operators. Each nests.
func (p *parser) unary() Ref {
	op := OpNone
	switch p.tok {
	case tokMinus:
		op = OpNeg
	case tokTilde:
		op = OpInvert
	case kwNot, kwNo:
		op = OpNot
	case kwSome:
		op = OpSome
	case kwTypeof:
		op = OpTypeof
	default:
		return p.power()
	}
	pos := p.start
	if !p.enter() {
		return 0
	}
	p.next()
	operand := p.unary()
	p.leave()
	return p.add(Node{Kind: Unary, Op: op, Pos: uint32(pos), A: operand})
}

func (p *parser) power() Ref {
	base := p.postfix()
	if p.tok != tokStarStar {
		return base
	}
	pos := p.start
	if !p.enter() {
		return 0
	}
	p.next()
	exponent := p.powerRight()
	p.leave()
	return p.add(Node{Kind: Binary, Op: OpPow, Pos: uint32(pos), A: base, B: exponent})
}

// powerRight parses the right side of **, which may begin with minus signs.
func (p *parser) powerRight() Ref {
	if p.tok != tokMinus {
		return p.power()
	}
	pos := p.start
	if !p.enter() {
		return 0
	}
	p.next()
	operand := p.powerRight()
	p.leave()
	return p.add(Node{Kind: Unary, Op: OpNeg, Pos: uint32(pos), A: operand})
}

func (p *parser) postfix() Ref {
	base := p.primary()
	if p.tok != tokLBracket && p.tok != tokDot {
		return base
	}
	pos := p.start
	return p.add(Node{Kind: Access, Pos: uint32(pos), A: base, B: p.steps()})
}

// steps parses a list of [expr] and .word, at least one.
func (p *parser) steps() Ref {
	var first, last Ref
	for {
		pos := p.start
		var n Node
		switch p.tok {
		case tokLBracket:
			if !p.enter() {
				return 0
			}
			p.next()
			n = Node{Kind: StepIndex, Pos: uint32(pos), A: p.expr()}
			p.expect(tokRBracket, "`]`")
			p.leave()
		case tokDot:
			p.next()
			if !p.tok.isWord() {
				p.unexpected("a name after the point", "")
				return 0
			}
			n = Node{Kind: StepField, Pos: uint32(pos), A: p.str(p.text)}
			p.next()
			if p.tok == tokLParen {
				p.fail(p.start, "values have no methods: call tool.<group>.<name>(…) or a built-in function")
				return 0
			}
		default:
			return first
		}
		p.chain(&first, &last, p.add(n))
	}
}

func (p *parser) primary() Ref {
	pos := uint32(p.start)
	switch p.tok {
	case tokNumber:
		p.t.Numbers = append(p.t.Numbers, p.num)
		p.next()
		return p.add(Node{Kind: Number, Pos: pos, A: Ref(len(p.t.Numbers) - 1)})
	case tokString:
		s := p.str(p.text)
		p.next()
		return p.add(Node{Kind: String, Pos: pos, A: s})
	case tokTemplate:
		text := p.text
		n := p.template(text, pos)
		p.next()
		return n
	case kwTrue:
		p.next()
		return p.add(Node{Kind: True, Pos: pos})
	case kwFalse:
		p.next()
		return p.add(Node{Kind: False, Pos: pos})
	case kwNil:
		p.next()
		return p.add(Node{Kind: Nil, Pos: pos})
	case kwLast:
		p.next()
		return p.add(Node{Kind: Last, Pos: pos})
	case tokLBracket:
		return p.list()
	case tokLBrace:
		return p.mapping()
	case tokLParen:
		if !p.enter() {
			return 0
		}
		p.next()
		inner := p.expr()
		p.expect(tokRParen, "`)`")
		p.leave()
		return inner
	case kwEval:
		p.next()
		if !p.expect(tokLParen, "`(` after eval") || !p.enter() {
			return 0
		}
		inner := p.expr()
		p.expect(tokRParen, "`)`; eval takes one argument")
		p.leave()
		return p.add(Node{Kind: Eval, Pos: pos, A: inner})
	case tokIdent:
		name := p.text
		p.next()
		if p.tok == tokLParen {
			return p.arguments(Call, name, pos)
		}
		return p.add(Node{Kind: Var, Pos: pos, A: p.symbol(name)})
	}
	return p.callable("an expression")
}

// callable parses a call; want says what stands here when there is none.
func (p *parser) callable(want string) Ref {
	pos := uint32(p.start)
	switch p.tok {
	case tokIdent, kwLen, kwLn, kwLog, kwSin, kwCos, kwTan, kwAsin, kwAcos, kwAtan:
		name := p.text
		p.next()
		if p.tok != tokLParen {
			p.unexpected("`(` after "+name, "a call has its arguments in parentheses")
			return 0
		}
		return p.arguments(Call, name, pos)
	case kwTool:
		p.next()
		from, to := p.start, p.start
		name := ""
		for words := 0; words == 0 || p.tok == tokDot; words++ {
			if !p.expect(tokDot, "`.`; a tool is called as tool.<group>.<name>(…)") {
				return 0
			}
			if !p.tok.isWord() {
				p.unexpected("a name after the point", "")
				return 0
			}
			if words == 0 {
				from = p.start
				name = p.text
			} else {
				name = ""
			}
			to = p.pos
			p.next()
		}
		if p.tok != tokLParen {
			p.unexpected("`(` after the tool's name", "a call has its arguments in parentheses")
			return 0
		}
		if name == "" {
			name = dotted(p.src[from:to])
		}
		return p.arguments(ToolCall, name, pos)
	}
	p.unexpected(want, p.exprHint())
	return 0
}

// dotted returns a tool's name as it would be without the blanks, joined lines and
// comments that may stand between its words.
func dotted(text string) string {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c != '.' && classes[c]&(classLetter|classDigit) == 0 {
			return dottedWords(text)
		}
	}
	return text
}

func dottedWords(text string) string {
	s := scanner{src: text}
	var name []byte
	for s.next(); s.tok != tokEOF; s.next() {
		if s.tok != tokNL {
			name = append(name, text[s.start:s.pos]...)
		}
	}
	return string(name)
}

// arguments parses "(" [expr {"," expr} [","]] ")".
func (p *parser) arguments(kind Kind, name string, pos uint32) Ref {
	if !p.enter() {
		return 0
	}
	p.next()
	var first, last Ref
	count := 0
	for p.tok != tokRParen {
		arg := p.expr()
		p.chain(&first, &last, arg)
		count++
		if p.tok != tokComma {
			break
		}
		p.next()
	}
	p.expect(tokRParen, "`,` or `)` in the arguments")
	p.leave()
	return p.add(Node{Kind: kind, Pos: pos, A: p.str(name), B: first, C: Ref(count)})
}

func (p *parser) list() Ref {
	pos := uint32(p.start)
	if !p.enter() {
		return 0
	}
	p.next()
	var first, last Ref
	count := 0
	for p.tok != tokRBracket {
		if !p.element(&count) {
			return 0
		}
		p.chain(&first, &last, p.expr())
		if p.tok != tokComma {
			break
		}
		p.next()
	}
	p.expect(tokRBracket, "`,` or `]` in the list")
	p.leave()
	return p.add(Node{Kind: List, Pos: pos, A: first, B: Ref(count)})
}

func (p *parser) mapping() Ref {
	pos := uint32(p.start)
	if !p.enter() {
		return 0
	}
	p.next()
	if p.tok == tokLBrace && p.start == p.pos-1 && p.start > 0 && p.src[p.start-1] == '{' {
		if ph := NextPlaceholder(p.src[p.start-1:], 0); ph.Kind != PlaceNone && ph.Start == 0 {
			p.fail(p.start-1, "{{…}} is replaced only inside ``` strings and by eval: write the bare name here")
			return 0
		}
	}
	var first, last Ref
	count := 0
	for p.tok != tokRBrace {
		if !p.element(&count) {
			return 0
		}
		p.chain(&first, &last, p.expr())
		if !p.expect(tokColon, "`:` after the key of a map") {
			return 0
		}
		p.chain(&first, &last, p.expr())
		if p.tok != tokComma {
			break
		}
		p.next()
	}
	p.expect(tokRBrace, "`,` or `}` in the map")
	p.leave()
	return p.add(Node{Kind: Map, Pos: pos, A: first, B: Ref(count)})
}

// element counts one element of a literal.
func (p *parser) element(count *int) bool {
	if *count++; *count > MaxLiteralElements {
		p.failFor("LIMIT", p.start, "a literal has at most "+strconv.Itoa(MaxLiteralElements)+" elements")
		return false
	}
	return true
}

// template makes a node of a raw string with replacements; without any it is an
// ordinary string.
func (p *parser) template(text string, pos uint32) Ref {
	ph := NextPlaceholder(text, 0)
	if ph.Kind == PlaceNone {
		return p.add(Node{Kind: String, Pos: pos, A: p.str(text)})
	}
	var first, last Ref
	from := 0
	for ; ph.Kind != PlaceNone; ph = NextPlaceholder(text, from) {
		if ph.Start > from {
			p.chain(&first, &last, p.add(Node{Kind: TemplateText, Pos: pos, A: p.str(text[from:ph.Start])}))
		}
		switch ph.Kind {
		case PlaceName:
			p.chain(&first, &last, p.add(Node{Kind: TemplateVar, Pos: pos, A: p.symbol(ph.Text)}))
		case PlaceLast:
			p.chain(&first, &last, p.add(Node{Kind: TemplateLast, Pos: pos}))
		case PlaceText:
			p.chain(&first, &last, p.add(Node{Kind: TemplateText, Pos: pos, A: p.str(ph.Text)}))
		case PlaceNone: // the loop is over
		}
		from = ph.End
	}
	if from < len(text) {
		p.chain(&first, &last, p.add(Node{Kind: TemplateText, Pos: pos, A: p.str(text[from:])}))
	}
	return p.add(Node{Kind: Template, Pos: pos, A: first, B: Ref(len(text))})
}
