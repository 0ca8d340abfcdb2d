package neuroscript

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript/syntax"
)

// Limits are the meters of §13.1. A zero field means its default; a negative one
// means 0. Output, Scratch and Line can only be lowered.
type Limits struct {
	Gas     int64 // units of §13.2
	Alloc   int64 // bytes, cumulative (§13.3)
	Value   int64 // bytes of one string, list or map with its members
	Depth   int64 // nested library calls
	Tools   int64 // tool calls; from version 2 on those that are not Uncounted
	Emits   int64 // emit and whisper statements
	Output  int64 // bytes of OUTPUT, LFs included
	Scratch int64 // bytes of SCRATCHPAD, LFs included
	Line    int64 // bytes of one emitted line, LF excluded
	// Rendering is the version of the meters and of the texts of errors
	// (messages.Rendering); 0 is 1. Version 2 counts the calls of tools that are not
	// Uncounted, and charges a write into a container that its variable alone holds for
	// what it changes instead of for a clone (§13.2).
	Rendering int64
}

// CallsOf2 is the default of Limits.Tools from version 2 on.
const CallsOf2 = 4096

// DefaultLimits returns the defaults of §13.1.
func DefaultLimits() Limits {
	return Limits{
		Gas: 1_000_000, Alloc: 64 << 20, Value: 8 << 20, Depth: 64, Tools: 256, Emits: 10_000,
		Output: 512 << 10, Scratch: 512 << 10, Line: 8192,
	}
}

// Env is everything a run gets from outside.
type Env struct {
	SID       string
	TurnIndex int64
	Userdata  Value    // a map; nil is an empty map
	Tools     ToolSet  // nil: no tools
	Library   *Library // nil: no functions
	Limits    Limits
	// Emit and Whisper get each accepted text without its final LF, after all
	// checks passed and while the program runs. Either may be nil.
	Emit    func(text string)
	Whisper func(target, text string)
}

// Result is how a run ended: Err and Breach are both nil, or one of them is set.
type Result struct {
	Err *ScriptError // the error no handler cleared
	// Cure says, from version 2 on, how to mend the program; it goes behind Err or Breach,
	// and is "" where nothing is known.
	Cure         string
	Breach       *Breach
	Gas          int64
	Alloc        int64 // bytes
	OutputBytes  int64 // accepted, LFs included
	ScratchBytes int64
	ToolCalls    int64 // calls that reached their tool
	Emits        int64 // emit and whisper statements that passed
}

// Run executes the program in a fresh interpreter. It returns when the program
// has ended, and lets panics of tools and sinks through. Programs are safe for
// concurrent runs; ctx cancels at the next poll (§13.4).
func (p *Program) Run(ctx context.Context, env *Env) Result {
	m := newMachine(ctx, env)
	m.lines, m.names = p.lines, p.names
	m.slots = make([]Value, p.slots)
	m.predefine(m.slots)
	if m.poll(p.body) {
		if m.block(p.body) == ctlUnwind {
			m.result.Err = m.err
		} else {
			m.err = nil // what a handler cleared needs no cure
		}
	}
	return m.ended()
}

// Invoke calls one tool outside of any program, as the expression tool.NAME(args…)
// would: arguments are coerced, the call and its result are metered, and an error or
// a breach is one of the Result, whose places are 1:1. Of env it needs no Tools.
func Invoke(ctx context.Context, tool *Tool, args []Value, env *Env) (Value, Result) {
	m := newMachine(ctx, env)
	m.lines = nowhere.lines
	var v Value
	if m.poll(nowhere.node) {
		v, _ = m.invoke(nowhere.node, tool, args)
		m.result.Err = m.err
	}
	return v, m.ended()
}

// nowhere is the place of a call that no program makes.
var nowhere = struct {
	node  *node
	lines []uint32
}{&node{}, []uint32{0}}

func newMachine(ctx context.Context, env *Env) *machine {
	m := &machine{env: env, limits: env.Limits.withDefaults(), userdata: env.Userdata}
	m.ctx, m.done = ctx, ctx.Done()
	m.second = m.limits.Rendering >= 2
	m.gasLimit, m.allocLimit, m.valueLimit = m.limits.Gas, m.limits.Alloc, m.limits.Value
	if m.userdata.IsNil() {
		m.userdata = MapOf(nil)
	}
	return m
}

// ended returns what the meters say at the end of a run.
func (m *machine) ended() Result {
	m.result.Breach = m.breach
	m.result.Gas, m.result.Alloc = m.gas, m.alloc
	m.result.ToolCalls, m.result.Emits = m.toolCalls, m.emits
	if m.second {
		m.result.Cure = m.cure()
	}
	return m.result
}

// machine is the interpreter of one run. It belongs to one goroutine.
type machine struct {
	meter
	env      *Env
	limits   Limits
	second   bool // version 2 or later
	userdata Value

	// The frame of the running function, or of the program.
	slots []Value
	last  Value // last
	lines []uint32
	names map[string]int32
	depth int64 // library calls around it
	// owners are the owners of the containers that the variables alone hold, by slot; nil
	// is none. It is nil before the first write into a container (own.go).
	owners []*owner

	stack []Value // arguments and elements on their way into a call or a literal
	err   *ScriptError

	// Handlers of the blocks around the current statement, outermost first; those
	// below hbase are out of its reach: of a calling function, or around a handler
	// that is running.
	handlers []activeHandler
	hbase    int
	cleared  bool // clear_error was executed by the innermost running handler

	loops   int   // loops around the current statement, in this frame
	ctlLoop int   // the loop, counted so, that a break or continue is for
	ret     Value // of ctlReturn

	levels    []level // of the path a write goes along
	emits     int64
	toolCalls int64
	counted   int64 // of them those that Limits.Tools bounds
	result    Result
}

// activeHandler is a handler of a block that is being executed.
type activeHandler struct {
	node  *node
	loops int // loops around its block
}

// predefine sets the names every scope begins with (§5).
func (m *machine) predefine(slots []Value) {
	slots[slotSelf] = String("self")
	slots[slotUserdata] = m.userdata
	slots[slotSID] = String(m.env.SID)
	slots[slotTurnIndex] = Number(float64(m.env.TurnIndex))
}

// position returns the place of a node of the running unit.
func (m *machine) position(at *node) (line, col int) {
	return syntax.Position(m.lines, at.pos)
}

// raise makes a script error at a node. It returns false, as a failed evaluation
// does.
func (m *machine) raise(at *node, code int, message string) bool {
	return m.raiseWith(at, code, message, Value{})
}

// raiseAbout is raise for an error about a tool or a function.
func (m *machine) raiseAbout(at *node, name string, code int, message string) bool {
	m.raise(at, code, message)
	m.about(name)
	return false
}

// about notes which tool or function the error is about, if there is one.
func (m *machine) about(name string) {
	if m.err != nil {
		m.err.about = name
	}
}

func (m *machine) raiseWith(at *node, code int, message string, details Value) bool {
	if details.depth() >= MaxValueDepth {
		code, message, details = CodeEvaluation, "the details of an error nest too deeply", Value{}
	}
	line, col := m.position(at)
	m.err = &ScriptError{Code: code, Message: message, Details: details, Line: line, Col: col}
	return false
}
