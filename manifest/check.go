package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Reasons of the ERR_CONFIG of a manifest.
const (
	ReasonSyntax       = "SYNTAX"         // no YAML, or more than one document
	ReasonUnknownKey   = "UNKNOWN_KEY"    // no key of the manifest, and not x-*
	ReasonDuplicate    = "DUPLICATE"      // a key given twice, also by its alias, or a list item repeated
	ReasonWrongType    = "WRONG_TYPE"     // such as a list where text belongs
	ReasonBadValue     = "BAD_VALUE"      // out of bounds, not in the list, contradicting another key
	ReasonMissing      = "MISSING"        // a key that must be there
	ReasonUndefinedEnv = "UNDEFINED_ENV"  // ${NAME} stands for nothing
	ReasonNotInRelease = "NOT_IN_RELEASE" // right, but this release cannot honour it

	ReasonUnsupportedFeedType = "UNSUPPORTED_FEED_TYPE" // streaming and event_driven (docs/spec/streaming.md §7.1)
)

// Validate checks a manifest made in Go as Parse checks a file; fields without a
// value count as defaulted. All mistakes are joined, each a *messages.Error with
// ERR_CONFIG and Field. dialects are the names of further ones that the host was
// given.
func (m *Manifest) Validate(dialects ...string) error {
	var all []error
	for _, e := range check(m.WithDefaults(), dialects) {
		all = append(all, e)
	}
	return errors.Join(all...)
}

// WithDefaults is a copy in which every field without a value has its default;
// loop.max_turns and the booleans, whose zero says something, stay.
func (m *Manifest) WithDefaults() *Manifest {
	out := *m
	base := Default(m.Dialect)
	if slices.Contains(m.Extensions, extForeach) {
		base.Quotas.Actions = loopActions
	}
	fill(reflect.ValueOf(&out).Elem(), reflect.ValueOf(base).Elem())
	out.Loop.MaxTurns = m.Loop.MaxTurns
	if out.Loop.NoProgressN <= 0 {
		out.Loop.NoProgressN = DefaultNoProgressN
	}
	if m.unbounded() == nil {
		out.Define.Agents = defaulted(m.Define.Agents)
	}
	return &out
}

func fill(v, d reflect.Value) {
	for i := 0; i < v.NumField(); i++ {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			fill(f, d.Field(i))
		case f.IsZero():
			f.Set(d.Field(i))
		}
	}
}

// checker collects what is wrong with values, by key path.
type checker struct {
	dialects []string // known beside the product's
	found    []*messages.Error
}

func check(m *Manifest, dialects []string) []*messages.Error {
	c := checker{dialects: dialects}
	if !c.bounded(m) {
		return c.found // and nothing descends into it
	}
	c.structure("", reflect.ValueOf(m).Elem())
	c.across(m)
	return c.found
}

