package workload

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/messages"
)

// Parse reads a workload. file is what errors call it. All mistakes come joined: each a
// *messages.Error with ERR_CONFIG, File, Line, Col and Field; the result is nil then.
func Parse(file string, data []byte) (*Workload, error) {
	if len(data) > MaxFileBytes {
		return nil, &messages.Error{Code: messages.ErrConfig, File: file, Detail: fmt.Sprintf("the workload has %d bytes; the limit is %d", len(data), MaxFileBytes)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, syntax(file, err)
	}
	r := &reader{file: file}
	w := &Workload{Version: Version, Seed: 1, Sessions: 16, Arrivals: Arrivals{Rate: 10, For: Duration(10 * time.Second), Process: Poisson}}
	root := &yaml.Node{Kind: yaml.MappingNode, Line: 1, Column: 1}
	if len(doc.Content) > 0 {
		root = doc.Content[0]
	}
	r.workload(root, w)
	if len(r.wrong) > 0 {
		return nil, errors.Join(r.wrong...)
	}
	return w, nil
}

var lineOf = regexp.MustCompile(`^line ([0-9]+): `)

// syntax is a mistake of YAML, at its line.
func syntax(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &messages.Error{Code: messages.ErrConfig, File: file, Line: 1, Detail: text}
	if m := lineOf.FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Detail = text[len(m[0]):]
	}
	return e
}

// reader takes a document apart and collects mistakes.
type reader struct {
	file  string
	wrong []error
}

func (r *reader) refuse(n *yaml.Node, key, format string, args ...any) {
	r.wrong = append(r.wrong, &messages.Error{
		Code: messages.ErrConfig, File: r.file, Line: n.Line, Col: n.Column, Field: key, Detail: fmt.Sprintf(format, args...),
	})
}

// keys calls the function of each key of a mapping, and refuses other keys.
func (r *reader) keys(n *yaml.Node, path string, known map[string]func(n *yaml.Node, path string)) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, "want a mapping of keys")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		at := key
		if path != "" {
			at = path + "." + key
		}
		take, ok := known[key]
		switch {
		case !ok:
			names := make([]string, 0, len(known))
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.refuse(n.Content[i], at, "is no key here; there are %s", strings.Join(names, ", "))
		case seen[key]:
			r.refuse(n.Content[i], at, "is there twice")
		default:
			take(n.Content[i+1], at)
		}
		seen[key] = true
	}
}

func (r *reader) list(n *yaml.Node, path string, most int, each func(n *yaml.Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		r.refuse(n, path, "want a list")
		return
	}
	if len(n.Content) == 0 || len(n.Content) > most {
		r.refuse(n, path, "want 1 to %d items; there are %d", most, len(n.Content))
		return
	}
	for i, item := range n.Content {
		each(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (r *reader) workload(n *yaml.Node, w *Workload) {
	var agents, jobs *yaml.Node
	jobAt := map[int]*yaml.Node{}
	r.keys(n, "", map[string]func(*yaml.Node, string){
		"version": r.whole(&w.Version, Version, Version),
		"name":    r.name(&w.Name),
		"about":   r.text(&w.About, 200),
		"seed": func(n *yaml.Node, path string) {
			v, err := strconv.ParseUint(n.Value, 10, 64)
			if n.Kind != yaml.ScalarNode || err != nil {
				r.refuse(n, path, "want a whole number from 0")
				return
			}
			w.Seed = v
		},
		"sessions": r.whole(&w.Sessions, 0, MaxSessions),
		"arrivals": func(n *yaml.Node, path string) {
			r.keys(n, path, map[string]func(*yaml.Node, string){
				"rate":    r.number(&w.Arrivals.Rate, 0.001, MaxRate),
				"ramp":    r.span(&w.Arrivals.Ramp, 0, MaxFor),
				"for":     r.span(&w.Arrivals.For, time.Millisecond, MaxFor),
				"process": choice(r, &w.Arrivals.Process, Poisson, Even),
			})
			if w.Arrivals.Ramp > w.Arrivals.For {
				r.refuse(n, path+".ramp", "is longer than arrivals.for (%s)", time.Duration(w.Arrivals.For))
			}
			if e := w.Arrivals.Expected(); e > MaxSubmits {
				r.refuse(n, path, "would be %.0f submits; the limit is %d", e, MaxSubmits)
			}
		},
		"agents": func(n *yaml.Node, path string) {
			agents = n
			r.list(n, path, MaxAgents, func(n *yaml.Node, path string) {
				a := Agent{Tokens: 8, TokenBytes: 4, Class: string(messages.ReadOnly)}
				r.agent(n, path, &a)
				if _, taken := w.Agent(a.Name); taken {
					r.refuse(n, path+".name", "another agent is called %q", a.Name)
				}
				w.Agents = append(w.Agents, a)
			})
		},
		"jobs": func(n *yaml.Node, path string) {
			jobs = n
			r.list(n, path, MaxJobs, func(n *yaml.Node, path string) {
				j := Job{Weight: 1, Input: 32, Reader: Stream}
				jobAt[len(w.Jobs)] = n
				r.job(n, path, &j)
				w.Jobs = append(w.Jobs, j)
			})
		},
		"thresholds": func(n *yaml.Node, path string) {
			r.list(n, path, 64, func(n *yaml.Node, path string) {
				var t string
				r.text(&t, 100)(n, path)
				w.Thresholds = append(w.Thresholds, t)
			})
		},
	})
	if w.Name == "" {
		r.refuse(n, "name", "is missing")
	}
	if agents == nil {
		r.refuse(n, "agents", "is missing")
	}
	if jobs == nil {
		r.refuse(n, "jobs", "is missing")
	}
	for i, j := range w.Jobs {
		a, known := w.Agent(j.Agent)
		if j.Agent != "" && !known {
			r.refuse(jobAt[i], fmt.Sprintf("jobs[%d].agent", i), "no agent is called %q", j.Agent)
		}
		if a.Approval && j.Reader != Stream && j.Reader != Reconnect {
			r.refuse(jobAt[i], fmt.Sprintf("jobs[%d].reader", i), "an agent that asks a person wants reader: stream or reconnect")
		}
	}
}

func (r *reader) agent(n *yaml.Node, path string, a *Agent) {
	r.keys(n, path, map[string]func(*yaml.Node, string){
		"name":        r.name(&a.Name),
		"first":       r.dist(&a.First),
		"gap":         r.dist(&a.Gap),
		"tokens":      r.whole(&a.Tokens, 1, MaxTokens),
		"token_bytes": r.whole(&a.TokenBytes, 1, 1024),
		"calls":       r.whole(&a.Calls, 0, MaxCalls),
		"tool":        r.dist(&a.Tool),
		"class":       choice(r, &a.Class, string(messages.Pure), string(messages.ReadOnly), string(messages.Keyed), string(messages.Effectful)),
		"approval":    r.truth(&a.Approval),
		"approve":     r.dist(&a.Approve),
		"feeds":       r.whole(&a.Feeds, 0, 16),
		"feed":        r.dist(&a.Feed),
	})
	if a.Name == "" {
		r.refuse(n, path+".name", "is missing")
	}
	if a.Approval && (a.Calls == 0 || a.Class == string(messages.Pure)) {
		r.refuse(n, path+".approval", "a person is asked about calls: set calls, and a class that is not pure")
	}
}

func (r *reader) job(n *yaml.Node, path string, j *Job) {
	r.keys(n, path, map[string]func(*yaml.Node, string){
		"name":   r.name(&j.Name),
		"agent":  r.name(&j.Agent),
		"weight": r.number(&j.Weight, 0.000001, 1e6),
		"input":  r.whole(&j.Input, 1, MaxInput),
		"reader": choice(r, &j.Reader, Stream, Wait, Reconnect, Dead),
		"cuts":   r.whole(&j.Cuts, 1, MaxCuts),
	})
	if j.Agent == "" {
		r.refuse(n, path+".agent", "is missing")
	}
	if j.Name == "" {
		j.Name = j.Agent
	}
	switch {
	case j.Reader == Reconnect && j.Cuts == 0:
		j.Cuts = 1
	case j.Reader != Reconnect && j.Cuts > 0:
		r.refuse(n, path+".cuts", "goes with reader: reconnect")
	}
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)

func (r *reader) name(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || !nameForm.MatchString(n.Value) {
			r.refuse(n, path, "want a name of small letters, digits, - and _, at most 40")
			return
		}
		*to = n.Value
	}
}

func (r *reader) text(to *string, most int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || len(n.Value) > most {
			r.refuse(n, path, "want a text of at most %d bytes", most)
			return
		}
		*to = n.Value
	}
}

func (r *reader) whole(to *int, least, most int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			r.refuse(n, path, "want a whole number from %d to %d", least, most)
			return
		}
		*to = v
	}
}

