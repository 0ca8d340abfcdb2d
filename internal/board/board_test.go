package board_test

import (
	"testing"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/board/boardtest"
)

// A seal is good for one note: another kind, id or body, or another secret, breaks it.
func TestSeals(t *testing.T) {
	secret := board.Secret("0123456789abcdef0123456789abcdef")
	good := secret.Sealed("key", "id", []byte("body"))
	if !secret.Genuine("key", &good) {
		t.Fatal("a seal of the hosts is refused")
	}
	other := good
	for name, forged := range map[string]struct {
		secret board.Secret
		kind   string
		change func(*board.Note)
	}{
		"kind":       {secret, "token", func(*board.Note) {}},
		"id":         {secret, "key", func(n *board.Note) { n.ID = "di" }},
		"body":       {secret, "key", func(n *board.Note) { n.Body = []byte("Body") }},
		"border":     {secret, "key", func(n *board.Note) { n.ID, n.Body = "idb", []byte("ody") }},
		"border 2":   {secret, "keyi", func(n *board.Note) { n.ID = "d" }},
		"no seal":    {secret, "key", func(n *board.Note) { n.Seal = nil }},
		"short seal": {secret, "key", func(n *board.Note) { n.Seal = n.Seal[:31] }},
		"secret":     {secret[1:], "key", func(*board.Note) {}},
	} {
		other = good
		forged.change(&other)
		if forged.secret.Genuine(forged.kind, &other) {
			t.Errorf("%s: a forged note passes", name)
		}
	}
}

// While the secret changes, a host believes what either seals, seals anew what the other one did, and
// leaves alone what no host sealed.
func TestReseal(t *testing.T) {
	older, newer, foreign := board.Secret("0123456789abcdef0123456789abcdef"), board.Secret("fedcba9876543210fedcba9876543210"), board.Secret("ffffffffffffffffffffffffffffffff")
	both, ok := board.NewSecrets(newer, [][]byte{older})
	if !ok {
		t.Fatal("two secrets are refused")
	}
	for _, short := range [][]board.Secret{{older[1:], newer}, {newer, older[1:]}} {
		if _, ok := board.NewSecrets(short[0], [][]byte{short[1]}); ok {
			t.Error("a short secret is taken")
		}
	}
	in := &boardtest.Memory{}
	put := func(notes ...board.Note) {
		t.Helper()
		if err := in.Change(t.Context(), board.Tokens, func([]board.Note) ([]board.Note, []string, error) { return notes, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	put(older.Sealed(board.Tokens, "old", []byte("1")), newer.Sealed(board.Tokens, "new", []byte("2")), foreign.Sealed(board.Tokens, "forged", []byte("3")))
	var before int64
	for i := range 2 {
		if err := both.Reseal(t.Context(), in, board.Tokens); err != nil {
			t.Fatal(err)
		}
		notes, version, _, err := in.Read(t.Context(), board.Tokens, 0)
		if err != nil || len(notes) != 3 {
			t.Fatalf("%v, %v", notes, err)
		}
		for j := range notes {
			if want := notes[j].ID != "forged"; newer.Genuine(board.Tokens, &notes[j]) != want || both.Genuine(board.Tokens, &notes[j]) != want {
				t.Errorf("%s: want %v", notes[j].ID, want)
			}
		}
		if i > 0 && version != before {
			t.Error("what is sealed anew is written again")
		}
		before = version
	}
}

func TestMemory(t *testing.T) { boardtest.Run(t, &boardtest.Memory{}) }
