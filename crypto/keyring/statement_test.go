package keyring

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// A statement is one of its kind, digest and time, and no receipt; it counts in the key's
// interval, which Extend moves for a key that has retired.
func TestStatements(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := func(kid string, purpose Purpose, at time.Time) *Key {
		k, err := Generate(kid, purpose, EdDSA, rand.Reader, at)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	r, err := New(key("old", Receipt, began), key("tok", Token, began))
	if err != nil {
		t.Fatal(err)
	}
	digest := [32]byte{1}
	at := began.Add(time.Hour)
	kid, sig, err := r.SignStatement("backup", digest, at)
	if err != nil || kid != "old" || r.VerifyStatement("backup", digest, at, kid, sig) != nil {
		t.Fatalf("%s, %v", kid, err)
	}
	reason := func(err error) string {
		var e *messages.Error
		errors.As(err, &e)
		if e == nil {
			return ""
		}
		return e.Reason
	}
	for name, err := range map[string]error{
		"another kind":   r.VerifyStatement("checkpoint", digest, at, kid, sig),
		"another digest": r.VerifyStatement("backup", [32]byte{2}, at, kid, sig),
		"another time":   r.VerifyStatement("backup", digest, at.Add(time.Second), kid, sig),
		"a receipt":      r.VerifyReceipt(uuid.UUID{}, 1, digest, at, kid, sig),
	} {
		if reason(err) != ReceiptTag {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.VerifyStatement("backup", digest, at, "tok", sig); reason(err) != ReceiptKey {
		t.Errorf("of a token key: %v", err)
	}
	// The rotation of before: the key had retired when it signed.
	if err := r.Extend("old", at); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("of a key that signs: %v", err)
	}
	if err := r.Add(key("new", Receipt, began.Add(time.Minute)), began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := r.VerifyStatement("backup", digest, at, kid, sig); reason(err) != ReceiptTime {
		t.Errorf("after it retired: %v", err)
	}
	for _, kid := range []string{"tok", "none", "new"} {
		if err := r.Extend(kid, at); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", kid, err)
		}
	}
	if err := r.Extend("old", began); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("to an earlier time: %v", err)
	}
	if err := r.Extend("old", at); err != nil || r.VerifyStatement("backup", digest, at, kid, sig) != nil {
		t.Errorf("extended: %v", err)
	}
	if k, _ := r.Set().Key("old"); k.CanSign() {
		t.Error("an extended key signs")
	}
}
