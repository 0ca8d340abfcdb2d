package feeds

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/transform"
	"github.com/seed14be6753/stile/messages"
)

// The internal actions (docs/spec/streaming.md §7.4). The last three concern the session's
// variables as well, or alone; Permission knows them, Set.Do does of them what
// concerns feeds.
const (
	AddFeed        = "add_context_feed"
	RemoveFeed     = "remove_context_feed"
	UpdateFeed     = "update_context_feed"
	ListFeeds      = "list_context_feeds"
	GetFeed        = "get_context_feed"
	ClearContext   = "clear_context"
	SetVariable    = "set_variable"
	DeleteVariable = "delete_variable"
)

var (
	feedActions = []string{AddFeed, RemoveFeed, UpdateFeed, ListFeeds, GetFeed}
	allActions  = append(slices.Clone(feedActions), ClearContext, SetVariable, DeleteVariable)
)

// Reasons of failed internal actions (docs/spec/streaming.md §7.4). FailureReason gives the
// whole reason of an action's end.
const (
	ReasonUnknownTarget = "unknown_target"
	ReasonNotAllowed    = "not_allowed"
	ReasonFeedExists    = "feed_exists"
	ReasonInvalidFeed   = "invalid_feed"
	ReasonFeedLimit     = "feed_limit"
	ReasonFeedNotFound  = "feed_not_found"
	ReasonPinned        = "pinned"
	ReasonCycle         = "feed_cycle"  // the change makes a feed refer to itself
	ReasonInUse         = "feed_in_use" // others refer to it
	ReasonBadField      = "bad_field"   // parameters that are none of the action's
)

// Permission is what an agent's manifest lets its model do (docs/spec/streaming.md §7.4).
type Permission struct {
	Disabled bool     // internal_actions.enabled: false
	Allowed  []string // nil is the five feed actions; empty is none
	Blocked  []string // also when allowed
	// Import lists what sources of a kind may name (import of the manifest). Internal
	// sources need no import; ingest ones and agents are the operator's alone.
	Import map[Kind][]string
	// References lets added feeds refer to others, and protects those that others refer to
	// (docs/spec/extensions.md §9).
	References bool
	// Transform lets the model give feeds steps, all but redact.
	Transform bool
}

// Judge returns the failure of a call by name: unknown_target for an unknown action,
// not_allowed for one that the manifest does not allow, or nil.
func (p *Permission) Judge(name string) error {
	if !slices.Contains(allActions, name) {
		return fail(messages.ErrConfig, ReasonUnknownTarget, "%q is no internal action", shortened(name))
	}
	allowed := p.Allowed
	if allowed == nil {
		allowed = feedActions
	}
	if p.Disabled || slices.Contains(p.Blocked, name) || !slices.Contains(allowed, name) {
		return fail(messages.ErrDenied, ReasonNotAllowed, "%s is not allowed here", name)
	}
	return nil
}

func (p *Permission) imports(src *Source) bool {
	return src.Kind == Internal || src.Kind.importable() && src.Kind != Agent && slices.Contains(p.Import[src.Kind], src.Name)
}

// A Call is an internal action that a model asked for.
type Call struct {
	Name       string
	Params     string // a JSON object, references resolved
	Permission Permission
	// Value gives what is kept of a feed's last fetch, for list and get. nil, as when
	// records are folded, knows none.
	Value   func(Entry) (Value, bool)
	Now     time.Time
	Counter Counter // of max_tokens; nil is CodePoints
}

// An Outcome is the result of a call.
type Outcome struct {
	Set    Set
	Result string // canonical JSON; "" while Fetch is set
	// Changed is the feed that was added, removed or updated, as it is now, or was
	// when it is gone. Keeper.Sync brings its timer in line.
	Changed Entry
	Gone    bool
	// Also are the feeds that were removed or disabled with Changed, because they refer to it.
	Also []Entry
	// Fresh reports whether it is another feed than before: no value fetched before is its.
	Fresh bool
	// Cleared reports whether no value fetched before is used again.
	Cleared bool
	// Fetch is the feed whose value get_context_feed wants fetched first: fetch it and
	// answer with GetResult.
	Fetch string
}

