package kitsu

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

type vector struct {
	ID     string `json:"id"`
	Input  string `json:"input"`
	Action *struct {
		Kind    string          `json:"kind"`
		Payload json.RawMessage `json:"payload"`
		Raw     string          `json:"raw"`
	} `json:"action"`
	Error   string `json:"error"`
	Visible string `json:"visible"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("../../tests/testdata/vectors/kitsu.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Format string   `json:"format"`
		Cases  []vector `json:"cases"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if file.Format != "stile-kitsu/1" || len(file.Cases) < 65 {
		t.Fatalf("%s with %d cases", file.Format, len(file.Cases))
	}
	return file.Cases
}

// Every vector, whole and at every cut; package conform compares the payloads too.
func TestVectors(t *testing.T) {
	for i, v := range vectors(t) {
		a, err := parsed(v.Input)
		reason := ""
		if err != nil {
			reason = err.Reason
		}
		if reason != v.Error || (a != nil) != (v.Action != nil) || a != nil && (string(a.Kind) != v.Action.Kind || a.Raw != v.Action.Raw) {
			t.Errorf("%s: %+v, %v, want %+v, %s", v.ID, a, err, v.Action, v.Error)
		}
		for cut := range len(v.Input) + 1 {
			if got := read(t, messages.TurnInfo{}, messages.FinishComplete, v.Input[:cut], v.Input[cut:]); got.visible != v.Visible || got.fault.Reason != v.Error {
				t.Fatalf("%s cut at %d: %+v, want %q, %s", v.ID, cut, got, v.Visible, v.Error)
			}
		}
		check(t, v.Input, uint64(i))
	}
}

func TestVisible(t *testing.T) {
	ws := func(n int) string { return strings.Repeat(" ", n) }
	for _, c := range []struct{ in, want string }{
		// Line ends: LF, a CR before it belongs to it, nothing else ends a line.
		{"<action:get_time>\r\nx", "x"},
		{"<action:get_time>\r", " \r"},
		{"<action:get_time>\r\r\nx", " \r\r\nx"},
		{"<action:get_time> \r \nx", "  \r \nx"},
		{"a\r<action:get_time>", "a\r "},
		{"\r\n\r", "\r\n\r"},
		{" \r<action:get_time>\n", " \r \n"},
		{"a\v<action:get_time>\u2028[INTERNAL", "a\v \u2028[INTERNAL"},
		// Inline tokens, their quotes, and what begins one but does not end.
		{`a <action:search query="> b`, `a   b`},
		{`a <action:search query="x> b <action:get_time> c`, `a   b   c`},
		{`a <action:x "<action:y> b> "c`, `a   b> "c`},
		{"a <action:x\r\nb", "a <action:x\r\nb"},
		{"a <action:x", "a <action:x"},
		{"a <action:x <action:y> b", "a   b"},
		{"a <actio", "a <actio"},
		{"a <<<action:x>>", "a << >"},
		{"<action:x><action:y>", "  "},
		{"<action:x> <action:y", ""},
		{"<action:x> <action:\"y>\nz", "   \nz"},
		{"<action:x> <action:\"y\nz", "z"},
		{"<action:x> [INTERNAL] x\nz", "z"},
		{"<action:x> [INTERN", "  [INTERN"},
		{"<action:x>\t[INTERNALx\nz", "z"},
		{"<action:x> a [INTERNAL] x\nz", "  a [INTERNAL] x\nz"},
		// A line that begins like a token and has no end outside quotes.
		{"<action:search query=\"a> b\nc", "c"},
		{"\t<action:\nc", "c"},
		{"<action: never\nc", "c"},
		// Machine lines.
		{"[INTERNAL", ""},
		{"[INTERNA", "[INTERNA"},
		{"[internal] x", "[internal] x"},
		{"[[INTERNAL] x", "[[INTERNAL] x"},
		{" \t [INTERNALISED\r\nx", "x"},
		{"\u200b[INTERNAL] x", "\u200b[INTERNAL] x"},
		// Bytes that are no UTF-8.
		{"\xff<action:get_time>", "\ufffd "},
		{"<action:get_time>\xc3", " \ufffd"},
		{"a\xe2\x82", "a\ufffd\ufffd"},
		// Too much held back.
		{ws(MaxHeldBytes) + "x\ny", ws(MaxHeldBytes) + "x\ny"},
		{ws(MaxHeldBytes) + "\ny", ws(MaxHeldBytes) + "\ny"},
		{ws(MaxHeldBytes-1) + "<x\ny", ws(MaxHeldBytes-1) + "<x\ny"},
		{ws(MaxHeldBytes) + "<x\ny", "y"},
		{ws(MaxHeldBytes-4) + "<act<\ny", ws(MaxHeldBytes-4) + "<act<\ny"},
		{ws(MaxHeldBytes-3) + "<act<\ny", "y"},
		{ws(MaxHeldBytes-7) + "[INTERN\ny", ws(MaxHeldBytes-7) + "[INTERN\ny"},
		{ws(MaxHeldBytes-6) + "[INTERN\ny", "y"},
		{ws(MaxHeldBytes+1) + "x\ny", "y"},
		{ws(MaxHeldBytes+1) + "\ny", "y"},
		{ws(MaxHeldBytes+1) + "\r\ny", "y"},
		{ws(MaxHeldBytes) + "\r\ny", "y"},
		{ws(MaxHeldBytes-1) + "\r\ny", ws(MaxHeldBytes-1) + "\r\ny"},
		{"<action:get_time>" + ws(MaxHeldBytes) + "x\ny", "y"},
		{"<action:x" + ws(MaxHeldBytes) + "> a\ny", "y"},
		{"a <action:x" + ws(MaxHeldBytes) + "> b\ny", "a \ny"},
		{"a <action:x" + ws(MaxHeldBytes) + "> b\r\ny", "a \r\ny"},
		{"a <action:x" + ws(MaxHeldBytes-10) + "\r\ny", "a <action:x" + ws(MaxHeldBytes-10) + "\r\ny"},
		{"a <action:x" + ws(MaxHeldBytes-9) + "\r\ny", "a \r\ny"},
		{"a <action:" + ws(MaxHeldBytes-9) + "> b\r", "a   b\r"},
		{"a <action:" + ws(MaxHeldBytes-8) + "> b\r", "a "},
	} {
		if got := Visible(c.in); got != c.want {
			t.Errorf("%.80q (%d bytes): %.80q, want %.80q", c.in, len(c.in), got, c.want)
		}
		check(t, c.in, 1)
	}
}

