package cortex

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// mixed is a reply of about so many bytes with an action for each 400: thoughts with an
// action in them, text between blocks, actions with and without dependencies, a response
// that is not final. The bytes are made here, by the same rule every time.
func mixed(size int) []byte {
	const body = "{\"name\": \"fetch_page\", \"parameters\": {\"url\": \"https://example.org/a?b=c\", \"depth\": 2}, \"output_key\": \"page\"}"
	var b strings.Builder
	for n := 0; b.Len() < size; n++ {
		action := fmt.Sprintf("<action type=\"tool\" mode=\"async\" id=\"a%d\">%s</action>", n, body)
		if n%4 == 3 {
			action = fmt.Sprintf("<action id=\"a%d\" mode=\"async\">{\"name\":\"join\",\"depends_on\":[\"a%d\"],\"parameters\":{\"text\":\"$page and a \\\"quoted\\\" one\"}}</action>", n, n-1)
		}
		rest := 400 - len(action)
		switch n % 3 {
		case 0:
			b.WriteString("<thought>" + prose(60) + action + prose(rest-60-21) + "</thought>\n\n")
		case 1:
			b.WriteString(prose(rest-1) + "\n" + action)
		default:
			b.WriteString(action + "<response final=\"false\">" + prose(rest-36) + "</response>\n")
		}
	}
	return []byte(b.String())
}

// prose is n bytes of text.
func prose(n int) string {
	const sentence = "The report names three causes; if a < b, the second is the likely one – so the café says. "
	all := strings.Repeat(sentence, n/len(sentence)+1)
	text := clip.Start(all, n)
	return text + strings.Repeat(".", n-len(text))
}

// shapes are replies that a careless decoder would need the square of their size for.
var shapes = []struct {
	name string
	make func(size int) []byte
}{
	{"mixed", mixed},
	{"one_body", func(n int) []byte { // over the limit of a body at once: raw to its end
		return []byte(`<action id="a">{"name":"write","parameters":{"text":"` + strings.Repeat(`one \"two\" <b> `, n/16) + `"}}</action>`)
	}},
	{"untagged", func(n int) []byte { return bytes.Repeat([]byte("no tag at all, and no end of it either. "), n/40) }},
	{"storm_of_<", func(n int) []byte { return bytes.Repeat([]byte("<"), n) }},
	{"storm_of_<action_", func(n int) []byte { return bytes.Repeat([]byte("<action "), n/8) }},
}

// feed pushes a reply in pieces and counts its actions.
func feed(x Dialect, reply []byte, size int) (actions int) {
	d := x.NewDecoder(messages.TurnInfo{})
	emit := func(ev messages.Event) {
		if ev.Kind == messages.EventAction {
			actions++
		}
	}
	for i := 0; i < len(reply); i += size {
		d.Push(reply[i:min(i+size, len(reply))], emit)
	}
	d.End(messages.FinishComplete, emit)
	return actions
}

// BenchmarkReply_1MB is a decoder alone over 1 MB, and over 2 MB, in pieces of 16 bytes
// and of one: twice the size is twice the time, so MB/s stay what they are. The mixed
// reply has an action for each 400 bytes; allocs/action is all that was allocated.
func BenchmarkReply_1MB(b *testing.B) {
	for _, shape := range shapes {
		for _, size := range []int{1 << 20, 2 << 20} {
			reply := shape.make(size)
			for _, piece := range []int{16, 1} {
				b.Run(fmt.Sprintf("%s/size=%dMiB/chunks=%dB", shape.name, size>>20, piece), func(b *testing.B) {
					b.SetBytes(int64(len(reply)))
					b.ReportAllocs()
					actions := 0
					for b.Loop() {
						actions = feed(Dialect{}, reply, piece)
					}
					if actions > 0 {
						b.ReportMetric(testing.AllocsPerRun(1, func() { feed(Dialect{}, reply, piece) })/float64(actions), "allocs/action")
					}
				})
			}
		}
	}
}

// texts are what 1 MiB of text is made of.
var texts = []struct{ name, words string }{
	{"ascii", "Nothing of note happened today, and so be it. "},
	{"utf8", "Nichts Schönes geschah: 何も起こらなかった, ничего. "},
}

// inPieces is 1 MiB of a text in pieces of 4 KiB.
func inPieces(words string) (pieces [][]byte, size int) {
	const piece = 4 << 10
	for rest := []byte(strings.Repeat(words, 1<<20/len(words))); len(rest) > 0; {
		n := min(piece, len(rest)) // whole characters: the floor stops at half of one
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n--
		}
		pieces, size = append(pieces, rest[:n]), size+n
		rest = rest[n:]
	}
	return pieces, size
}