// Do applies one internal action. A failure leaves the set as it was; it is a
// *messages.Error whose reason FailureReason spells for the record. The same calls on
// the same set give the same sets; Outcome.Change is what a record keeps of it. set_variable and delete_variable are not about feeds: unknown_target here.
func (s Set) Do(c Call) (Outcome, error) {
	if err := c.Permission.Judge(c.Name); err != nil {
		return Outcome{Set: s}, err
	}
	o, bad := readObject(c.Params, MaxSpecBytes)
	if bad != nil {
		bad.Reason, bad.Field = ReasonBadField, "parameters"
		return Outcome{Set: s}, bad
	}
	out, err := s.do(&c, o)
	if err != nil {
		return Outcome{Set: s}, err
	}
	return out, nil
}

func (s Set) do(c *Call, o *object) (Outcome, error) {
	switch c.Name {
	case AddFeed:
		return s.add(c, o)
	case RemoveFeed:
		return s.remove(c, o)
	case UpdateFeed:
		return s.update(c, o)
	case ListFeeds:
		if err := ended(o); err != nil {
			return Outcome{}, err
		}
		return Outcome{Set: s, Result: s.list(c)}, nil
	case GetFeed:
		return s.get(c, o)
	case ClearContext:
		if err := ended(o); err != nil {
			return Outcome{}, err
		}
		next := s.with()
		for i := range next.entries {
			next.version++
			next.entries[i].Version = next.version
		}
		return Outcome{Set: next, Result: "{}", Cleared: true}, nil
	}
	return Outcome{}, fail(messages.ErrConfig, ReasonUnknownTarget, "%s is not about feeds", c.Name)
}

func (s Set) add(c *Call, o *object) (Outcome, error) {
	spec := o.spec(Spec{}, c.Permission.Transform)
	if err := invalid(o.end()); err != nil {
		return Outcome{}, err
	}
	if s.at(spec.ID) >= 0 {
		return Outcome{}, fail(messages.ErrConfig, ReasonFeedExists, "%q is the id of a feed", spec.ID)
	}
	d, err := Normal(spec, "")
	if err != nil {
		return Outcome{}, invalid(flat(err))
	}
	if len(s.entries) >= s.rules.maxFeeds() {
		return Outcome{}, fail(messages.ErrQuota, ReasonFeedLimit, "a session has %d feeds at most", s.rules.maxFeeds())
	}
	if err := steps("", d.Transform); err != nil {
		return Outcome{}, err
	}
	next := s.with()
	next.version++
	next.entries = append(next.entries, Entry{Definition: d, Added: true, Version: next.version})
	return next.checked(c, len(next.entries)-1, true, spec.Interval != nil, true)
}

func (s Set) remove(c *Call, o *object) (Outcome, error) {
	i, err := s.named(o)
	if err != nil {
		return Outcome{}, err
	}
	cascade := c.Permission.References && o.cascade()
	if err := ended(o); err != nil {
		return Outcome{}, err
	}
	if s.entries[i].Pinned {
		return Outcome{}, fail(messages.ErrDenied, ReasonPinned, "%s is pinned", s.entries[i].ID)
	}
	out := Outcome{Result: idResult(s.entries[i].ID), Changed: s.entries[i], Gone: true}
	gone := []int{i}
	if c.Permission.References {
		users, err := s.leaving(i, cascade)
		if err != nil {
			return Outcome{}, err
		}
		for _, j := range users {
			out.Also = append(out.Also, s.entries[j])
		}
		gone = append(gone, users...)
	}
	next := s.with()
	next.entries = next.entries[:0]
	for j := range s.entries {
		if !slices.Contains(gone, j) {
			next.entries = append(next.entries, s.entries[j])
		}
	}
	out.Set = next
	return out, nil
}

