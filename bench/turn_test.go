package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/seed14be6753/stile"
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

// BenchmarkTurn_AEIOU_Memory is submit → decision delivered of one turn in one
// session on the memory journal, beside the floor.
func BenchmarkTurn_AEIOU_Memory(b *testing.B) {
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
}
