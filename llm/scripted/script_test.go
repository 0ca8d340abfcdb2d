package scripted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

func parse(t testing.TB, src string) *Script {
	t.Helper()
	s, err := Parse("s.jsonl", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func user(text string, ordinal int64) llm.Request {
	return llm.Request{Ordinal: ordinal, Messages: []messages.Message{
		{Role: messages.RoleSystem, Text: "sys"},
		{Role: messages.RoleUser, Text: "old"},
		{Role: messages.RoleUser, Text: text},
		{Role: messages.RoleAssistant, Text: "hi"},
	}}
}

// played is a stream written down: "text@ms" per chunk, then how it ended.
func played(ctx context.Context, s *Script, req llm.Request) (out []string, usage messages.Usage) {
	start := time.Now()
	for c, err := range s.Stream(ctx, req) {
		ms := time.Since(start).Milliseconds()
		switch {
		case err != nil:
			var e *messages.Error
			if !errors.As(err, &e) {
				return append(out, "untyped"), usage
			}
			out = append(out, fmt.Sprintf("%s/%s@%d", e.Code, e.Reason, ms))
		case c.Finish != "":
			out = append(out, fmt.Sprintf("%s%s@%d", c.Text, c.Finish, ms))
		case len(c.Text) > 0:
			out = append(out, fmt.Sprintf("%s@%d", c.Text, ms))
		}
		if c.Usage != (messages.Usage{}) {
			usage = c.Usage
		}
	}
	return out, usage
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       []string
	}{
		{"plain", `{"chunks":[{"text":"a"},{"text":"b"}]}`, []string{"a@0", "b@0", "complete@0"}},
		{"delays", `{"chunks":[{"at_ms":10,"text":"a"},{"text":"b"},{"at_ms":3600000,"text":"c"}],"finish":"stop"}`, []string{"a@10", "b@10", "c@3600000", "stop@3600000"}},
		{"pauses", `{"chunks":[{"at_ms":5,"text":""},{"text":"a"},{"at_ms":9,"text":""}],"finish":"length"}`, []string{"a@5", "length@9"}},
		{"empty reply", `{"chunks":[]}`, []string{"complete@0"}},
		{"status", `{"error":{"status":429,"code":"rate_limited","retry_after_ms":1500}}`, []string{"ERR_MODEL/STATUS_429@0"}},
		{"code", `{"error":{"code":"reset.by-peer"}}`, []string{"ERR_MODEL/RESET_BY_PEER@0"}},
		{"error after text", `{"chunks":[{"text":"ab"},{"at_ms":3,"text":"c"}],"error":{"status":500}}`, []string{"ab@0", "c@3", "ERR_MODEL/STATUS_500@3"}},
		{"error inside a chunk", `{"chunks":[{"text":"ab"},{"at_ms":3,"text":"cdef"},{"at_ms":9,"text":"g"}],"error":{"status":500,"after_bytes":4}}`, []string{"ab@0", "cd@3", "ERR_MODEL/STATUS_500@3"}},
		{"error between", `{"chunks":[{"text":"ab"},{"at_ms":3,"text":""},{"at_ms":9,"text":"g"}],"error":{"status":500,"after_bytes":2}}`, []string{"ab@0", "ERR_MODEL/STATUS_500@3"}},
		{"error before text", `{"chunks":[{"at_ms":4,"text":"ab"}],"error":{"status":500,"after_bytes":0}}`, []string{"ERR_MODEL/STATUS_500@0"}},
		{"slow error", `{"chunks":[{"at_ms":4,"text":""}],"error":{"status":500}}`, []string{"ERR_MODEL/STATUS_500@4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, _ := played(t.Context(), parse(t, c.line), user("x", 0))
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestFailureDetails(t *testing.T) {
	s := parse(t, `{"chunks":[{"text":"a"}],"usage":{"input":3,"output":4,"cost_micro_usd":5},"error":{"status":529,"code":"overloaded","retry_after_ms":1500}}`)
	var usage messages.Usage
	var cost int64
	for c, err := range s.Stream(t.Context(), user("x", 0)) {
		if err != nil {
			if f := llm.FailureOf(err); f != (llm.Failure{Status: 529, Code: "overloaded", RetryAfter: 1500 * time.Millisecond, Retryable: true}) {
				t.Errorf("%+v", f)
			}
			continue
		}
		if c.Finish != "" {
			t.Error("a failed stream has a finish")
		}
		usage, cost = c.Usage, c.CostMicroUSD
	}
	if usage != (messages.Usage{Input: 3, Output: 4}) || cost != 5 {
		t.Errorf("usage %+v, cost %d", usage, cost)
	}
	for line, want := range map[string]bool{`{"error":{"code":"x"}}`: true, `{"error":{"status":401}}`: false, `{"error":{"status":503}}`: true} {
		for _, err := range parse(t, line).Stream(t.Context(), user("x", 0)) {
			if err == nil || llm.FailureOf(err).Retryable != want {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on its clock the schedule is exact
		s := parse(t, `
# the second match is more special but comes later
{"chunks":[{"text":"first"}]}
{"match":{"contains":"time"},"chunks":[{"text":"noon"}]}
  // between
{"match":{"equals":"what time"},"chunks":[{"text":"never"}]}
{"chunks":[{"text":"second"}]}
{"match":{"re2":"^[0-9]+$"},"chunks":[{"text":"number"}]}
{"match":{"equals":""},"chunks":[{"text":"nothing"}]}
{"match":{"equals":"abc"},"chunks":[{"text":"letters"}]}
`)
		if m, o := s.Len(); m != 5 || o != 2 || s.Name() != "s.jsonl" {
			t.Errorf("%d matched, %d ordered", m, o)
		}
		for _, c := range []struct {
			input   string
			ordinal int64
			want    string
			ordered bool
		}{
			{"hello", 0, "first", true},
			{"hello", 1, "second", true},
			{"what time", 0, "noon", false},
			{"time", 9, "noon", false},
			{"42", 0, "number", false},
			{"42 ", 0, "first", true},
			{"", 0, "nothing", false},
			{"abc", 0, "letters", false},
			{"abd", 0, "first", true},
			{"hello", 2, "", true},
			{"hello", -1, "", true},
		} {
			req := user(c.input, c.ordinal)
			if got := s.Ordered(req); got != c.ordered {
				t.Errorf("%q: ordered is %v", c.input, got)
			}
			for range 2 { // matches may be used again, and the script keeps no cursor
				got, _ := played(t.Context(), s, req)
				want := []string{c.want + "@0", "complete@0"}
				if c.want == "" {
					want = []string{"ERR_MODEL/EXHAUSTED@0"}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%q at %d: %s", c.input, c.ordinal, d)
				}
			}
		}
		// Without a user message nothing matches, not even the empty text.
		if got, _ := played(t.Context(), s, llm.Request{}); got[0] != "first@0" {
			t.Errorf("%v", got)
		}
		for _, err := range s.Stream(t.Context(), user("x", 7)) {
			if f := llm.FailureOf(err); f.Retryable || !strings.Contains(err.Error(), "s.jsonl has 2 replies") {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on its clock the schedule is exact
		s := New("a", "", "c")
		for i, want := range [][]string{{"a@0", "complete@0"}, {"complete@0"}, {"c@0", "complete@0"}, {"ERR_MODEL/EXHAUSTED@0"}} {
			if got, _ := played(t.Context(), s, llm.Request{Ordinal: int64(i)}); !cmp.Equal(want, got) {
				t.Errorf("%d: %v", i, got)
			}
		}
	})
}

func TestCut(t *testing.T) {
	text := strings.Repeat("häß🙂 <action>\n", 40)
	line := func(seed string) string {
		return `{"chunks":[{"text":` + fmt.Sprintf("%q", text[:201]) + `},{"at_ms":0,"text":` + fmt.Sprintf("%q", text[201:]) + `}]` + seed + `}`
	}
	cut := func(s *Script) (pieces []string) {
		for c := range s.Stream(t.Context(), llm.Request{}) {
			if c.Finish == "" {
				pieces = append(pieces, string(c.Text))
			}
		}
		return pieces
	}
	// A cut of the test's own must not fall inside a character of the JSON text.
	if !strings.HasPrefix(text[201:], "h") && text[200]&0xC0 == 0x80 && text[201]&0xC0 == 0x80 {
		t.Fatal("choose another place")
	}
	seen := map[string]bool{}
	inside := false
	for seed := range 20 {
		src := line(fmt.Sprintf(`,"cut":%d`, seed))
		a, b := cut(parse(t, src)), cut(parse(t, src))
		if !cmp.Equal(a, b) {
			t.Errorf("seed %d cuts twice in different ways", seed)
		}
		if strings.Join(a, "") != text {
			t.Errorf("seed %d loses text", seed)
		}
		seen[strings.Join(a, "|")] = true
		for _, p := range a {
			if p == "" || len(p) > maxCutBytes {
				t.Errorf("seed %d: a piece of %d bytes", seed, len(p))
			}
			inside = inside || p[0]&0xC0 == 0x80
		}
	}
	if len(seen) != 20 || !inside {
		t.Errorf("%d different cuts of 20; inside a character: %v", len(seen), inside)
	}
	// The cuts of a seed are part of what a recorded run depends on.
	got := cut(parse(t, `{"chunks":[{"text":"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}],"cut":7}`))
	if want := pinnedCut; !cmp.Equal(want, got) {
		t.Errorf("seed 7 cuts %q", got)
	}
}

var pinnedCut = []string{"abcdefg", "hijklmno", "pqr", "stuvw", "xyzabcdefghijklmnopqr", "stuvwxyz"}

func TestCutKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parse(t, `{"chunks":[{"text":"0123456789"},{"at_ms":10,"text":""},{"at_ms":20,"text":"abcdefghijklmnopqrstuvwxyzabcdefghijkl"},{"at_ms":30,"text":"Z"}],"cut":1}`)
		start := time.Now()
		for c := range s.Stream(t.Context(), llm.Request{}) {
			ms := time.Since(start).Milliseconds()
			for _, x := range c.Text {
				if early := x >= 'a' && ms < 20 || x == 'Z' && ms < 30; early {
					t.Errorf("%q at %d", x, ms)
				}
			}
			if bytes.ContainsAny(c.Text, "0123456789") && ms > 10 {
				t.Errorf("%q waits until %d, past a pause", c.Text, ms)
			}
		}
	})
}

func TestCancel(t *testing.T) {
	const line = `{"chunks":[{"text":"a"},{"at_ms":10,"text":"b"},{"at_ms":20,"text":"c"}],"usage":{"input":1,"output":2},"on_cancel":%q}`
	for mode, want := range map[string][]string{
		"stop":  {"a@0", "b@10", "cancelled@15"},
		"drain": {"a@0", "b@10", "c@15", "cancelled@15"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
			defer cancel()
			got, usage := played(ctx, parse(t, fmt.Sprintf(line, mode)), user("x", 0))
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", mode, d)
			}
			if usage != (messages.Usage{Input: 1, Output: 2}) {
				t.Errorf("%s: usage %+v", mode, usage)
			}
			// One that was cancelled before it began has nothing to say.
			if got, _ := played(ctx, parse(t, fmt.Sprintf(line, mode)), user("x", 0)); !cmp.Equal(got, []string{"cancelled@0"}) {
				t.Errorf("%s: %v", mode, got)
			}
		})
	}
	// Also between chunks without delay, and instead of a scripted error.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	for c, err := range parse(t, `{"chunks":[{"text":"a"},{"text":"b"}],"error":{"status":500}}`).Stream(ctx, user("x", 0)) {
		got = append(got, fmt.Sprint(string(c.Text), c.Finish, err))
		cancel()
	}
	if d := cmp.Diff([]string{"a<nil>", "cancelled<nil>"}, got); d != "" {
		t.Error(d)
	}
	// And after the last piece: the reply was not taken to its end.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	got = nil
	for c := range New("a").Stream(ctx, llm.Request{}) {
		got = append(got, string(c.Text)+string(c.Finish))
		cancel()
	}
	if d := cmp.Diff([]string{"a", "cancelled"}, got); d != "" {
		t.Error(d)
	}
}

func TestBreakEndsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for range parse(t, `{"chunks":[{"text":"a"},{"at_ms":1000,"text":"b"}]}`).Stream(t.Context(), user("x", 0)) {
			break
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("waited %v", d)
		}
	})
}

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on its clock the schedule is exact
		s := parse(t, `{"chunks":[{"text":"abc"},{"text":"def"}]}`)
		for limit, want := range map[int64][]string{
			0: {"abc@0", "def@0", "complete@0"}, 6: {"abc@0", "def@0", "complete@0"},
			5: {"abc@0", "de@0", "ERR_QUOTA/STREAM_TOO_LARGE@0"}, 3: {"abc@0", "ERR_QUOTA/STREAM_TOO_LARGE@0"}, 1: {"a@0", "ERR_QUOTA/STREAM_TOO_LARGE@0"},
		} {
			req := user("x", 0)
			req.MaxReplyBytes = limit
			if got, _ := played(t.Context(), s, req); !cmp.Equal(want, got) {
				t.Errorf("limit %d: %v", limit, got)
			}
		}
	})
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string // "line:col field"
	}{
		{"empty", "\n# only this\n", []string{"0:0 "}},
		{"no json", "{\"chunks\":[]}\nhello\n", []string{"2:1 "}},
		{"cut short", `{"chunks":[{"text":"a"}`, []string{"1:24 "}},
		{"no utf-8", "{\"chunks\":[{\"text\":\"\xff\"}]}", []string{"1:21 "}},
		{"array", `[1]`, []string{"1:1 "}},
		{"two values", `{"chunks":[]} {}`, []string{"1:15 "}},
		{"nothing said", `{}`, []string{"1:1 chunks"}},
		{
			"unknown members", `{"chunks":[{"text":"a","at":1}],"cuts":[{"a":1}],"match":{"glob":"*"},"usage":{"x":1},"error":{"y":1}}`,
			[]string{"1:24 chunks[0].at", "1:33 cuts", "1:58 match", "1:59 match.glob", "1:80 usage.x", "1:95 error", "1:96 error.y"},
		},
		{"twice", `{"chunks":[],"chunks":[],"match":{"equals":"a","equals":"b"}}`, []string{"1:14 chunks", "1:48 match.equals"}},
		{
			"types", `{"chunks":{},"cut":"x","finish":1,"usage":[],"error":"e","on_cancel":null,"match":true}`,
			[]string{"1:11 chunks", "1:20 cut", "1:33 finish", "1:43 usage", "1:54 error", "1:70 on_cancel", "1:83 match"},
		},
		{
			"elements", `{"chunks":["a",{"text":1},{"at_ms":1.5,"text":"b"},{"at_ms":-1,"text":""},{}]}`,
			[]string{"1:12 chunks[0]", "1:24 chunks[1].text", "1:36 chunks[2].at_ms", "1:61 chunks[3].at_ms", "1:75 chunks[4].text"},
		},
		{"time", `{"chunks":[{"at_ms":5,"text":"a"},{"at_ms":4,"text":"b"},{"at_ms":86400001,"text":"c"}]}`, []string{"1:44 chunks[1].at_ms", "1:67 chunks[2].at_ms"}},
		{"words", `{"chunks":[],"finish":"done","on_cancel":"go"}`, []string{"1:23 finish", "1:42 on_cancel"}},
		{
			"match", `{"chunks":[],"match":{"equals":"a","contains":"b"}}` + "\n" + `{"chunks":[],"match":{}}` + "\n" + `{"chunks":[],"match":{"re2":"("}}` + "\n" + `{"chunks":[],"match":{"contains":""}}`,
			[]string{"1:22 match", "2:22 match", "3:29 match.re2", "4:34 match.contains"},
		},
		{
			"error", `{"error":{}}` + "\n" + `{"error":{"status":99}}` + "\n" + `{"error":{"code":"a b"}}` + "\n" + `{"chunks":[{"text":"abc"}],"error":{"status":500,"after_bytes":4}}` + "\n" + `{"error":{"status":500},"finish":"stop"}`,
			[]string{"1:10 error", "2:10 error", "2:20 error.status", "3:18 error.code", "4:64 error.after_bytes", "5:34 finish"},
		},
		{"numbers", `{"chunks":[],"cut":-1,"usage":{"input":1e3,"output":9007199254740992}}`, []string{"1:20 cut", "1:40 usage.input", "1:53 usage.output"}},
		{"lines go on after a broken one", "{\n\n# c\r\n{\"x\":1}\n{\"chunks\":[]}\n", []string{"1:2 ", "4:1 chunks", "4:2 x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("s.jsonl", []byte(c.src))
			if s != nil || err == nil {
				t.Fatal("accepted")
			}
			var got []string
			for _, e := range mistakes(t, err) {
				if e.Code != messages.ErrConfig || e.File != "s.jsonl" || e.Detail == "" {
					t.Errorf("incomplete: %#v", e)
				}
				got = append(got, fmt.Sprintf("%d:%d %s", e.Line, e.Col, e.Field))
				if e.HasOffset { // the offset in the file is the same place
					if head := c.src[:min(e.Offset, int64(len(c.src)))]; strings.Count(head, "\n") != e.Line-1 || len(head)-strings.LastIndexByte(head, '\n') != e.Col {
						t.Errorf("offset %d is not at %d:%d", e.Offset, e.Line, e.Col)
					}
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n%v", d, err)
			}
		})
	}
}

