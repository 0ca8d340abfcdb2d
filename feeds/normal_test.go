package feeds

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNormal(t *testing.T) {
	internal := SourceSpec{Type: "internal", Action: SystemClock}
	base := Definition{ID: "f", Trigger: OnDemand, Source: Source{Kind: Tool, Name: "x", Params: "{}"}}
	of := func(change func(*Definition)) Definition {
		d := base
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		spec Spec
		want Definition
	}{
		"trigger":           {Spec{ID: "f", Type: "on_demand", Source: tool("x", "")}, base},
		"source as type":    {Spec{ID: "f", Type: "tool", Source: SourceSpec{Name: "x"}}, base},
		"both":              {Spec{ID: "f", Type: "tool", Source: tool("x", "{}")}, base},
		"no type":           {Spec{ID: "f", Source: tool("x", " { } ")}, base},
		"interval decides":  {Spec{ID: "f", Type: "tool", Interval: ptr[int64](30), Source: SourceSpec{Name: "x"}}, of(func(d *Definition) { d.Trigger, d.Interval = Periodic, 30*time.Second })},
		"no type, interval": {Spec{ID: "f", Interval: ptr[int64](1), Source: tool("x", "")}, of(func(d *Definition) { d.Trigger, d.Interval = Periodic, time.Second })},
		"ttl 0 is given":    {Spec{ID: "f", CacheTTL: ptr[int64](0), Source: tool("x", "")}, of(func(d *Definition) { d.HasTTL = true })},
		"limits": {Spec{ID: "f", CacheTTL: ptr[int64](5), MaxTokens: ptr[int64](1), MaxSizeBytes: ptr[int64](2), Pinned: true, Source: tool("x", "")}, of(func(d *Definition) {
			d.TTL, d.HasTTL, d.MaxTokens, d.MaxBytes, d.Pinned = 5*time.Second, true, 1, 2, true
		})},
		"numbers as written": {Spec{ID: "f", Source: tool("x", `{"n": 12345678901234567890, "m": 1.50}`)}, of(func(d *Definition) { d.Source.Params = `{"n":12345678901234567890,"m":1.50}` })},
		"ingest limit": {Spec{ID: "f", Type: "ingest", MaxTokens: ptr[int64](9), Source: SourceSpec{Params: `{"paths":["a"],"max_tokens":3}`}}, of(func(d *Definition) {
			d.MaxTokens, d.Source = 3, Source{Kind: Ingest, Params: `{"paths":["a"],"max_tokens":3}`}
		})},
		"reference in params": {Spec{ID: "f", Source: SourceSpec{Type: "internal", Action: Random, Params: `{"min":"$low","max":6}`}}, of(func(d *Definition) {
			d.Source = Source{Kind: Internal, Action: Random, Params: `{"min":"$low","max":6}`}
		})},
		"internal": {Spec{ID: "f", Type: "on_demand", Source: internal}, of(func(d *Definition) { d.Source = Source{Kind: Internal, Action: SystemClock, Params: "{}"} })},
	} {
		got, err := Normal(c.spec, "")
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
			continue
		}
		if again, err := Normal(got.Spec(), ""); err != nil || again != got {
			t.Errorf("%s: the normal form's normal form is %+v, %v", name, again, err)
		}
	}
}