// A bound on what is held does not depend on cuts, and goes for the line alone.
func TestHeldBound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{" ", "\t", "\r", "\n", "\r\n", "<action:", ">", "\"", "[INTERNAL", "x", "é", "<act", "<action:get_time>"}
	for range 25 {
		var b strings.Builder
		for range 12 {
			p := parts[rng.IntN(len(parts))]
			n := 1
			if rng.IntN(3) == 0 {
				n = 1 + (MaxHeldBytes-20+rng.IntN(40))/len(p)
			}
			b.WriteString(strings.Repeat(p, n))
		}
		check(t, b.String(), rng.Uint64())
	}
}

func TestRandomTexts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	parts := []string{
		"<action:", "search", " query=\"", "\"", ">", "<", "get_time", "continue", " reason=\"", "[INTERNAL", "]", " ", "\t", "\n", "\n", "\r\n", "\r",
		"<action:get_time>", "<action:continue>", "a", "é", "\xff", "\xe2\x82", "\u202e", "<act", "[INT", "\x00",
	}
	for range 4000 {
		var b strings.Builder
		for range 1 + rng.IntN(14) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		check(t, b.String(), rng.Uint64())
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, kind, payload, reason string }{
		{`<action:search  	query="a"  b="c">`, "", "", UnexpectedAttribute},
		{`<action:search query="a" query="b">`, "", "", UnexpectedAttribute},
		{`<action:search b="c" query="a">`, "", "", UnexpectedAttribute},
		{`<action:search query="a"query="b">`, "", "", Malformed},
		{`<action:search 1query="a">`, "", "", Malformed},
		{`<action:search query = "a">`, "", "", Malformed},
		{`<action:search query="a\"b">`, "", "", Malformed},
		{`<action:search query="a" >`, "", "", Malformed},
		{`<action:search` + strings.Repeat(" ", 9000) + `query="a">`, "search", `{"query":"a"}`, ""},
		{`<action:>`, "", "", Malformed},
		{`<action: search query="a">`, "", "", Malformed},
		{`<action:get-time>`, "", "", UnsupportedAction},
		{`<action:searching query="a">`, "", "", UnsupportedAction},
		{`<action:search<b>`, "", "", Malformed},
		{`<action:continue reason="">`, "", "", EmptyReason},
		{`<action:continue query="a">`, "", "", UnexpectedAttribute},
		{`<action:continue reason="` + strings.Repeat("é", 128) + `">`, "continue", `{"reason":"` + strings.Repeat("é", 128) + `"}`, ""},
		{`<action:continue reason="` + strings.Repeat("é", 129) + `">`, "", "", ReasonTooLong},
		{`<action:search query="` + strings.Repeat("x", 300000) + `">`, "", "", QueryTooLong},
		{"<action:search query=\"\u200e\u2029\u0085\u2003 \">", "", "", EmptyQuery},
		{"<action:search query=\"\u200b\">", "search", "{\"query\":\"\u200b\"}", ""},
		{"<action:search query=\"a\u2066\u061cb\rc\">\r\n", "search", `{"query":"abc"}`, ""},
		{"<action:search query=\"a\xffb\">", "search", "{\"query\":\"a\ufffdb\"}", ""},
		{"<action:search query=\"<action:get_time>\">", "search", `{"query":"<action:get_time>"}`, ""},
		{"  <action:get_time>\n\n<action:fly>", "", "", MultipleActions},
		{"<action:get_time>\u00a0", "", "", ""},
	} {
		a, err := parsed(c.in)
		var kind, payload, reason string
		if a != nil {
			kind, payload = string(a.Kind), a.Payload()
		}
		if err != nil {
			reason = err.Reason
		}
		if kind != c.kind || payload != c.payload || reason != c.reason {
			t.Errorf("%.90q: %s %.60s %s, want %s %.60s %s", c.in, kind, payload, reason, c.kind, c.payload, c.reason)
		}
		check(t, c.in, 2)
	}
	_, err := parsed("a\xff\n\nb\n  <action:fly>\n")
	if err == nil || err.Offset != 8 || err.Line != 4 || messages.CodeOf(err) != messages.ErrDialect {
		t.Errorf("place: %+v", err)
	}
}

