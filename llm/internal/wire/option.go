package wire

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/llm"
)

// Options are the options of a request (llm.Settings.Options). The provider has a default for
// each that is not set.
type Options struct {
	Temperature *float64       `json:"temperature"`
	TopP        *float64       `json:"top_p"`
	MaxTokens   int64          `json:"max_output_tokens"`
	Stop        []string       `json:"stop"`
	Seed        *int64         `json:"seed"`
	Effort      string         `json:"reasoning_effort"`
	Extra       map[string]any `json:"extra"`
}

// Named says which options an API supports, and their names there.
type Named struct {
	// Vendor is the vendor's name in errors.
	Vendor string
	// Fields has the names of options in a request, by their names in a manifest. Other
	// options are refused.
	Fields map[string]string
	// Efforts are the values of reasoning_effort; nil accepts any.
	Efforts []string
	// HottestTemperature is the highest temperature; 0 is no bound.
	HottestTemperature float64
	// Own are the members of a request that the adapter writes itself, as paths with dots.
	Own []string
}

// Read parses and checks options. Errors are ERR_CONFIG with Field options.NAME.
func (n *Named) Read(text string) (*Options, error) {
	o := &Options{}
	if text == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(text), o, json.RejectUnknownMembers(true)); err != nil {
		return nil, Bad("options", "are no JSON object with the options of a model")
	}
	for _, name := range o.Names() {
		if _, ok := n.Fields[name]; !ok && name != "extra" {
			return nil, Bad("options."+name, n.Vendor+" has no such option; leave it out")
		}
	}
	if n.HottestTemperature > 0 && o.Temperature != nil && *o.Temperature > n.HottestTemperature {
		return nil, Bad("options.temperature", "is over the highest of "+n.Vendor+", which is 1")
	}
	if n.Efforts != nil && o.Effort != "" && !slices.Contains(n.Efforts, o.Effort) {
		return nil, Bad("options.reasoning_effort", n.Vendor+" has no "+o.Effort+"; it has "+strings.Join(n.Efforts, ", "))
	}
	if name := n.owned(o.Extra, ""); name != "" {
		return nil, Bad("options.extra."+name, "is a member of the request that the host writes itself; leave it out")
	}
	return o, nil
}

// owned returns the first member that the adapter writes itself, or "".
func (n *Named) owned(extra map[string]any, within string) string {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		path := within + name
		if slices.Contains(n.Own, path) {
			return path
		}
		inner, ok := extra[name].(map[string]any)
		under := slices.ContainsFunc(n.Own, func(own string) bool { return strings.HasPrefix(own, path+".") })
		if under && !ok {
			return path // it would replace an object of the host
		}
		if under {
			if name := n.owned(inner, path+"."); name != "" {
				return name
			}
		}
	}
	return ""
}

// Names returns the options that are set, by their names in a manifest.
func (o *Options) Names() []string {
	var names []string
	for _, of := range []struct {
		name string
		set  bool
	}{
		{"temperature", o.Temperature != nil},
		{"top_p", o.TopP != nil},
		{"max_output_tokens", o.MaxTokens != 0},
		{"stop", len(o.Stop) > 0},
		{"seed", o.Seed != nil},
		{"reasoning_effort", o.Effort != ""},
		{"extra", len(o.Extra) > 0},
	} {
		if of.set {
			names = append(names, of.name)
		}
	}
	return names
}

// over returns o, with the options that own sets in place of its own.
func (o *Options) over(own *Options) *Options {
	out := *o
	if own.Temperature != nil {
		out.Temperature = own.Temperature
	}
	if own.TopP != nil {
		out.TopP = own.TopP
	}
	if own.MaxTokens != 0 {
		out.MaxTokens = own.MaxTokens
	}
	if own.Stop != nil {
		out.Stop = own.Stop
	}
	if own.Seed != nil {
		out.Seed = own.Seed
	}
	if own.Effort != "" {
		out.Effort = own.Effort
	}
	if own.Extra != nil {
		out.Extra = own.Extra
	}
	return &out
}

// Tuning is the options of a model, and those that its API supports.
type Tuning struct {
	named   *Named
	text    string // as it was given
	options Options
}

// Tune checks the options of a model. Errors are those of Read.
func (n *Named) Tune(text string) (*Tuning, error) {
	o, err := n.Read(text)
	if err != nil {
		return nil, err
	}
	return &Tuning{named: n, text: text, options: *o}, nil
}

// of returns the options of a request: its own, and the model's for the rest.
func (t *Tuning) of(req *llm.Request) (*Options, error) {
	switch {
	case t == nil:
		return &Options{}, nil
	case req.Options == "" || req.Options == t.text:
		return &t.options, nil
	}
	own, err := t.named.Read(req.Options)
	if err != nil {
		return nil, err
	}
	return t.options.over(own), nil
}

// refused returns the option for which the provider refused a request, by its name in a
// manifest: the provider names the parameter, or has its name in the message. "" is none.
func (t *Tuning) refused(o *Options, r *refusal) string {
	if t == nil || o == nil {
		return ""
	}
	mentions := func(member string) bool {
		if r.param != "" {
			return r.param == member || strings.HasPrefix(r.param, member+".") || strings.HasPrefix(r.param, member+"[")
		}
		return hasWord(r.message, member)
	}
	for _, name := range o.Names() {
		if name == "extra" {
			for _, member := range slices.Sorted(maps.Keys(o.Extra)) {
				if mentions(member) {
					return "extra." + member
				}
			}
			continue
		}
		if member := t.named.Fields[name]; mentions(member) || mentions(member[strings.LastIndexByte(member, '.')+1:]) {
			return name
		}
	}
	return ""
}

// hasWord reports whether a sentence has a word that is not a part of a longer one.
func hasWord(sentence, word string) bool {
	letter := func(c byte) bool { return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	for from := 0; word != ""; {
		i := strings.Index(sentence[from:], word)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(word)
		if (i == 0 || !letter(sentence[i-1])) && (from == len(sentence) || !letter(sentence[from])) {
			return true
		}
	}
	return false
}

// AddMembers adds members to the JSON body of a request.
func AddMembers(req *http.Request, extra map[string]any) error {
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close() // it was read, or the request is not sent
	if err == nil {
		body, err = merged(body, extra)
	}
	if err != nil {
		return fmt.Errorf("wire: extra members of the request: %w", err)
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(body))
	return nil
}

// merged returns a JSON object with further members. Objects on both sides are merged; any
// other member replaces the one of the object.
func merged(object []byte, extra map[string]any) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	for name, v := range extra {
		var value []byte
		var err error
		if inner, ok := v.(map[string]any); ok && members[name].Kind() == '{' {
			value, err = merged(members[name], inner)
		} else {
			value, err = json.Marshal(v, json.Deterministic(true))
		}
		if err != nil {
			return nil, err
		}
		members[name] = value
	}
	return json.Marshal(members, json.Deterministic(true))
}
