package neuroscript

import "context"

// Param declares one parameter of a tool.
type Param struct {
	Name     string
	Type     string // string, int, float, bool, list, map, any, error, or list<T> of one of these
	Optional bool   // optional parameters come last
}

// Tool is one function a program can call as tool.<name>. It does not change
// after it was made and may serve many runs at once.
type Tool struct {
	Name   string  // group included, without "tool.", as commonly written: "str.ToUpper"
	Params []Param // positional
	Gas    int64   // declared extra gas per call, on top of §13.2's
	// Uncounted tools are bounded by gas, or by a meter of their own, and from version 2 on
	// not by Limits.Tools: those that are pure, and aeiou.magic.
	Uncounted bool
	// Appends says that the tool gives its first argument, a list, with the second one behind
	// it. From version 2 on the interpreter does that itself, and charges what is new (§13.7).
	Appends bool
	// Func does the work. args has one value per parameter, coerced to its type
	// (§11); an absent optional one is nil. The slice is the tool's to keep.
	//
	// A *ScriptError is raised in the program, a *Breach ends the run, any other
	// error is raised as code 21. A panic is not recovered. Func must honour
	// c.Context() and must not keep c.
	Func func(c *Call, args []Value) (Value, error)
}

// ToolSet is what a program may call: registry, policy and per-tool limits in
// one question. It is asked once per call, after the arguments were evaluated.
type ToolSet interface {
	// Lookup finds a tool by its lower-cased name without "tool.". No tool and no
	// error mean that there is none (code 3); a *ScriptError (code 1003 for a
	// denied tool) is raised in the program; a *Breach ends the run.
	Lookup(name string) (*Tool, error)
}

// Call is what a tool knows of the call it serves. It is valid until the tool
// returns and belongs to the goroutine that called it.
type Call struct {
	m    *machine
	at   *node // the call, for the place of a breach
	step int64
}

// SID is the session's id.
func (c *Call) SID() string { return c.m.env.SID }

// TurnIndex is the turn's ordinal in the session.
func (c *Call) TurnIndex() int64 { return c.m.env.TurnIndex }

// Step is the ordinal of this call among the tool calls of the run, from 1. The
// same program, user data and results give a call the same step again.
func (c *Call) Step() int64 { return c.step }

// Context is the run's context.
func (c *Call) Context() context.Context { return c.m.ctx }

// Userdata is the turn's USERDATA.
func (c *Call) Userdata() Value { return c.m.userdata }
