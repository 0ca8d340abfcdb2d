package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// independent is the canonical form by reflection and another RFC 8785
// implementation.
func independent(t *testing.T, b messages.Body) []byte {
	t.Helper()
	plain, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(plain)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

func TestAppendBodyIsCanonical(t *testing.T) {
	rng := specimen.Seed(t)
	for range 400 {
		for _, b := range specimen.Bodies() {
			specimen.Fill(rng, b)
			got := journal.AppendBody(nil, b)
			if want := independent(t, b); !bytes.Equal(got, want) {
				t.Fatalf("%s\n got %s\nwant %s", b.Kind(), got, want)
			}
			back, err := journal.DecodeBody(b.Kind(), got)
			if err != nil {
				t.Fatalf("%s: %v", got, err)
			}
			if d := cmp.Diff(b, back); d != "" {
				t.Fatalf("%s: %s", got, d)
			}
			prefix := journal.AppendBody([]byte("{"), b)
			if string(prefix) != "{"+string(got) {
				t.Fatalf("appended to a brace: %s", prefix)
			}
		}
	}
}

// Bodies() must know every body there is, or the test above proves little.
func TestEveryKindIsCovered(t *testing.T) {
	seen := map[messages.Kind]bool{}
	for _, b := range specimen.Bodies() {
		seen[b.Kind()] = true
		if _, err := journal.DecodeBody(b.Kind(), journal.AppendBody(nil, b)); err != nil {
			t.Errorf("zero %s: %v", b.Kind(), err)
		}
	}
	for _, k := range []messages.Kind{
		"session.opened", "session.closed", "input", "run.begin", "run.end", "turn.begin",
		"model.request", "model.chunk", "model.reply", "model.fallback", "thought", "response", "text", "emit", "whisper",
		"action.declared", "action.approval", "action.started", "action.ended", "parse.error", "lint", "turn.decided",
		"turn.suspended", "turn.restored",
		"control", "audit", "note",
	} {
		if !seen[k] {
			t.Errorf("no body of kind %s", k)
		}
	}
}

func TestAppendBodyRepairsText(t *testing.T) {
	rng := specimen.Seed(t)
	for _, s := range []string{"\xff", "a\xffb\xfe", "\xed\xa0\x80", "\xf0\x9f\x98", "é\xc3", "\xc0\xaf", "ok\x80\"\\"} {
		b := &messages.Note{Text: s}
		got := journal.AppendBody(nil, b)
		if want := independent(t, b); !bytes.Equal(got, want) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
	for range 500 {
		raw := make([]byte, rng.IntN(12))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		b := &messages.Note{Text: string(raw)}
		got := journal.AppendBody(nil, b)
		if want := independent(t, b); !bytes.Equal(got, want) || !utf8.Valid(got) {
			t.Fatalf("%q: %s, want %s", raw, got, want)
		}
	}
}

func TestAppendBodyOfNothing(t *testing.T) {
	if got := journal.AppendBody(nil, nil); string(got) != "null" {
		t.Errorf("nil: %s", got)
	}
	if got := journal.AppendBody(nil, &messages.Undecoded{Of: messages.KindNote}); string(got) != "null" {
		t.Errorf("undecoded: %s", got)
	}
	if got := journal.AppendBody(nil, &messages.ModelChunk{}); string(got) != `{"bytes":"","off":0}` {
		t.Errorf("nil bytes: %s", got)
	}
}

func TestDecodeBodyRefuses(t *testing.T) {
	const input = `{"policy":"reject","user":"u"}`
	for _, c := range []struct {
		name, raw string
		kind      messages.Kind
		offset    int64
	}{
		{"empty", ``, "note", 0},
		{"null", `null`, "note", 0},
		{"unknown kind", `{}`, "feed.injected", 1},
		{"missing member", `{}`, "note", 1},
		{"unknown member after", `{"text":"x","zzz":1}`, "note", 11},
		{"unknown member before", `{"aaa":1,"text":"x"}`, "note", 1},
		{"another order", `{"user":"u","policy":"reject"}`, "input", 1},
		{"repeated", `{"text":"x","text":"x"}`, "note", 11},
		{"space", `{"text": "x"}`, "note", 8},
		{"bytes after", input + " ", "input", int64(len(input))},
		{"cut", input[:len(input)-1], "input", int64(len(input) - 1)},
		{"cut in a string", `{"text":"x`, "note", 9},
		{"cut in an escape", `{"text":"x\`, "note", 9},
		{"zero that should be absent", `{"key":"","policy":"reject","user":"u"}`, "input", 9},
		{"false that should be absent", `{"candidate":false,"text":""}`, "emit", 13},
		{"zero digest that should be absent", `{"decision":"DONE","digest":"","latency_ms":0,"minted":"","output_bytes":0,"scratch_bytes":0,"turn_index":0}`, "turn.decided", 57},
		{"number as text", `{"input":"1"}`, "run.begin", 9},
		{"fraction", `{"input":1.0}`, "run.begin", 10},
		{"exponent", `{"input":1e3}`, "run.begin", 10},
		{"leading zero", `{"input":01}`, "run.begin", 9},
		{"minus zero", `{"input":-0}`, "run.begin", 9},
		{"minus alone", `{"input":-}`, "run.begin", 9},
		{"too large", `{"input":9007199254740992}`, "run.begin", 9},
		{"far too large", `{"input":99999999999999999999999999}`, "run.begin", 9},
		{"text as number", `{"text":1}`, "note", 8},
		{"bool as text", `{"allowed":"true","what":"","who":""}`, "audit", 11},
		{"control character", "{\"text\":\"a\nb\"}", "note", 10},
		{"needless escape", `{"text":"a\/b"}`, "note", 10},
		{"needless unicode escape", `{"text":"\u0041"}`, "note", 9},
		{"long form of a short escape", `{"text":"\u000a"}`, "note", 9},
		{"upper-case escape", `{"text":"\u001F"}`, "note", 9},
		{"surrogates", `{"text":"\ud83d\ude00"}`, "note", 9},
		{"not UTF-8", "{\"text\":\"a\xff\"}", "note", 9},
		{"upper-case digest", `{"blob":"` + strings.Repeat("A", 64) + `","finish":"stop","length":0,"usage":{"input":0,"output":0}}`, "model.reply", 8},
		{"short digest", `{"blob":"ab","finish":"stop","length":0,"usage":{"input":0,"output":0}}`, "model.reply", 8},
		{"zero digest written out", `{"blob":"` + strings.Repeat("0", 64) + `","finish":"stop","length":0,"usage":{"input":0,"output":0}}`, "model.reply", 8},
		{"nested unknown", `{"blob":"","finish":"stop","length":0,"usage":{"input":0,"output":0,"x":0}}`, "model.reply", 67},
		{"base64 without padding", `{"bytes":"YQ","off":0}`, "model.chunk", 9},
		{"base64 with loose bits", `{"bytes":"YR==","off":0}`, "model.chunk", 9},
		{"base64 with a line end", "{\"bytes\":\"YQ=\n=\",\"off\":0}", "model.chunk", 13},
		{"list with a comma too many", `{"lints":["a",],"messages":0,"mode":"","model":"","prompt":"","provider":""}`, "model.request", 14},
		{"list without end", `{"lints":["a"`, "model.request", 13},
		{"null list", `{"lints":null,"messages":0,"mode":"","model":"","prompt":"","provider":""}`, "model.request", 9},
	} {
		b, err := journal.DecodeBody(c.kind, []byte(c.raw))
		var e *messages.Error
		if b != nil || err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		if e, _ = errors.AsType[*messages.Error](err); e == nil || e.Code != messages.ErrJournal || e.Reason != journal.ReasonCorrupt ||
			e.Field != string(c.kind) || !e.HasOffset || e.Offset != c.offset {
			t.Errorf("%s: %v, want offset %d", c.name, err, c.offset)
		}
	}
}

func TestDecodeBodySharesNothing(t *testing.T) {
	raw := []byte(`{"bytes":"YWJj","off":7}`)
	b, err := journal.DecodeBody(messages.KindModelChunk, raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if want := (&messages.ModelChunk{Bytes: []byte("abc"), Off: 7}); !reflect.DeepEqual(b, want) {
		t.Fatalf("%+v", b)
	}
}

// What DecodeBody accepts is what AppendBody writes, byte for byte.
func FuzzDecodeBody(f *testing.F) {
	kinds := specimen.Bodies()
	for i, b := range kinds {
		f.Add(uint8(i), journal.AppendBody(nil, b))
	}
	f.Add(uint8(24), []byte(`{"text":"\u001f\"\\\n😀"}`))
	f.Add(uint8(0), []byte(`{"dialect":"","incarnation":"","manifest":"","origin":{"hash":"","incarnation":"","seq":-9,"sid":""}}`))
	f.Fuzz(func(t *testing.T, n uint8, raw []byte) {
		kind := kinds[int(n)%len(kinds)].Kind()
		b, err := journal.DecodeBody(kind, raw)
		if err != nil {
			if messages.CodeOf(err) != messages.ErrJournal {
				t.Fatal(err)
			}
			return
		}
		if b.Kind() != kind {
			t.Fatalf("a %s from a %s", b.Kind(), kind)
		}
		if again := journal.AppendBody(nil, b); !bytes.Equal(again, raw) {
			t.Fatalf("accepted %q, wrote %q", raw, again)
		}
	})
}

func BenchmarkDecodeBody_TurnDecided(b *testing.B) {
	raw := journal.AppendBody(nil, specimen.Decided())
	b.SetBytes(int64(len(raw)))
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := journal.DecodeBody(messages.KindTurnDecided, raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("floor_encoding_json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(raw, new(messages.TurnDecided)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