// cascade reads whether feeds that refer to a feed go with it.
func (o *object) cascade() bool {
	v, ok := o.take("cascade")
	if ok && v.Kind() != 't' && v.Kind() != 'f' {
		o.add("cascade", ReasonWrongType, "want true or false, not %s", kindName(v.Kind()))
	}
	return ok && v.Kind() == 't'
}

// leaving returns the feeds that go with the feed at i, or why it cannot go.
func (s *Set) leaving(i int, cascade bool) (users []int, err error) {
	users = s.users(i)
	if len(users) > 0 && !cascade {
		var names []string
		for _, j := range users {
			if slices.Contains(s.entries[j].needs, s.entries[i].ID) {
				names = append(names, s.entries[j].ID)
			}
		}
		return nil, fail(messages.ErrConflict, ReasonInUse, "%s", strings.Join(names, ", "))
	}
	for _, j := range users {
		if s.entries[j].Pinned {
			return nil, fail(messages.ErrDenied, ReasonPinned, "%s is pinned and needs %s", s.entries[j].ID, s.entries[i].ID)
		}
	}
	return users, nil
}

func (s Set) update(c *Call, o *object) (Outcome, error) {
	i, err := s.named(o)
	if err != nil {
		return Outcome{}, err
	}
	was := s.entries[i]
	if was.Pinned {
		return Outcome{}, fail(messages.ErrDenied, ReasonPinned, "%s is pinned", was.ID)
	}
	source, interval := o.has("source"), o.has("interval")
	cascade := c.Permission.References && o.cascade()
	spec := o.spec(was.Spec(), c.Permission.Transform)
	if err := invalid(o.end()); err != nil {
		return Outcome{}, err
	}
	d, err := Normal(spec, "")
	if err != nil {
		return Outcome{}, invalid(flat(err))
	}
	if err := steps(was.Transform, d.Transform); err != nil {
		return Outcome{}, err
	}
	next := s.with()
	var also []Entry
	if c.Permission.References && d.Disabled && !was.Disabled {
		users, err := s.leaving(i, cascade)
		if err != nil {
			return Outcome{}, err
		}
		for _, j := range users {
			next.entries[j].Disabled = true
			also = append(also, next.entries[j])
		}
	}
	e := &next.entries[i]
	e.Definition = d
	fresh := d.Source != was.Source || d.Transform != was.Transform
	if fresh {
		next.version++
		e.Version = next.version
	}
	out, err := next.checked(c, i, source, interval, fresh)
	out.Also = also
	return out, err
}

// steps judges the change of a transform by the model: redact is the operator's, to give and
// to take away.
func steps(was, is string) error {
	if was == is {
		return nil
	}
	for _, steps := range [...]string{was, is} {
		if steps == "" {
			continue
		}
		if chain, wrong := transform.Load(steps); wrong == nil && chain.Uses(transform.OpRedact) {
			return fail(messages.ErrDenied, ReasonNotAllowed, "redact is the operator's: no action gives it to a feed or takes it away")
		}
	}
	return nil
}

// checked ends a change of the feed at i: what the model wrote of it is held to the
// model's bounds, the feed to the rest of the set.
func (s Set) checked(c *Call, i int, source, interval, fresh bool) (Outcome, error) {
	e := &s.entries[i]
	if interval && e.Trigger == Periodic && e.Interval < MinModelInterval {
		return Outcome{}, invalid([]*messages.Error{refuse("interval", ReasonBadValue, "%d is below %d seconds", e.Interval/time.Second, MinModelInterval/time.Second)})
	}
	if source {
		if !c.Permission.imports(&e.Source) || s.allowed(&e.Definition, "") != nil {
			return Outcome{}, fail(messages.ErrDenied, ReasonNotAllowed, "its source is not in import")
		}
		names, err := References(e.Source.Params)
		if err != nil || len(names) > 0 && !c.Permission.References {
			return Outcome{}, invalid([]*messages.Error{refuse("source.params", ReasonBadValue, "references are not allowed here; $$ is a dollar")})
		}
	}
	if found := flat(errors.Join(link(s.entries, i, func(int) string { return "" }, c.Permission.References)...)); len(found) > 0 {
		if found[0].Reason == ReasonFeedCycle && c.Permission.References {
			return Outcome{}, fail(messages.ErrConfig, ReasonCycle, "%s", found[0].Detail)
		}
		return Outcome{}, invalid(found)
	}
	return Outcome{Set: s, Result: idResult(e.ID), Changed: *e, Fresh: fresh}, nil
}

