package feeds

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"math/bits"
	randv2 "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// The actions of internal sources (docs/spec/streaming.md §7.2).
const (
	SystemClock   = "system_clock"   // {format: ISO8601 | unix, timezone}
	Random        = "random"         // {min, max, seed?}: an integer of min…max
	Env           = "env"            // {names}: an object of those the operator allows
	SessionInfo   = "session"        // {}
	AgentMetadata = "agent_metadata" // {}
)

const internalNames = "system_clock, random, env, session, agent_metadata"

// MaxEnvNames bounds the names of one env source.
const MaxEnvNames = 64

// Facts is what internal sources tell of a session and its agent. Empty members are
// left out.
type Facts struct {
	Session SessionFacts
	Agent   AgentFacts
}

// SessionFacts is the value of the internal source session.
type SessionFacts struct {
	ID        string // tenant:user:id
	Run, Turn int64  // of the prompt that is being built; 0 between runs
	Opened    time.Time
}

// AgentFacts is the value of the internal source agent_metadata.
type AgentFacts struct {
	Name, Version, Summary, Author, State, Dialect, Model string
}

// Internals are the internal sources. The zero value reads the wall clock and the
// system's randomness and knows no environment. It may be used by many goroutines
// if its functions may.
type Internals struct {
	Now  func() time.Time
	Rand io.Reader
	Env  func(name string) (string, bool) // asked for nothing but what a session may show
}

type internal struct {
	check func(params string) []*messages.Error
	value func(in *Internals, o *object, f *Facts, env []string) ([]byte, []*messages.Error)
}

// internals is filled below, where the sources refer to each other's check.
var internals = map[string]internal{
	SystemClock:   {checked(readClock), clockValue},
	Random:        {checked(readRandom), randomValue},
	Env:           {checked(readNames), envValue},
	SessionInfo:   {checked(readNothing), sessionValue},
	AgentMetadata: {checked(readNothing), agentValue},
}

// checked reads parameters before their references are resolved.
func checked[T any](read func(*object) T) func(string) []*messages.Error {
	return func(params string) []*messages.Error {
		o, bad := readObject(params, MaxParamsBytes)
		if bad != nil {
			return []*messages.Error{bad}
		}
		o.open = true
		read(o)
		return o.end()
	}
}

// Fetch returns the value of an internal source as JSON, its references resolved. env
// names what of the environment may be shown: Rules.Env.
func (in *Internals) Fetch(src Source, f Facts, env []string) (string, error) {
	kind, ok := internals[src.Action]
	if !ok {
		return "", refuse("source.action", ReasonBadValue, "%q is none of %s", shortened(src.Action), internalNames)
	}
	o, bad := readObject(src.Params, MaxParamsBytes)
	if bad != nil {
		bad.Field = "source.params"
		return "", bad
	}
	v, found := kind.value(in, o, &f, env)
	if len(found) > 0 {
		found[0].Field = "source.params" + found[0].Field
		return "", found[0]
	}
	return string(v), nil
}

func (in *Internals) now() time.Time {
	if in.Now == nil {
		return time.Now()
	}
	return in.Now()
}

func (in *Internals) lookup(name string) (string, bool) {
	if in.Env == nil {
		return "", false
	}
	return in.Env(name)
}

type clock struct {
	unix bool
	zone *time.Location
}

func readClock(o *object) clock {
	c := clock{zone: time.UTC}
	if format, ok := o.text("format"); ok {
		switch format {
		case "ISO8601":
		case "unix":
			c.unix = true
		default:
			o.add("format", ReasonBadValue, "%q is neither ISO8601 nor unix", shortened(format))
		}
	}
	if name, ok := o.text("timezone"); ok {
		zone, err := time.LoadLocation(name)
		// Local differs from host to host, and an empty name is a mistake.
		if name == "" || name == "Local" || len(name) > maxTimezoneBytes || err != nil {
			o.add("timezone", ReasonBadValue, "%q is no time zone such as UTC or Europe/Oslo", shortened(name))
		} else {
			c.zone = zone
		}
	}
	return c
}

func clockValue(in *Internals, o *object, _ *Facts, _ []string) ([]byte, []*messages.Error) {
	c := readClock(o)
	if bad := o.end(); bad != nil {
		return nil, bad
	}
	now := in.now()
	if c.unix {
		return strconv.AppendInt(nil, now.Unix(), 10), nil
	}
	return quoted(now.In(c.zone).Format(time.RFC3339)), nil
}

type draw struct {
	min, max int64
	seed     *int64
}

