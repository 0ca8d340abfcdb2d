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

func TestMemory(t *testing.T) { boardtest.Run(t, &boardtest.Memory{}) }
