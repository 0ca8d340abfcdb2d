package cortex

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// typical is a reply as models write them: thoughts with an action in them, two
// actions with bodies, text of some length, a response. 4 KiB.
var typical = func() []byte {
	prose := strings.Repeat("The report names three causes; if a < b, the second is the likely one. ", 20)
	s := "<thought>\n" + prose[:900] + "\n<action type=\"tool\" mode=\"async\" id=\"fetch\">\n" +
		"{\n  \"name\": \"fetch_page\",\n  \"parameters\": {\"url\": \"https://example.org/a?b=c\", \"depth\": 2, \"headers\": [\"accept: text/html\"]},\n  \"output_key\": \"page\"\n}\n</action>\n" +
		prose[:600] + "\n</thought>\n\n<action type=\"agent\" mode=\"sync\" id=\"join\">\n" +
		"{\"name\": \"summariser\", \"parameters\": {\"a\": \"$page\", \"style\": \"short\", \"limit\": 200}, \"depends_on\": [\"fetch\"]}\n</action>\n\n<response>\n"
	rest := 4096 - len(s) - len("\n</response>\n")
	return []byte(s + strings.Repeat(prose, 3)[:rest] + "\n</response>\n")
}()

// plainReply is one response without a "<" in it.
func plainReply(size int) []byte {
	const open, shut = "<response>", "</response>"
	return []byte(open + strings.Repeat("Nothing of note happened today at all. ", size)[:size-len(open)-len(shut)] + shut)
}

func benchReply(b *testing.B, reply []byte) { parsetest.Bench(b, Dialect{}, reply) }

func BenchmarkPlainResponse_4KiB(b *testing.B)  { benchReply(b, plainReply(4<<10)) }
func BenchmarkPlainResponse_64KiB(b *testing.B) { benchReply(b, plainReply(64<<10)) }
func BenchmarkTypicalReply_4KiB(b *testing.B)   { benchReply(b, typical) }

func BenchmarkMarkupInResponse_4KiB(b *testing.B) {
	html := strings.Repeat("<p>one <b>two</b> &amp; three</p>\n", 200)
	benchReply(b, []byte("<response>"+html[:4096-21]+"</response>"))
}

func BenchmarkActionBody_64KiB(b *testing.B) {
	benchReply(b, []byte(`<action id="a">{"name":"write","parameters":{"text":"`+strings.Repeat(`one \"two\" three\n`, 4000)[:64<<10]+`"}}</action>`))
}

// The benchmark's reply is what it says it is.
func TestTypicalReply(t *testing.T) {
	got := short(decode(t, Dialect{}, messages.FinishComplete, typical).canonical)
	if len(typical) != 4096 || strings.Count(got, "action ") != 2 || strings.Contains(got, "!") || strings.Count(got, "response ") != 1 || strings.Count(got, "thought ") != 2 {
		t.Errorf("%d bytes: %s", len(typical), got)
	}
}
