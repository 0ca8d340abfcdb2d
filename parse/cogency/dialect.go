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

// Dialect is the dialect of batches of docs/spec/cogency.md. The zero value is ready to use. It is
// safe for concurrent use if no goroutine changes it.
type Dialect struct {
	Limits Limits
	// MaxFailures is how many failing turns in a row end a run; 3 when it is not above 0.
	MaxFailures int
	// Rendering is the version of prompts and of the reading of replies (messages.Rendering);
	// 0 is 1.
	Rendering int64
	// Forgive are the habits of models that are corrected; none by default.
	Forgive parse.Habits
	// Short selects the short primer.
	Short bool
}

// Limits are the limits of a batch. A value that is not above 0 is the default.
type Limits struct {
	Calls        int // 64
	ExecuteBytes int // between the markers; 1 MiB
	JSONDepth    int // of a call's members; 64
	ResultBytes  int // of one result's content, before the note; 64 KiB
}

// batchDepth is the depth that array and call add to the JSON of arguments.
const batchDepth = 2

// or returns l with defaults filled in.
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

// Name is the dialect's name in manifests and records.
const Name = "cogency"

// Name returns Name.
func (Dialect) Name() string { return Name }

// Traits returns the dialect's traits: calls start when the closer of their batch has come,
// arguments and texts hold no variables, and a call sets no time-out.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{InStreamActions: true, Verbatim: true, AppendOnly: true, Transcript: true, Untimed: true, MaxTurns: maxTurns, Parallel: maxParallel, Busy: messages.Enqueue}
}

// Decide returns CONTINUE after a batch, valid or not, however the stream ended after it; DONE
// after <end> and after a reply without a batch; and HALT ERR_LOOP when MaxFailures turns of a
// run in a row have failed (docs/spec/design.md §5). In rendering 2 a reply without text for the
// user is asked for again once; the second in a row is HALT ERR_NO_PROGRESS.
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

// Digest is parse.Digest, which all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// CircuitOpen is the error of a run that fails again and again (docs/spec/cogency.md §5).
const CircuitOpen = "circuit_open"

// MaxFailures is the default of Circuit.Max.
const MaxFailures = 3

// Batch is the outcome of a turn's batch.
type Batch uint8

// The outcomes of a batch.
const (
	BatchOK      Batch = iota // a call succeeded, or there was none to fail
	BatchFailed               // there were calls, and none succeeded
	BatchInvalid              // nothing ran
)

// Outcome returns the outcome of the batch of a turn.
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

// second reports whether the rendering is 2 or later.
func (x Dialect) second() bool { return x.Rendering >= 2 }
