package feeds

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/internal/jsonvalue"
	"github.com/seed14be6753/stile/internal/transform"
	"github.com/seed14be6753/stile/messages"
)

// Normal returns the normal form of a spec, or everything that is wrong with it: each
// mistake an ERR_CONFIG *messages.Error, its field below place ("context_feeds[0]";
// "" for none). What it says of other feeds is for NewSet to check.
//
// type mixes trigger and source in the protocol. A kind of source there means that
// source, and the trigger by interval; a type left out means the trigger by
// interval, too.
func Normal(s Spec, place string) (Definition, error) {
	n := normalizer{place: place}
	d := n.definition(&s)
	if len(n.found) > 0 {
		return Definition{}, errors.Join(n.found...)
	}
	return d, nil
}

type normalizer struct {
	place string
	found []error
}

func (n *normalizer) add(field, reason, format string, args ...any) {
	if n.place != "" {
		field = n.place + "." + field
	}
	n.found = append(n.found, refuse(field, reason, format, args...))
}

func (n *normalizer) definition(s *Spec) Definition {
	d := Definition{ID: s.ID, Pinned: s.Pinned, Trigger: OnDemand}
	switch {
	case s.ID == "":
		n.add("id", ReasonMissing, "missing")
	case !ValidID(s.ID):
		n.add("id", ReasonBadValue, "%q is not %s", shortened(s.ID), idPattern)
	}

	kind := Kind(s.Source.Type)
	if s.Interval != nil {
		d.Trigger = Periodic
	}
	kindOK := true
	switch t := s.Type; {
	case t == "":
	case t == string(OnDemand) || t == string(Periodic):
		d.Trigger = Trigger(t)
	case t == "streaming" || t == "event_driven":
		n.add("type", ReasonUnsupportedType, "%s feeds are not supported; use on_demand or periodic", t)
	case !Kind(t).known():
		n.add("type", ReasonBadValue, "%q is neither on_demand or periodic nor a kind of source", shortened(t))
	case kind == "":
		kind = Kind(t)
	case kind != Kind(t) && kind.known():
		n.add("source.type", ReasonBadValue, "%s contradicts type %s", kind, t)
	}
	switch {
	case kind == "":
		n.add("source.type", ReasonMissing, "missing")
		kindOK = false
	case !kind.known():
		n.add("source.type", ReasonBadValue, "%q is none of internal, ingest, tool, relic, workflow, llm, agent, remote", shortened(string(kind)))
		kindOK = false
	}

	seconds := func(field string, v *int64, least int64) time.Duration {
		switch {
		case v == nil:
			return 0
		case *v < least || *v > MaxSeconds:
			n.add(field, ReasonBadValue, "%d is outside %d to %d seconds", *v, least, int64(MaxSeconds))
			return 0
		}
		return time.Duration(*v) * time.Second
	}
	limit := func(field string, v *int64) int64 {
		switch {
		case v == nil:
			return 0
		case *v < 1 || *v > MaxLimit:
			n.add(field, ReasonBadValue, "%d is outside 1 to %d", *v, int64(MaxLimit))
			return 0
		}
		return *v
	}
	switch {
	case d.Trigger == Periodic && s.Interval == nil:
		n.add("interval", ReasonMissing, "a periodic feed needs one")
	case d.Trigger == OnDemand && s.Interval != nil:
		n.add("interval", ReasonBadValue, "an on_demand feed has none")
	default:
		d.Interval = seconds("interval", s.Interval, 1)
	}
	d.Deadline = time.Duration(s.DeadlineMS) * time.Millisecond
	d.TTL, d.HasTTL = seconds("cache_ttl", s.CacheTTL, 0), s.CacheTTL != nil
	d.MaxTokens = limit("max_tokens", s.MaxTokens)
	d.MaxBytes = limit("max_size_bytes", s.MaxSizeBytes)
	if s.Enabled != nil {
		on, ok := Truth(*s.Enabled)
		if !ok {
			n.add("enabled", ReasonBadValue, "%q is none of true, 1, yes, on, false, 0, no, off", shortened(*s.Enabled))
		}
		d.Disabled = !on
	}

	d.Transform = n.transform(s.Transform)
	d.Source = Source{Kind: kind, Name: s.Source.Name, Action: s.Source.Action, Params: "{}"}
	if kind == Agent {
		d.Source.Fresh, d.Source.Tokens, d.Source.CostUSD, d.Source.Forwards = s.Source.Fresh, s.Source.Tokens, s.Source.CostUSD, s.Source.Forwards
	}
	if p, ok := n.params(s.Source.Params); ok {
		d.Source.Params = p
		if kindOK {
			n.source(&d)
		}
	}
	return d
}

