package plan

import (
	"errors"

	"github.com/seed14be6753/stile/messages"
)

// ReasonGroupClosed is the reason of a member of a group that is being undone, or was.
const ReasonGroupClosed = "group_closed"

// MaxCompensationBytes bounds the parameters of a compensation after substitution.
const MaxCompensationBytes = 64 << 10

// Refuse ends an action that was not handed out as failed, for a reason of the caller. An
// action that was handed out, or has ended, is left alone: its caller ends it.
func (p *Plan) Refuse(dst []Effect, r Ref, reason string) []Effect {
	n := p.find(r)
	if n == none || p.nodes[n].state >= Dispatched {
		return dst
	}
	p.finish(&dst, n, Failed, reason, "")
	p.cascade(&dst)
	p.pump(&dst)
	return dst
}

// Compensation returns the parameters of a compensation: params with ${result.path} and
// ${params.path} replaced by parts of what its action gave and was given. reason is why there
// are none: a reference means something that is not there, or the text is too long. Other names
// inside a text are left as written.
func Compensation(params, result, given string) (out, reason string) {
	if !mayRefer(params) {
		return params, ""
	}
	p := New(Options{Environment: undone{result: result, params: given}, ParameterBytes: MaxCompensationBytes, Strict: []string{"result", "params"}})
	out, err := p.Resolve(params)
	if err == nil {
		return out, ""
	}
	var e *messages.Error
	if errors.As(err, &e) && e.Reason != "" {
		return "", e.Reason
	}
	return "", ReasonUnresolved
}

// undone is what the parameters of a compensation can name.
type undone struct{ result, params string }

func (u undone) Lookup(name string) (value string, s Status) {
	switch name {
	case "result":
		value = u.result
	case "params":
		value = u.params
	}
	if value == "" {
		return "", Absent
	}
	return value, Present
}
