package tests

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// failing is a signer somewhere else that does not answer.
type failing struct{ kid string }

func (f failing) KID() string                 { return f.kid }
func (f failing) TagBytes() int               { return ed25519.SignatureSize }
func (f failing) Sign([]byte) ([]byte, error) { return nil, errors.New("the signer is unreachable") }

// ring makes a ring whose token signer, and fallback if told, do not answer.
func ring(t *testing.T, bothDown bool) *keyring.Ring {
	t.Helper()
	now := time.Now()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	primary, err := keyring.NewExternal(keyring.Attributes{KID: "primary", Purpose: keyring.Token, NotBefore: now.Unix()}, public, failing{"primary"})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := keyring.Generate("receipt", keyring.Receipt, keyring.EdDSA, random{}, now)
	if err != nil {
		t.Fatal(err)
	}
	keys := []*keyring.Key{primary, receipt}
	if !bothDown {
		fallback, err := keyring.GenerateFallback("fallback", keyring.EdDSA, random{}, now)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fallback)
	}
	r, err := keyring.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// random is a source that needs no secrecy.
type random struct{}

func (random) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(time.Now().UnixNano() >> (i % 8 * 8))
	}
	return len(p), nil
}

// With the primary signer down the fallback signs, and whatever the program asked
// for becomes ABORT.
func TestFallbackSigner(t *testing.T) {
	for _, say := range []string{sayContinue, sayDone, sayAbort} {
		synctest.Test(t, func(t *testing.T) {
			rt := start(t, stile.Config{InMemory: true, Keys: ring(t, false)})
			s := open(t, rt, "fallback", agent(says(program(`emit "x"`, say)), nil))
			o := ask(t, s, "go")
			if o.Decision != stile.Abort || o.Turn.KID != "fallback" {
				t.Errorf("ended %s(%s) under %q", o.Decision, o.Reason, o.Turn.KID)
			}
			if n := metric(t, rt, "fallback_mint_total"); n != 1 {
				t.Errorf("%v fallback mints counted, want 1", n)
			}
		})
	}
}

// With both down the turn halts, also when the program catches the error and holds
// an older token of the turn.
func TestBothSignersDown(t *testing.T) {
	for name, lines := range map[string][]string{
		"uncaught": {sayDone},
		"caught":   {"on error as e do\nclear_error\nendon", `emit "x"`, sayDone, `emit "went on"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := start(t, stile.Config{InMemory: true, Keys: ring(t, true)})
				s := open(t, rt, "down", agent(says(program(lines...)), nil))
				wantHalt(t, ask(t, s, "go"), messages.ErrMagicToolInternal)
			})
		})
	}
}

// A key rotated while a turn is in flight still verifies what it signed; after its
// grace it does not, and once erased it is unknown.
func TestRotationMidSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		var kept string
		rotate := tool("test.rotate", messages.ReadOnly, func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			kept, _ = c.Args[0].AsString()
			err := rt.RotateKeys(context.Background(), 300*time.Second)
			return neuroscript.Value{}, err
		})
		rotate.Params = []neuroscript.Param{{Name: "t", Type: "string"}}
		p := program(`set tok = tool.aeiou.magic("LOOP", {"action": "done", "n": 1}, {"ttl": 240})`, "call tool.test.rotate(tok)", "emit tok")
		s := open(t, rt, "rotating", agent(says(p), nil, rotate))
		old := rt.Keys().TokenSigner(time.Now()).KID()
		o := ask(t, s, "go")
		wantDone(t, o)
		if o.Turn.KID != old || old == rt.Keys().TokenSigner(time.Now()).KID() {
			t.Errorf("decided under %s; it was %s, now it is %s", o.Turn.KID, old, rt.Keys().TokenSigner(time.Now()).KID())
		}
		if len(kept) == 0 {
			t.Fatal("no token")
		}
		next := open(t, rt, "later", agent(says(program(`emit "n"`, sayDone)), nil))
		if o := ask(t, next, "go"); o.Turn.KID == old {
			t.Error("the retired key signs on")
		}
		if n := len(rt.Keys().Set().Keys()); n != 6 {
			t.Errorf("%d keys after a rotation, want 6", n)
		}
		time.Sleep(301 * time.Second)
		if err := rt.RotateKeys(t.Context(), 300*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, known := rt.Keys().TokenKeys().TokenKey(old); known {
			t.Error("the key verifies beyond its grace")
		}
		wantDone(t, ask(t, next, "go"))
		for head, err := range rt.Archive().Sessions(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if v, err := rt.Archive().Verify(t.Context(), head.Inc, stile.VerifyOptions{}); err != nil || !v.OK() {
				t.Errorf("%s does not verify across rotations: %+v %v", head.SID, v, err)
			}
		}
	})
}

// The key file: made with mode 0600, sealed by a passphrase; a wrong one, a
// missing one and a damaged file are ERR_CONFIG and leave the file alone.
func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, stile.KeyFile)
	begin := func(passphrase string) error {
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Passphrase: []byte(passphrase)})
		if err != nil {
			return err
		}
		return rt.Close(context.Background())
	}
	if err := begin("correct horse"); err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %v, %v", info.Mode(), err)
	}
	if bytes.Contains(sealed, []byte("material")) || bytes.Contains(sealed, []byte("abort_only")) {
		t.Errorf("the sealed file shows its records:\n%s", sealed)
	}
	for _, wrong := range []string{"wrong horse", ""} {
		err := begin(wrong)
		wantCode(t, err, messages.ErrConfig)
		if contains(err.Error(), dir) || contains(err.Error(), "horse") {
			t.Errorf("the error tells too much: %v", err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, sealed) {
		t.Error("a failed start changed the key file")
	}
	if err := begin("correct horse"); err != nil {
		t.Errorf("the right passphrase after wrong ones: %v", err)
	}
	for cut := 0; cut < len(sealed); cut += 1 + len(sealed)/16 {
		if err := os.WriteFile(path, sealed[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		wantCode(t, begin("correct horse"), messages.ErrConfig)
	}
}
