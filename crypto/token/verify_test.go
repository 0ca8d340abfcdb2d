package token

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// badBase64 sets a trailing bit that has to be zero in the payload's base64.
func badBase64(t testing.TB, line string) string {
	dot := strings.IndexByte(line, '.')
	payload := line[len("<<<NSMAG:V3:"):dot]
	payload = payload[strings.IndexByte(payload, ':')+1:]
	if len(payload)%4 == 0 {
		t.Fatalf("a payload without spare bits: %d characters", len(payload))
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(letters, line[dot-1])
	return line[:dot-1] + string(letters[i|1]) + line[dot:]
}

// orderedFaults is every detail of docs/spec/aeiou.md §10 in the order of the table, each
// with a way to bring it about.
func orderedFaults(t testing.TB) []struct {
	code   messages.Code
	detail string
	cause  func(*build)
} {
	return []struct {
		code   messages.Code
		detail string
		cause  func(*build)
	}{
		{"ERR_TOKEN_PARSE", "OVERSIZE", func(b *build) { b.members["zz"] = `"` + strings.Repeat("x", 900) + `"` }},
		{"ERR_TOKEN_PARSE", "BAD_SHAPE", func(b *build) { b.line = chain(b.line, func(s string) string { return s + " " }) }},
		{"ERR_TOKEN_PARSE", "BAD_BASE64", func(b *build) {
			// Make room for spare bits, whatever else is wrong with the text.
			b.text = chain(b.text, func(s string) string { return s + strings.Repeat(" ", (4-len(s)%3)%3) })
			b.line = chain(func(s string) string { return badBase64(t, s) }, b.line)
		}},
		{"ERR_TOKEN_PARSE", "BAD_JSON", func(b *build) { b.members["aa"] = `1,"aa":2` }},
		{"ERR_TOKEN_PARSE", "BAD_FIELD", func(b *build) { b.members["issued_at_"] = `1.5` }},
		{"ERR_TOKEN_PARSE", "BAD_VERSION", func(b *build) { b.members["v"] = "2" }},
		{"ERR_TOKEN_PARSE", "KIND_MISMATCH", func(b *build) { b.kind = "STEPS" }},
		{"ERR_TOKEN_PARSE", "UNKNOWN_KIND", func(b *build) {
			b.members["kind"] = `"STEP"`
			if b.kind == "LOOP" {
				b.kind = "STEP"
			}
		}},
		{"ERR_TOKEN_PARSE", "UNKNOWN_ACTION", func(b *build) { b.members["payload"] = `{"action":"pause"}` }},
		{"ERR_TOKEN_VERIFY", "UNKNOWN_KID", func(b *build) { b.members["kid"] = `"nobody"` }},
		{"ERR_TOKEN_VERIFY", "KEY_RETIRED", func(b *build) { retarget(b, "old") }},
		{"ERR_TOKEN_VERIFY", "KEY_USE", func(b *build) { retarget(b, "abort") }},
		{"ERR_TOKEN_VERIFY", "NOT_CANONICAL", func(b *build) { b.text = chain(b.text, func(s string) string { return " " + s }) }},
		{"ERR_TOKEN_VERIFY", "BAD_TAG", func(b *build) { b.tag = func(tag []byte) []byte { tag[9] ^= 4; return tag } }},
		{"ERR_TOKEN_SCOPE", "SID", func(b *build) { b.scope.SID += "x" }},
		{"ERR_TOKEN_SCOPE", "TURN", func(b *build) { b.scope.TurnIndex++ }},
		{"ERR_TOKEN_SCOPE", "NONCE", func(b *build) { b.scope.Nonce = "AQECAwQFBgcICQoLDA0ODw" }},
		{"ERR_TOKEN_TTL", "EXPIRED", func(b *build) { b.members["ttl"] = "-9007199254740991" }},
		{"ERR_TOKEN_TTL", "FUTURE", func(b *build) { b.members["issued_at"] = fmt.Sprint(testUnix + 61) }},
		{"ERR_TOKEN_REPLAY", "JTI", func(b *build) { b.seen = []string{"j-1"} }},
	}
}

// retarget moves the token to another of the host's keys; retired and abort-only
// together have a key of their own.
func retarget(b *build, kid string) {
	switch now := b.members["kid"]; {
	case now == `"nobody"`:
		b.key = kid
		return
	case now == `"old"` && kid == "abort":
		kid = "old-abort"
	}
	b.key, b.members["kid"] = kid, `"`+kid+`"`
}

func chain(first, then func(string) string) func(string) string {
	return func(s string) string {
		if first != nil {
			s = first(s)
		}
		if then != nil {
			s = then(s)
		}
		return s
	}
}

// TestDetailOrder brings about every detail alone and every two together, and
// expects the earlier of the two.
func TestDetailOrder(t *testing.T) {
	faults := orderedFaults(t)
	pairs := 0
	for i, first := range faults {
		b := newBuild()
		first.cause(b)
		want := string(first.code) + "/" + first.detail
		if got := b.verdict(t); got.FailureReason() != want {
			t.Errorf("alone: got %q, want %q", got.FailureReason(), want)
		}
		for _, second := range faults[i+1:] {
			b := newBuild()
			first.cause(b)
			second.cause(b)
			if got := b.verdict(t); got.FailureReason() != want {
				t.Errorf("with %s: got %q, want %q", second.detail, got.FailureReason(), want)
			}
			pairs++
		}
	}
	if pairs != 190 {
		t.Errorf("%d pairs", pairs)
	}
}

// TestWhatAFailureTells holds Check to its comment: nothing is repeated that the
// tag has not proved.
func TestWhatAFailureTells(t *testing.T) {
	for _, f := range orderedFaults(t) {
		b := newBuild()
		f.cause(b)
		got := b.verdict(t)
		wantKID := f.code != messages.ErrTokenParse && f.detail != UnknownKID
		proved := f.code != messages.ErrTokenParse && f.code != messages.ErrTokenVerify
		if (got.KID != "") != wantKID || (got.JTI != "") != proved || (got.Action != "") != proved {
			t.Errorf("%s: %+v", f.detail, got)
		}
	}
	if got, want := newBuild().verdict(t), (Check{Action: "done", KID: "ed", JTI: "j-1"}); got != want || !got.Valid() || got.FailureReason() != "" {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestVerdicts covers what no vector decides, one rule a line.
func TestVerdicts(t *testing.T) {
	member := func(name, text string) func(*build) { return func(b *build) { b.members[name] = text } }
	nested := func(levels int) func(*build) { // levels of the whole, the outer object counting 1
		return member("zz", strings.Repeat("[", levels-1)+strings.Repeat("]", levels-1))
	}
	line := func(f func(string) string) func(*build) { return func(b *build) { b.line = f } }
	both := func(a, c func(*build)) func(*build) { return func(b *build) { a(b); c(b) } }
	key := func(kid string) func(*build) {
		return func(b *build) { b.key, b.members["kid"] = kid, `"`+kid+`"` }
	}
	issued := func(unix int64) func(*build) { return member("issued_at", fmt.Sprint(unix)) }
	now := func(unix int64) func(*build) { return func(b *build) { b.now = unix } }
	abort := member("payload", `{"action":"abort"}`)
	without := func(name string) func(*build) { return func(b *build) { delete(b.members, name) } }
	for _, c := range []struct {
		name  string
		alter func(*build)
		want  string // "" for valid
	}{
		// FUTURE and EXPIRED: whole seconds, inclusive.
		{"issued at the skew", issued(testUnix + 60), ""},
		{"issued beyond the skew", issued(testUnix + 61), "ERR_TOKEN_TTL/FUTURE"},
		{"issued beyond the skew, no ttl", both(issued(testUnix+61), without("ttl")), "ERR_TOKEN_TTL/FUTURE"},
		{"a skew of its own", both(issued(testUnix+11), func(b *build) { b.policy.Skew = 10e9 }), "ERR_TOKEN_TTL/FUTURE"},
		{"no skew at all", both(issued(testUnix+1), func(b *build) { b.policy.Skew = -1 }), "ERR_TOKEN_TTL/FUTURE"},
		{"last second", now(testUnix + 120), ""},
		{"one second late", now(testUnix + 121), "ERR_TOKEN_TTL/EXPIRED"},
		{"ttl null", both(member("ttl", "null"), now(testUnix+1_000_000)), ""},
		{"ttl absent", both(without("ttl"), now(testUnix+1_000_000)), ""},
		{"ttl zero in its second", member("ttl", "0"), ""},
		{"ttl zero later", both(member("ttl", "0"), now(testUnix+1)), "ERR_TOKEN_TTL/EXPIRED"},
		{"ttl negative", member("ttl", "-1"), "ERR_TOKEN_TTL/EXPIRED"},
		{"ttl negative, still in the future", both(member("ttl", "-1"), issued(testUnix+1)), ""},
		{"ttl true", member("ttl", "true"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"ttl far", member("ttl", "9007199254740991"), ""},

		// kid.
		{"kid of every kind of character", member("kid", `"aZ09._:-"`), "ERR_TOKEN_VERIFY/UNKNOWN_KID"},
		{"kid of 64 bytes", member("kid", `"`+strings.Repeat("k", 64)+`"`), "ERR_TOKEN_VERIFY/UNKNOWN_KID"},
		{"kid of 65 bytes", member("kid", `"`+strings.Repeat("k", 65)+`"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid empty", member("kid", `""`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid with a blank", member("kid", `"e d"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid with a slash", member("kid", `"e/d"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid with a letter beyond ASCII", member("kid", `"\u00e9"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid null", member("kid", `null`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kid of a receipt key", member("kid", `"receipt"`), "ERR_TOKEN_VERIFY/UNKNOWN_KID"},

		// jti: 1–64 bytes of anything.
		{"jti empty", member("jti", `""`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"jti of 64 bytes", member("jti", `"`+strings.Repeat("j", 64)+`"`), ""},
		{"jti of 65 bytes", member("jti", `"`+strings.Repeat("j", 65)+`"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"jti of 64 bytes in 32 characters", member("jti", `"`+strings.Repeat("é", 32)+`"`), ""},
		{"jti of 66 bytes in 33 characters", member("jti", `"`+strings.Repeat("é", 33)+`"`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"jti of 64 control characters", member("jti", `"`+strings.Repeat(`\u0001`, 64)+`"`), ""},
		{"jti a number", member("jti", `7`), "ERR_TOKEN_PARSE/BAD_FIELD"},

		// Depth, the outer object counting 1.
		{"64 deep", nested(64), ""},
		{"65 deep", nested(65), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"64 deep in the payload", member("payload", `{"action":"done","request":`+strings.Repeat(`{"a":`, 61)+"{}"+strings.Repeat("}", 62)), ""},
		{"65 deep in the payload", member("payload", `{"action":"done","request":`+strings.Repeat(`{"a":`, 62)+"{}"+strings.Repeat("}", 63)), "ERR_TOKEN_PARSE/BAD_JSON"},

		// Numbers, at any depth and in any member.
		{"2^53−1", member("zz", "9007199254740991"), ""},
		{"2^53", member("zz", "9007199254740992"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"−(2^53−1)", member("zz", "-9007199254740991"), ""},
		{"−2^53", member("zz", "-9007199254740992"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"17 digits", member("zz", "[10000000000000000]"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"−0", member("zz", `{"a":[-0]}`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"−0 as turn", member("turn_index", `-0`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"1.0", member("zz", "1.0"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"1e3", member("zz", "1e3"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"1e999", member("zz", "1e999"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"01", member("zz", "01"), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"+1", member("zz", "+1"), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"a bad number before a repeated name", both(member("aa", "1.5"), member("zz", `1,"zz":2`)), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"v 3.0", member("v", "3.0"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"v a string", member("v", `"3"`), "ERR_TOKEN_PARSE/BAD_FIELD"},

		// Types.
		{"payload null", member("payload", "null"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"payload an array", member("payload", `["action"]`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"action null", member("payload", `{"action":null}`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"action deeper only", member("payload", `{"request":{"action":"done"}}`), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"request of any type", member("payload", `{"action":"done","request":7,"telemetry":null}`), ""},
		{"kind a number", member("kind", "3"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"kind in small letters", member("kind", `"loop"`), "ERR_TOKEN_PARSE/KIND_MISMATCH"},
		{"kind longer on the wire", func(b *build) { b.kind = "LOOP2" }, "ERR_TOKEN_PARSE/KIND_MISMATCH"},
		{"nonce null", member("turn_nonce", "null"), "ERR_TOKEN_PARSE/BAD_FIELD"},
		{"nonce of another length", member("turn_nonce", `"AAEC"`), "ERR_TOKEN_SCOPE/NONCE"},
		{"a lone surrogate", member("zz", `"\ud800"`), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"a surrogate pair spelled out", member("zz", `"\ud83d\ude00"`), "ERR_TOKEN_VERIFY/NOT_CANONICAL"},
		{"a name spelled with an escape", func(b *build) { delete(b.members, "kid"); b.members[`\u006bid`] = `"ed"` }, "ERR_TOKEN_VERIFY/NOT_CANONICAL"},
		{"a name twice, once with an escape", member(`\u006bid`, `"ed"`), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"names by UTF-16", both(member("\U0001f600", "1"), func(b *build) {
			b.text = func(s string) string { return strings.Replace(s, "}", `,"`+"\ufb33"+`":2}`, 1) } // inside payload
			b.members["payload"] = `{"action":"done","` + "\U0001f600" + `":1}`
		}), ""},
		{"names by UTF-8", member("payload", `{"action":"done","`+"\ufb33"+`":1,"`+"\U0001f600"+`":2}`), "ERR_TOKEN_VERIFY/NOT_CANONICAL"},

		// The line.
		{"CR at the end", line(func(s string) string { return s + "\r" }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"CR inside the payload", line(func(s string) string { return s[:40] + "\r" + s[40:] }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"LF inside the tag", line(func(s string) string { return s[:len(s)-9] + "\n" + s[len(s)-9:] }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"CR in front", line(func(s string) string { return "\r" + s }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"padding", line(func(s string) string { return strings.Replace(s, ">>>", "==>>>", 1) }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"an impossible length", line(func(s string) string { i := strings.LastIndexByte(s, '.'); return s[:i+1] + "AAAAA>>>" }), "ERR_TOKEN_PARSE/BAD_BASE64"},
		{"no candidate, and far too long", line(func(s string) string { return " " + strings.Repeat(s, 9) }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"a candidate, and far too long", line(func(s string) string { return s + strings.Repeat(" ", 1024) }), "ERR_TOKEN_PARSE/OVERSIZE"},
		{"no payload", line(func(string) string { return "<<<NSMAG:V3:LOOP:.AAAA>>>" }), "ERR_TOKEN_PARSE/BAD_SHAPE"},
		{"one byte of payload", line(func(string) string { return "<<<NSMAG:V3:LOOP:ew.AAAA>>>" }), "ERR_TOKEN_PARSE/BAD_JSON"},
		{"an empty payload text", line(func(string) string { return "<<<NSMAG:V3:LOOP:IA.AAAA>>>" }), "ERR_TOKEN_PARSE/BAD_JSON"},

		// Tags.
		{"tag one byte short", func(b *build) { b.tag = func(tag []byte) []byte { return tag[:63] } }, "ERR_TOKEN_VERIFY/BAD_TAG"},
		{"tag one byte long", func(b *build) { b.tag = func(tag []byte) []byte { return append(tag, 0) } }, "ERR_TOKEN_VERIFY/BAD_TAG"},
		{"HS256", key("hs"), ""},
		{"HS256 tag short", both(key("hs"), func(b *build) { b.tag = func(tag []byte) []byte { return tag[:31] } }), "ERR_TOKEN_VERIFY/BAD_TAG"},
		{"HS256 tag doubled", both(key("hs"), func(b *build) { b.tag = func(tag []byte) []byte { return append(tag, tag...) } }), "ERR_TOKEN_VERIFY/BAD_TAG"},
		{"another key's tag", func(b *build) { b.key = "abort" }, "ERR_TOKEN_VERIFY/BAD_TAG"},

		// Abort-only and retired keys. old retired 100 s ago.
		{"abort-only for abort", both(key("abort"), abort), ""},
		{"abort-only for continue", both(key("abort"), member("payload", `{"action":"continue"}`)), "ERR_TOKEN_VERIFY/KEY_USE"},
		{"retired, issued in its last second", both(key("old"), issued(testUnix-100)), ""},
		{"retired, issued one second later", both(key("old"), issued(testUnix-99)), "ERR_TOKEN_VERIFY/KEY_RETIRED"},
		{"retired, last second of grace", both(both(key("old"), issued(testUnix-100)), both(without("ttl"), now(testUnix-100+300))), ""},
		{"retired, beyond grace", both(both(key("old"), issued(testUnix-100)), both(without("ttl"), now(testUnix-100+301))), "ERR_TOKEN_VERIFY/KEY_RETIRED"},
		{"retired, a longer max_ttl", both(both(key("old"), issued(testUnix-100)), both(without("ttl"), func(b *build) {
			b.now, b.policy.MaxTTL = testUnix-100+660, 600e9
		})), ""},
		{"retired, no grace", both(both(key("old"), issued(testUnix-100)), both(without("ttl"), func(b *build) {
			b.now, b.policy.Grace = testUnix-100+241, -1
		})), "ERR_TOKEN_VERIFY/KEY_RETIRED"},
		{"retired and abort-only", both(both(key("old-abort"), issued(testUnix-100)), abort), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuild()
			c.alter(b)
			if got := b.verdict(t); got.FailureReason() != c.want {
				t.Errorf("got %q, want %q", got.FailureReason(), c.want)
			}
		})
	}
}

// TestSizeLimit walks a token over the limit byte by byte. Lengths of base64
// without padding skip one in four, with either algorithm.
func TestSizeLimit(t *testing.T) {
	for _, kid := range []string{"ed", "hs"} {
		longest := 0
		for n := 400; n < 560; n++ {
			b := newBuild()
			b.key, b.members["kid"] = kid, `"`+kid+`"`
			b.members["zz"] = `"` + strings.Repeat("x", n) + `"`
			length, got := len(b.make(t)), b.verdict(t)
			switch {
			case length <= 1024 && !got.Valid():
				t.Fatalf("%s, %d bytes: %s", kid, length, got.FailureReason())
			case length > 1024 && got.FailureReason() != "ERR_TOKEN_PARSE/OVERSIZE":
				t.Fatalf("%s, %d bytes: %q", kid, length, got.FailureReason())
			case length <= 1024:
				longest = length
			}
		}
		want := map[string]int{"ed": 1023, "hs": 1024}[kid]
		if longest != want {
			t.Errorf("%s: the longest token has %d bytes, want %d", kid, longest, want)
		}
	}
}

func TestCandidate(t *testing.T) {
	for line, want := range map[string]bool{
		"<<<NSMAG:V3:": true, "<<<NSMAG:V3:x": true, "<<<NSMAG:V3:LOOP:a.b>>> ": true,
		"": false, "<<<NSMAG:V3": false, " <<<NSMAG:V3:": false, "`<<<NSMAG:V3:": false, "<<<nsmag:V3:": false,
		"<<<NSMAG:V33:": false, "\xef\xbb\xbf<<<NSMAG:V3:": false,
	} {
		if got := Candidate([]byte(line)); got != want {
			t.Errorf("%q: got %v", line, got)
		}
	}
}

// TestReplayComesLast sees that only a token that passes everything else claims its
// jti, and that the second copy of a valid one does not pass.
func TestReplayComesLast(t *testing.T) {
	var replay ReplaySet
	keys := hostSet(t)
	good := newBuild()
	wrong := newBuild()
	wrong.scope.Nonce = "x"
	for _, c := range []struct {
		b    *build
		want string
	}{{wrong, "ERR_TOKEN_SCOPE/NONCE"}, {good, ""}, {good, "ERR_TOKEN_REPLAY/JTI"}} {
		got := Verify(c.b.make(t), c.b.scope, keys, &replay, Policy{}, at(testUnix))
		if got.FailureReason() != c.want {
			t.Errorf("got %q, want %q", got.FailureReason(), c.want)
		}
	}
	for range 2 {
		if got := Verify(good.make(t), good.scope, keys, nil, Policy{}, at(testUnix)); !got.Valid() {
			t.Errorf("without a replay set: %s", got.FailureReason())
		}
	}
}

// TestEveryByteCounts flips every bit of a line: no flip leaves it valid.
func TestEveryByteCounts(t *testing.T) {
	b := newBuild()
	line, keys := b.make(t), hostSet(t)
	for i := range line {
		for bit := range 8 {
			line[i] ^= 1 << bit
			got := Verify(line, b.scope, keys, new(ReplaySet), Policy{}, at(testUnix))
			if got.Valid() || got.Failure != messages.ErrTokenParse && got.Failure != messages.ErrTokenVerify {
				t.Fatalf("byte %d, bit %d: %+v", i, bit, got)
			}
			line[i] ^= 1 << bit
		}
	}
}

// TestEveryCut cuts a line at every place.
func TestEveryCut(t *testing.T) {
	b := newBuild()
	line, keys := b.make(t), hostSet(t)
	for i := range line {
		if got := Verify(line[:i], b.scope, keys, nil, Policy{}, at(testUnix)); got.Failure != messages.ErrTokenParse {
			t.Fatalf("cut at %d: %+v", i, got)
		}
	}
}
