package feeds

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func everything() Permission {
	return Permission{Allowed: allActions, Import: map[Kind][]string{Tool: {"t"}, Relic: {"r"}, Workflow: {"w"}, LLM: {"l"}}}
}

func TestActions(t *testing.T) {
	pinned := periodic("pinned", 30)
	pinned.Pinned = true
	start := func() []Spec {
		return []Spec{pinned, periodic("metrics", 30), onDemand("plain", `{"q":"$metrics"}`)}
	}
	const tool, add = `"source":{"type":"tool","name":"t"}`, AddFeed
	long := `"` + strings.Repeat("x", MaxSpecBytes) + `"`
	for _, c := range []struct {
		name, action, params string
		reason               string // of the failure
		result               string
		ids                  string // after it
	}{
		{"added last", add, `{"id":"n","type":"on_demand",` + tool + `}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"exists", add, `{"id":"plain","type":"on_demand",` + tool + `}`, "feed_exists", "", ""},
		{"exists before it is invalid", add, `{"id":"plain","type":"streaming"}`, "feed_exists", "", ""},
		{"invalid", add, `{"id":"n","type":"streaming",` + tool + `}`, "invalid_feed: type: UNSUPPORTED_FEED_TYPE: streaming feeds are not supported; use on_demand or periodic", "", ""},
		{"pinned is not the model's", add, `{"id":"n","pinned":true,` + tool + `}`, "invalid_feed: pinned: UNKNOWN_KEY: unknown member", "", ""},
		{"no expansion", add, `{"id":"n","enabled":"${X:-true}",` + tool + `}`, `invalid_feed: enabled: BAD_VALUE: "${X:-true}" is none of true, 1, yes, on, false, 0, no, off`, "", ""},
		{"types", add, `{"id":"n","interval":"5",` + tool + `}`, "invalid_feed: interval: WRONG_TYPE: want an integer, not a string", "", ""},
		{"source type", add, `{"id":"n","source":[]}`, "invalid_feed: source: WRONG_TYPE: want an object, not an array", "", ""},
		{"source member", add, `{"id":"n","source":{"type":"tool","name":"t","x":1}}`, "invalid_feed: source.x: UNKNOWN_KEY: unknown member", "", ""},
		{"no source", add, `{"id":"n"}`, "invalid_feed: source.type: MISSING: missing", "", ""},
		{"too often", add, `{"id":"n","type":"periodic","interval":4,` + tool + `}`, "invalid_feed: interval: BAD_VALUE: 4 is below 5 seconds", "", ""},
		{"often enough", add, `{"id":"n","type":"periodic","interval":5.0,"enabled":false,` + tool + `}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"not imported", add, `{"id":"n","type":"tool","source":{"name":"r"}}`, "not_allowed", "", ""},
		{"relic", add, `{"id":"n","type":"relic","source":{"name":"r"}}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"internal needs no import", add, `{"id":"n","type":"internal","source":{"action":"system_clock"}}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"env of the operator", add, `{"id":"n","type":"internal","source":{"action":"env","params":{"names":["HOME"]}}}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"other env", add, `{"id":"n","type":"internal","source":{"action":"env","params":{"names":["SECRET"]}}}`, "not_allowed", "", ""},
		{"files are the operator's", add, `{"id":"n","type":"ingest","source":{"params":{"paths":["."]}}}`, "not_allowed", "", ""},
		{"reference", add, `{"id":"n","source":{"type":"tool","name":"t","params":{"a":"$metrics"}}}`, "invalid_feed: source.params: BAD_VALUE: references are not allowed here; $$ is a dollar", "", ""},
		{"dollar", add, `{"id":"n","source":{"type":"tool","name":"t","params":{"a":"$$metrics $5"}}}`, "", `{"id":"n"}`, "pinned metrics plain n"},
		{"no object", add, `[]`, "bad_field", "", ""},
		{"no JSON", add, `{`, "bad_field", "", ""},
		{"two values", add, `{} {}`, "bad_field", "", ""},
		{"too long", add, long, "bad_field", "", ""},

		{"removed", RemoveFeed, `{"id":"plain"}`, "", `{"id":"plain"}`, "pinned metrics"},
		{"removed under another", RemoveFeed, `{"id":"metrics"}`, "", `{"id":"metrics"}`, "pinned plain"},
		{"not there", RemoveFeed, `{"id":"x"}`, "feed_not_found", "", ""},
		{"is pinned", RemoveFeed, `{"id":"pinned"}`, "pinned", "", ""},
		{"no id", RemoveFeed, `{}`, "bad_field", "", ""},
		{"id type", RemoveFeed, `{"id":1}`, "bad_field", "", ""},
		{"more than an id", RemoveFeed, `{"id":"plain","x":1}`, "bad_field", "", ""},

		{"updated", UpdateFeed, `{"id":"metrics","interval":60}`, "", `{"id":"metrics"}`, "pinned metrics plain"},
		{"update of nothing", UpdateFeed, `{"id":"x","interval":60}`, "feed_not_found", "", ""},
		{"update of pinned", UpdateFeed, `{"id":"pinned","interval":60}`, "pinned", "", ""},
		{"update too often", UpdateFeed, `{"id":"metrics","interval":1}`, "invalid_feed: interval: BAD_VALUE: 1 is below 5 seconds", "", ""},
		{"all or nothing", UpdateFeed, `{"id":"metrics","cache_ttl":5,"max_tokens":0}`, "invalid_feed: max_tokens: BAD_VALUE: 0 is outside 1 to 1073741824", "", ""},
		{"trigger without its interval", UpdateFeed, `{"id":"metrics","type":"on_demand"}`, "invalid_feed: interval: BAD_VALUE: an on_demand feed has none", "", ""},
		{"trigger", UpdateFeed, `{"id":"metrics","type":"on_demand","interval":null}`, "", `{"id":"metrics"}`, "pinned metrics plain"},
		{"source as a whole", UpdateFeed, `{"id":"plain","source":{"type":"tool"}}`, "invalid_feed: source.name: MISSING: a tool is named", "", ""},
		{"source not imported", UpdateFeed, `{"id":"plain","source":{"type":"tool","name":"x"}}`, "not_allowed", "", ""},
		{"source", UpdateFeed, `{"id":"plain","source":{"type":"tool","name":"t"}}`, "", `{"id":"plain"}`, "pinned metrics plain"},
		{"needed by another", UpdateFeed, `{"id":"metrics","enabled":false}`, "invalid_feed: source.params: UNKNOWN_FEED: $metrics is disabled", "", ""},
		{"the operator's source stays", UpdateFeed, `{"id":"plain","max_tokens":9}`, "", `{"id":"plain"}`, "pinned metrics plain"},
		{"not to be pinned", UpdateFeed, `{"id":"plain","pinned":true}`, "invalid_feed: pinned: UNKNOWN_KEY: unknown member", "", ""},

		{"list", ListFeeds, `{}`, "", `[{"enabled":true,"id":"pinned","last_update":"2000-01-01T00:00:00Z","source":{"name":"pinned","type":"tool"},"type":"periodic"},{"enabled":true,"id":"metrics","last_update":null,"source":{"name":"metrics","type":"tool"},"type":"periodic"},{"enabled":true,"id":"plain","last_update":null,"source":{"name":"plain","type":"tool"},"type":"on_demand"}]`, "pinned metrics plain"},
		{"list takes nothing", ListFeeds, `{"a":1}`, "bad_field", "", ""},
		{"get", GetFeed, `{"id":"pinned"}`, "", `{"age_ms":1500,"id":"pinned","stale":false,"value":{"a":1,"b":[2]}}`, "pinned metrics plain"},
		{"get what is not there", GetFeed, `{"id":"x"}`, "feed_not_found", "", ""},
		{"get badly", GetFeed, `{"id":"pinned","refresh":1}`, "bad_field", "", ""},
		{"clear", ClearContext, `{}`, "", `{}`, "pinned metrics plain"},
		{"clear takes nothing", ClearContext, `{"x":1}`, "bad_field", "", ""},
		{"variables are elsewhere", SetVariable, `{}`, "unknown_target", "", ""},
		{"unknown", "drop_tables", `{}`, "unknown_target", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := setOf(t, start()...)
			held := before.Entries()
			out, err := before.Do(Call{Name: c.action, Params: c.params, Permission: everything(), Now: time.Date(2000, 1, 1, 0, 0, 1, 5e8, time.UTC), Value: func(e Entry) (Value, bool) {
				return Value{JSON: `{"b":[2],"a":1.0}`, At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}, e.ID == "pinned"
			}})
			if !reflect.DeepEqual(before.Entries(), held) {
				t.Error("the set before it changed")
			}
			reason := ""
			if err != nil {
				reason = FailureReason(err)
				if !reflect.DeepEqual(out.Set, before) || out.Result != "" {
					t.Errorf("a failure left %+v", out)
				}
				if messages.CodeOf(err) == "" {
					t.Errorf("%v has no code", err)
				}
			}
			if reason != c.reason || out.Result != c.result {
				t.Fatalf("%s, %q; want %s, %q", out.Result, reason, c.result, c.reason)
			}
			if err == nil {
				if got := ids(out.Set); got != c.ids {
					t.Errorf("the set is %q, want %q", got, c.ids)
				}
			}
		})
	}
}

func ids(s Set) string {
	var out []string
	for _, e := range s.Entries() {
		out = append(out, e.ID)
	}
	return strings.Join(out, " ")
}

// nameless reports whether a failure about a member does not say which.
func nameless(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == ReasonInvalidFeed && e.Field == "" && strings.HasPrefix(e.Detail, ":")
}

// Whatever a model writes: an outcome or a typed failure that leaves the set alone.
func FuzzDo(f *testing.F) {
	for i, s := range []string{
		`{"id":"n","type":"periodic","interval":5,"enabled":"on","source":{"type":"tool","name":"t","params":{"a":"$$x"}}}`,
		`{"id":"a","source":{"type":"internal","action":"random","params":{"min":1,"max":2.0}}}`, `{"id":"a","interval":null,"max_tokens":1e3}`,
		`{"id":"a","refresh":true}`, `{}`, `{"id":"n","source":{"type":"ingest","params":{"paths":["."]}}}`,
	} {
		f.Add(byte(i), s)
	}
	start, err := NewSet([]Spec{onDemand("a", ""), periodic("b", 9)}, Rules{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, action byte, params string) {
		p := everything()
		p.References = true
		before := start.Entries()
		out, err := start.Do(Call{Name: allActions[int(action)%len(allActions)], Params: params, Permission: p})
		if !reflect.DeepEqual(start.Entries(), before) {
			t.Fatal("the set changed")
		}
		if err != nil {
			if messages.CodeOf(err) == "" || FailureReason(err) == "" || nameless(err) {
				t.Fatalf("%q", FailureReason(err))
			}
			return
		}
		if !json.Valid([]byte(out.Result)) {
			t.Fatalf("result %q", out.Result)
		}
		var rec fold
		rec.take(out.Change())
		if again, err := start.With(rec.edits, rec.cleared); err != nil || ids(again) != ids(out.Set) {
			t.Fatalf("with its edit %s, want %s: %v", ids(again), ids(out.Set), err)
		}
	})
}

func TestEditsThatNobodyMade(t *testing.T) {
	set := setOf(t, onDemand("a", ""))
	for name, spec := range map[string]string{
		"nothing": "", "no feed": `{"id":"a"}`, "another": `{"id":"b","source":{"type":"internal","action":"session"}}`,
	} {
		if _, err := set.With([]Edit{{ID: "a", Spec: spec}}, 0); messages.CodeOf(err) != messages.ErrJournal {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What an operator changed meanwhile counts, and is no mistake.
	added := Edit{ID: "a", Added: true, Since: 3, Spec: `{"id":"a","source":{"type":"internal","action":"session"}}`}
	if got, err := set.With([]Edit{added, {ID: "gone", Spec: "x"}}, 0); err != nil || got.Len() != 1 || got.Entries()[0].Added {
		t.Errorf("%+v, %v", got, err)
	}
}

// fold keeps the latest edits as the journal of a session does.
type fold struct {
	edits   []Edit
	cleared int64
	seq     int64
}

func (f *fold) take(c *messages.FeedChange) {
	f.seq++
	switch {
	case c == nil:
		return
	case c.Cleared:
		f.cleared = f.seq
		return
	}
	i := slices.IndexFunc(f.edits, func(e Edit) bool { return e.ID == c.ID && e.Added == c.Added })
	e := Edit{ID: c.ID, Added: c.Added, Gone: c.Gone, Spec: c.Spec}
	if i >= 0 {
		e.Since = f.edits[i].Since
	}
	if c.Fresh {
		e.Since = f.seq
	}
	switch {
	case i >= 0 && c.Gone && c.Added:
		f.edits = slices.Delete(f.edits, i, i+1)
	case i >= 0:
		f.edits[i] = e
	default:
		f.edits = append(f.edits, e)
	}
}

func TestPermission(t *testing.T) {
	for _, c := range []struct {
		p    Permission
		name string
		want string
	}{
		{Permission{}, AddFeed, ""},
		{Permission{}, GetFeed, ""},
		{Permission{}, ClearContext, ReasonNotAllowed},
		{Permission{}, SetVariable, ReasonNotAllowed},
		{Permission{Allowed: []string{}}, AddFeed, ReasonNotAllowed},
		{Permission{Allowed: []string{SetVariable}}, SetVariable, ""},
		{Permission{Allowed: []string{SetVariable}}, AddFeed, ReasonNotAllowed},
		{Permission{Blocked: []string{AddFeed}}, AddFeed, ReasonNotAllowed},
		{Permission{Allowed: []string{AddFeed}, Blocked: []string{AddFeed}}, AddFeed, ReasonNotAllowed},
		{Permission{Disabled: true, Allowed: []string{AddFeed}}, AddFeed, ReasonNotAllowed},
		{Permission{Disabled: true}, "nothing", ReasonUnknownTarget},
	} {
		got := ""
		if err := c.p.Judge(c.name); err != nil {
			got = FailureReason(err)
		}
		if got != c.want {
			t.Errorf("%+v, %s: %q, want %q", c.p, c.name, got, c.want)
		}
	}
}

func TestFeedLimit(t *testing.T) {
	s := Set{}
	for i := 0; ; i++ {
		out, err := s.Do(Call{Name: AddFeed, Params: fmt.Sprintf(`{"id":"f%d","type":"tool","source":{"name":"t"}}`, i), Permission: everything()})
		if err != nil {
			if FailureReason(err) != ReasonFeedLimit || messages.CodeOf(err) != messages.ErrQuota || i != MaxFeeds {
				t.Errorf("after %d feeds: %v", i, err)
			}
			return
		}
		s = out.Set
	}
}

// With the extension on, added feeds refer to others, and cycles are refused.
func TestAddedReferences(t *testing.T) {
	p := everything()
	p.References = true
	s := setOf(t, onDemand("a", ""))
	do := func(name, params, want string) {
		t.Helper()
		out, err := s.Do(Call{Name: name, Params: params, Permission: p})
		got := ""
		if err != nil {
			got = FailureReason(err)
		}
		if got != want {
			t.Fatalf("%s: %q, want %q", params, got, want)
		}
		s = out.Set
	}
	do(AddFeed, `{"id":"b","source":{"type":"tool","name":"t","params":{"x":"$a"}}}`, "")
	do(AddFeed, `{"id":"c","source":{"type":"tool","name":"t","params":{"x":"$absent"}}}`, "invalid_feed: source.params: UNKNOWN_FEED: $absent is no feed")
	do(UpdateFeed, `{"id":"a","source":{"type":"tool","name":"t","params":{"x":"$b"}}}`, "feed_cycle: a>b>a")
	do(AddFeed, `{"id":"self","source":{"type":"tool","name":"t","params":{"x":"$self"}}}`, "feed_cycle: self>self")

	// What others refer to stays, or goes with them.
	do(AddFeed, `{"id":"c","source":{"type":"tool","name":"t","params":{"x":"${b.m}"}}}`, "")
	do(AddFeed, `{"id":"d","source":{"type":"tool","name":"t","params":{"x":"$a"}}}`, "")
	do(RemoveFeed, `{"id":"a"}`, "feed_in_use: b, d")
	do(RemoveFeed, `{"id":"a","cascade":false}`, "feed_in_use: b, d")
	do(RemoveFeed, `{"id":"a","cascade":1}`, "bad_field")
	do(UpdateFeed, `{"id":"b","enabled":false}`, "feed_in_use: c")
	do(UpdateFeed, `{"id":"b","enabled":false,"cascade":true}`, "")
	enabled := ""
	for _, e := range s.Entries() {
		if !e.Disabled {
			enabled += e.ID
		}
	}
	if enabled != "ad" {
		t.Fatalf("enabled are %s", enabled)
	}
	do(UpdateFeed, `{"id":"c","enabled":true}`, "invalid_feed: source.params: UNKNOWN_FEED: $b is disabled")
	do(RemoveFeed, `{"id":"b"}`, "") // of those that refer to it none is fetched
	do(RemoveFeed, `{"id":"a","cascade":true}`, "")
	if got := ids(s); got != "c" {
		t.Fatalf("the set is %q", got)
	}
	// What is left without a feed it refers to stops nothing else, and can be healed.
	do(AddFeed, `{"id":"z","source":{"type":"tool","name":"t"}}`, "")
	do(UpdateFeed, `{"id":"c","enabled":true}`, "invalid_feed: source.params: UNKNOWN_FEED: $b is no feed")
	do(AddFeed, `{"id":"b","source":{"type":"tool","name":"t"}}`, "")
	do(UpdateFeed, `{"id":"c","enabled":true}`, "")
}

// A pinned feed does not go with one that it refers to, and the records of a cascade give the
// same set.
func TestCascade(t *testing.T) {
	p := everything()
	p.References = true
	pinned := onDemand("pinned", `{"x":"$b"}`)
	pinned.Pinned = true
	base := setOf(t, onDemand("a", ""), onDemand("b", `{"x":"$a"}`), onDemand("c", `{"x":"$b"}`))
	with := setOf(t, onDemand("a", ""), onDemand("b", `{"x":"$a"}`), pinned)
	for _, action := range []struct{ name, params string }{
		{RemoveFeed, `{"id":"a","cascade":true}`}, {UpdateFeed, `{"id":"a","enabled":false,"cascade":true}`},
	} {
		if _, err := with.Do(Call{Name: action.name, Params: action.params, Permission: p}); err == nil || FailureReason(err) != ReasonPinned {
			t.Errorf("%s under a pinned one: %v", action.name, err)
		}
		out, err := base.Do(Call{Name: action.name, Params: action.params, Permission: p})
		if err != nil || len(out.Also) != 2 {
			t.Fatalf("%s: %+v, %v", action.name, out.Also, err)
		}
		var rec fold
		c := out.Change()
		rec.take(c)
		for i := range c.Also {
			rec.take(&c.Also[i])
		}
		again, err := base.With(rec.edits, rec.cleared)
		if err != nil || !reflect.DeepEqual(definitions(again), definitions(out.Set)) {
			t.Errorf("%s: with its records %v, want %v: %v", action.name, definitions(again), definitions(out.Set), err)
		}
	}
}

func definitions(s Set) (all []Definition) {
	for _, e := range s.Entries() {
		all = append(all, e.Definition)
	}
	return all
}

// References are eight deep at most: in what the model adds, and in a manifest with the
// extension.
func TestDepthOfReferences(t *testing.T) {
	var specs []Spec
	for i := range MaxReferences + 1 {
		params := ""
		if i > 0 {
			params = fmt.Sprintf(`{"x":"$f%d"}`, i-1)
		}
		specs = append(specs, onDemand(fmt.Sprintf("f%d", i), params))
	}
	s, err := NewSet(specs, Rules{References: true})
	if err != nil {
		t.Fatal(err)
	}
	p := everything()
	p.References = true
	_, err = s.Do(Call{Name: AddFeed, Params: `{"id":"deep","source":{"type":"tool","name":"t","params":{"x":"$f8"}}}`, Permission: p})
	if err == nil || FailureReason(err) != "invalid_feed: source.params: BAD_VALUE: references are 9 deep from deep, more than 8" {
		t.Errorf("%v", err)
	}
	specs = append(specs, onDemand("deep", `{"x":"$f8"}`))
	if _, err := NewSet(specs, Rules{References: true}); err == nil || !strings.Contains(err.Error(), "context_feeds[9].source.params: ERR_CONFIG/BAD_VALUE: references are 9 deep") {
		t.Errorf("%v", err)
	}
	if _, err := NewSet(specs, Rules{}); err != nil { // as before there was an extension
		t.Error(err)
	}
}

func TestReferring(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"100%":                         "100%",
		"100% of %{a}":                 "100% of ${a}",
		"%{a.b.0}/%{c}":                "${a.b.0}/${c}",
		"%%{a} %% %x %":                "%{a} % %x %",
		"$a ${b} %{c}":                 "$a ${b} ${c}",
		"%{a.b":                        "!%{a.b",
		"%{}":                          "!%{}",
		"x %{1a}":                      "!%{1a}",
		"%{a b}":                       "!%{a b}",
		"%{" + strings.Repeat("a", 70): "!%{" + strings.Repeat("a", 61) + "… (72 bytes)",
	} {
		got, bad, ok := Referring(text)
		if !ok {
			got = "!" + bad
		}
		if got != want && !(strings.HasPrefix(want, "!") && strings.HasSuffix(want, "bytes)") && strings.HasPrefix(got, "!%{aaa")) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A value is never taken for another definition's: versions change with the source,
// after a clear, and when an id comes again, and never otherwise.
func TestVersions(t *testing.T) {
	s := setOf(t, onDemand("a", ""), onDemand("b", ""))
	seen := map[uint64]bool{}
	version := func(id string) uint64 { e, _ := s.Get(id); return e.Version }
	seen[version("a")], seen[version("b")] = true, true
	do := func(name, params string, fresh ...string) {
		t.Helper()
		before := map[string]uint64{}
		for _, e := range s.Entries() {
			before[e.ID] = e.Version
		}
		out, err := s.Do(Call{Name: name, Params: params, Permission: everything()})
		if err != nil {
			t.Fatal(err)
		}
		s = out.Set
		for _, e := range s.Entries() {
			if slices.Contains(fresh, e.ID) {
				if e.Version == 0 || seen[e.Version] {
					t.Errorf("%s %s: version %d of %s was there before", name, params, e.Version, e.ID)
				}
				seen[e.Version] = true
			} else if before[e.ID] != e.Version {
				t.Errorf("%s %s: %s has version %d, had %d", name, params, e.ID, e.Version, before[e.ID])
			}
		}
	}
	do(UpdateFeed, `{"id":"a","max_tokens":3}`)
	do(UpdateFeed, `{"id":"a","source":{"type":"tool","name":"t"}}`, "a")
	do(RemoveFeed, `{"id":"b"}`)
	do(AddFeed, `{"id":"b","source":{"type":"tool","name":"t"}}`, "b")
	do(ClearContext, `{}`, "a", "b")
}

// The set is the fold of its calls, from any set between them, and whatever the model
// does it stays one that a manifest could have.
func TestFold(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	call := func() Call {
		id := pick("a", "b", "c", "d", "e")
		body := fmt.Sprintf(`{"id":%q,"type":%q,"interval":%s,"enabled":%s,"source":{"type":"tool","name":%q,"params":{"x":%q}}}`,
			id, pick("on_demand", "periodic", "tool"), pick("5", "60", "null", "2"), pick("true", "false"), pick("t", "t", "z"), pick("", "", "$"+pick("a", "b", "c", "d", "e")))
		name := pick(AddFeed, AddFeed, UpdateFeed, RemoveFeed, ClearContext, ListFeeds, GetFeed)
		switch name {
		case RemoveFeed, GetFeed:
			body = fmt.Sprintf(`{"id":%q}`, id)
		case ClearContext, ListFeeds:
			body = "{}"
		}
		p := everything()
		p.References = true
		return Call{Name: name, Params: body, Permission: p}
	}
	for range 200 {
		s := setOf(t, onDemand("a", ""), periodic("b", 7))
		var done []Call
		first := s
		var rec fold
		var before Set // as it would be restored before the last call
		versions := map[string]uint64{}
		for range 30 {
			c := call()
			if before, _ = first.With(rec.edits, rec.cleared); true {
				for _, e := range s.entries {
					versions[e.ID] = e.Version
				}
			}
			out, err := s.Do(c)
			if err != nil {
				continue
			}
			s = out.Set
			done = append(done, c)
			rec.take(out.Change())
			if _, err := json.Marshal(json.RawMessage(out.Result)); err != nil {
				t.Fatalf("%s: result %s", c.Name, out.Result)
			}
			// What is valid but for feeds that were removed under others.
			if !slices.ContainsFunc(s.entries, func(e Entry) bool {
				return slices.ContainsFunc(e.needs, func(id string) bool { return s.at(id) < 0 })
			}) {
				specs := make([]Spec, s.Len())
				for i, e := range s.entries {
					specs[i] = e.Spec()
				}
				if _, err := NewSet(specs, s.rules); err != nil {
					t.Fatalf("after %+v: %v", done, err)
				}
			}
		}
		// The manifest's set with the edits that were recorded is the set that came of
		// the calls, and no value is taken for another's.
		again, err := first.With(rec.edits, rec.cleared)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b Entry) bool {
			return a.Definition == b.Definition && a.Added == b.Added && slices.Equal(a.needs, b.needs)
		}
		if !slices.EqualFunc(again.Entries(), s.Entries(), same) {
			t.Fatalf("folded: %+v, want %+v, after %+v", again, s, done)
		}
		for i, e := range again.entries {
			if was, had := before.Get(e.ID); had && s.entries[i].Version != versions[e.ID] && e.Version == was.Version {
				t.Fatalf("%s keeps values that are not its own, after %+v", e.ID, done)
			}
		}
	}
}

// What the model has changed of a feed that the manifest pins since stays, and the feed is pinned.
func TestEditOfAPinnedFeed(t *testing.T) {
	set, err := NewSet([]Spec{{ID: "a", Pinned: true, Source: SourceSpec{Type: "internal", Action: "session"}}}, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := set.With([]Edit{{ID: "a", Since: 3, Spec: `{"id":"a","max_tokens":7,"source":{"type":"internal","action":"session"}}`}}, 0)
	if err != nil || got.Len() != 1 || !got.Entries()[0].Pinned || got.Entries()[0].MaxTokens != 7 {
		t.Errorf("%+v, %v", got.Entries(), err)
	}
}