// What a token declares comes back as the action it was.
func TestActionOf(t *testing.T) {
	for _, a := range []*Action{
		{Kind: Search, Value: "a \"b\" <c>", HasValue: true}, {Kind: GetTime}, {Kind: Continue}, {Kind: Continue, Value: "x", HasValue: true},
	} {
		got, err := ActionOf(string(a.Kind), a.Payload())
		if err != nil || *got != *a {
			t.Errorf("%+v: %+v, %v", a, got, err)
		}
	}
	if a, err := ActionOf("fly", "{"); err != nil || Decide(Request{Action: a}).Reason != "unsupported action: fly" {
		t.Errorf("%+v, %v", a, err)
	}
	for name, args := range map[string]string{
		"search": "{}", "get_time": `{"reason":"x"}`, "continue": `{"query":"x","reason":"y"}`,
	} {
		if a, err := ActionOf(name, args); a != nil || messages.CodeOf(err) != messages.ErrDialect {
			t.Errorf("%s %s: %+v, %v", name, args, a, err)
		}
	}
	for _, args := range []string{"", "[]", `{"query":1}`, `{"query":"a","x":1}`, `{"query":"a","query":"b"}`} {
		if a, err := ActionOf("search", args); a != nil || messages.CodeOf(err) != messages.ErrDialect {
			t.Errorf("search %s: %+v, %v", args, a, err)
		}
	}
}

// A token longer than the decoder keeps is an error and runs nothing.
func TestTokenBound(t *testing.T) {
	const token = `<action:search query="ramen">`
	for limit, want := range map[int64]string{int64(len(token)): "", int64(len(token)) - 1: Malformed, 1: Malformed} {
		got := read(t, messages.TurnInfo{MaxReplyBytes: limit}, messages.FinishComplete, token+strings.Repeat(" ", 50))
		if got.fault.Reason != want || (got.action == "") != (want != "") {
			t.Errorf("limit %d: %+v", limit, got)
		}
	}
}

