package turn

import (
	"maps"
	"strconv"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// A session's variables (docs/spec/streaming.md §7.4) are the fold of its records: an action
// of type internal changes them when its end is recorded as ok, and at no other time. So the
// journal alone has them, a crash between the call and its end leaves them as they were, and
// a fork has those of its turn.

// Bounds of a session's variables (docs/spec/streaming.md §7.4).
const (
	MaxVariables         = 256
	MaxVariableBytes     = 64 << 10 // of one value as JSON
	maxVariableNameBytes = 64
)

// Reasons of failed actions on variables, as action.ended has them.
const (
	ReasonBadField      = "bad_field"      // parameters that the action does not have
	ReasonVariableLimit = "variable_limit" // one name too many
	ReasonValueLimit    = "value_limit"    // a value too long
)

// Variables are values by name, each JSON. The zero value has none.
type Variables map[string]string

// variableCall is a valid action on variables.
type variableCall struct {
	name  string
	value string // of set_variable
}

// Do returns the result of an internal action on v, as canonical JSON. It does not change v:
// Apply does, when the action's end is recorded. The error is a *messages.Error with one of
// the reasons above.
func (v Variables) Do(action, args string) (result string, err error) {
	c, err := readVariable(action, args)
	if err != nil {
		return "", err
	}
	_, known := v[c.name]
	switch action {
	case messages.InternalSetVariable:
		if !known && len(v) >= MaxVariables {
			return "", failure(messages.ErrQuota, ReasonVariableLimit, "name", "a session has "+strconv.Itoa(MaxVariables)+" variables at most")
		}
		return `{"name":` + quote(c.name) + `}`, nil
	case messages.InternalDeleteVariable:
		return `{"deleted":` + strconv.FormatBool(known) + `,"name":` + quote(c.name) + `}`, nil
	}
	return "{}", nil
}

// Apply returns v as a recorded action leaves it. v itself is not changed; it is returned as
// it is when the action is not about variables or could not have ended ok.
func (v Variables) Apply(action, args string) Variables {
	c, err := readVariable(action, args)
	if err != nil {
		return v
	}
	_, known := v[c.name]
	switch {
	case action == messages.InternalClearContext:
		return nil
	case action == messages.InternalSetVariable && (known || len(v) < MaxVariables):
		next := maps.Clone(v)
		if next == nil {
			next = Variables{}
		}
		next[c.name] = c.value
		return next
	case action == messages.InternalDeleteVariable && known:
		next := maps.Clone(v)
		delete(next, c.name)
		if len(next) == 0 {
			return nil
		}
		return next
	}
	return v
}

// readVariable reads the parameters of an action on variables.
func readVariable(action, args string) (c variableCall, err error) {
	var in struct {
		Name  jsontext.Value `json:"name"`
		Value jsontext.Value `json:"value"`
	}
	takesName, takesValue := true, false
	switch action {
	case messages.InternalSetVariable:
		takesValue = true
	case messages.InternalDeleteVariable:
	case messages.InternalClearContext:
		takesName = false
	default:
		return c, failure(messages.ErrConfig, ReasonBadField, "name", action+" is not about variables")
	}
	given := map[string]jsontext.Value{}
	if json.Unmarshal([]byte(args), &given) != nil || given == nil {
		return c, failure(messages.ErrConfig, ReasonBadField, "parameters", "they must be an object")
	}
	for key, v := range given {
		switch {
		case key == "name" && takesName:
			in.Name = v
		case key == "value" && takesValue:
			in.Value = v
		default:
			return c, failure(messages.ErrConfig, ReasonBadField, "parameters", "there is none that is called "+quote(shortName(key)))
		}
	}
	if takesName {
		name, bad := jsontext.AppendUnquote(nil, in.Name)
		if bad != nil || !variableName(string(name)) {
			return c, failure(messages.ErrConfig, ReasonBadField, "parameters.name", "want a letter or '_', then up to "+strconv.Itoa(maxVariableNameBytes-1)+" letters, digits or '_'")
		}
		c.name = string(name)
	}
	if takesValue {
		if in.Value == nil {
			return c, failure(messages.ErrConfig, ReasonBadField, "parameters.value", "missing")
		}
		own := in.Value.Clone()
		if own.Canonicalize() != nil {
			return c, failure(messages.ErrConfig, ReasonBadField, "parameters.value", "it is no JSON")
		}
		if len(own) > MaxVariableBytes {
			return c, failure(messages.ErrQuota, ReasonValueLimit, "parameters.value", "it has "+strconv.Itoa(len(own))+" bytes as JSON; the limit is "+strconv.Itoa(MaxVariableBytes))
		}
		c.value = string(own)
	}
	return c, nil
}

// failure returns the error of an action, for its record and the model.
func failure(code messages.Code, reason, field, why string) error {
	return &messages.Error{Code: code, Reason: reason, Field: field, Detail: why}
}

// variableName reports whether $s can be a reference (docs/spec/streaming.md §6).
func variableName(s string) bool {
	if s == "" || len(s) > maxVariableNameBytes || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}

// shortName cuts a name to the length that an error may quote.
func shortName(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return clean(s[:most]) + "…"
}

// asOfBegin returns the session's variables as they were when the open turn began.
func (s *State) asOfBegin() Variables {
	v := maps.Clone(s.Variables)
	if s.Open == nil || s.Open.Turn == nil {
		return v
	}
	for name, was := range s.Open.Turn.Was {
		switch {
		case was == nil:
			delete(v, name)
		case v == nil:
			v = Variables{name: *was}
		default:
			v[name] = *was
		}
	}
	return v
}

// setVariables folds an action on variables that ended ok in turn t, and remembers the
// values that it replaced.
func (s *State) setVariables(t *OpenTurn, action, args string) {
	next := s.Variables.Apply(action, args)
	changed := func(name string) {
		if _, noted := t.Was[name]; noted {
			return
		}
		if t.Was == nil {
			t.Was = map[string]*string{}
		}
		var was *string
		if v, ok := s.Variables[name]; ok {
			was = &v
		}
		t.Was[name] = was
	}
	for name, v := range s.Variables {
		if now, ok := next[name]; !ok || now != v {
			changed(name)
		}
	}
	for name := range next {
		if _, ok := s.Variables[name]; !ok {
			changed(name)
		}
	}
	s.Variables = next
}

// environment resolves the names in a reply that no action has. Its variables are those at
// the place that the document has reached: when a restored turn is read again, changes by
// later actions are not visible too early, and every text comes out as before.
type environment struct {
	variables Variables
	plan.Environment
}

// Lookup implements plan.Environment.
func (e *environment) Lookup(name string) (string, plan.Status) {
	if v, ok := e.variables[name]; ok {
		return v, plan.Present
	}
	return e.Environment.Lookup(name)
}
