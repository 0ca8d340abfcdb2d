package syntax

// token is the kind of one token.
type token uint8

const (
	tokEOF token = iota
	tokNL
	tokMeta // a line that starts with ::
	tokIdent
	tokNumber
	tokString
	tokTemplate // a string in triple backticks

	tokLParen
	tokRParen
	tokLBracket
	tokRBracket
	tokLBrace
	tokRBrace
	tokComma
	tokColon
	tokDot
	tokAssign
	tokTilde
	tokStarStar

	// The binary operators, and and or among them, have an entry in binaryOps.
	tokPlus
	tokMinus
	tokStar
	tokSlash
	tokPercent
	tokAmp
	tokPipe
	tokCaret
	tokEq
	tokNe
	tokLt
	tokGt
	tokLe
	tokGe
	kwAnd
	kwOr

	// The other keywords; a token is a word when it is tokIdent or ≥ kwAnd.
	kwAcos
	kwAs
	kwAsin
	kwAsk
	kwAtan
	kwBreak
	kwCall
	kwClear
	kwClearError
	kwCommand
	kwContinue
	kwCos
	kwDo
	kwEach
	kwElse
	kwEmit
	kwEndcommand
	kwEndfor
	kwEndfunc
	kwEndif
	kwEndon
	kwEndwhile
	kwError
	kwEval
	kwEvent
	kwFail
	kwFalse
	kwFor
	kwFunc
	kwFuzzy
	kwIf
	kwIn
	kwInto
	kwLast
	kwLen
	kwLn
	kwLog
	kwMeans
	kwMust
	kwMustbe
	kwNamed
	kwNeeds
	kwNil
	kwNo
	kwNot
	kwOn
	kwOptional
	kwPromptuser
	kwReturn
	kwReturns
	kwSet
	kwSin
	kwSome
	kwTan
	kwTimedate
	kwTool
	kwTrue
	kwTypeof
	kwWhile
	kwWhisper
	kwWith
)

// keyword returns the token of a reserved word and tokIdent for any other.
func keyword(w string) token {
	if len(w) < 2 || len(w) > 11 || w[0] < 'a' {
		return tokIdent
	}
	switch w {
	case "and":
		return kwAnd
	case "or":
		return kwOr
	case "acos":
		return kwAcos
	case "as":
		return kwAs
	case "asin":
		return kwAsin
	case "ask":
		return kwAsk
	case "atan":
		return kwAtan
	case "break":
		return kwBreak
	case "call":
		return kwCall
	case "clear":
		return kwClear
	case "clear_error":
		return kwClearError
	case "command":
		return kwCommand
	case "continue":
		return kwContinue
	case "cos":
		return kwCos
	case "do":
		return kwDo
	case "each":
		return kwEach
	case "else":
		return kwElse
	case "emit":
		return kwEmit
	case "endcommand":
		return kwEndcommand
	case "endfor":
		return kwEndfor
	case "endfunc":
		return kwEndfunc
	case "endif":
		return kwEndif
	case "endon":
		return kwEndon
	case "endwhile":
		return kwEndwhile
	case "error":
		return kwError
	case "eval":
		return kwEval
	case "event":
		return kwEvent
	case "fail":
		return kwFail
	case "false":
		return kwFalse
	case "for":
		return kwFor
	case "func":
		return kwFunc
	case "fuzzy":
		return kwFuzzy
	case "if":
		return kwIf
	case "in":
		return kwIn
	case "into":
		return kwInto
	case "last":
		return kwLast
	case "len":
		return kwLen
	case "ln":
		return kwLn
	case "log":
		return kwLog
	case "means":
		return kwMeans
	case "must":
		return kwMust
	case "mustbe":
		return kwMustbe
	case "named":
		return kwNamed
	case "needs":
		return kwNeeds
	case "nil":
		return kwNil
	case "no":
		return kwNo
	case "not":
		return kwNot
	case "on":
		return kwOn
	case "optional":
		return kwOptional
	case "promptuser":
		return kwPromptuser
	case "return":
		return kwReturn
	case "returns":
		return kwReturns
	case "set":
		return kwSet
	case "sin":
		return kwSin
	case "some":
		return kwSome
	case "tan":
		return kwTan
	case "timedate":
		return kwTimedate
	case "tool":
		return kwTool
	case "true":
		return kwTrue
	case "typeof":
		return kwTypeof
	case "while":
		return kwWhile
	case "whisper":
		return kwWhisper
	case "with":
		return kwWith
	}
	return tokIdent
}

// isWord reports whether t can stand where the grammar says WORD.
func (t token) isWord() bool { return t == tokIdent || t >= kwAnd }

// binaryOp is what the parser needs of a binary operator.
type binaryOp struct {
	op   Op
	prec uint8 // 0: no binary operator; higher binds tighter (§3.1)
}

var binaryOps = [256]binaryOp{
	kwOr:       {OpOr, 1},
	kwAnd:      {OpAnd, 2},
	tokPipe:    {OpBitOr, 3},
	tokCaret:   {OpBitXor, 4},
	tokAmp:     {OpBitAnd, 5},
	tokEq:      {OpEq, 6},
	tokNe:      {OpNe, 6},
	tokLt:      {OpLt, 7},
	tokGt:      {OpGt, 7},
	tokLe:      {OpLe, 7},
	tokGe:      {OpGe, 7},
	tokPlus:    {OpAdd, 8},
	tokMinus:   {OpSub, 8},
	tokStar:    {OpMul, 9},
	tokSlash:   {OpDiv, 9},
	tokPercent: {OpMod, 9},
}
