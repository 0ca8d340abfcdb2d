package proof_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ring(t testing.TB) *keyring.Ring {
	t.Helper()
	k, err := keyring.Generate("rcp", keyring.Receipt, keyring.EdDSA, rand.Reader, now)
	if err != nil {
		t.Fatal(err)
	}
	r, err := keyring.New(k)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkpointOf is the text of a checkpoint, as a journal with n sessions gives it.
func checkpointOf(t testing.TB, r *keyring.Ring, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	c, err := proof.WriteCheckpoint(t.Context(), &many{n: n}, r, now, &b)
	if err != nil || c.Sessions != int64(n) {
		t.Fatalf("%+v, %v", c, err)
	}
	return b.Bytes()
}

// many is a journal with many sessions, in pages.
type many struct {
	journal.Store
	n, at int
}

func (m *many) Sessions(_ context.Context, q journal.Query) (page []journal.Head, err error) {
	for ; m.at < m.n && len(page) < q.Page(); m.at++ {
		inc := uuid.UUID{15: byte(m.at), 14: byte(m.at >> 8), 13: byte(m.at >> 16)}
		page = append(page, journal.Head{SID: fmt.Sprintf("t:u:%06d", m.at), Inc: inc, Seq: int64(m.at + 1), Hash: messages.Digest{1}})
	}
	return page, nil
}

// What is written is read, and counts when a trusted key signed it.
func TestCheckpoint(t *testing.T) {
	r := ring(t)
	text := checkpointOf(t, r, 2500)
	next := 0
	c, err := proof.ReadCheckpoint(bytes.NewReader(text), func(sid string, _ messages.Incarnation, at journal.Anchor) error {
		if sid != fmt.Sprintf("t:u:%06d", next) || at.Seq != int64(next+1) || at.Hash != (messages.Digest{1}) {
			t.Fatalf("%d: %s %+v", next, sid, at)
		}
		next++
		return nil
	})
	if err != nil || next != 2500 || c.Sessions != 2500 || !c.At.Equal(now) || c.Check(r) != nil {
		t.Errorf("%+v, %v, %v", c, err, c.Check(r))
	}
	if err := c.Check(ring(t)); !proof.IsUnproved(err) {
		t.Errorf("by another key: %v", err)
	}
	stop := errors.New("stop")
	if _, err := proof.ReadCheckpoint(bytes.NewReader(text), func(string, messages.Incarnation, journal.Anchor) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	for name, bad := range map[string]string{
		"nothing":       "",
		"no checkpoint": "{}\n",
		"cut":           string(text[:len(text)/2]),
		"twice":         string(text) + string(text),
		"a long line":   `{"format":"` + strings.Repeat("x", 5000) + "\"}\n",
		"another head":  strings.Replace(string(text), `"seq":7`, `"seq":8`, 1),
	} {
		if _, err := proof.ReadCheckpoint(strings.NewReader(bad), nil); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A checkpoint of twenty pages passes through: no more than a page is held.
func TestCheckpointStreams(t *testing.T) {
	const sessions = 20_000
	r := ring(t)
	in, out := io.Pipe() // holds nothing
	failed := make(chan error, 1)
	go func() {
		_, err := proof.WriteCheckpoint(t.Context(), &many{n: sessions}, r, now, out)
		failed <- errors.Join(err, out.Close())
	}()
	c, err := proof.ReadCheckpoint(in, nil)
	if err := errors.Join(err, <-failed, c.Check(r)); err != nil || c.Sessions != sessions {
		t.Fatalf("%+v, %v", c, err)
	}
}

// No bytes make a reader panic or be believed.
func FuzzReadCheckpoint(f *testing.F) {
	r := ring(f)
	text := checkpointOf(f, r, 2)
	honest, err := proof.ReadCheckpoint(bytes.NewReader(text), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{\"format\":\"stile-checkpoint/1\"}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := proof.ReadCheckpoint(bytes.NewReader(b), nil)
		if err != nil || c.Check(r) != nil {
			return
		}
		if c.Digest != honest.Digest || !c.At.Equal(honest.At) || c.Sessions != honest.Sessions {
			t.Errorf("believed: %q", b)
		}
	})
}
