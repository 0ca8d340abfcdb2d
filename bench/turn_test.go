package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// floorTurn is the cryptography no AEIOU turn can do without: one signature for
// the token, one for the receipt, one verification, each of about 300 bytes.
func floorTurn(pub ed25519.PublicKey, priv ed25519.PrivateKey, msg []byte) bool {
	sig := ed25519.Sign(priv, msg)
	_ = ed25519.Sign(priv, msg)
	return ed25519.Verify(pub, msg, sig)
}

const doneProgram = "command\n  set n = len(userdata[\"fields\"][\"text\"])\n  emit \"got \" + n\n" +
	"  emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand\n"

// script answers every request with the same reply.
func script(tb testing.TB, reply string) *scripted.Script {
	tb.Helper()
	s, err := scripted.Parse("bench.jsonl", fmt.Appendf(nil, `{"match":{"contains":"<<<NSENV:V3:START>>>"},"chunks":[{"text":%q}]}`, reply))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func open(tb testing.TB, cfg stile.Config, agent *stile.Agent, name string) (*stile.Runtime, *stile.Session) {
	tb.Helper()
	rt, err := stile.New(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	s, err := rt.Open(context.Background(), name, agent)
	if err != nil {
		tb.Fatal(err)
	}
	return rt, s
}

func oneTurn(tb testing.TB, s *stile.Session, text string) {
	run, err := s.Submit(context.Background(), text)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := run.Decision(context.Background())
	if err != nil || d.Decision != messages.Done {
		tb.Fatalf("%v %v %v %v", d.Decision, d.Reason, d.Detail, err)
	}
}

// warm runs turns in a runtime of their own and lets it go, so that what follows
// measures turns and not the first touch of fresh memory by a journal that only
// grows.
func warm(b *testing.B, turns int) {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		b.Fatal(err)
	}
	s, err := rt.Open(ctx, "warm", &stile.Agent{Dialect: "aeiou", Model: script(b, doneProgram)})
	if err != nil {
		b.Fatal(err)
	}
	for range turns {
		oneTurn(b, s, "hello")
	}
	if err := rt.Close(ctx); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
}

// BenchmarkTurn_AEIOU_Memory is submit → decision delivered of one turn in one
// session on the memory journal, beside the floor.
func BenchmarkTurn_AEIOU_Memory(b *testing.B) {
	warm(b, 20_000)
	b.Run("floor=2sign+1verify", func(b *testing.B) {
		pub, priv, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		msg := make([]byte, 300)
		b.ReportAllocs()
		for b.Loop() {
			if !floorTurn(pub, priv, msg) {
				b.Fatal("the signature does not verify")
			}
		}
	})
	b.Run("program=cached/receipts=decision", func(b *testing.B) {
		_, s := open(b, stile.Config{InMemory: true}, &stile.Agent{Dialect: "aeiou", Model: script(b, doneProgram)}, "bench")
		b.ReportAllocs()
		for b.Loop() {
			oneTurn(b, s, "hello")
		}
	})
	b.Run("program=cached/receipts=off", func(b *testing.B) {
		m := manifest.Default("aeiou")
		m.Receipts = manifest.ReceiptsOff
		m.Name = "bench"
		_, s := open(b, stile.Config{InMemory: true}, &stile.Agent{Manifest: m, Model: script(b, doneProgram)}, "bench")
		b.ReportAllocs()
		for b.Loop() {
			oneTurn(b, s, "hello")
		}
	})
	b.Run("program=20 lines never seen/receipts=decision", func(b *testing.B) {
		_, s := open(b, stile.Config{InMemory: true}, &stile.Agent{Dialect: "aeiou", Model: &fresh{}}, "bench")
		b.ReportAllocs()
		for b.Loop() {
			oneTurn(b, s, "hello")
		}
	})
}

// fresh is a model whose every reply is another program of 20 lines: a number in
// it counts up, so the program cache never helps.
type fresh struct{ n atomic.Int64 }

// Stream implements llm.Model.
func (f *fresh) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	program := strings.Replace(twentyLines, "4711", strconv.FormatInt(f.n.Add(1), 10), 1)
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: []byte(program), Finish: messages.FinishComplete}, nil)
	}
}

const twentyLines = `command
  set total = 4711
  set rows = [{"qty": 2, "price": 3}, {"qty": 0, "price": 9}, {"qty": 5, "price": 1}]
  for each row in rows
    if row["qty"] > 0
      set total = total + row["qty"] * row["price"]
    else
      whisper self, "skipped a row"
    endif
  endfor
  set name = tool.str.ToUpper(userdata["fields"]["text"])
  set parts = tool.str.Split("a,b,c", ",")
  set n = 0
  while n < len(parts)
    set n = n + 1
  endwhile
  emit "total " + total + " for " + name
  emit "parts " + n
  emit tool.aeiou.magic("LOOP", {"action": "done"})
endcommand
`
