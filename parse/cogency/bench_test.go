package cogency

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

const prose = "The report names three causes; if a < b, the second is the likely one. "

// typical is a reply as models write them: reasoning, a sentence, a batch of three.
var typical = func() []byte {
	s := openThink + "\n" + strings.Repeat(prose, 35) + "\n" + shutThink + "\n\nI look at the files first.\n\n"
	batch := openExecute + `[{"name":"read","args":{"file":"reports/2024/march.md","start":0}},{"name":"find","args":{"content":"cause","path":"reports"}},{"name":"write","args":{"content":"`
	const rest = `","file":"notes.md"}}]`
	n := 4096 - len(s) - len(batch) - len(rest) - len(shutExecute)
	return []byte(s + batch + strings.Repeat(`one \"two\" three\n`, 100)[:n] + rest + shutExecute)
}()

func benchReply(b *testing.B, reply []byte) { parsetest.Bench(b, Dialect{}, reply) }

func BenchmarkProse_4KiB(b *testing.B)  { benchReply(b, []byte(strings.Repeat(prose, 58)[:4096])) }
func BenchmarkProse_64KiB(b *testing.B) { benchReply(b, []byte(strings.Repeat(prose, 930)[:64<<10])) }

func BenchmarkTypicalReply_4KiB(b *testing.B) { benchReply(b, typical) }

func BenchmarkMarkup_4KiB(b *testing.B) {
	benchReply(b, []byte(strings.Repeat("<p>one <b>two</b> &amp; <em>three</em></p>\n", 200)[:4096]))
}

func BenchmarkBatch_64KiB(b *testing.B) {
	benchReply(b, []byte(openExecute+`[{"name":"write","args":{"text":"`+strings.Repeat(`one \"two\" three\n`, 4000)[:64<<10]+`"}}]`+shutExecute))
}

// BenchmarkAssemble_1000Cycles rebuilds a context of 1000 calls with their results;
// its floor copies the same bytes.
func BenchmarkAssemble_1000Cycles(b *testing.B) {
	var log []Event
	size := 0
	for range 1000 {
		log = append(log, Event{Type: User, Content: "q"},
			Event{Type: Call, Content: `{"name":"read","args":{"file":"a.txt","start":10}}`},
			Event{Type: Results, Content: `[{"tool":"read","status":"success","outcome":"ok","content":"` + strings.Repeat("x", 200) + `"}]`})
	}
	for i := range log {
		size += len(log[i].Content)
	}
	b.Run("floor", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			for i := range log {
				if strings.Clone(log[i].Content) == "" {
					b.Fatal("empty")
				}
			}
		}
	})
	b.Run("assemble", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for b.Loop() {
			if ms, _, err := Assemble(log, 0); err != nil || len(ms) != 3000 {
				b.Fatal(len(ms), err)
			}
		}
	})
}

// The benchmark's reply is what it says it is.
func TestTypicalReply(t *testing.T) {
	all := decode(t, Dialect{}, messages.FinishComplete, typical).all
	var types []string
	for _, e := range all {
		types = append(types, string(e.Type))
	}
	if len(typical) != 4096 || strings.Join(types, " ") != "think respond call call call execute" {
		t.Errorf("%d bytes: %v", len(typical), types)
	}
}

// BenchmarkThinkAndProse_64KiB is reasoning, and then an answer, of equal length.
func BenchmarkThinkAndProse_64KiB(b *testing.B) {
	half := strings.Repeat(prose, 465)[:32<<10-len(openThink)-len(shutThink)]
	benchReply(b, []byte(openThink+half+shutThink+half))
}

// BenchmarkBatch_1MB is one batch of nearly the largest size: a call that writes a file.
func BenchmarkBatch_1MB(b *testing.B) {
	benchReply(b, []byte(openExecute+`[{"name":"write","args":{"text":"`+strings.Repeat(`one \"two\" three\n`, 60000)[:1_000_000]+`"}}]`+shutExecute))
}
