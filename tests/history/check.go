// Package history is the host's own and no part of the public API: it may change in any release.
//
// It holds the runtime against a sequential model of a session: clients
// drive real runtimes at once, processes end in the middle, and porcupine looks for an
// order of what they asked and were answered that one session could have followed
// (linearizability).
//
// What the model demands: a submit is accepted or refused by what is in flight then; an
// accepted input becomes exactly one run, in the order of acceptance, one at a time, or
// joins one: at its next turn, or, too late for that, as the next run (merge), or in the
// window that gathers it (debounce); an idempotency key names one run, and one
// input; a cancel ends its run and no other; what was answered is never forgotten, what was shown never taken back, and every read is of one moment;
// a request that a dying process did not answer has happened or has not.
//
// A seed fixes what is asked, not in which order goroutines run.
package history

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// checkLimit bounds the search for an order. No history of this size comes near it.
const checkLimit = 20 * time.Second

// Operation is what a client asked of a session and was answered; one of Submit, Cancel and Wait
// is set. Asked and Answered are by one clock that never stands still; Answered is 0 where no
// answer came.
type Operation struct {
	Client          int
	Asked, Answered int64
	Submit          *Submit
	Cancel          *Cancel
	Wait            *Wait
}

// Submit is a message to an agent of the dialect aeiou. Its text, and its key if it has one, are no
// other's.
type Submit struct {
	Text, Key string
	Policy    messages.Policy
	Code      messages.Code // "" when it was accepted
	Run       int64
	Joined    bool
}

// Cancel is one of a run.
type Cancel struct {
	Run  int64
	Code messages.Code
}

// Wait is for the end of a run.
type Wait struct {
	Run int64
	How string // the decision, with the reason in brackets
}

// Refused returns why a session with these records cannot have had this history, or "". The
// session is at rest, no operation is on its way, and runs may have met any number of restarts.
func Refused(records iter.Seq2[*stile.Record, error], ops []Operation) (string, error) {
	var a abstraction
	for r, err := range records {
		if err != nil {
			return "", err
		}
		a.add(r)
	}
	last := int64(0)
	for _, op := range ops {
		last = max(last, op.Asked, op.Answered)
	}
	list := make([]porcupine.Operation, 0, len(ops)+1)
	for _, op := range ops {
		p := porcupine.Operation{ClientId: op.Client, Call: op.Asked, Return: op.Answered}
		if op.Answered == 0 {
			p.Return = last + 1
		}
		answer := func(code messages.Code) answer {
			switch {
			case op.Answered == 0:
				return unknown
			case code == "":
				return answered
			}
			return answer(code)
		}
		switch {
		case op.Submit != nil:
			in := op.Submit
			p.Input, p.Output = submit{text: in.Text, key: in.Key, policy: in.Policy}, submitted{answer: answer(in.Code), run: in.Run, joined: in.Joined}
		case op.Cancel != nil:
			p.Input, p.Output = cancel{op.Cancel.Run}, answer(op.Cancel.Code)
		case op.Wait != nil && op.Answered == 0:
			continue // nothing was learned
		default:
			p.Input, p.Output = wait{run: op.Wait.Run}, waited{op.Wait.How}
		}
		list = append(list, p)
	}
	list = append(list, porcupine.Operation{Input: read{rest: true}, Output: seen{a.log}, Call: last + 2, Return: last + 3})
	return (&model{final: a.log, restarts: true}).refused(resolved(a.log, list)), nil
}

// resolved looks up what became of the submits that were not answered. No text is
// submitted twice without a key, so the journal says of each whether it happened, which
// spares the search from trying both; of one that did not, nothing else is known.
func resolved(final []event, ops []porcupine.Operation) (left []porcupine.Operation) {
	for _, op := range ops {
		if out, ok := op.Output.(submitted); ok && out.answer == unknown {
			in := op.Input.(submit)
			i := slices.IndexFunc(final, func(e event) bool { return e.kind == accepted && e.text == in.text })
			if i < 0 {
				continue
			}
			if in.key == "" {
				op.Output = submitted{answer: answered, run: final[i].run}
			}
		}
		left = append(left, op)
	}
	return left
}

// refused returns why a session cannot have had this history, or "".
func (m *model) refused(ops []porcupine.Operation) string {
	pm := m.porcupine()
	res, info := porcupine.CheckOperationsVerbose(pm, ops, checkLimit)
	switch res {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("no verdict on %d operations within %s", len(ops), checkLimit)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no order of the %d operations is one of a session. The journal:\n", len(ops))
	for i, e := range m.final {
		fmt.Fprintf(&b, "  %d %s\n", i+1, e)
	}
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, lin := range part {
			if len(lin) > len(longest) {
				longest = lin
			}
		}
	}
	b.WriteString("the longest order found:\n")
	describe := func(op porcupine.Operation) {
		fmt.Fprintf(&b, "  [%d, %d] client %d: %s\n", op.Call, op.Return, op.ClientId, pm.DescribeOperation(op.Input, short(op.Output)))
	}
	for _, op := range longest {
		describe(op)
	}
	b.WriteString("the rest:\n")
	for _, op := range ops {
		if !slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Call == op.Call }) {
			describe(op)
		}
	}
	return b.String()
}

// short leaves of a log its length and end.
func short(out any) any {
	if s, ok := out.(seen); ok {
		return fmt.Sprintf("%d events, the last %v", len(s.log), s.log[max(0, len(s.log)-2):])
	}
	return out
}
