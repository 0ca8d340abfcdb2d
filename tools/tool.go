package tools

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// MaxNameBytes bounds a tool's name: the limit of an identifier (neuroscript.md
// §13.5).
const MaxNameBytes = 128

// Tool declares one callable. A Tool is a value; New copies it, and it must not
// be changed afterwards. Its functions may be called from many goroutines.
type Tool struct {
	Name        string // group included, as commonly written: "str.ToUpper"
	Description string // one sentence for the model
	Params      []neuroscript.Param
	Returns     string         // type of the result, as of a parameter; empty: any
	Class       messages.Class // empty: effectful
	Gas         int64          // declared extra gas per call (docs/spec/neuroscript.md §13.2)
	Timeout     time.Duration  // of one attempt; 0 leaves it to the turn
	MaxCalls    int64          // per program; 0 none. One more is code 1003

	// Pure does the work of a tool of class pure, inside the interpreter. See
	// neuroscript.Tool.Func, whose rules it follows.
	Pure func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error)
	// Run does the work of every other tool, in an action of its own. It must
	// honour ctx. A *neuroscript.ScriptError keeps its code, any other error is
	// code 21 (see Failure); an error value that is returned, rather than raised,
	// flows like any value. A panic is the caller's to recover.
	Run func(ctx context.Context, c *Call) (neuroscript.Value, error)

	// bound makes Pure for one program, for a tool that needs to know its set.
	bound func(*Program) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error)
	// prepare judges and completes the arguments before anything else is done
	// with them; set by Define, whose tools take named arguments too. It replaces
	// the coercion by Params, which then only describe.
	prepare func([]neuroscript.Value) ([]neuroscript.Value, error)
	// name is prepare for arguments that are named already: a map in them is an argument.
	// nil gives prepare the object as it is.
	name func([]neuroscript.Entry) ([]neuroscript.Value, error)
	// direct does the work on JSON as it was written, which values of programs would
	// round; set by NewForeign.
	direct func(ctx context.Context, c *Call, args string) (result string, err error)
	// schema is the JSON schema of the arguments object, when Params alone would
	// say less than is known.
	schema string
}

// Call is what an action's tool knows of its call.
type Call struct {
	SID     string
	Turn    int64
	ID      string               // of the action, unique in its turn
	Name    string               // of the tool
	Key     string               // idempotency key, the same for every attempt and owner (docs/spec/design.md §7)
	Inc     messages.Incarnation // of the session
	Epoch   int64                // fencing token: a store refuses a call of an older one
	Attempt int64                // 1-based
	// Retries counts the attempts that failed before this one. What a crash cut off is
	// repeated under the same number.
	Retries int64
	// Args has one value per parameter, nil for an absent optional one.
	Args []neuroscript.Value
	// Budget is what the attempt may use of the run's; 0 is no bound.
	Budget messages.Budget
	// Memory is the dialect's, within the run.
	Memory []byte
	// Variables are the session's own, JSON by name, as they were when an internal
	// action began; nil for other actions. They must not be changed.
	Variables map[string]string
	// Keep does an operation on a key-value relic of the session; that of a feed only
	// reads. nil where there is no session.
	Keep func(ctx context.Context, k KeepCall) (result string, err error)
	// Feeds does an internal action on the session's feeds and notes what it changed;
	// nil for other actions.
	Feeds func(ctx context.Context, action, args string) (result string, err error)
	// Session reads other sessions; nil where a host offers none.
	Session Reader
	// Audit records an access decision; nil where nobody keeps them. It may be
	// called until the tool returns.
	Audit func(messages.Audit)
	// Spend counts model tokens and money to the budget of the run; nil where nobody
	// keeps one. It may be called until the tool returns.
	Spend func(used messages.Budget)
	// Child records a run of a child session; nil where nobody keeps it. It may be
	// called until the tool returns.
	Child func(messages.ChildLink)
}

// Reader reads what sessions have made public. The tool that asks has checked
// the right to it; a Reader checks nothing.
type Reader interface {
	// Output gives the OUTPUT of the session's last decided turn; ok is false
	// when there is no such session.
	Output(ctx context.Context, of messages.SessionKey) (text string, ok bool, err error)
}

// class gives the class, with the default filled in.
func (t *Tool) class() messages.Class {
	if t.Class == "" {
		return messages.Effectful
	}
	return t.Class
}