func TestEnabled(t *testing.T) {
	for text, want := range map[string]string{"true": "on", "1": "on", "YES": "on", "On": "on", "false": "off", "0": "off", "no": "off", "OFF": "off", "": "off", "maybe": "", " true": "", "2": ""} {
		d, err := Normal(Spec{ID: "f", Enabled: &text, Source: tool("x", "")}, "")
		got := map[bool]string{true: "off", false: "on"}[d.Disabled]
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		spec Spec
		want []string
	}{
		"nothing":           {Spec{}, []string{"f.id MISSING", "f.source.type MISSING"}},
		"id":                {Spec{ID: "1a", Source: tool("x", "")}, []string{"f.id BAD_VALUE"}},
		"long id":           {Spec{ID: strings.Repeat("a", 65), Source: tool("x", "")}, []string{"f.id BAD_VALUE"}},
		"streaming":         {Spec{ID: "a", Type: "streaming", Source: tool("x", "")}, []string{"f.type UNSUPPORTED_FEED_TYPE"}},
		"event_driven":      {Spec{ID: "a", Type: "event_driven", Source: tool("x", "")}, []string{"f.type UNSUPPORTED_FEED_TYPE"}},
		"type":              {Spec{ID: "a", Type: "Periodic", Source: tool("x", "")}, []string{"f.type BAD_VALUE"}},
		"source type":       {Spec{ID: "a", Type: "on_demand", Source: SourceSpec{Type: "robot", Name: "x"}}, []string{"f.source.type BAD_VALUE"}},
		"contradiction":     {Spec{ID: "a", Type: "relic", Source: tool("x", "")}, []string{"f.source.type BAD_VALUE"}},
		"no interval":       {Spec{ID: "a", Type: "periodic", Source: tool("x", "")}, []string{"f.interval MISSING"}},
		"interval":          {Spec{ID: "a", Type: "on_demand", Interval: n(3), Source: tool("x", "")}, []string{"f.interval BAD_VALUE"}},
		"interval 0":        {Spec{ID: "a", Type: "periodic", Interval: n(0), Source: tool("x", "")}, []string{"f.interval BAD_VALUE"}},
		"interval high":     {Spec{ID: "a", Type: "periodic", Interval: n(MaxSeconds + 1), Source: tool("x", "")}, []string{"f.interval BAD_VALUE"}},
		"numbers":           {Spec{ID: "a", CacheTTL: n(-1), MaxTokens: n(0), MaxSizeBytes: n(MaxLimit + 1), Source: tool("x", "")}, []string{"f.cache_ttl BAD_VALUE", "f.max_tokens BAD_VALUE", "f.max_size_bytes BAD_VALUE"}},
		"no name":           {Spec{ID: "a", Source: tool(" ", "")}, []string{"f.source.name MISSING"}},
		"long name":         {Spec{ID: "a", Source: tool(strings.Repeat("x", MaxNameBytes+1), "")}, []string{"f.source.name BAD_VALUE"}},
		"action of a tool":  {Spec{ID: "a", Source: SourceSpec{Type: "tool", Name: "x", Action: "y"}}, []string{"f.source.action BAD_VALUE"}},
		"internal":          {Spec{ID: "a", Source: SourceSpec{Type: "internal", Name: "x"}}, []string{"f.source.name BAD_VALUE", "f.source.action MISSING"}},
		"unknown action":    {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: "debug_context"}}, []string{"f.source.action BAD_VALUE"}},
		"params":            {Spec{ID: "a", Source: tool("x", "[1]")}, []string{"f.source.params WRONG_TYPE"}},
		"params text":       {Spec{ID: "a", Source: tool("x", "{")}, []string{"f.source.params BAD_VALUE"}},
		"params twice":      {Spec{ID: "a", Source: tool("x", `{"a":1,"a":2}`)}, []string{"f.source.params BAD_VALUE"}},
		"params long":       {Spec{ID: "a", Source: tool("x", `{"a":"`+strings.Repeat("x", MaxParamsBytes)+`"}`)}, []string{"f.source.params BAD_VALUE"}},
		"clock":             {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: SystemClock, Params: `{"format":"iso","timezone":"Local","x":1}`}}, []string{"f.source.params.format BAD_VALUE", "f.source.params.timezone BAD_VALUE", "f.source.params.x UNKNOWN_KEY"}},
		"zone of the host":  {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: SystemClock, Params: `{"timezone":"../../etc/passwd"}`}}, []string{"f.source.params.timezone BAD_VALUE"}},
		"clock types":       {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: SystemClock, Params: `{"format":1,"timezone":[]}`}}, []string{"f.source.params.format WRONG_TYPE", "f.source.params.timezone WRONG_TYPE"}},
		"random":            {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Random, Params: `{"min":2,"max":1}`}}, []string{"f.source.params.min BAD_VALUE"}},
		"random bounds":     {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Random, Params: `{"min":1.5,"max":9007199254740992,"seed":"x"}`}}, []string{"f.source.params.min BAD_VALUE", "f.source.params.max BAD_VALUE", "f.source.params.seed WRONG_TYPE"}},
		"random missing":    {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Random}}, []string{"f.source.params.min MISSING", "f.source.params.max MISSING"}},
		"env":               {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Env}}, []string{"f.source.params.names MISSING"}},
		"env empty":         {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Env, Params: `{"names":[]}`}}, []string{"f.source.params.names BAD_VALUE"}},
		"env names":         {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: Env, Params: `{"names":["A",1]}`}}, []string{"f.source.params.names[1] WRONG_TYPE"}},
		"session":           {Spec{ID: "a", Source: SourceSpec{Type: "internal", Action: SessionInfo, Params: `{"a":1}`}}, []string{"f.source.params.a UNKNOWN_KEY"}},
		"ingest nothing":    {Spec{ID: "a", Source: SourceSpec{Type: "ingest"}}, []string{"f.source.params.paths MISSING"}},
		"ingest both":       {Spec{ID: "a", Source: SourceSpec{Type: "ingest", Params: `{"paths":["a"],"git":"x"}`}}, []string{"f.source.params.paths MISSING"}},
		"ingest out":        {Spec{ID: "a", Source: SourceSpec{Type: "ingest", Params: `{"paths":["../a","/b","","a\\b","docs/"]}`}}, []string{"f.source.params.paths[0] BAD_VALUE", "f.source.params.paths[1] BAD_VALUE", "f.source.params.paths[2] BAD_VALUE", "f.source.params.paths[3] BAD_VALUE"}},
		"ingest rest":       {Spec{ID: "a", Source: SourceSpec{Type: "ingest", Name: "n", Action: "y", Params: `{"url":"file:///x","include":["["],"exclude":["/a"],"max_tokens":0,"format":"pdf"}`}}, []string{"f.source.name BAD_VALUE", "f.source.action BAD_VALUE", "f.source.params.url BAD_VALUE", "f.source.params.include[0] BAD_VALUE", "f.source.params.exclude[0] BAD_VALUE", "f.source.params.max_tokens BAD_VALUE", "f.source.params.format BAD_VALUE"}},
		"option for git":    {Spec{ID: "a", Source: SourceSpec{Type: "ingest", Params: `{"git":"--upload-pack=x"}`}}, []string{"f.source.params.git BAD_VALUE"}},
		"enabled and limit": {Spec{ID: "a", Enabled: ptr("maybe"), MaxTokens: n(-1), Source: tool("x", "")}, []string{"f.max_tokens BAD_VALUE", "f.enabled BAD_VALUE"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Normal(c.spec, "f")
			wantMistakes(t, err, c.want...)
		})
	}
}