// How a reply ended decides whether it acts.
func TestFinish(t *testing.T) {
	const reply = "Hi\n<action:get_time>"
	begin, end, action := messages.EventUnitBegin, messages.EventUnitEnd, messages.EventAction
	for f, want := range map[messages.Finish][]messages.EventKind{
		messages.FinishComplete:  {begin, end, action},
		messages.FinishStop:      {begin, end, action},
		messages.FinishLength:    {begin, end, action},
		messages.FinishCancelled: {begin, end},
		messages.FinishError:     {begin, end},
	} {
		got := read(t, messages.TurnInfo{}, f, reply)
		if !slices.Equal(got.events, want) || got.final != (f == messages.FinishComplete || f == messages.FinishStop) {
			t.Errorf("%s: %v, final %v", f, got.events, got.final)
		}
	}
	if got := read(t, messages.TurnInfo{}, messages.FinishError); len(got.events) != 0 {
		t.Errorf("a reply that never came: %v", got.events)
	}
	if got := read(t, messages.TurnInfo{}, messages.FinishComplete); !slices.Equal(got.events, []messages.EventKind{begin, end}) {
		t.Errorf("an empty reply: %v", got.events)
	}
}

// In a pass a search or the time is stripped and not run; a continue is judged
// again, and errors stay errors.
func TestPass(t *testing.T) {
	pass := messages.TurnInfo{State: []byte("continues 0")}
	for in, want := range map[string]string{
		`<action:search query="a">`: "", "<action:get_time>": "", "<action:continue>": `continue {"reason":null}`,
	} {
		if got := read(t, pass, messages.FinishComplete, in); got.action != want || got.visible != "" || got.fault.Reason != "" {
			t.Errorf("%s: %+v", in, got)
		}
	}
	if got := read(t, pass, messages.FinishComplete, "<action:get_time>\n<action:get_time>"); got.fault.Reason != MultipleActions {
		t.Errorf("two: %+v", got)
	}
}

// Text is shown as soon as nothing can change it any more.
func TestLatency(t *testing.T) {
	for _, c := range []struct{ in, shown string }{
		{"Hello", "Hello"},
		{"Hello <", "Hello "},
		{"Hello <b", "Hello <b"},
		{"Hello <action:x", "Hello "},
		{"Hello <action:x>", "Hello  "},
		{"  ", ""},
		{"  x", "  x"},
		{"[INTERNA", ""},
		{"[INTERNx", "[INTERNx"},
		{"a\n\n", "a\n\n"},
		{"<action:x> \t", ""},
		{"<action:x> y", "  y"},
		{"a\r", "a\r"},
		{"é\xc3", "é"},
	} {
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		var shown string
		d.Push([]byte(c.in), func(e messages.Event) { shown += string(e.Text) })
		if shown != c.shown {
			t.Errorf("%q: %q is shown, want %q", c.in, shown, c.shown)
		}
	}
}