// transform checks the steps of a feed and returns them in normal form.
func (n *normalizer) transform(steps string) string {
	if steps == "" {
		return ""
	}
	if len(steps) > MaxParamsBytes {
		n.add("transform", ReasonBadValue, "%d bytes, more than %d", len(steps), MaxParamsBytes)
		return ""
	}
	if _, wrong := transform.Load(steps); wrong != nil {
		field, detail, _ := strings.Cut(wrong.Error(), ": ")
		n.add(field, ReasonBadValue, "%s", detail)
		return ""
	}
	normal, _ := jsonvalue.Normal(steps)
	return normal
}

// params returns the parameters in compact form, their numbers as written.
func (n *normalizer) params(p string) (string, bool) {
	if p == "" {
		return "{}", true
	}
	if len(p) > MaxParamsBytes {
		n.add("source.params", ReasonBadValue, "%d bytes, more than %d", len(p), MaxParamsBytes)
		return "", false
	}
	v := jsontext.Value(p)
	if err := v.Compact(); err != nil {
		n.add("source.params", ReasonBadValue, "not JSON: %v", err)
		return "", false
	}
	if !v.IsValid() {
		n.add("source.params", ReasonBadValue, "a member is there twice")
		return "", false
	}
	if v.Kind() != '{' {
		n.add("source.params", ReasonWrongType, "want an object, not %s", kindName(v.Kind()))
		return "", false
	}
	return string(v), true
}

func (n *normalizer) source(d *Definition) {
	src := &d.Source
	if src.Kind.importable() {
		switch {
		case strings.TrimSpace(src.Name) == "":
			n.add("source.name", ReasonMissing, "a %s is named", src.Kind)
		case len(src.Name) > MaxNameBytes:
			n.add("source.name", ReasonBadValue, "%d bytes, more than %d", len(src.Name), MaxNameBytes)
		}
		if src.Action != "" {
			n.add("source.action", ReasonBadValue, "only an internal source has one")
		}
		if src.Kind == Agent {
			n.agent(d)
		}
		return
	}
	if src.Kind == Remote {
		n.remote(src)
		return
	}
	if src.Name != "" {
		n.add("source.name", ReasonBadValue, "an %s source has none", src.Kind)
	}
	if src.Kind == Ingest {
		if src.Action != "" {
			n.add("source.action", ReasonBadValue, "only an internal source has one")
		}
		q, found := readIngest(src.Params)
		n.inner(found)
		// Its own limit is the feed's: the smaller one holds.
		if q.maxTokens > 0 && (d.MaxTokens == 0 || q.maxTokens < d.MaxTokens) {
			d.MaxTokens = q.maxTokens
		}
		return
	}
	switch in, ok := internals[src.Action]; {
	case src.Action == "":
		n.add("source.action", ReasonMissing, "an internal source has one")
	case !ok:
		n.add("source.action", ReasonBadValue, "%q is none of %s", shortened(src.Action), internalNames)
	default:
		n.inner(in.check(src.Params))
	}
}

// agent checks how often an agent is asked. An answer costs tokens, so no prompt has one of its
// own.
func (n *normalizer) agent(d *Definition) {
	switch {
	case d.Trigger == Periodic && d.Interval < MinAgentInterval:
		n.add("interval", ReasonBadValue, "%d is below %d seconds, the least of a feed of an agent", d.Interval/time.Second, MinAgentInterval/time.Second)
	case d.Trigger == OnDemand && !d.HasTTL:
		n.add("cache_ttl", ReasonMissing, "a feed of an agent has an interval of %d seconds or more, or a cache_ttl of %d or more", MinAgentInterval/time.Second, MinAgentTTL/time.Second)
	case d.Trigger == OnDemand && d.TTL < MinAgentTTL:
		n.add("cache_ttl", ReasonBadValue, "%d is below %d seconds, the least of a feed of an agent", d.TTL/time.Second, MinAgentTTL/time.Second)
	}
	d.Source.Feed, d.Source.Counts = d.ID, d.Trigger == OnDemand
}

// inner takes mistakes in the parameters.
func (n *normalizer) inner(found []*messages.Error) {
	for _, e := range found {
		n.add("source.params"+e.Field, e.Reason, "%s", e.Detail)
	}
}

// ValidID reports whether a text can be the id of a feed.
func ValidID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Truth reads enabled (docs/spec/streaming.md §7.1).
func Truth(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off", "":
		return false, true
	}
	return false, false
}

func kindName(k jsontext.Kind) string { return jsonstring.KindName(byte(k)) }

// shortened is what a message repeats of a value.
func shortened(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return clip.Short(s, most) + fmt.Sprintf(" (%d bytes)", len(s))
}