// spec reads the members of a feed over those it has. null leaves a member out. Unless
// transforms is set, there is no member transform.
func (o *object) spec(s Spec, transforms bool) Spec {
	if o.has("id") {
		s.ID, _ = o.text("id")
	}
	if o.has("type") {
		// A kind of source decides the trigger anew, by interval.
		s.Type, _ = o.text("type")
	}
	for _, n := range []struct {
		key string
		to  **int64
	}{{"interval", &s.Interval}, {"cache_ttl", &s.CacheTTL}, {"max_tokens", &s.MaxTokens}, {"max_size_bytes", &s.MaxSizeBytes}} {
		if o.has(n.key) {
			*n.to = o.integer(n.key)
		}
	}
	if v, ok := o.take("enabled"); ok {
		text := string(v)
		switch v.Kind() {
		case '"':
			text = unquote(v)
			fallthrough
		case 't', 'f', '0':
			s.Enabled = &text
		default:
			o.add("enabled", ReasonWrongType, "want true or false, not %s", kindName(v.Kind()))
		}
	}
	if transforms && o.has("transform") {
		v, ok := o.take("transform")
		if s.Transform = ""; ok {
			s.Transform = string(v)
		}
	}
	if v, ok := o.take("source"); ok {
		in, bad := readObject(string(v), MaxSpecBytes)
		if bad != nil {
			o.add("source", bad.Reason, "%s", bad.Detail)
			return s
		}
		s.Source = SourceSpec{}
		s.Source.Type, _ = in.text("type")
		s.Source.Name, _ = in.text("name")
		s.Source.Action, _ = in.text("action")
		if p, ok := in.take("params"); ok {
			s.Source.Params = string(p)
		}
		for _, e := range in.end() {
			e.Field = ".source" + e.Field
			o.found = append(o.found, e)
		}
	}
	return s
}

// named finds the feed that parameters name.
func (s *Set) named(o *object) (int, error) {
	id, ok := o.text("id")
	if len(o.found) > 0 {
		return 0, badField(o.found[0])
	}
	if !ok {
		return 0, badField(refuse(".id", ReasonMissing, "missing"))
	}
	i := s.at(id)
	if i < 0 {
		return 0, fail(messages.ErrConfig, ReasonFeedNotFound, "%q is no feed", shortened(id))
	}
	o.members["id"] = jsontext.Value(quoted(id)) // for those who read it again
	return i, nil
}

func (s Set) get(c *Call, o *object) (Outcome, error) {
	i, err := s.named(o)
	if err != nil {
		return Outcome{}, err
	}
	refresh := false
	if v, ok := o.take("refresh"); ok {
		if v.Kind() != 't' && v.Kind() != 'f' {
			return Outcome{}, badField(refuse(".refresh", ReasonWrongType, "want true or false, not %s", kindName(v.Kind())))
		}
		refresh = v.Kind() == 't'
	}
	if err := ended(o); err != nil {
		return Outcome{}, err
	}
	e := s.entries[i]
	var v Value
	known := false
	if c.Value != nil {
		v, known = c.Value(e)
	}
	if !e.Disabled && (refresh || !known) && c.Value != nil {
		return Outcome{Set: s, Fetch: e.ID}, nil
	}
	return Outcome{Set: s, Result: GetResult(e, v, known, c.Now, c.Counter)}, nil
}