func TestMetaController(t *testing.T) {
	search := func(q string) *Action { return &Action{Kind: Search, Value: q, HasValue: true} }
	goOn := &Action{Kind: Continue}
	for _, c := range []struct {
		name string
		r    Request
		want Decision
	}{
		{"none", Request{}, Decision{Reason: "no action"}},
		{"search", Request{Action: search("ramen")}, Decision{Approved: true, Results: 5}},
		{"search denied before the topic", Request{Action: search("ramen"), Permissions: Permissions{DenySearch: true}, LastTopic: "soba"}, Decision{Reason: "permission denied: search"}},
		{"nothing to search in", Request{Action: search("ramen"), Permissions: Permissions{NoIndex: true, DenySearch: true}}, Decision{Reason: "no search here"}},
		{"another topic", Request{Action: search("12 Ramen now"), LastTopic: "soba"}, Decision{RequiresConfirmation: true, Reason: "topic differs, confirmation required", Results: 5}},
		{"the same topic in capitals", Request{Action: search("RAMEN"), LastTopic: "ramen"}, Decision{Approved: true, Results: 5}},
		{"no topic", Request{Action: search("c# 10:30"), LastTopic: "soba"}, Decision{Approved: true, Results: 5}},
		{"no last topic", Request{Action: search("soba")}, Decision{Approved: true, Results: 5}},
		{"mood does not matter to a search", Request{Action: search("soba"), Mood: 1}, Decision{Approved: true, Results: 5}},
		{"time", Request{Action: &Action{Kind: GetTime}, Permissions: Permissions{DenySearch: true, DenyContinue: true, NoIndex: true}, Mood: 1}, Decision{Approved: true}},
		{"continue", Request{Action: goOn}, Decision{Approved: true}},
		{"continue denied before the limit", Request{Action: goOn, Permissions: Permissions{DenyContinue: true}, Continuation: Continuation{Count: 9}}, Decision{Reason: "permission denied: continue"}},
		{"the limit before mood", Request{Action: goOn, Continuation: Continuation{Count: 2}, Mood: 1}, Decision{Reason: "continuation limit reached"}},
		{"below the limit", Request{Action: goOn, Continuation: Continuation{Count: 1}}, Decision{Approved: true}},
		{"a limit of its own", Request{Action: goOn, Continuation: Continuation{Count: 3, Max: 4}}, Decision{Approved: true}},
		{"none allowed", Request{Action: goOn, Continuation: Continuation{Max: -1}}, Decision{Reason: "continuation limit reached"}},
		{"mood", Request{Action: goOn, Mood: 0.851}, Decision{Reason: "emotion intensity too high for continuation"}},
		{"mood at the line", Request{Action: goOn, Mood: 0.85}, Decision{Approved: true}},
		{"other", Request{Action: &Action{Kind: "fly"}}, Decision{Reason: "unsupported action: fly"}},
	} {
		if got := Decide(c.r); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for q, want := range map[string]string{
		"": "", "Ramen": "ramen", "  Žižkov bars": "žižkov", "c# soba": "soba", "a1 b2": "", "x\u3000Y": "x", "don't stop": "stop", "寿司 bar": "寿司",
	} {
		if got := Topic(q); got != want {
			t.Errorf("the topic of %q is %q, want %q", q, got, want)
		}
	}
}

func TestExecutors(t *testing.T) {
	if got, want := SearchStub(" C# & Žluť  x ", 1), `{"query":"c# & žluť  x","results":[{"snippet":"Snippet 1 (deterministic) for query: c# & žluť  x","title":"Result 1 for c# & žluť  x","url":"https://example.local/search/1?q=c%23+%26+%C5%BElu%C5%A5++x"}]}`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 5: 5, 50: 50, 51: 50} {
		if got := strings.Count(SearchStub("q", n), `"url"`); got != want {
			t.Errorf("%d results give %d", n, got)
		}
	}
	now := time.Date(2031, 1, 1, 23, 4, 5, 999, time.FixedZone("x", 3600))
	for zone, want := range map[string]string{
		"": "2031-01-01T22:04:05Z", "UTC": "2031-01-01T22:04:05Z", "UTC+2": "2031-01-02T00:04:05+02:00",
		"utc+07": "2031-01-02T05:04:05+07:00", "UTC-12:00": "2031-01-01T10:04:05-12:00", "UTC-05:30": "2031-01-01T16:34:05-05:30",
		"UTC+14": "2031-01-02T12:04:05+14:00", "UTC+14:01": "2031-01-01T22:04:05Z", "UTC-13": "2031-01-01T22:04:05Z", "UTC+0": "2031-01-01T22:04:05+00:00",
		"UTC+5:30": "2031-01-01T22:04:05Z", "UTC+123": "2031-01-01T22:04:05Z", "UTC+01:60": "2031-01-01T22:04:05Z", "UTC+": "2031-01-01T22:04:05Z", "Europe/Prague": "2031-01-01T22:04:05Z",
	} {
		if got := Time(zone, now); got != `"`+want+`"` {
			t.Errorf("%q: %s, want %s", zone, got, want)
		}
	}
	for c, want := range map[Continuation]string{
		{}: `{"allowed":true,"new_count":1}`, {Count: 2}: `{"allowed":false,"new_count":2}`, {Count: 2, Max: 3}: `{"allowed":true,"new_count":3}`, {Max: -1}: `{"allowed":false,"new_count":0}`,
	} {
		if got := c.Counted(); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}
