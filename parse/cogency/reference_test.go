package cogency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// reference is docs/spec/cogency.md §2 written a second time, as plainly as it goes: on the
// whole reply, with regular expressions and the standard library's JSON. It shares
// nothing with the decoder but the words of the vocabulary. Calls are given as the
// standard library writes their values.
type reference struct {
	in     string
	length bool // it was cut there, and did not end
	events []string
}

var (
	refOpen = regexp.MustCompile(`<think>|<execute>|<results>|<end>`)
	// A body up to its closer outside of strings.
	refExecute = regexp.MustCompile(`(?s)^((?:[^"]|"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*")*?)</execute>`)
	refResults = regexp.MustCompile(`(?s)^((?:[^"]|"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*")*?)</results>`)
	// A body whose last string is open, or broken by a control character.
	refBroken = regexp.MustCompile(`(?s)^(?:[^"]|"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*")*"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*\\?[\x00-\x1f]`)
	refInside = regexp.MustCompile(`(?s)^(?:[^"]|"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*")*"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*\\?$`)
	refLone   = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)
)

func (r *reference) event(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

// unit adds a text, unless it is blank.
func (r *reference) unit(word, raw string, partial bool) {
	if s := strings.TrimSpace(raw); s != "" {
		if partial {
			word += " partial"
		}
		r.event("%s %q", word, s)
	}
}

func (r *reference) read() {
	rest := r.in
	for {
		at := refOpen.FindStringIndex(rest)
		if at == nil {
			r.unit("respond", rest, r.length)
			return
		}
		r.unit("respond", rest[:at[0]], false)
		marker := rest[at[0]:at[1]]
		rest = rest[at[1]:]
		switch marker {
		case "<think>":
			text, after, shut := strings.Cut(rest, "</think>")
			r.unit("think", text, !shut)
			if !shut {
				return
			}
			rest = after
		case "<results>":
			m := refResults.FindStringSubmatch(rest)
			broken := refBroken.MatchString(rest)
			switch {
			case m != nil:
				r.unit("result", m[1], false)
				rest = rest[len(m[0]):]
			case broken && strings.Contains(rest, "</results>"):
				text, after, _ := strings.Cut(rest, "</results>")
				r.unit("result", text, false)
				rest = after
			default:
				r.unit("result", rest, true)
				return
			}
		case "<execute>":
			r.execute(rest)
			return
		case "<end>":
			r.event("end")
			return
		}
	}
}

func (r *reference) execute(rest string) {
	if m := refExecute.FindStringSubmatch(rest); m != nil {
		r.batch(m[1])
		return
	}
	switch {
	case refBroken.MatchString(rest):
		r.event("error execute_json")
	case refInside.MatchString(rest):
		if strings.Contains(rest, "</execute>") {
			r.event("error execute_json")
		} else {
			r.event("error execute_unterminated")
		}
	case r.length:
		r.event("error execute_unterminated")
	default:
		body := strings.TrimRightFunc(rest, unicode.IsSpace) // in front a blank is JSON's or an error
		for n := len("</execute>") - 1; n > 0; n-- {
			if strings.HasSuffix(body, "</execute>"[:n]) {
				body = body[:len(body)-n]
				break
			}
		}
		body = strings.TrimRightFunc(body, unicode.IsSpace)
		if !refJSON(body) {
			r.event("error execute_unterminated")
			return
		}
		r.batch(body)
	}
}

// refJSON holds a text to RFC 8259, without halves of surrogate pairs.
func refJSON(text string) bool {
	if !json.Valid([]byte(text)) {
		return false
	}
	var last rune
	escaped := regexp.MustCompile(`(?s)\\u[0-9a-fA-F]{4}|\\.|.`)
	for _, s := range escaped.FindAllString(text, -1) {
		var now rune
		if refLone.MatchString(s) && len(s) == 6 {
			fmt.Sscanf(s[2:], "%x", &now)
		}
		switch {
		case now >= 0xdc00 && last != 0 && utf16.IsSurrogate(last):
			now = 0
		case last != 0, now >= 0xdc00:
			return false
		}
		last = now
	}
	return last == 0
}

func (r *reference) batch(body string) {
	if !refJSON(body) {
		r.event("error execute_json")
		return
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		r.event("error execute_json")
		return
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		panic(body)
	}
	list, ok := v.([]any)
	if !ok {
		r.event("error execute_shape")
		return
	}
	var calls []string
	for _, e := range list {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		args, _ := m["args"].(map[string]any)
		if name == "" || args == nil {
			r.event("error execute_shape")
			return
		}
		b, _ := json.Marshal(map[string]any{"name": name, "args": args})
		calls = append(calls, "call "+string(b))
	}
	if len(calls) > 64 {
		r.event("error execute_too_many")
		return
	}
	r.events = append(append(r.events, calls...), "execute")
}

// asReference writes a decoder's events like the reference's.
func asReference(t testing.TB, all []Event) string {
	t.Helper()
	var out []string
	for _, e := range all {
		switch e.Type {
		case Fault:
			out = append(out, "error "+e.Code)
		case Call:
			d := json.NewDecoder(strings.NewReader(e.Content))
			d.UseNumber()
			var v map[string]any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s: %v", e.Content, err)
			}
			b, _ := json.Marshal(v)
			out = append(out, "call "+string(b))
		case Execute, End:
			out = append(out, string(e.Type))
		default:
			word := string(e.Type)
			if e.Partial {
				word += " partial"
			}
			out = append(out, fmt.Sprintf("%s %q", word, e.Content))
		}
	}
	return strings.Join(out, "\n")
}

