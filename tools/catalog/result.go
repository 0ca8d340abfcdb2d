package catalog

import (
	"errors"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// Failure returns the code and the message with which an error of a tool is raised in a
// program (docs/spec/neuroscript.md §8.3).
func Failure(err error) (code int, message string) {
	var script *neuroscript.ScriptError
	if errors.As(err, &script) {
		return script.Code, script.Message
	}
	var refused *tools.Refused
	if errors.As(err, &refused) {
		if refused.Reason == reasonNotAllowed {
			return neuroscript.CodeDenied, refused.Error()
		}
		return neuroscript.CodeToolFailed, refused.Error()
	}
	return neuroscript.CodeToolFailed, err.Error()
}

// Result returns a function that reads the recorded results (JSON) of actions of t. JSON has
// no error values and no timedates: an object with an integral code, a message and at most
// details becomes an error value again, so that it is false and must raises it; the text of
// a tool that Returns timedate becomes an instant. The function returns a
// *neuroscript.ScriptError for a text that is neither JSON nor such an instant.
func Result(t *tools.Tool) func(recorded string) (neuroscript.Value, error) {
	return func(recorded string) (neuroscript.Value, error) {
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
}

// errorOf returns the error value with the JSON form v, or v if there is none.
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

// Signature returns the parameters of a tool as a prompt shows them: "(s, old, new, count?)".
func Signature(t *tools.Tool) string {
	ps := make(Parameters, len(t.Params))
	for i, p := range t.Params {
		ps[i] = Parameter{Name: p.Name, Required: !p.Optional}
	}
	return ps.Signature()
}