// GetResult is the result of get_context_feed for a value, within the limits of the
// feed by count, nil being CodePoints. A feed without a value, as
// a disabled one is, has null for it and is stale.
func GetResult(e Entry, v Value, known bool, now time.Time, count Counter) string {
	if !known || e.Disabled {
		return `{"age_ms":null,"id":` + string(quoted(e.ID)) + `,"stale":true,"value":null}`
	}
	age := max(0, now.Sub(v.At).Milliseconds())
	_, _, shown := injected(&e, v.JSON, count)
	value := jsontext.Value(shown)
	if value.Canonicalize() != nil {
		value = jsontext.Value(shown)
	}
	return `{"age_ms":` + strconv.FormatInt(age, 10) + `,"id":` + string(quoted(e.ID)) +
		`,"stale":` + strconv.FormatBool(e.stale(v, now)) + `,"value":` + string(value) + `}`
}

// list is the result of list_context_feeds. Parameters of sources are the operator's
// and left out.
func (s *Set) list(c *Call) string {
	out := []byte{'['}
	for i := range s.entries {
		e := &s.entries[i]
		if i > 0 {
			out = append(out, ',')
		}
		var b, src builder
		b.raw("enabled", strconv.FormatBool(!e.Disabled))
		b.text("id", e.ID)
		last := "null"
		if c.Value != nil {
			if v, ok := c.Value(*e); ok {
				last = string(quoted(v.At.UTC().Format(time.RFC3339)))
			}
		}
		b.raw("last_update", last)
		src.some("action", e.Source.Action)
		src.some("name", e.Source.Name)
		src.text("type", string(e.Source.Kind))
		b.raw("source", string(src.object()))
		b.text("type", string(e.Trigger))
		out = append(out, b.object()...)
	}
	return string(append(out, ']'))
}

func idResult(id string) string { return `{"id":` + string(quoted(id)) + `}` }

func fail(code messages.Code, reason, format string, args ...any) *messages.Error {
	e := messages.Errorf(code, format, args...)
	e.Reason = reason
	return e
}

func badField(e *messages.Error) error {
	e.Reason, e.Field = ReasonBadField, "parameters"+e.Field
	return e
}

// ended refuses unknown parameters.
func ended(o *object) error {
	delete(o.members, "id")
	if found := o.end(); len(found) > 0 {
		return badField(found[0])
	}
	return nil
}

// invalid is the failure of an invalid feed, by its first mistake.
func invalid(found []*messages.Error) error {
	if len(found) == 0 {
		return nil
	}
	e := found[0]
	for len(e.Field) > 0 && e.Field[0] == '.' {
		e.Field = e.Field[1:]
	}
	return &messages.Error{Code: messages.ErrConfig, Reason: ReasonInvalidFeed, Field: e.Field, Detail: e.Reason + ": " + e.Detail}
}

// flat takes a joined error apart; nil is none.
func flat(err error) (out []*messages.Error) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, flat(e)...)
		}
		return out
	}
	var e *messages.Error
	if errors.As(err, &e) {
		return append(out, e)
	}
	return append(out, refuse("", ReasonBadValue, "%v", err))
}

// FailureReason is the reason of a failed internal action as its record has it, such
// as feed_exists, or "invalid_feed: interval: BAD_VALUE: …".
func FailureReason(err error) string {
	var e *messages.Error
	if !errors.As(err, &e) {
		return ReasonBadField
	}
	switch e.Reason {
	case ReasonCycle, ReasonInUse:
		return e.Reason + ": " + e.Detail
	case ReasonInvalidFeed:
	default:
		return e.Reason
	}
	r := e.Reason + ": "
	if e.Field != "" {
		r += e.Field + ": "
	}
	return r + e.Detail
}
