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

// Options are how a model answers (llm.Settings.Options). What is not set is the
// provider's to choose.
type Options struct {
	Temperature *float64       `json:"temperature"`
	TopP        *float64       `json:"top_p"`
	MaxTokens   int64          `json:"max_output_tokens"`
	Stop        []string       `json:"stop"`
	Seed        *int64         `json:"seed"`
	Effort      string         `json:"reasoning_effort"`
	Extra       map[string]any `json:"extra"`
}

// Named says what one interface makes of options.
type Named struct {
	// Vendor is its name in errors.
	Vendor string
	// Fields are the option's names in a request, by those of the manifest. An option
	// that is not there is refused.
	Fields map[string]string
	// Efforts are the words that it has for reasoning_effort; nil takes every one.
	Efforts []string
	// HottestTemperature is the highest temperature; 0 is no bound.
	HottestTemperature float64
	// Own are the members of a request that the adapter writes itself, the dots
	// leading into objects.
	Own []string
}

// Read checks options. Errors are ERR_CONFIG about options.NAME.
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

// owned finds a member among what the adapter writes itself, "" for none.
func (n *Named) owned(extra map[string]any, within string) string {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		path := within + name
		if slices.Contains(n.Own, path) {
			return path
		}
		inner, ok := extra[name].(map[string]any)
		under := slices.ContainsFunc(n.Own, func(own string) bool { return strings.HasPrefix(own, path+".") })
		if under && !ok {
			return path // it would take the place of what the host writes in there
		}
		if under {
			if name := n.owned(inner, path+"."); name != "" {
				return name
			}
		}
	}
	return ""
}

// Names are the options that are set, as the manifest names them.
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

// over is o with what own names before it.
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

// Tuning is what a model was made with, and what its interface takes.
type Tuning struct {
	named   *Named
	text    string // as it was given
	options Options
}

// Tune checks what a model is made with.
func (n *Named) Tune(text string) (*Tuning, error) {
	o, err := n.Read(text)
	if err != nil {
		return nil, err
	}
	return &Tuning{named: n, text: text, options: *o}, nil
}

// of are the options of a request: what it names, and what the model was made with for
// the rest.
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

// refused is the option, as the manifest names it, that a refused request is about: the
// provider names its parameter, or has the word in its sentence. "" is none.
func (t *Tuning) refused(o *Options, r *refusal) string {
	if t == nil || o == nil {
		return ""
	}
	said := func(member string) bool {
		if r.param != "" {
			return r.param == member || strings.HasPrefix(r.param, member+".") || strings.HasPrefix(r.param, member+"[")
		}
		return hasWord(r.message, member)
	}
	for _, name := range o.Names() {
		if name == "extra" {
			for _, member := range slices.Sorted(maps.Keys(o.Extra)) {
				if said(member) {
					return "extra." + member
				}
			}
			continue
		}
		if member := t.named.Fields[name]; said(member) || said(member[strings.LastIndexByte(member, '.')+1:]) {
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

// AddMembers puts further members into the body of a request.
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

// merged is a JSON object with further members. Objects on both sides are joined; of
// anything else the further one stays.
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
