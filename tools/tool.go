package tools

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Tool declares one callable. A Tool is a value; the host copies it when an agent is
// opened, and it must not be changed afterwards. Its functions may be called from many
// goroutines.
type Tool struct {
	Name        string // group included, as commonly written: "str.ToUpper"
	Description string // one sentence for the model
	Params      []Param
	Returns     string         // type of the result, as of a parameter; empty: any
	Class       messages.Class // empty: effectful
	Gas         int64          // declared extra gas per call (docs/spec/neuroscript.md §13.2)
	Timeout     time.Duration  // of one attempt; 0 leaves it to the turn
	MaxCalls    int64          // per program; 0 none. One more is code 1003

	// Pure does the work of a tool of class pure, inside the interpreter and under its
	// meters. args has one value per parameter, coerced to its type, nil for an absent
	// optional one. Pure must use nothing but args and c, and must charge c for a result
	// before it makes the result.
	Pure func(c *PureCall, args []Value) (Value, error)
	// Run does the work of every other tool, in an action of its own. It must honour ctx,
	// and be safe for concurrent use. A *ScriptError keeps its code, any other error is
	// code 21; *Refused, *Unsettled and *Ceased describe special outcomes. An error value
	// that is returned, not raised, is a value like others. The host recovers a panic.
	Run func(ctx context.Context, c *Call) (Value, error)

	// Form is set by Define and by the host, for tools that take their arguments in another
	// way. Leave it out.
	Form seam.Form[Call]
}

// Validate returns the first mistake of the declaration as ERR_CONFIG with Field
// "tools.<name>", or nil. The host calls it when an agent is opened.
func (t *Tool) Validate() error {
	if detail := t.check(); detail != "" {
		return &messages.Error{Code: messages.ErrConfig, Field: "tools." + t.Name, Detail: detail}
	}
	return nil
}

// check returns the first mistake, or "".
func (t *Tool) check() (detail string) {
	if detail = checkName(t.Name); detail != "" {
		return detail
	}
	switch class := cmp.Or(t.Class, messages.Effectful); class {
	case messages.Pure:
		if t.Run != nil {
			return "a pure tool runs inside the interpreter and has no Run"
		}
		if (t.Pure == nil) == (t.Form.Bound == nil) {
			return "a pure tool needs its Pure function"
		}
	case messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful:
		if t.Pure != nil || t.Form.Bound != nil {
			return "a tool of class " + string(class) + " runs as an action and has no Pure"
		}
		if t.Run == nil {
			return "a tool of class " + string(class) + " needs its Run function"
		}
	default:
		return "there is no class " + strconv.Quote(string(t.Class))
	}
	if t.Gas < 0 || t.Timeout < 0 || t.MaxCalls < 0 {
		return "gas, time-out and call limit must not be negative"
	}
	if t.Returns != "" && !isType(t.Returns) {
		return "there is no result type " + strconv.Quote(t.Returns)
	}
	return checkParams(t.Params)
}

func checkParams(params []Param) (detail string) {
	optional := false
	for i, p := range params {
		if !seam.IsWord(p.Name) {
			return "parameter " + strconv.Quote(p.Name) + " is no identifier"
		}
		for _, q := range params[:i] {
			if q.Name == p.Name {
				return "two parameters are named " + p.Name
			}
		}
		if !isType(p.Type) {
			return "parameter " + p.Name + " has the unknown type " + strconv.Quote(p.Type)
		}
		if optional && !p.Optional {
			return "the required parameter " + p.Name + " follows an optional one"
		}
		optional = p.Optional
	}
	return ""
}

// checkName accepts identifiers with dots between them, usually a group and a name; the ten
// tools of docs/spec/cogency.md §15 have no group. The group aeiou is reserved for the tools
// of the turn, which sign tokens: a registered tool of that group could pass for the signer.
func checkName(name string) (detail string) {
	if len(name) > seam.MaxNameBytes {
		return "the name has more than 128 bytes"
	}
	words := strings.Split(name, ".")
	for _, w := range words {
		if !seam.IsWord(w) {
			return "the name " + strconv.Quote(name) + " is not made of identifiers and dots"
		}
	}
	if strings.EqualFold(words[0], seam.TurnGroup) {
		return "the group aeiou belongs to the turn"
	}
	return ""
}

func isType(t string) bool {
	if inner, ok := strings.CutPrefix(t, "list<"); ok {
		t, ok = strings.CutSuffix(inner, ">")
		if !ok {
			return false
		}
	}
	switch t {
	case "string", "int", "float", "bool", "list", "map", "any", "error", "timedate":
		return true
	}
	return false
}
