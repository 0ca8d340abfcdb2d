package syntax

import (
	"strconv"
	"strings"
)

// body parses { stmt NL | NL } up to a token that begins no statement. At most
// one of the statements is a handler.
func (p *parser) body(pos int) Ref {
	var first, last, handler Ref
	for {
		p.blankLines()
		n, isHandler, ok := p.stmt()
		if !ok {
			break
		}
		if isHandler {
			if handler != 0 {
				p.fail(int(p.t.Nodes[n].Pos), "this block has a second on error: a block has at most one handler")
				break
			}
			handler = n
		} else {
			p.chain(&first, &last, n)
		}
		if p.tok != tokNL {
			if p.tok != tokEOF {
				p.unexpected("the line end", p.trailingHint())
			}
			break
		}
	}
	return p.add(Node{Kind: Block, Pos: uint32(pos), A: first, B: handler})
}

// trailingHint explains what may follow a statement on its line by mistake.
func (p *parser) trailingHint() string {
	switch {
	case p.tok == tokAssign:
		return "write == to compare"
	case p.tok == tokLBrace:
		return "blocks have no braces: they begin at the line end and end with endif, endfor, endwhile, endon"
	case p.tok == tokIdent && p.text == "then", p.tok == kwDo:
		return "a block begins at the line end, without `" + p.text + "`"
	case p.tok == tokColon:
		return "a block begins at the line end, without a colon"
	case p.tok == kwAs:
		return "there is no `as` here: check typeof(x) with must"
	case p.tok == tokIdent && p.text == "is":
		return "write =="
	case p.tok >= kwAnd:
		return "each statement has a line of its own"
	}
	return ""
}

// block parses NL body end; end is passed over by the caller.
func (p *parser) block(pos int) Ref {
	if p.tok != tokNL {
		p.unexpected("the line end", p.trailingHint())
		return 0
	}
	if !p.enter() {
		return 0
	}
	b := p.body(pos)
	p.leave()
	return b
}

// end passes over the keyword that closes the block begun at pos.
func (p *parser) end(t token, word string, pos int) {
	if p.tok != t {
		p.blockEnd(word, pos)
		return
	}
	p.next()
}

// blockEnd reports the token at which the block begun at pos stopped.
func (p *parser) blockEnd(want string, pos int) {
	if p.err != nil {
		return
	}
	if why := p.notAStatement(); why != "" {
		p.fail(p.start, why)
		return
	}
	line, _ := Position(p.lines, uint32(pos))
	begun := p.src[pos:]
	if i := strings.IndexFunc(begun, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		begun = begun[:i]
	}
	p.unexpected("a statement or `"+want+"` for the `"+begun+"` of line "+strconv.Itoa(line), "")
}

// notAStatement explains a token that begins no statement and ends no block.
func (p *parser) notAStatement() string {
	switch p.tok {
	case tokIdent:
		if hint := statementHint(p.text, p.src[p.pos:]); hint != "" {
			return hint
		}
		return "`" + short(p.text) + "` begins no statement: a statement begins with set, call, emit, whisper, must, fail, if, while, for each or on error"
	case tokMeta:
		return "metadata lines stand before `command` or directly after it"
	case kwTool, kwLen, kwLn, kwLog, kwSin, kwCos, kwTan, kwAsin, kwAcos, kwAtan:
		return "a call alone is no statement: write `call " + p.text + "…`, or use its value"
	case kwFunc, kwAsk, kwPromptuser, kwClear, kwEvent, kwReturn:
		return forbidden(p.tok)
	case kwError:
		return "a handler begins with `on error do`"
	case tokNumber, tokString, tokTemplate, tokLParen, tokLBracket, tokLBrace, tokMinus, tokTilde,
		kwTrue, kwFalse, kwNil, kwNot, kwNo, kwSome, kwTypeof, kwLast, kwEval:
		return "an expression alone is no statement: write `emit …`, or `set name = …`"
	case tokRBrace:
		return "blocks have no braces: they end with endif, endfor, endwhile, endon"
	}
	return ""
}

