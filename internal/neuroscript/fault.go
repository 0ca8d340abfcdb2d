package neuroscript

import (
	"fmt"

	"github.com/seed14be6753/stile/messages"
)

// Codes of script errors (docs/spec/neuroscript.md §8.2). Tools may define others from
// 2000 on.
const (
	CodeFail            = 1    // fail
	CodeFuncNotFound    = 2    // function not found
	CodeToolNotFound    = 3    // tool not found
	CodeArgument        = 4    // wrong number or kind of arguments
	CodeMust            = 5    // must failed
	CodeInternal        = 6    // internal
	CodeType            = 7    // type
	CodeBounds          = 8    // bounds
	CodeReturnViolation = 12   // return inside a handler
	CodeDivZero         = 14   // division by zero
	CodeEvaluation      = 17   // non-finite number, value nested too deeply
	CodeToolFailed      = 21   // tool failed
	CodeCount           = 36   // assignment count
	CodeInvalid         = 41   // invalid value: parsing, decoding
	CodeReadOnly        = 43   // write to something read-only
	CodeDenied          = 1003 // denied by policy
)

// ScriptError is an error inside a program. A handler may catch it; one that
// leaves the program ends the turn with HALT(ERR_ACTIONS_RUNTIME) (§8.1). Tools
// raise it by returning it; they leave the place to the interpreter.
type ScriptError struct {
	Code      int
	Message   string // no stack, no place
	Details   Value  // nil: none
	Line, Col int    // 1-based, Col in bytes; of the program, also for an error out of a library function

	about string // the tool or function that it is about, where that may be a wrong one
}

// Error returns "line L:C: code N: message".
func (e *ScriptError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d:%d: code %d: %s", e.Line, e.Col, e.Code, e.Message)
	}
	return fmt.Sprintf("code %d: %s", e.Code, e.Message)
}

// Errorf makes a script error without a place.
func Errorf(code int, format string, args ...any) *ScriptError {
	return &ScriptError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Meters a Breach can name (§13.1).
const (
	MeterGas    = "GAS"
	MeterAlloc  = "ALLOC"
	MeterValue  = "VALUE"
	MeterDepth  = "DEPTH"
	MeterTools  = "TOOLS"
	MeterEmits  = "EMITS"
	MeterOutput = "OUTPUT" // OUTPUT and SCRATCHPAD
	MeterMagic  = "MAGIC"  // raised by the magic tool
	MeterLine   = "LINE"
)

// Breach ends a run: a meter ran out, a clock did, or the session was stopped. It
// is no ScriptError, and no handler of a program ever sees it (§13.4). The turn
// ends with HALT(Code).
type Breach struct {
	Code      messages.Code // ERR_QUOTA, ERR_ENV_SIZE, ERR_TIMEOUT, ERR_CANCELLED
	Meter     string        // empty for a clock or a cancellation
	Limit     int64         // in the meter's unit
	Line, Col int
}

// Error returns "line L:C: ERR_QUOTA/GAS: limit N".
func (b *Breach) Error() string {
	s := string(b.Code)
	if b.Meter != "" {
		s += fmt.Sprintf("/%s: limit %d", b.Meter, b.Limit)
	}
	if b.Line > 0 {
		s = fmt.Sprintf("line %d:%d: %s", b.Line, b.Col, s)
	}
	return s
}