// Failure gives the code and the message under which an error of a tool is
// raised in a program (docs/spec/neuroscript.md §8.3).
func Failure(err error) (code int, message string) {
	var script *neuroscript.ScriptError
	if errors.As(err, &script) {
		return script.Code, script.Message
	}
	var refused *Refused
	if errors.As(err, &refused) {
		return refused.codeOf(), refused.Error()
	}
	return neuroscript.CodeToolFailed, err.Error()
}

// Result reads back what an action of the tool recorded as its result (JSON). JSON
// has no error values and no timedates: an object of an integral code, a message
// and nothing else but details becomes the error value it was, so that it is false
// again and must raises it; the text of a tool that Returns timedate becomes the
// instant. A text that is neither JSON nor such an instant is a
// *neuroscript.ScriptError.
func (t *Tool) Result(recorded string) (neuroscript.Value, error) {
	v, err := neuroscript.FromJSON([]byte(recorded))
	if err != nil {
		return neuroscript.Value{}, err
	}
	if s, ok := v.AsString(); ok && t.Returns == "timedate" {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInvalid, "the result of %s is no instant", t.Name)
		}
		return neuroscript.TimeDate(at), nil
	}
	if t.Returns != "map" {
		return errorOf(v), nil
	}
	return v, nil
}

// errorOf gives the error value whose JSON v is, or v.
func errorOf(v neuroscript.Value) neuroscript.Value {
	members, _ := v.AsMap()
	c, _ := v.MapGet("code")
	m, _ := v.MapGet("message")
	code, integral := c.AsInt()
	message, text := m.AsString()
	details, detailed := v.MapGet("details")
	want := 2
	if detailed {
		want++
	}
	if !integral || !text || len(members) != want {
		return v
	}
	return neuroscript.NewErrorValue(int(code), message, errorOf(details))
}

// Signature gives the parameters as a prompt shows them: "(s, old, new, count?)".
func (t *Tool) Signature() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, p := range t.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.Name)
		if p.Optional {
			b.WriteByte('?')
		}
	}
	b.WriteByte(')')
	return b.String()
}

// check reports the first mistake of a declaration; detail "" means none.
func (t *Tool) check() (detail string) {
	if detail = checkName(t.Name); detail != "" {
		return detail
	}
	switch t.class() {
	case messages.Pure:
		if t.Run != nil {
			return "a pure tool runs inside the interpreter and has no Run"
		}
		if (t.Pure == nil) == (t.bound == nil) {
			return "a pure tool needs its Pure function"
		}
	case messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful:
		if t.Pure != nil || t.bound != nil {
			return "a tool of class " + string(t.class()) + " runs as an action and has no Pure"
		}
		if t.Run == nil {
			return "a tool of class " + string(t.class()) + " needs its Run function"
		}
	default:
		return "there is no class " + quote(string(t.Class))
	}
	if t.Gas < 0 || t.Timeout < 0 || t.MaxCalls < 0 {
		return "gas, time-out and call limit must not be negative"
	}
	if t.Returns != "" && !isType(t.Returns) {
		return "there is no result type " + quote(t.Returns)
	}
	return checkParams(t.Params)
}

func checkParams(params []neuroscript.Param) (detail string) {
	optional := false
	for i, p := range params {
		if !isWord(p.Name) {
			return "parameter " + quote(p.Name) + " is no identifier"
		}
		for _, q := range params[:i] {
			if q.Name == p.Name {
				return "two parameters are named " + p.Name
			}
		}
		if !isType(p.Type) {
			return "parameter " + p.Name + " has the unknown type " + quote(p.Type)
		}
		if optional && !p.Optional {
			return "the required parameter " + p.Name + " follows an optional one"
		}
		optional = p.Optional
	}
	return ""
}

// checkName wants identifiers with dots between them, usually a group and a name; the
// ten tools of docs/spec/cogency.md §15 have no group. The group aeiou belongs to the turn, which
// signs tokens under it: a registered tool of that group could pass for the signer.
func checkName(name string) (detail string) {
	if len(name) > MaxNameBytes {
		return "the name has more than 128 bytes"
	}
	words := strings.Split(name, ".")
	for _, w := range words {
		if !isWord(w) {
			return "the name " + quote(name) + " is not made of identifiers and dots"
		}
	}
	if strings.EqualFold(words[0], turnGroup) {
		return "the group aeiou belongs to the turn"
	}
	return ""
}

// turnGroup is the group of the tools a turn brings along.
const turnGroup = "aeiou"

func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
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
