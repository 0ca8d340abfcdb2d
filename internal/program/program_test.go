package program

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sid = "t:u:s"

var ident = turn.Ident{Turn: 3, Nonce: "AAECAwQFBgcICQoLDA0ODw"}

// signers are those of a host: primary signs unless it is nil.
type signers struct{ primary, fallback token.Signer }

func (s signers) TokenSigner(time.Time) token.Signer   { return s.primary }
func (s signers) TokenFallback(time.Time) token.Signer { return s.fallback }

// inbox keeps what a program posted, and hands out its calls.
type inbox struct {
	mu    sync.Mutex
	all   []turn.Input
	calls chan *turn.ProgramCall
}

func (b *inbox) Post(in ...turn.Input) {
	b.mu.Lock()
	b.all = append(b.all, in...)
	b.mu.Unlock()
	for _, in := range in {
		if call, ok := in.(*turn.ProgramCall); ok {
			b.calls <- call
		}
	}
}

func agent(t *testing.T) *compiled.Agent {
	t.Helper()
	registry, err := catalog.New(
		tools.Tool{Name: "own.tool", Class: messages.Effectful, Params: []neuroscript.Param{{Name: "x", Type: "string"}}, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			panic("a program runs no tool itself")
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: []string{"own.tool"}})
	if err != nil {
		t.Fatal(err)
	}
	return &compiled.Agent{Tools: set, Rules: &turn.Rules{}}
}

func begin(t *testing.T, s signers, source string) (*Program, *inbox, *int) {
	t.Helper()
	b, mints := &inbox{calls: make(chan *turn.ProgramCall, 9)}, 0
	env := &Env{
		Programs: neuroscript.NewCache(1 << 20), Signers: s, Rand: rand.Reader, Now: time.Now, Log: zap.NewNop(),
		FallbackMint: func() { mints++ },
	}
	p := New(t.Context(), env, agent(t), sid, b, &turn.RunProgram{Ident: ident, Source: []byte("command\n" + source + "\nendcommand\n"), Userdata: `{"subject":"s","fields":{}}`})
	return &p, b, &mints
}

// A short program is one message: its end, which has everything it said.
func TestEnd(t *testing.T) {
	p, b, _ := begin(t, signers{}, "  emit \"a\"\n  whisper self, \"w\"\n  emit \"b\"")
	end := p.Run()
	if end.Ident != ident || end.Code != "" || len(b.all) != 0 {
		t.Fatalf("%+v, and %d messages before", end, len(b.all))
	}
	if string(end.Out) != "a\nb\n" || string(end.Scr) != "w\n" || len(end.Emissions) != 3 || !end.Emissions[1].Whisper {
		t.Errorf("out %q, scr %q, %+v", end.Out, end.Scr, end.Emissions)
	}
}

// What a program says while it goes on computing is shown in time, and many emissions at once.
func TestEmissionsAreShown(t *testing.T) {
	p, b, _ := begin(t, signers{}, "  emit \"a\"\n  emit \"b\"\n  emit \"c\"")
	now := time.Now()
	p.env.Now = func() time.Time {
		now = now.Add(emitHold / 2)
		return now
	}
	end := p.Run()
	if len(b.all) != 1 || len(b.all[0].(*turn.Emitted).Emissions) != 2 || len(end.Emissions) != 1 {
		t.Errorf("%+v, then %+v", b.all, end.Emissions)
	}
	p, b, _ = begin(t, signers{}, strings.Repeat("  emit \"a\"\n", emitBatch+1))
	p.env.Now = func() time.Time { return now }
	end = p.Run()
	if len(b.all) != 1 || len(b.all[0].(*turn.Emitted).Emissions) != emitBatch || len(end.Emissions) != 1 {
		t.Errorf("%d messages, then %d emissions", len(b.all), len(end.Emissions))
	}
}

