//go:build unix

package kitsu

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

func loads() []struct {
	name string
	text []byte
} {
	line := "The quick brown fox jumps over the lazy dog, and then it looks back.\n"
	plain := strings.Repeat(line, (1<<20)/len(line))
	czech := strings.Repeat("Příliš žluťoučký kůň úpěl ďábelské ódy, a potom se ohlédl zpátky.\n", 1<<20/80)
	return []struct {
		name string
		text []byte
	}{
		{"plain-1MiB", []byte(plain)},
		{"plain-1MiB-token-at-end", []byte(plain + "<action:search query=\"ramen\">\n")},
		{"czech-1MiB", []byte(czech)},
		{"hidden-per-KiB-1MiB", []byte(strings.Repeat(strings.Repeat(line, 1024/len(line))+"\u200b\u202e\n", 1<<20/1024))},
		{"no-UTF-8-per-KiB-1MiB", []byte(strings.Repeat(strings.Repeat(line, 1024/len(line))+"\xff\n", 1<<20/1024))},
		{"one-line-1MiB", []byte(strings.Repeat("word ", 1<<20/5))},
		{"html-1MiB", []byte(strings.Repeat("<p>A <b>bold</b> word</p>\n", 1<<20/26))},
		{"only-tokens-1MiB", []byte(strings.Repeat("a <action:get_time> b\n", 1<<20/22))},
		{"only-quotes-1MiB", []byte(strings.Repeat("a "+strings.Repeat("<action:\">", 400)+"\n", 1<<20/4003))},
		{"only-openers-1MiB", []byte(strings.Repeat("<", 1<<20))},
	}
}

// A whole reply through the decoder, stripped and searched for its token, in pieces
// of 4 KiB. The floor checks that it is UTF-8 and looks for line ends; the peer
// strips by splitting into lines, as one would with the standard library.
func BenchmarkReply(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(l.text)))
			n := 0
			emit := func(e messages.Event) { n += len(e.Text) }
			defer processor(b)()
			for b.Loop() {
				d := Dialect{}.NewDecoder(messages.TurnInfo{})
				for p := l.text; len(p) > 0; {
					k := min(len(p), 4096)
					d.Push(p[:k], emit)
					p = p[k:]
				}
				d.End(messages.FinishComplete, emit)
			}
		})
	}
	for _, l := range loads()[:3] {
		b.Run("floor/"+l.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(l.text)))
			n := 0
			defer processor(b)()
			for b.Loop() {
				if utf8.Valid(l.text) {
					n += bytes.Count(l.text, []byte{'\n'})
				}
			}
		})
	}
	l := loads()[0]
	b.Run("peer/lines/"+l.name, func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(l.text)))
		text := string(l.text)
		for b.Loop() {
			slowVisible(text)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for _, c := range decisions() {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			defer processor(b)()
			for b.Loop() {
				Decide(c.r)
			}
		})
	}
}

// processor reports the processor time of an operation, which a machine that others
// use makes less of than of the time on the clock.
func processor(b *testing.B) (report func()) {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begun := now()
	return func() { b.ReportMetric(float64(now()-begun)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkParseToken(b *testing.B) {
	const reply = "Let me look.\n<action:search query=\"ramen near the station\">\n"
	b.ReportAllocs()
	for b.Loop() {
		if a, err := Parse(reply); a == nil || err != nil {
			b.Fatal(err)
		}
	}
}
