package cogency

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// MaxReplyBytes bounds a reply when the turn names no bound.
const MaxReplyBytes = 8 << 20

// Dialect is the batches of docs/spec/cogency.md. The zero value is ready; it is safe for
// concurrent use as long as nobody changes it.
type Dialect struct {
	Limits Limits
	// MaxFailures is how many failing turns in a row a run may have; 3 when it is
	// not above 0.
	MaxFailures int
	// Rendering is the version of prompts and of what a decoder makes of a reply
	// (messages.Rendering); 0 is 1.
	Rendering int64
	// Forgive are the habits that are put right; none by default.
	Forgive parse.Habits
	// Short makes the primer a short one.
	Short bool
}

// Limits are what a batch may have; what is not above 0 is the default.
type Limits struct {
	Calls        int // 64
	ExecuteBytes int // between the markers; 1 MiB
	JSONDepth    int // of a call's members; 64
	ResultBytes  int // of one result's content, before the note; 64 KiB
}

// batchDepth is what array and call add to the depth of JSON.
const batchDepth = 2

// or fills in the defaults.
func (l Limits) or() Limits {
	for _, x := range []struct {
		limit    *int
		standard int
	}{
		{&l.Calls, 64},
		{&l.ExecuteBytes, 1 << 20},
		{&l.JSONDepth, scan.MaxJSONDepth},
		{&l.ResultBytes, MaxResultBytes},
	} {
		if *x.limit <= 0 {
			*x.limit = x.standard
		}
	}
	return l
}

var _ parse.Dialect = Dialect{}

// maxTurns is how many turns a run takes when the manifest does not say
// (docs/spec/design.md §11).
const maxTurns = 10

// maxParallel is how many calls of a batch run at once when the manifest does not say
// (docs/spec/cogency.md §5).
const maxParallel = 8

// Name is what manifests and records call the dialect.
const Name = "cogency"

// Name is Name.
func (Dialect) Name() string { return Name }

// Traits says that the calls of a batch start when its closer has come, that neither
// arguments nor texts have variables in them, and that a call sets no time-out.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{InStreamActions: true, Verbatim: true, AppendOnly: true, Transcript: true, Untimed: true, MaxTurns: maxTurns, Parallel: maxParallel, Busy: messages.Enqueue}
}

// Decide is CONTINUE after a batch, valid or not, whatever became of the stream
// behind it; DONE after <end> and after a reply without a batch; and HALT ERR_LOOP
// when a run's failing turns in a row are as many as may be (docs/spec/design.md §5). In
// rendering 2 a reply that says nothing to the user is asked for again, once: the second in
// a row is HALT ERR_NO_PROGRESS.
func (x Dialect) Decide(f messages.Facts) messages.Verdict {
	v := messages.Verdict{Decision: messages.Halt, Token: -1}
	past := recall(f.State)
	now := past
	now.said = x.second() && (past.said || said(f.Units))
	switch why := parse.Failure(f); {
	case f.Awaits && !f.Final && f.Breach == "":
		c := Circuit{Failures: past.failures, Max: x.MaxFailures}
		of := Outcome(f)
		if c.Add(of) {
			v.Code, v.Detail = messages.ErrLoop, CircuitOpen+": "+strconv.Itoa(c.Failures)+" turns in a row in which no call succeeded"
			break
		}
		v.Decision = messages.Continue
		if now.failures = c.Failures; of == BatchOK {
			now.silent = 0
		}
		v.State = now.state()
	case why != "" && (!f.Final || f.Breach != ""):
		v.Code = why
	case x.silent(f, past):
		if past.silent > 0 {
			v.Code, v.Detail = messages.ErrNoProgress, "two replies said nothing to the user"
			break
		}
		now.silent++
		v.Decision, v.Lints, v.State = messages.Continue, []messages.Code{messages.LintSilence}, now.state()
	default:
		v.Decision = messages.Done
	}
	return v
}

// Digest is the one all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// CircuitOpen is the error of a run that fails again and again (docs/spec/cogency.md §5).
const CircuitOpen = "circuit_open"

// MaxFailures is the default of Circuit.Max.
const MaxFailures = 3

// Batch is what became of a turn's batch.
type Batch uint8

// The outcomes of a batch.
const (
	BatchOK      Batch = iota // a call succeeded, or there was none to fail
	BatchFailed               // there were calls, and none succeeded
	BatchInvalid              // nothing ran
)

// Outcome reads what became of the batch of a turn.
func Outcome(f messages.Facts) Batch {
	for i := range f.Errors {
		if strings.HasPrefix(f.Errors[i].Reason, "execute_") {
			return BatchInvalid
		}
	}
	for i := range f.Calls {
		if f.Calls[i].State == messages.ActionOK {
			return BatchOK
		}
	}
	if len(f.Calls) == 0 {
		return BatchOK
	}
	return BatchFailed
}

// Circuit counts the failing iterations in a row of one run. It is a value.
type Circuit struct {
	Failures int
	Max      int // MaxFailures when not above 0
}

// Add counts an iteration with a batch and reports whether the circuit is open: then
// the run ends, after the batch's result (docs/spec/cogency.md §5).
func (c *Circuit) Add(b Batch) (open bool) {
	if b == BatchOK {
		c.Failures = 0
		return false
	}
	most := c.Max
	if most <= 0 {
		most = MaxFailures
	}
	c.Failures++
	return c.Failures >= most
}

// second tells that the rendering is 2 or later.
func (x Dialect) second() bool { return x.Rendering >= 2 }