// stmt parses one statement; ok is false when none begins here.
func (p *parser) stmt() (n Ref, isHandler, ok bool) {
	pos := p.start
	at := uint32(pos)
	switch p.tok {
	case kwSet:
		return p.set(), false, true
	case kwCall:
		p.next()
		return p.add(Node{Kind: CallStmt, Pos: at, A: p.callable("a call")}), false, true
	case kwEmit:
		p.next()
		return p.add(Node{Kind: Emit, Pos: at, A: p.expr()}), false, true
	case kwWhisper:
		p.next()
		target := p.expr()
		p.expect(tokComma, "`,` after the target of whisper")
		return p.add(Node{Kind: Whisper, Pos: at, A: target, B: p.expr()}), false, true
	case kwMust:
		p.next()
		return p.add(Node{Kind: Must, Pos: at, A: p.expr()}), false, true
	case kwMustbe:
		p.next()
		return p.add(Node{Kind: Must, Pos: at, A: p.callable("a call")}), false, true
	case kwFail:
		p.next()
		message := Ref(0)
		if p.tok != tokNL && p.tok != tokEOF {
			message = p.expr()
		}
		return p.add(Node{Kind: Fail, Pos: at, A: message}), false, true
	case kwClearError:
		if p.handlers == 0 {
			p.fail(pos, "clear_error stands only inside an error handler: on error do … endon")
			return 0, false, false
		}
		p.next()
		return p.add(Node{Kind: ClearError, Pos: at}), false, true
	case kwBreak, kwContinue:
		kind := Break
		if p.tok == kwContinue {
			kind = Continue
		}
		if p.loops == 0 {
			p.fail(pos, "`"+p.text+"` stands only inside a loop")
			return 0, false, false
		}
		p.next()
		return p.add(Node{Kind: kind, Pos: at}), false, true
	case kwIf:
		return p.ifStmt(), false, true
	case kwWhile:
		p.next()
		cond := p.expr()
		p.loops++
		body := p.block(pos)
		p.loops--
		p.end(kwEndwhile, "endwhile", pos)
		return p.add(Node{Kind: While, Pos: at, A: cond, B: body}), false, true
	case kwFor:
		return p.forStmt(), false, true
	case kwOn:
		return p.handler(), true, true
	case kwReturn:
		if p.inFunc {
			return p.returnStmt(), false, true
		}
	}
	return 0, false, false
}

// set parses "set" lvalue {"," lvalue} "=" ["must"] expr.
func (p *parser) set() Ref {
	pos := p.start
	p.next()
	var first, last Ref
	count := 0
	for {
		if count++; count > MaxSetTargets {
			p.failFor("LIMIT", p.start, "a set has at most "+strconv.Itoa(MaxSetTargets)+" targets")
			return 0
		}
		at := p.start
		sym, ok := p.target("an assignment's target")
		if !ok {
			return 0
		}
		steps := Ref(0)
		if p.tok == tokLBracket || p.tok == tokDot {
			steps = p.steps()
		}
		p.chain(&first, &last, p.add(Node{Kind: Target, Pos: uint32(at), A: sym, B: steps}))
		if p.tok != tokComma {
			break
		}
		p.next()
	}
	if p.tok != tokAssign {
		hint := ""
		switch {
		case p.tok == tokEq:
			hint = "an assignment has one ="
		case p.tok == tokColon:
			hint = "write ="
		case binaryOps[p.tok].prec > 0 && strings.HasPrefix(p.src[p.pos:], "="):
			op := p.src[p.start:p.pos]
			hint = "there is no " + op + "=: write `set x = x " + op + " …`"
		case p.tok == tokIdent && p.text == "to":
			hint = "write ="
		}
		p.unexpected("`=`", hint)
		return 0
	}
	p.next()
	must := p.tok == kwMust
	if must {
		p.next()
	}
	value := p.expr()
	return p.add(Node{Kind: Set, Flag: must, Pos: uint32(pos), A: first, B: value, C: Ref(count)})
}

// target parses a name that is going to be written.
func (p *parser) target(what string) (Ref, bool) {
	if p.tok != tokIdent {
		hint := ""
		if p.tok.isWord() {
			hint = "`" + p.text + "` is a keyword"
		}
		p.unexpected("a name as "+what, hint)
		return 0, false
	}
	sym := p.symbol(p.text)
	if sym >= firstReadOnlySymbol && sym <= lastReadOnlySymbol {
		p.failFor("READ_ONLY", p.start, "`"+p.text+"` is predefined and cannot be written: use another name")
		return 0, false
	}
	p.next()
	return sym, true
}

// ifStmt parses an if with its chain of else if, which has one endif. The chain
// is a loop: it does not nest.
func (p *parser) ifStmt() Ref {
	pos := p.start
	first, last := Ref(0), Ref(0)
	for at := pos; ; {
		p.next()
		cond := p.expr()
		then := p.block(at)
		n := p.add(Node{Kind: If, Pos: uint32(at), A: cond, B: then})
		if first == 0 {
			first = n
		} else {
			p.t.Nodes[last].C = n
		}
		last = n
		if p.tok != kwElse {
			break
		}
		at = p.start
		p.next()
		if p.tok == kwIf {
			at = p.start
			continue
		}
		otherwise := p.block(at)
		p.t.Nodes[last].C = otherwise
		break
	}
	p.end(kwEndif, "endif", pos)
	return first
}