func (c *checker) add(path, reason, format string, args ...any) {
	c.found = append(c.found, &messages.Error{Code: messages.ErrConfig, Reason: reason, Field: path, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) structure(path string, v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		c.value(join(path, f.key), &f, v.Field(f.index))
	}
}

func (c *checker) value(path string, f *field, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if len(f.later) == 1 && f.later[0] == "*" && !isEmpty(v) {
		c.add(path, ReasonNotInRelease, "not in this release; leave it out")
	}
	switch v.Kind() {
	case reflect.Struct:
		c.structure(path, v)
	case reflect.Int64:
		c.number(path, f, v)
	case reflect.Float64:
		c.fraction(path, f, v.Float())
	case reflect.String:
		c.text(path, f, v.String())
	case reflect.Slice:
		seen := map[string]bool{}
		for i := 0; i < v.Len(); i++ {
			at := index(path, i)
			switch e := v.Index(i); e.Kind() {
			case reflect.Struct:
				c.structure(at, e)
			case reflect.String:
				c.text(at, f, e.String())
				if seen[e.String()] {
					c.add(at, ReasonDuplicate, "%q is in the list already", clip.Quoted(e.String()))
				}
				seen[e.String()] = true
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Interface && f.shape == "" {
			return
		}
		for _, k := range v.MapKeys() {
			at := join(path, k.String())
			c.form(at, f.shape, k.String())
			if f.enum != nil {
				c.choice(at, f, v.MapIndex(k).String())
			}
		}
	}
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

func (c *checker) text(path string, f *field, s string) {
	if s == "" {
		// A single string without a value; the reader refuses an empty one in the file.
		if f.required {
			c.add(path, ReasonMissing, "missing")
		} else if strings.HasSuffix(path, "]") {
			c.form(path, f.shape, s)
		}
		return
	}
	if f.enum != nil {
		c.choice(path, f, s)
	}
	c.form(path, f.shape, s)
}

func (c *checker) choice(path string, f *field, s string) {
	switch {
	case f.key == "dialect" && slices.Contains(c.dialects, s):
	case slices.Contains(f.unsupported, s):
		c.add(path, ReasonUnsupportedFeedType, "%q is not supported; use one of %s", s, strings.Join(f.enum, ", "))
	case !slices.Contains(f.enum, s):
		c.add(path, ReasonBadValue, "%q is not one of %s", clip.Quoted(s), strings.Join(f.enum, ", "))
	case slices.Contains(f.later, s):
		c.add(path, ReasonNotInRelease, "%q is not in this release", s)
	}
}

func (c *checker) form(path, name, s string) {
	if sh, ok := shapes[name]; ok && !sh.re.MatchString(s) {
		if name == "secret" || name == "url" { // it may be a key, or hold one
			c.add(path, ReasonBadValue, "is not %s", sh.words)
			return
		}
		c.add(path, ReasonBadValue, "%q is not %s", clip.Quoted(s), sh.words)
	}
}

func (c *checker) number(path string, f *field, v reflect.Value) {
	n := v.Int()
	if n == 0 && f.optional || n == NoHistory && f.none {
		return
	}
	if (f.min != nil && n < *f.min) || (f.max != nil && n > *f.max) {
		c.add(path, ReasonBadValue, "%s is outside %s", show(f, v.Type(), n), bounds(f, v.Type()))
		return
	}
	if f.unit == "seconds" && n%int64(time.Second) != 0 {
		c.add(path, ReasonBadValue, "%s is not a whole number of seconds", time.Duration(n))
	}
}

// fraction checks a number that need not be whole. Its bounds are.
func (c *checker) fraction(path string, f *field, x float64) {
	if !(x >= float64(*f.min) && x <= float64(*f.max)) { // also what is no number
		c.add(path, ReasonBadValue, "%v is outside its bounds %d to %d", x, *f.min, *f.max)
	}
}

func bounds(f *field, t reflect.Type) string {
	switch {
	case f.min == nil:
		return "its limit of " + show(f, t, *f.max)
	case f.max == nil || *f.max == maxInteger:
		return "its bound: at least " + show(f, t, *f.min)
	}
	return "its bounds " + show(f, t, *f.min) + " to " + show(f, t, *f.max)
}

// show writes a number as the file would.
func show(f *field, t reflect.Type, n int64) string {
	switch {
	case t == durationType:
		return time.Duration(n).String()
	case f.unit == "usd" && n >= 0:
		return FormatUSD(n)
	}
	return fmt.Sprint(n)
}

// across checks what one field cannot say alone.
func (c *checker) across(m *Manifest) {
	if m.Dialect == "" {
		c.add("dialect", ReasonMissing, "missing")
	}
	if m.Loop.NoProgressN == 1 {
		c.add("loop.no_progress_n", ReasonBadValue, "1 would halt every first turn; use 2 or more, or 0 for the default %d", DefaultNoProgressN)
	}
	c.instructions("instructions", m.Instructions.Text, m.Instructions.File)
	c.output(m)
	if m.Memory.HistoryWindow == NoHistory && m.Memory.HistoryBytes > 0 {
		c.add("memory.history_bytes", ReasonBadValue, "history_window: none leaves nothing of finished runs; leave one of them out")
	}
	if m.Loop.SyncPolicy == SyncCut && m.Dialect != "cortex" && m.Dialect != "" {
		c.add("loop.sync_policy", ReasonBadValue, "only an action of the dialect cortex can cut a reply, not one of %q", clip.Quoted(m.Dialect))
	}
	if m.Loop.DefaultFinal != nil && m.Dialect != "cortex" && m.Dialect != "" {
		c.add("loop.default_final", ReasonBadValue, "only the dialect cortex has final responses, not %q", clip.Quoted(m.Dialect))
	}
	if m.ContextFeedsAt == FeedsAtEnd && m.Dialect == "aeiou" {
		c.add("context_feeds_at", ReasonBadValue, "a prompt of the dialect aeiou ends with its envelope; leave it out")
	}
	for i := range m.ContextFeeds {
		if f := &m.ContextFeeds[i]; slices.ContainsFunc(farSources, func(kind string) bool { return f.Source.Type == kind || f.Type == kind }) && !slices.Contains(m.Extensions, RemoteFeeds) {
			c.add(index("context_feeds", i)+".source.type", ReasonBadValue, "needs the extension: write extensions: [%s]", RemoteFeeds)
		}
		if m.ContextFeeds[i].Transform != nil && !slices.Contains(m.Extensions, FeedTransform) {
			c.add(index("context_feeds", i)+".transform", ReasonBadValue, "needs the extension: write extensions: [%s]", FeedTransform)
		}
	}
	c.extensions(m)
	c.streams(m)
	c.templates(m)
	c.aliases(m)
	c.replies(m)
	if !slices.Contains(m.Extensions, rollback) {
		const needs = "needs the extension: write extensions: [" + rollback + "]"
		if m.Rollback.On != nil || m.Rollback.Unknown != "" {
			c.add("rollback", ReasonBadValue, needs)
		}
		if m.Quotas.RollbackWall != 0 {
			c.add("quotas.rollback_wall", ReasonBadValue, needs)
		}
	}
	if m.Quotas.ProgramWall >= m.Token.TTL {
		c.add("quotas.program_wall", ReasonBadValue, "%s must be less than token.ttl, which is %s: a token must outlive its program", m.Quotas.ProgramWall, m.Token.TTL)
	}
	if m.Token.TTL > m.Token.MaxTTL {
		c.add("token.ttl", ReasonBadValue, "%s is more than token.max_ttl, which is %s", m.Token.TTL, m.Token.MaxTTL)
	}
	if keep := m.Token.MaxTTL + m.Key.Grace; m.Replay.TTL < keep {
		c.add("replay.ttl", ReasonBadValue, "%s is less than token.max_ttl and key.grace together, which is %s: a token could be used twice", m.Replay.TTL, keep)
	}
	c.model("model", m.Model.asFallback())
	c.compress(&m.Model)
	for i, f := range m.Model.Fallback {
		c.model(index("model.fallback", i), f)
	}
	c.shell(&m.Shell)
	if m.Search.BaseURL != "" && m.Search.Documents != "" {
		c.add("search.documents", ReasonBadValue, "search.base_url is given too; leave one of them out")
	}
	c.definitions(m)
	c.servers(m)
	for i, g := range m.Grants {
		if strings.HasSuffix(g.Session, ":*") && len(g.Session) <= messages.MaxSIDBytes || g.Session == "" {
			continue
		}
		if _, err := messages.ParseSID(g.Session); err != nil && shapes["grant"].re.MatchString(g.Session) {
			c.add(join(index("grants", i), "session"), ReasonBadValue, "tenant:user:id is over its limit of %d bytes", messages.MaxSIDBytes)
		}
	}
}

// cortexAlone are the extensions that only replies of the dialect cortex can use.
var cortexAlone = []string{stream, subThoughts, rollback}

// extensions refuses those that the dialect has no use for.
func (c *checker) extensions(m *Manifest) {
	for i, word := range m.Extensions {
		if slices.Contains(cortexAlone, word) && m.Dialect != "cortex" && m.Dialect != "" {
			c.add(index("extensions", i), ReasonBadValue, "only replies of the dialect cortex can use %s, not those of %q", word, clip.Quoted(m.Dialect))
		}
	}
}

// streams refuses definitions whose results can be shown as they grow where none is.
func (c *checker) streams(m *Manifest) {
	for i := range m.Define.Tools {
		c.streamed(m, index("define.tools", i), &m.Define.Tools[i])
	}
	for i := range m.Define.Relics {
		c.streamed(m, index("define.relics", i), &m.Define.Relics[i])
	}
}

// streamed does that for one definition.
func (c *checker) streamed(m *Manifest, path string, definition any) {
	if slices.Contains(m.Extensions, stream) {
		return
	}
	const needs = "needs the extension: write extensions: [" + stream + "]"
	switch d := definition.(type) {
	case *Command:
		if d.Implementation.Stream != "" {
			c.add(join(path, "implementation.stream"), ReasonBadValue, needs)
		}
	case *Relic:
		for i := range d.Interface.Endpoints {
			if d.Interface.Endpoints[i].Stream != "" {
				c.add(join(index(join(path, "interface.endpoints"), i), "stream"), ReasonBadValue, needs)
			}
		}
	}
}

// replies refuses limits of replies in those of our dialects that have nothing to limit.
func (c *checker) replies(m *Manifest) {
	q := &m.Quotas
	for _, k := range []struct {
		key   string
		set   bool
		lacks []string // dialects
	}{
		{"reply_actions", q.ReplyActions != 0, []string{"plain", "kitsu"}},
		{"gate_buffer", q.GateBuffer != 0, []string{"plain", "aeiou", "kitsu"}},
		{"drain", q.Drain != 0, []string{"plain", "aeiou", "kitsu"}},
	} {
		if k.set && slices.Contains(k.lacks, m.Dialect) {
			c.add("quotas."+k.key, ReasonBadValue, "the dialect %s has nothing that it limits", m.Dialect)
		}
	}
	for _, k := range []struct {
		key string
		set bool
		has []string
	}{
		{"calls", q.Calls != 0, []string{"aeiou"}},
		{"emits", q.Emits != 0, []string{"aeiou"}},
		{"tag", q.Tag != 0, []string{"cortex"}},
		{"body", q.Body != 0, []string{"cortex"}},
		{"thought_depth", q.ThoughtDepth != 0, []string{"cortex"}},
		{"json_depth", q.JSONDepth != 0, []string{"cortex", "cogency"}},
		{"result", q.Result != 0, []string{"cortex", "cogency"}},
	} {
		if k.set && m.Dialect != "" && !slices.Contains(k.has, m.Dialect) {
			c.add("quotas."+k.key, ReasonBadValue, "it limits replies of %s, not of %q", strings.Join(k.has, " and "), clip.Quoted(m.Dialect))
		}
	}
}

// servers checks the MCP servers.
func (c *checker) servers(m *Manifest) {
	for i := range m.Import.MCP {
		s, at := &m.Import.MCP[i], index("import.mcp", i)
		if slices.ContainsFunc(m.Import.MCP[:i], func(o MCP) bool { return o.Name == s.Name }) {
			c.add(join(at, "name"), ReasonDuplicate, "%q is a server already", clip.Quoted(s.Name))
		}
		switch {
		case len(s.Command) == 0 && s.URL == "":
			c.add(at, ReasonMissing, "it needs a command or a url")
		case len(s.Command) > 0 && s.URL != "":
			c.add(join(at, "url"), ReasonBadValue, "it has a command already")
		case s.URL != "" && len(s.Secrets) > 1:
			c.add(join(at, "secrets"), ReasonBadValue, "a url has one secret at most")
		case len(s.Command) > 0 && s.Command[0] == "":
			c.add(join(at, "command"), ReasonMissing, "it names a program")
		case slices.ContainsFunc(s.Command, func(a string) bool { return strings.ContainsRune(a, 0) }):
			c.add(join(at, "command"), ReasonBadValue, "no argument has a NUL")
		}
		if s.Header != "" && (s.URL == "" || len(s.Secrets) == 0) {
			c.add(join(at, "header"), ReasonBadValue, "there is no secret of a url to carry")
		}
		if s.URL != "" && (len(s.Env) > 0 || s.Resources != (Process{})) {
			c.add(join(at, "url"), ReasonBadValue, "env and resources are of programs")
		}
		if s.URL != "" && (s.Confine.Isolation != "" || s.Confine.named()) {
			c.add(join(at, "url"), ReasonBadValue, "confine is of programs")
		}
		c.confine(join(at, "confine"), &s.Confine)
		if !isPin(s.Pin) {
			c.add(join(at, "pin"), ReasonBadValue, "want sha256: and 64 lower-case hex digits")
		}
		for name := range s.Env {
			if slices.Contains(s.Secrets, name) {
				c.add(join(at, "env."+name), ReasonDuplicate, "is one of secrets already")
			}
		}
		for j, t := range s.Tools {
			if strings.Contains(t.Name, "*") && (t.As != "" || t.Schema != "" || t.Description != "") {
				c.add(join(index(join(at, "tools"), j), "name"), ReasonBadValue, "%q stands for several tools, which have no as, schema or description together", clip.Quoted(t.Name))
			}
			switch {
			case !isPin(t.Pin):
				c.add(join(index(join(at, "tools"), j), "pin"), ReasonBadValue, "want sha256: and 64 lower-case hex digits")
			case t.Pin != "" && strings.Contains(t.Name, "*"):
				c.add(join(index(join(at, "tools"), j), "pin"), ReasonBadValue, "%q stands for several tools, which have no pin together", clip.Quoted(t.Name))
			}
			if slices.ContainsFunc(s.Tools[:j], func(o MCPTool) bool { return o.Name == t.Name }) {
				c.add(join(index(join(at, "tools"), j), "name"), ReasonDuplicate, "%q is in the list already", clip.Quoted(t.Name))
			}
		}
	}
}

// isPin reports whether a text is a pin, or none.
func isPin(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	var d messages.Digest
	return s == "" || ok && d.UnmarshalText([]byte(digits)) == nil && d.String() == digits
}

// confine checks what a program may reach.
func (c *checker) confine(path string, d *Confine) {
	if d.named() && d.Kind() != IsolationLandlock {
		c.add(join(path, "isolation"), ReasonBadValue, "read, write and network are of isolation: landlock; %s gives the program what the host's user reaches", d.Isolation)
	}
	for _, part := range []struct {
		key   string
		paths []string
	}{{"read", d.Read}, {"write", d.Write}} {
		for i, p := range part.paths {
			if p == "" || strings.ContainsRune(p, 0) {
				c.add(index(join(path, part.key), i), ReasonBadValue, "is not the path of a file or folder")
			}
		}
	}
}

// shell checks what would take the place of what the host sets, or be no path.
func (c *checker) shell(s *Shell) {
	for _, part := range []struct {
		key   string
		paths []string
	}{{"path", s.Path}, {"read", s.Read}, {"write", s.Write}} {
		for i, p := range part.paths {
			if p == "" || strings.ContainsAny(p, "\x00") || part.key == "path" && strings.ContainsAny(p, ":") {
				c.add(index("shell."+part.key, i), ReasonBadValue, "is not the path of a file or folder")
			}
		}
	}
	for _, name := range []string{"TMPDIR", "PATH"} {
		if _, ok := s.Environment[name]; ok {
			c.add("shell.environment."+name, ReasonBadValue, "is the host's to set; folders of programs go into shell.path")
		}
	}
	for i, name := range s.Caches {
		if _, ok := s.Environment[name]; ok || slices.Contains([]string{"PATH", "TMPDIR"}, name) {
			c.add(index("shell.caches", i), ReasonBadValue, "%s has a value already", name)
		}
	}
	for name, v := range s.Environment {
		if strings.ContainsRune(v, 0) {
			c.add("shell.environment."+name, ReasonBadValue, "has a NUL")
		}
	}
}

// asFallback is the model without what it alone has.
func (m *Model) asFallback() Fallback {
	return Fallback{
		Provider: m.Provider, Model: m.Model, Script: m.Script, BaseURL: m.BaseURL, Secret: m.Secret,
		API: m.API, MaxTokens: m.MaxTokens, APITimeout: m.APITimeout, Price: m.Price, Options: m.Options, Stream: m.Stream,
	}
}

// Models are the model and its fallbacks, in the order in which they are asked.
func (m *Manifest) Models() []Fallback {
	return append([]Fallback{m.Model.asFallback()}, m.Model.Fallback...)
}

// compress checks that a conversation can be cut as it says.
func (c *checker) compress(m *Model) {
	const at = "model.session.compress"
	setup, _ := m.Options.Extra["setup"].(map[string]any)
	switch of := m.Session.Compress; {
	case of.Trigger == 0 && of.Target == 0:
	case m.Session.Transport != TransportLive:
		c.add(at, ReasonBadValue, "only transport: live has it")
	case of.Trigger > 0 && of.Target >= of.Trigger:
		c.add(at+".target_tokens", ReasonBadValue, "must be less than trigger_tokens, %d", of.Trigger)
	case setup["contextWindowCompression"] != nil:
		c.add(at, ReasonBadValue, "model.options.extra has setup.contextWindowCompression; leave one of them out")
	}
}

func (c *checker) model(path string, f Fallback) {
	c.options(join(path, "options"), &f.Options, f.MaxTokens)
	if f.Provider != "scripted" {
		if f.Script != "" {
			c.add(join(path, "script"), ReasonBadValue, "only the provider scripted reads a script, not %q", clip.Quoted(f.Provider))
		}
		return
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"base_url", f.BaseURL != ""},
		{"secret", f.Secret != ""},
		{"api", f.API != ""},
		{"max_tokens", f.MaxTokens != 0},
		{"api_timeout", f.APITimeout != 0},
		{"options", !f.Options.empty()},
		{"stream", f.Stream != nil},
	} {
		if k.set {
			c.add(join(path, k.key), ReasonBadValue, "the provider scripted has no use for it")
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// farSources are the kinds of sources that need the extension RemoteFeeds.
var farSources = []string{"remote", "agent"}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