func readRandom(o *object) draw {
	d := draw{max: 1}
	missing := func(key string) *int64 {
		there := o.has(key) && o.members[key].Kind() != 'n'
		n := o.integer(key)
		if !there {
			o.add(key, ReasonMissing, "missing")
		}
		return n
	}
	low, high := missing("min"), missing("max")
	d.seed = o.integer("seed")
	if low != nil && high != nil {
		if d.min, d.max = *low, *high; d.min > d.max {
			o.add("min", ReasonBadValue, "%d is above max %d", d.min, d.max)
		}
	}
	return d
}

// randomValue draws from min…max, both included. With a seed it is the same number at
// every fetch: the source keeps no place in a sequence that a restart would lose.
func randomValue(in *Internals, o *object, _ *Facts, _ []string) ([]byte, []*messages.Error) {
	d := readRandom(o)
	if bad := o.end(); bad != nil {
		return nil, bad
	}
	var next func() (uint64, error)
	if d.seed != nil {
		pcg := randv2.NewPCG(uint64(*d.seed), 0)
		next = func() (uint64, error) { return pcg.Uint64(), nil }
	} else {
		src := in.Rand
		if src == nil {
			src = rand.Reader
		}
		next = func() (uint64, error) {
			var b [8]byte
			_, err := io.ReadFull(src, b[:])
			return binary.BigEndian.Uint64(b[:]), err
		}
	}
	// Without bias: the numbers below 2^64 mod span would come once too often. The
	// span fits, as both ends are within 2^53.
	span := uint64(d.max-d.min) + 1
	least := -span % span
	for {
		u, err := next()
		if err != nil {
			e := messages.Errorf(messages.ErrConfig, "no randomness")
			e.Cause = err
			return nil, []*messages.Error{e}
		}
		if high, low := bits.Mul64(u, span); low >= least {
			return strconv.AppendInt(nil, d.min+int64(high), 10), nil
		}
	}
}

func readNames(o *object) []string {
	there := o.has("names") && o.members["names"].Kind() != 'n'
	names, ok := o.texts("names", MaxEnvNames)
	switch {
	case !there:
		o.add("names", ReasonMissing, "missing")
	case ok && len(names) == 0:
		o.add("names", ReasonBadValue, "names nothing")
	}
	return names
}

// envValue shows what the operator allows. A variable that is not set is null.
func envValue(in *Internals, o *object, _ *Facts, env []string) ([]byte, []*messages.Error) {
	names := readNames(o)
	for i, name := range names {
		if !slices.Contains(env, name) {
			o.add("names["+strconv.Itoa(i)+"]", ReasonBadValue, "%q is not in environment.allow", shortened(name))
		}
	}
	if bad := o.end(); bad != nil {
		return nil, bad
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var b builder
	for _, name := range names {
		if v, ok := in.lookup(name); ok {
			b.text(name, strings.ToValidUTF8(v, "\uFFFD"))
		} else {
			b.raw(name, "null")
		}
	}
	return b.object(), nil
}

func readNothing(*object) struct{} { return struct{}{} }

func sessionValue(_ *Internals, o *object, f *Facts, _ []string) ([]byte, []*messages.Error) {
	if bad := o.end(); bad != nil {
		return nil, bad
	}
	var b builder
	b.some("id", f.Session.ID)
	if !f.Session.Opened.IsZero() {
		b.text("opened", f.Session.Opened.UTC().Format(time.RFC3339))
	}
	if f.Session.Run > 0 {
		b.raw("run", strconv.FormatInt(f.Session.Run, 10))
	}
	if f.Session.Turn > 0 {
		b.raw("turn", strconv.FormatInt(f.Session.Turn, 10))
	}
	return b.object(), nil
}

func agentValue(_ *Internals, o *object, f *Facts, _ []string) ([]byte, []*messages.Error) {
	if bad := o.end(); bad != nil {
		return nil, bad
	}
	var b builder
	a := &f.Agent
	b.some("author", a.Author)
	b.some("dialect", a.Dialect)
	b.some("model", a.Model)
	b.some("name", a.Name)
	b.some("state", a.State)
	b.some("summary", a.Summary)
	b.some("version", a.Version)
	return b.object(), nil
}

// A builder writes a JSON object; members in the order of the calls, which is that of
// their names where the result is canonical.
type builder struct{ b []byte }

func (b *builder) raw(key, value string) {
	if len(b.b) == 0 {
		b.b = append(b.b, '{')
	} else {
		b.b = append(b.b, ',')
	}
	b.b = append(b.b, quoted(key)...)
	b.b = append(b.b, ':')
	b.b = append(b.b, value...)
}

func (b *builder) text(key, value string) { b.raw(key, string(quoted(value))) }

func (b *builder) some(key, value string) {
	if value != "" {
		b.text(key, value)
	}
}

func (b *builder) object() []byte {
	if len(b.b) == 0 {
		return []byte("{}")
	}
	return append(b.b, '}')
}

// quoted is a text as a JSON string. What is not UTF-8 becomes U+FFFD.
func quoted(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}