// mend makes each byte that belongs to no character U+FFFD.
func mend(b []byte) string { return string([]rune(string(b))) }

// words are what replies are made of by chance.
var words = []string{
	"<think>", "</think>", "<execute>", "</execute>", "<results>", "</results>", "<end>", "</end>", "<THINK>", "<think >", "<executes>",
	"<", "</", "<t", "<ex", "<e", "</ex", "</res", "<result", ">", "\"", "\"", "\\", "\\\"", "[", "]", "{", "}", ",", ":", " ", "\n", "\t", "\u00a0", "\u200b", "\u2003",
	`{"name":"t","args":{}}`, `{"name":"t","args":{"b":1.0,"a":[null,{"x":"</execute>"}],"b":2}}`, `{"args":{},"name":""}`, `{"name":"\u00e9","args":{"\ud83d\ude00":"\ud800"}}`,
	`[{"name":"t","args":{}}]`, `[]`, `"</results>"`, "1e5", "-0", "01", "true", "nul", "text", "na\u00efve", "\U0001f680", "\xff", "\xe2\x82", "\xac", "\x00",
}

func compose(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(24) {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b
}

func checkReply(t testing.TB, r *rand.Rand, reply []byte) {
	t.Helper()
	finish := messages.FinishComplete
	if r.IntN(4) == 0 {
		finish = messages.FinishLength
	}
	whole := decode(t, Dialect{}, finish, reply)
	if ref := (&reference{in: mend(reply), length: finish == messages.FinishLength}); len(reply) < 1<<16 && !deep(reply) {
		ref.read()
		if got, want := asReference(t, whole.all), strings.Join(ref.events, "\n"); got != want {
			t.Fatalf("%q, %s\ngot\n%s\nwant\n%s", reply, finish, got, want)
		}
	}
	for range 3 {
		pieces := parsetest.Cut(r.IntN, reply)
		if got := decode(t, Dialect{}, finish, pieces...); got.exact != whole.exact {
			t.Fatalf("%q\ngot\n%swhole\n%s", pieces, got.exact, whole.exact)
		}
	}
}

// deep reports whether something may be deeper than a call allows: the reference has no bound.
func deep(reply []byte) bool {
	return strings.Count(string(reply), "[")+strings.Count(string(reply), "{") > 64
}

// Random replies give what the specification, written a second time, says.
func TestAgainstReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		checkReply(t, r, compose(r))
		checkReply(t, r, append([]byte("<execute>["), compose(r)...))
		checkReply(t, r, append([]byte("<results>\""), compose(r)...))
	}
	for _, v := range vectors(t).Parse {
		checkReply(t, r, []byte(v.Input))
		checkReply(t, r, []byte(v.Input[:r.IntN(len(v.Input)+1)]))
	}
}

func FuzzDecoder(f *testing.F) {
	for i, v := range vectors(f).Parse {
		f.Add([]byte(v.Input), uint64(i))
	}
	f.Add([]byte(strings.Join(words, "")), uint64(0))
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64) {
		checkReply(t, rand.New(rand.NewPCG(seed, 1)), reply)
	})
}