// unit decodes pieces as the text of one thought or response and counts the bytes shown.
func unit(x Dialect, block string, pieces [][]byte) (shown int) {
	emit := func(ev messages.Event) {
		if ev.Kind == messages.EventUnitText {
			shown += len(ev.Text)
		}
	}
	d := x.NewDecoder(messages.TurnInfo{})
	d.Push([]byte("<"+block+">"), emit)
	for _, p := range pieces {
		d.Push(p, emit)
	}
	d.End(messages.FinishLength, emit)
	return shown
}

// BenchmarkText_4KiBChunks is the text of a thought and of a response, 1 MiB in pieces of
// 4 KiB, without a "<", whose deltas alias the piece. The floor looks for the "<" and
// checks that the bytes are UTF-8, of the same pieces.
func BenchmarkText_4KiBChunks(b *testing.B) {
	for _, text := range texts {
		pieces, size := inPieces(text.words)
		b.Run(text.name+"/floor=valid+indexbyte", func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range pieces {
					if !utf8.Valid(p) || bytes.IndexByte(p, '<') >= 0 {
						b.Fatal("not what it should be")
					}
				}
			}
		})
		for _, block := range []string{"thought", "response"} {
			b.Run(text.name+"/"+block, func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if shown := unit(Dialect{}, block, pieces); shown != size {
						b.Fatalf("%d of %d bytes", shown, size)
					}
				}
			})
		}
	}
}

// load is a row of docs/benchmarks.md: what is decoded, of how many bytes and thoughts.
type load struct {
	name     string
	size     int
	thoughts int
	read     func(Dialect)
}

// loads are the rows of the decoder, none of which uses an extension.
func loads(size int) (all []load) {
	reply := mixed(size)
	for _, piece := range []int{16, 1} {
		all = append(all, load{
			fmt.Sprintf("mixed/chunks=%dB", piece), len(reply), bytes.Count(reply, []byte("<thought>")),
			func(x Dialect) { feed(x, reply, piece) },
		})
	}
	for _, text := range texts {
		pieces, size := inPieces(text.words)
		for thoughts, block := range []string{"response", "thought"} {
			all = append(all, load{text.name + "/" + block, size, thoughts, func(x Dialect) { unit(x, block, pieces) }})
		}
	}
	return all
}

// BenchmarkExtensionsUnused_1MB decodes the loads of Reply_1MB and Text_4KiBChunks without
// extensions and with all of them, reply by reply in turn, so that what else the machine does
// meets both. An operation is both replies; on/off is the time with all extensions to the time
// without, their garbage included.
func BenchmarkExtensionsUnused_1MB(b *testing.B) {
	sides := [...]struct {
		name string
		x    Dialect
	}{{name: "off"}, {name: "on", x: Dialect{Extensions: allExtensions}}}
	for _, l := range loads(1 << 20) {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			var took [len(sides)]time.Duration
			n := 0
			for b.Loop() {
				for i := range sides {
					i = (i + n/2) % 2 // off on, off on, on off, on off: neither falls into step with the collector
					begin := time.Now()
					l.read(sides[i].x)
					took[i] += time.Since(begin)
				}
				n++
			}
			for i, side := range sides {
				b.ReportMetric(float64(l.size)*float64(n)/1e6/took[i].Seconds(), side.name+"-MB/s")
			}
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "on/off")
		})
	}
}

// The replies of the benchmarks are what they say they are.
func TestBenchmarkReplies(t *testing.T) {
	reply := mixed(1 << 20)
	if n := feed(Dialect{}, reply, 4096); n != len(reply)/400 || len(reply)%400 != 0 {
		t.Errorf("%d actions in %d bytes", n, len(reply))
	}
	got := decode(t, Dialect{}, messages.FinishComplete, mixed(4000))
	kinds := map[string]int{}
	for _, ev := range got.canonical {
		kinds[ev["ev"].(string)]++
	}
	if kinds["error"] > 0 || kinds["thought"] == 0 || kinds["text"] == 0 || kinds["response"] == 0 || kinds["action"] != 10 {
		t.Errorf("%v", kinds)
	}
	for _, s := range shapes[1:] {
		if n := feed(Dialect{}, s.make(1<<16), 16); n > 1 {
			t.Errorf("%s has %d actions", s.name, n)
		}
	}
}