// forStmt parses "for" "each" IDENT "in" expr block "endfor".
func (p *parser) forStmt() Ref {
	pos := p.start
	p.next()
	if !p.expect(kwEach, "`each` after for: write `for each x in list`") {
		return 0
	}
	sym, ok := p.target("the loop variable")
	if !ok || !p.expect(kwIn, "`in` after the loop variable") {
		return 0
	}
	seq := p.expr()
	p.loops++
	body := p.block(pos)
	p.loops--
	p.end(kwEndfor, "endfor", pos)
	return p.add(Node{Kind: For, Pos: uint32(pos), A: sym, B: seq, C: body})
}

// handler parses "on" "error" ["as" IDENT] "do" block "endon".
func (p *parser) handler() Ref {
	pos := p.start
	p.next()
	if p.tok == kwEvent {
		p.fail(pos, forbidden(kwEvent))
		return 0
	}
	if !p.expect(kwError, "`error` after on") {
		return 0
	}
	sym := Ref(-1)
	if p.tok == kwAs {
		p.next()
		var ok bool
		if sym, ok = p.target("the error's name"); !ok {
			return 0
		}
	}
	if p.tok == kwMeans {
		p.unexpected("`do`", "a handler is written `on error do … endon`")
		return 0
	}
	if !p.expect(kwDo, "`do`") {
		return 0
	}
	p.handlers++
	body := p.block(pos)
	p.handlers--
	p.end(kwEndon, "endon", pos)
	return p.add(Node{Kind: Handler, Pos: uint32(pos), A: sym, B: body})
}

// returnStmt parses "return" [expr {"," expr}].
func (p *parser) returnStmt() Ref {
	pos := p.start
	p.next()
	var first, last Ref
	count := 0
	if p.tok != tokNL && p.tok != tokEOF {
		for {
			p.chain(&first, &last, p.expr())
			count++
			if p.tok != tokComma {
				break
			}
			p.next()
		}
	}
	return p.add(Node{Kind: Return, Flag: p.handlers > 0, Pos: uint32(pos), A: first, B: Ref(count)})
}

// function parses "func" name ["("] groups [")"] "means" NL {meta} body "endfunc".
func (p *parser) function() {
	pos := p.start
	p.next()
	f := Func{Pos: uint32(p.start), Name: p.text}
	if p.tok != tokIdent {
		hint := ""
		if p.tok.isWord() {
			hint = "`" + p.text + "` is a keyword"
		}
		p.unexpected("a name after func", hint)
		return
	}
	p.next()
	paren := p.tok == tokLParen
	if paren {
		p.next()
	}
	seen := map[Ref]bool{}
	for i, group := range [...]token{kwNeeds, kwOptional, kwReturns} {
		if p.tok != group {
			continue
		}
		for more := true; more; more = p.tok == tokComma {
			p.next()
			if group == kwReturns {
				if p.tok != tokIdent {
					p.unexpected("a name", "")
					return
				}
				f.Returns = append(f.Returns, p.text)
				p.next()
				continue
			}
			at := p.start
			sym, ok := p.target("a parameter")
			if !ok {
				return
			}
			if seen[sym] {
				p.fail(at, "this parameter is named twice")
				return
			}
			seen[sym] = true
			f.Params = append(f.Params, Param{Symbol: sym, Optional: i == 1})
		}
	}
	want := "`means`"
	if paren {
		want = "`)`"
		if p.tok == kwNeeds || p.tok == kwOptional || p.tok == kwReturns {
			p.unexpected(want, "the groups are needs, optional, returns, in this order, each at most once")
			return
		}
		if !p.expect(tokRParen, want) {
			return
		}
	}
	if p.tok == kwNeeds || p.tok == kwOptional || p.tok == kwReturns {
		p.unexpected("`means`", "the groups are needs, optional, returns, in this order, each at most once")
		return
	}
	if !p.expect(kwMeans, "`means`") {
		return
	}
	if p.tok != tokNL {
		p.unexpected("the line end", p.trailingHint())
		return
	}
	p.next()
	f.Meta = p.metadata(nil)
	p.inFunc = true
	f.Body = p.body(pos)
	p.inFunc = false
	p.end(kwEndfunc, "endfunc", pos)
	if p.err == nil && p.tok != tokNL && p.tok != tokEOF {
		p.unexpected("the line end", p.trailingHint())
	}
	p.t.Funcs = append(p.t.Funcs, f)
}