func mistakes(t testing.TB, err error) (out []*messages.Error) {
	t.Helper()
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var x *messages.Error
		if !errors.As(e, &x) {
			t.Fatalf("%T is no *messages.Error", e)
		}
		out = append(out, x)
	}
	return out
}

func TestManyMistakesAreCounted(t *testing.T) {
	_, err := Parse("s", []byte(strings.Repeat("{\"x\":1}\n", 300)))
	if es := mistakes(t, err); len(es) != maxMistakes+1 || !strings.Contains(es[maxMistakes].Detail, "500 more") {
		t.Errorf("%d mistakes, last %v", len(es), es[len(es)-1])
	}
}

// FuzzParse: no script panics; a mistake has a place; what is taken plays to one
// end and the same way twice, whatever the cut.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"match":{"re2":"a+"},"chunks":[{"at_ms":0,"text":"x"},{"text":"ü"}],"cut":3,"finish":"stop","usage":{"input":1,"output":2},"on_cancel":"drain"}`,
		"# c\n\n{\"chunks\":[]}\n", `{"error":{"status":429,"code":"a","retry_after_ms":1,"after_bytes":0}}`, `{"chunks":[{"text":"abc"}],"error":{"code":"x","after_bytes":2},"cut":0}`,
		"{", "[[[[", `{"chunks":[{"text":"\ud800"}]}`, `{"a":{"b":[1,2,{"c":null}]},"a":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse("f", b)
		if err != nil {
			for _, e := range mistakes(t, err) {
				if e.Code != messages.ErrConfig || e.HasOffset && (e.Offset < 0 || e.Offset > int64(len(b)) || e.Line < 1 || e.Col < 1) {
					t.Fatalf("%#v", e)
				}
			}
			return
		}
		for _, rs := range [][]reply{s.matched, s.ordered} {
			for i := range rs {
				var whole, again []byte
				ends := 0
				for j := range rs[i].pieces {
					rs[i].pieces[j].atMS = 0
				}
				for _, to := range []*[]byte{&whole, &again} {
					play(context.Background(), &rs[i], func(c llm.Chunk, err error) bool {
						*to = append(*to, c.Text...)
						if err != nil || c.Finish != "" {
							ends++
						}
						return true
					})
				}
				if ends != 2 || !bytes.Equal(whole, again) {
					t.Fatalf("%d ends, %q and %q", ends, whole, again)
				}
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	text := strings.Repeat("x", 4096)
	s := parse(b, fmt.Sprintf(`{"chunks":[{"text":%q}],"cut":1}`, text))
	req := user("hello", 0)
	n := len(s.ordered[0].pieces)
	b.Run(fmt.Sprintf("reply_4KiB_in_%d_chunks", n), func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(4096)
		ctx := b.Context()
		for b.Loop() {
			got := 0
			for c, err := range s.Stream(ctx, req) {
				if err != nil {
					b.Fatal(err)
				}
				got += len(c.Text)
			}
			if got != 4096 {
				b.Fatal(got)
			}
		}
	})
	b.Run("floor_range_over_slices", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(4096)
		for b.Loop() {
			got := 0
			for i := range s.ordered[0].pieces {
				got += len(s.ordered[0].pieces[i].text)
			}
			if got != 4096 {
				b.Fatal(got)
			}
		}
	})
}
