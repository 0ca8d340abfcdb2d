package cortex

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// words are what replies are made of by chance: whole and broken tags, bodies,
// and bytes that are no character.
var words = []string{
	"<thought>", "</thought>", "<thought/>", "<thought", "</thought ", "<thought a=1 b='x>y' c=\"/\" d>",
	"<action>", "<action id=a>", "<action id=\"a\" mode=async type='relic'>", "<action id=b depends_on=[\"a\"] show=none>", "<action id='my id'>",
	"<action type=context_feed mode=fire_and_forget id=c depends_on='a, b'>", "<action id=d type=spell>", "<action mode>", "</action>", "</action >", "<action/>",
	"<action>{\"name\":\"t\"}</action>", "<action id=s mode=sync>{\"name\":\"t\"}</action >", "<action mode=async>{\"name\":\"t\"}</action>", "<action type=internal mode=async>{\"name\":\"t\"}</action>",
	"{\"name\":\"t\"}", "{\"name\":\"t\",\"name\":\"u\",\"parameters\":{\"b\":1.0,\"a\":[\"</action>\",null],\"b\":-0}}", "{}", "[1]", "{\"name\":\" \"}", "{\"name\":\"\\ud800\"}",
	"{\"name\":\"\\u00e9\\ud83d\\ude80\",\"output_key\":\"k\"}", "{\"name\":\"t\",\"timeout\":0.5,\"retry\":2.0}", "{\"name\":\"t\",\"retry\":1e1,\"on_error\":\"retry\"}",
	"{\"name\":\"t\",\"retry\":-1}", "{\"name\":\"t\",\"skip_on_error\":true,\"depends_on\":[\"a\",\"b\",\"a\"]}", "{\"name\":\"t\",\"timeout\":-1}", "{\"name\":\"t\"", "}", ",", "\"", "\\", "\\\"", "{\"s\":\"", "[", "]", ":",
	"<response>", "<response final=false>", "<response final='no'>", "</response>", "</respon", "<response/>", "</response\n>",
	"<context_feed id=f>", "<context_feed>", "</context_feed>", "<context_feed id='x'/>",
	"<if test=\"$x\">", "</if>", "<if/>", "<action_result status=ok>", "</action_result>", "<foreach in=x>", "</foreach>", "<rollback group=g/>", "<action_template name=x>", "</action_template>", "<parallel", "</parallel>",
	"<think>", "</think>", "<Thought>", "\n```json\n", "\n```\n", "```", "~~~\n", "\n<think>\n", "\n<Response>", "</Response>", "<tool_call>", "{\"name\":\"t\",\"arguments\":{}}",
	"<", ">", "/", "</", "<b>", "<thoughts>", "<Thought>", "text", " ", "\n", "\t", "\r\n", "a=\"", "'", "=", "naïve", "\U0001f680", "\xff", "\xe2\x82", "\xac", "\xf0\x9f", "\ufffd", "\x00", "1", "-", "0", "null", "tru", "true", "1e5", ".5",
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
	whole := decode(t, Dialect{}, messages.FinishComplete, reply)
	if err := sameAsReference(whole.canonical, reply); err != nil {
		t.Fatal(err)
	}
	short := checkCut(t, reply, whole)
	forgiven := decode(t, lenient, messages.FinishComplete, reply)
	for range 3 {
		pieces := parsetest.Cut(r.IntN, reply)
		if got := decode(t, lenient, messages.FinishComplete, pieces...); got.exact != forgiven.exact {
			t.Fatalf("%q, forgiven\ngot\n%swhole\n%s", pieces, got.exact, forgiven.exact)
		}
		if got := decode(t, Dialect{}, messages.FinishComplete, pieces...); got.exact != whole.exact {
			t.Fatalf("%q\ngot\n%swhole\n%s", pieces, got.exact, whole.exact)
		}
		if got := decode(t, Dialect{Cut: true}, messages.FinishComplete, pieces...); got.exact != short.exact {
			t.Fatalf("%q, cut\ngot\n%swhole\n%s", pieces, got.exact, short.exact)
		}
	}
}

// checkCut reads a reply that a sync action ends. It says what a reply without end says
// up to its first action of that kind, and the cut, which is right behind the closer.
func checkCut(t testing.TB, reply []byte, whole replay) replay {
	t.Helper()
	short := decode(t, Dialect{Cut: true}, messages.FinishComplete, reply)
	want := whole.canonical
	for i, ev := range whole.canonical {
		if ev["ev"] == "action" && (ev["mode"] == "sync" || ev["type"] == "internal") {
			want = whole.canonical[:i+1]
			break
		}
	}
	got := short.canonical
	if len(want) < len(whole.canonical) || len(got) > len(want) {
		if len(got) != len(want)+1 || got[len(got)-1]["ev"] != "cut" {
			t.Fatalf("%q: no cut\ngot\n%swant\n%s", reply, short.exact, whole.exact)
		}
		at := got[len(got)-1]["at"].(int64)
		if !cutHere.Match(reply[:at]) {
			t.Fatalf("%q is cut at %d", reply, at)
		}
		if again := decode(t, Dialect{Cut: true}, messages.FinishStop, reply[:at]); again.exact != short.exact {
			t.Fatalf("%q up to its cut\ngot\n%swant\n%s", reply, again.exact, short.exact)
		}
		got = got[:len(want)]
	}
	if lines(t, got) != lines(t, want) {
		t.Fatalf("%q, cut\ngot\n%swhole\n%s", reply, short.exact, whole.exact)
	}
	return short
}

var cutHere = regexp.MustCompile(`</action[ \t\r\n]*>$`)

// Random replies give what the specification, written a second time, says.
func TestAgainstReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 4000 {
		checkReply(t, r, compose(r))
	}
	for _, v := range vectors(t) {
		checkReply(t, r, []byte(v.Input))
		checkReply(t, r, []byte(v.Input[:r.IntN(len(v.Input)+1)]))
	}
}

func FuzzDecoder(f *testing.F) {
	for i, v := range vectors(f) {
		f.Add([]byte(v.Input), uint64(i))
	}
	f.Add([]byte(strings.Join(words, "")), uint64(0))
	f.Add([]byte("<action a=/"), uint64(0)) // no value begins so
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64) {
		checkReply(t, rand.New(rand.NewPCG(seed, 1)), reply)
	})
}
