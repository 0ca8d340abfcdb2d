package cortex

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// words are what replies are made of by chance: whole and broken tags, bodies,
// and bytes that are no character.
var words = []string{
	"<thought>", "</thought>", "<thought/>", "<thought", "</thought ", "<thought a=1 b='x>y' c=\"/\" d>",
	"<action>", "<action id=a>", "<action id=\"a\" mode=async type='relic'>", "<action id=b depends_on=[\"a\"] show=none>", "<action id='my id'>",
	"<action type=context_feed mode=fire_and_forget id=c depends_on='a, b'>", "<action id=d type=spell>", "<action mode>", "</action>", "</action >", "<action/>",
	"{\"name\":\"t\"}", "{\"name\":\"t\",\"name\":\"u\",\"parameters\":{\"b\":1.0,\"a\":[\"</action>\",null],\"b\":-0}}", "{}", "[1]", "{\"name\":\" \"}", "{\"name\":\"\\ud800\"}",
	"{\"name\":\"\\u00e9\\ud83d\\ude80\",\"output_key\":\"k\"}", "{\"name\":\"t\",\"timeout\":0.5,\"retry\":2.0}", "{\"name\":\"t\",\"retry\":1e1,\"on_error\":\"retry\"}",
	"{\"name\":\"t\",\"retry\":-1}", "{\"name\":\"t\",\"skip_on_error\":true,\"depends_on\":[\"a\",\"b\",\"a\"]}", "{\"name\":\"t\",\"timeout\":-1}", "{\"name\":\"t\"", "}", ",", "\"", "\\", "\\\"", "{\"s\":\"", "[", "]", ":",
	"<response>", "<response final=false>", "<response final='no'>", "</response>", "</respon", "<response/>", "</response\n>",
	"<context_feed id=f>", "<context_feed>", "</context_feed>", "<context_feed id='x'/>",
	"<if test=\"$x\">", "</if>", "<if/>", "<action_result status=ok>", "</action_result>", "<foreach in=x>", "</foreach>", "<rollback group=g/>", "<action_template name=x>", "</action_template>", "<parallel", "</parallel>",
	"<", ">", "/", "</", "<b>", "<thoughts>", "<Thought>", "text", " ", "\n", "\t", "\r\n", "a=\"", "'", "=", "naïve", "\U0001f680", "\xff", "\xe2\x82", "\xac", "\xf0\x9f", "\ufffd", "\x00", "1", "-", "0", "null", "tru", "true", "1e5", ".5",
}

func compose(r *rand.Rand) []byte {
	var b []byte
	for range r.IntN(24) {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b
}

func cut(r *rand.Rand, b []byte) [][]byte {
	var pieces [][]byte
	most := 1 + r.IntN(40+len(b)/50)
	for len(b) > 0 {
		n := min(r.IntN(most+1), len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

func checkReply(t testing.TB, r *rand.Rand, reply []byte) {
	t.Helper()
	whole := decode(t, Dialect{}, messages.FinishComplete, reply)
	if err := sameAsReference(whole.canonical, reply); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pieces := cut(r, reply)
		if got := decode(t, Dialect{}, messages.FinishComplete, pieces...); got.exact != whole.exact {
			t.Fatalf("%q\ngot\n%swhole\n%s", pieces, got.exact, whole.exact)
		}
	}
}

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
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64) {
		checkReply(t, rand.New(rand.NewPCG(seed, 1)), reply)
	})
}
