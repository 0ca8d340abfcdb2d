// Package board is what hosts that share a journal tell each other: notes in a place that all of
// them read, each under a seal that only a host can make.
//
// Invariants:
//   - a seal covers kind, id and body of a note: a program that can write to the place, and does
//     not have the secret of the hosts, can neither make a note nor change one;
//   - versions of one kind rise with every change, so that what changed since is all there is to
//     read.
//
// What a program with access to the place can do is to take notes away, or to put back an earlier
// one. Who reads notes keeps what must not be undone.
package board

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// The kinds of notes.
const (
	Keys   = "key"   // public keys, by their ids
	Tokens = "token" // tokens of callers, by their ids
)

// Note is one thing that hosts know of each other.
type Note struct {
	ID      string
	Body    []byte
	Seal    []byte
	Version int64 // when it was put up; notes of one change have the same
}

// Port is the place: a table in the database of the journal. Its methods are safe for concurrent
// use.
type Port interface {
	// Read returns the notes of a kind that were put up after a version, in the order in which
	// they first were, and the version now. whole reports that these are all that there are:
	// those that are not among them are gone.
	Read(ctx context.Context, kind string, after int64) (notes []Note, version int64, whole bool, err error)
	// Now is the time by the clock of the place, on which all hosts agree. Before the first answer to
	// Read it is the host's own time.
	Now() time.Time
	// Change reads all notes of a kind and changes some, alone. The change is refused with the
	// error of f.
	Change(ctx context.Context, kind string, f func(all []Note) (put []Note, drop []string, err error)) error
	// Watch calls look with the version of a kind that was in force at a moment: soon after each
	// change, and every few seconds. lost says that changes may have been undone, as by a server
	// that took over from another one: the notes are to be read from the beginning. Calls come one
	// at a time, and not at all while the place cannot be reached. stop waits for the last one.
	Watch(kind string, look func(ctx context.Context, at time.Time, version int64, lost bool)) (stop func())
}

// Secret is what hosts seal notes with, and other programs do not have.
type Secret []byte

// MinSecret is the least that a secret has, in bytes.
const MinSecret = 32

// Sealed returns a note of a kind with its seal.
func (s Secret) Sealed(kind, id string, body []byte) Note {
	return Note{ID: id, Body: body, Seal: s.seal(kind, id, body)}
}

// Genuine reports whether a host sealed the note.
func (s Secret) Genuine(kind string, n *Note) bool {
	return hmac.Equal(n.Seal, s.seal(kind, n.ID, n.Body))
}

func (s Secret) seal(kind, id string, body []byte) []byte {
	m := hmac.New(sha256.New, s)
	m.Write([]byte("stile note 1\n")) // the secret has other uses
	var length [8]byte
	for _, part := range [][]byte{[]byte(kind), []byte(id), body} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		m.Write(length[:])
		m.Write(part)
	}
	return m.Sum(nil)
}

// Secrets are those of the hosts while they change the secret: the first one seals, and what any of
// them sealed is believed.
type Secrets []Secret

// NewSecrets returns the secret that seals, and earlier ones or the one that comes next. ok is false
// when one of them is shorter than MinSecret.
func NewSecrets(first []byte, others [][]byte) (s Secrets, ok bool) {
	s, ok = Secrets{first}, len(first) >= MinSecret
	for _, other := range others {
		s, ok = append(s, other), ok && len(other) >= MinSecret
	}
	return s, ok
}

// Sealed returns a note of a kind with the seal of the first secret.
func (s Secrets) Sealed(kind, id string, body []byte) Note { return s[0].Sealed(kind, id, body) }

// Genuine reports whether a host sealed the note.
func (s Secrets) Genuine(kind string, n *Note) bool {
	for _, one := range s {
		if one.Genuine(kind, n) {
			return true
		}
	}
	return false
}

// Reseal seals with the first secret what another one of them sealed.
func (s Secrets) Reseal(ctx context.Context, in Port, kind string) error {
	if len(s) < 2 {
		return nil
	}
	stale := func(n *Note) bool { return !s[0].Genuine(kind, n) && s.Genuine(kind, n) }
	notes, _, _, err := in.Read(ctx, kind, 0)
	if err != nil || !slices.ContainsFunc(notes, func(n Note) bool { return stale(&n) }) {
		return err
	}
	return in.Change(ctx, kind, func(all []Note) (put []Note, _ []string, err error) {
		for i := range all {
			if n := &all[i]; stale(n) {
				put = append(put, s.Sealed(kind, n.ID, n.Body))
			}
		}
		return put, nil, nil
	})
}