// A call is asked of the session behind what was said before it, and waits for its own answer.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b, _ := begin(t, signers{}, "  emit \"before\"\n  set r = must tool.own.tool(\"x\")\n  set q = must tool.own.tool(\"y\")\n  emit r + q")
		ended := make(chan *turn.ProgramEnd)
		go func() { ended <- p.Run() }()
		call := <-b.calls
		if call.ID != "#1" || call.Name != "own.tool" || call.Args != `["x"]` || call.Class != messages.Effectful || len(call.Emissions) != 1 || call.Ident != ident {
			t.Errorf("%+v", call)
		}
		p.Deliver(&turn.AnswerCall{Ident: ident, ID: "#1", State: messages.ActionOK, Result: `"1"`})
		call = <-b.calls
		p.Deliver(&turn.AnswerCall{Ident: ident, ID: "#1", State: messages.ActionOK, Result: `"again"`})
		synctest.Wait() // until the program has dropped the second answer of its first call
		p.Deliver(&turn.AnswerCall{Ident: ident, ID: call.ID, State: messages.ActionOK, Result: `"2"`})
		if end := <-ended; string(end.Out) != "before\n12\n" || end.Code != "" {
			t.Errorf("%+v", end)
		}
		p.Deliver(&turn.AnswerCall{ID: "#3"}) // the program has ended, and the caller does not wait
		p.Deliver(&turn.AnswerCall{ID: "#3"})
	})
}

// A program that waits for an answer ends when it is cancelled.
func TestCancel(t *testing.T) {
	p, b, _ := begin(t, signers{}, "  set r = tool.own.tool(\"x\")\n  emit \"on\"")
	ended := make(chan *turn.ProgramEnd)
	go func() { ended <- p.Run() }()
	<-b.calls
	p.Cancel(messages.Errorf(messages.ErrCancelled, "the turn is stopped"))
	if end := <-ended; end.Code == "" || len(end.Out) != 0 {
		t.Errorf("%+v", end)
	}
}

// A token is of the session, the turn and the nonce of the run. The fallback signer is counted, and
// a program may ask so often.
func TestMint(t *testing.T) {
	now := time.Now()
	key := func(kid string) *keyring.Key {
		k, err := keyring.Generate(kid, keyring.Token, keyring.EdDSA, rand.Reader, now.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	spare, err := keyring.NewEdDSA(keyring.Attributes{KID: "f", Purpose: keyring.Token, AbortOnly: true}, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.New(key("k"), spare)
	if err != nil {
		t.Fatal(err)
	}
	const done, abort = `  emit tool.aeiou.magic("LOOP", {"action": "done"})` + "\n", `  emit tool.aeiou.magic("LOOP", {"action": "abort"})` + "\n"
	all := signers{ring.TokenSigner(now), ring.TokenFallback(now)}
	for _, tt := range []struct {
		name   string
		s      signers
		source string
		code   messages.Code
		tokens int
		failed bool
		mints  int
	}{
		{"primary", all, done, "", 1, false, 0},
		{"fallback", signers{fallback: all.fallback}, abort, "", 1, false, 1},
		{"none", signers{}, done, "", 0, true, 0},
		{"bad argument", all, `  emit tool.aeiou.magic("LOOP", {"action": "what"})`, messages.ErrActionsRuntime, 0, false, 0},
		{"too many", all, strings.Repeat(done, 33), messages.ErrQuota, 32, false, 0},
	} {
		p, _, mints := begin(t, tt.s, tt.source)
		end := p.Run()
		if end.Code != tt.code || strings.Count(string(end.Minted), "\n") != tt.tokens || end.MagicFailed != tt.failed || *mints != tt.mints {
			t.Errorf("%s: %s, minted %q, failed %v, %d by the fallback signer", tt.name, end.Code, end.Minted, end.MagicFailed, *mints)
		}
		if tt.tokens == 1 {
			line := []byte(strings.TrimSuffix(string(end.Minted), "\n"))
			for _, scope := range []token.Scope{{SID: sid, TurnIndex: 3, Nonce: ident.Nonce}, {SID: sid, TurnIndex: 4, Nonce: ident.Nonce}} {
				ck := token.Verify(line, scope, ring.TokenKeys(), token.NewReplaySet(0, 0), token.Policy{}, time.Now())
				if (ck.Failure == "") != (scope.TurnIndex == 3) {
					t.Errorf("%s: in turn %d it is judged %q %s", tt.name, scope.TurnIndex, ck.Failure, ck.Reason)
				}
			}
			if !end.Emissions[0].Candidate {
				t.Errorf("%s: the emission is no candidate", tt.name)
			}
		}
	}
}
