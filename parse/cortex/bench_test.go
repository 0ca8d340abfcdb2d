package cortex

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
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

// floor finds every "<" and does nothing else: below it no scanner of tags can be.
func floor(p []byte) (n int) {
	for {
		i := bytes.IndexByte(p, '<')
		if i < 0 {
			return n
		}
		n++
		p = p[i+1:]
	}
}

func benchReply(b *testing.B, reply []byte) {
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(len(reply)))
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n += floor(reply)
		}
		if n == 0 {
			b.Fatal("no tag")
		}
	})
	for _, size := range []int{len(reply), 64, 4} {
		name := fmt.Sprintf("chunks=%dB", size)
		if size == len(reply) {
			name = "chunks=whole"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			events := 0
			emit := func(messages.Event) { events++ }
			for b.Loop() {
				d := Dialect{}.NewDecoder(messages.TurnInfo{})
				for i := 0; i < len(reply); i += size {
					d.Push(reply[i:min(i+size, len(reply))], emit)
				}
				d.End(messages.FinishComplete, emit)
			}
			if events == 0 {
				b.Fatal("no event")
			}
		})
	}
}

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