func TestSetMistakes(t *testing.T) {
	many := make([]Spec, MaxFeeds+1)
	for i := range many {
		many[i] = onDemand(fmt.Sprint("f", i), "")
	}
	off := onDemand("off", "")
	off.Enabled = ptr("no")
	offToo := onDemand("off_too", `{"a":"$off"}`)
	offToo.Enabled = ptr("no")
	env := Spec{ID: "e", Source: SourceSpec{Type: "internal", Action: Env, Params: `{"names":["HOME","SECRET"]}`}}
	for name, c := range map[string]struct {
		specs []Spec
		want  []string
	}{
		"too many":        {many, []string{"context_feeds BAD_VALUE"}},
		"as many":         {many[1:], nil},
		"duplicate":       {[]Spec{onDemand("a", ""), onDemand("a", "")}, []string{"context_feeds[1].id DUPLICATE"}},
		"all at once":     {[]Spec{{ID: "a"}, onDemand("a", "[]")}, []string{"context_feeds[0].source.type MISSING", "context_feeds[1].source.params WRONG_TYPE", "context_feeds[1].id DUPLICATE"}},
		"unknown":         {[]Spec{onDemand("a", `{"x":{"y":["see $b and ${c.d}"]}}`)}, []string{"context_feeds[0].source.params UNKNOWN_FEED", "context_feeds[0].source.params UNKNOWN_FEED"}},
		"no references":   {[]Spec{onDemand("a", `{"x":"$$b $5 costs $","$k":1}`)}, nil},
		"escaped dollar":  {[]Spec{onDemand("a", `{"x":"\u0024b"}`)}, []string{"context_feeds[0].source.params UNKNOWN_FEED"}},
		"disabled":        {[]Spec{off, onDemand("a", `{"x":"$off"}`), offToo}, []string{"context_feeds[1].source.params UNKNOWN_FEED"}},
		"itself":          {[]Spec{onDemand("a", `{"x":"$a"}`)}, []string{"context_feeds[0].source.params FEED_CYCLE"}},
		"cycle":           {[]Spec{onDemand("x", ""), onDemand("a", `{"x":"$b"}`), onDemand("b", `{"x":"${c}"}`), onDemand("c", `{"x":["$x $a"]}`)}, []string{"context_feeds[1].source.params FEED_CYCLE"}},
		"forward is fine": {[]Spec{onDemand("a", `{"x":"$b"}`), onDemand("b", "")}, nil},
		"env":             {[]Spec{env}, []string{"context_feeds[0].source.params.names[1] BAD_VALUE"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewSet(c.specs, Rules{Env: []string{"HOME"}})
			wantMistakes(t, err, c.want...)
			if name == "cycle" && err != nil && !strings.Contains(err.Error(), "a>b>c>a") {
				t.Errorf("%v does not name the cycle", err)
			}
		})
	}
}
