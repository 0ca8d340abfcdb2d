package kitsu

import (
	"bytes"
	"strings"
	"testing"
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
	l := loads()[0]
	b.Run("floor/"+l.name, func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(l.text)))
		n := 0
		for b.Loop() {
			if utf8.Valid(l.text) {
				n += bytes.Count(l.text, []byte{'\n'})
			}
		}
	})
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
	for name, r := range map[string]Request{
		"search-other-topic": {Action: &Action{Kind: Search, Value: "12 good ramen near the station"}, LastTopic: "soba"},
		"search-no-topic":    {Action: &Action{Kind: Search, Value: strings.Repeat("a1 ", 80)}, LastTopic: "soba"},
		"continue":           {Action: &Action{Kind: Continue}, Mood: 0.5},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(r)
			}
		})
	}
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