func (r *reader) number(to *float64, least, most float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
			r.refuse(n, path, "want a number from %g to %g", least, most)
			return
		}
		*to = v
	}
}

func (r *reader) truth(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			r.refuse(n, path, "want true or false")
			return
		}
		*to = n.Value == "true"
	}
}

func choice[T ~string](r *reader, to *T, all ...T) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(all, T(n.Value)) {
			names := make([]string, len(all))
			for i, v := range all {
				names[i] = string(v)
			}
			r.refuse(n, path, "want one of %s", strings.Join(names, ", "))
			return
		}
		*to = T(n.Value)
	}
}

func (r *reader) span(to *Duration, least, most time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			r.refuse(n, path, "want a time span such as 20ms, from %s to %s", least, most)
			return
		}
		*to = Duration(v)
	}
}

// dist reads a time span, which is a constant, or a mapping with dist.
func (r *reader) dist(to *Dist) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.ScalarNode {
			d := Dist{Kind: Constant}
			r.span(&d.Value, 0, MaxDraw)(n, path)
			*to = d
			return
		}
		var d Dist
		known := map[string]bool{}
		take := func(name string, v *Duration) func(*yaml.Node, string) {
			return func(n *yaml.Node, path string) { known[name] = true; r.span(v, 0, MaxDraw)(n, path) }
		}
		before := len(r.wrong)
		r.keys(n, path, map[string]func(*yaml.Node, string){
			"dist":  choice(r, &d.Kind, Constant, Uniform, Exponential, LogNormal),
			"value": take("value", &d.Value), "min": take("min", &d.Min), "max": take("max", &d.Max),
			"mean": take("mean", &d.Mean), "median": take("median", &d.Median), "p99": take("p99", &d.P99),
		})
		if len(r.wrong) > before {
			return
		}
		want := map[Kind][]string{Constant: {"value"}, Uniform: {"max", "min"}, Exponential: {"mean"}, LogNormal: {"median", "p99"}}[d.Kind]
		have := make([]string, 0, len(known))
		for name := range known {
			have = append(have, name)
		}
		slices.Sort(have)
		switch {
		case d.Kind == "":
			r.refuse(n, path+".dist", "is missing: constant, uniform, exponential or lognormal")
		case !slices.Equal(want, have):
			r.refuse(n, path, "%s takes %s", d.Kind, strings.Join(want, " and "))
		case d.Kind == Uniform && d.Min > d.Max:
			r.refuse(n, path, "min is above max")
		case d.Kind == LogNormal && (d.Median <= 0 || d.P99 < d.Median):
			r.refuse(n, path, "want a median above 0 and a p99 of at least that")
		}
		*to = d
	}
}
