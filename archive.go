package stile

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/internal/livestore"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Archive reads a journal without running anything: no key file, no model. It may be
// used beside a running host. Its methods are safe for concurrent use.
type Archive struct {
	store    journal.Store
	own      bool
	dialects []parse.Dialect
	awake    func(sid string) bool                               // of a runtime; else nil
	alone    func() (bool, error)                                // of a runtime whose store can say; else nil
	owned    func(ctx context.Context, sid string) (bool, error) // whether a host runs it, of a runtime in a cluster; else nil
	now      func() time.Time                                    // of a runtime; else nil
	maxGas   int64                                               // of a program that is replayed; 0 is replay.MaxProgramGas
}

// OpenArchive opens the journal of a data directory for reading: it changes nothing,
// and neither the journal nor the directory need be writable. Dialects are those of
// Config.Dialects, which a replay needs. A missing directory is ERR_CONFIG; a file
// that is no journal of ours, or of another format, is ERR_JOURNAL.
func OpenArchive(dir string, dialects ...parse.Dialect) (*Archive, error) {
	if dir == "" {
		dir = DefaultDir
	}
	if err := journalIn(dir); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, JournalFile), ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return &Archive{store: store, own: true, dialects: dialects}, nil
}

// journalIn is ERR_CONFIG where a directory has no journal.
func journalIn(dir string) error { return files.Find(dir, JournalFile, "journal") }

// NewArchive reads a journal that is open already, such as a shared one. It stays
// the caller's to close.
func NewArchive(store journal.Store, dialects ...parse.Dialect) *Archive {
	return &Archive{store: store, dialects: dialects}
}

// Archive is the runtime's own journal, read the same way. Closing it does nothing.
func (rt *Runtime) Archive() *Archive {
	if rt.cfg.ReadOnly { // what runs is known from the journal alone
		return &Archive{store: rt.store, dialects: rt.cfg.Dialects, now: rt.cfg.Now}
	}
	a := &Archive{store: rt.store, dialects: rt.cfg.Dialects, awake: rt.host.Awake, alone: aloneOf(rt.store.Store), now: rt.cfg.Now}
	if rt.member != nil {
		a.owned = func(ctx context.Context, sid string) (bool, error) {
			_, ok, err := rt.Owner(ctx, sid)
			return ok, err
		}
	}
	return a
}

// Close releases the journal.
func (a *Archive) Close() error {
	if !a.own {
		return nil
	}
	return a.store.Close()
}

// Sessions lists the sessions whose SID begins with prefix, in order of SID.
func (a *Archive) Sessions(ctx context.Context, prefix string) iter.Seq2[Head, error] {
	return a.SessionsAfter(ctx, prefix, "")
}

// SessionsAfter is Sessions from behind the session prefix + after on; "" is the first.
func (a *Archive) SessionsAfter(ctx context.Context, prefix, after string) iter.Seq2[Head, error] {
	return journal.List(ctx, a.store, prefix, after)
}

// Head finds a session by name: tenant:user:id, or a bare id of the local user.
func (a *Archive) Head(ctx context.Context, name string) (Head, error) {
	key, err := messages.ParseSID(name)
	if err != nil {
		return Head{}, err
	}
	return a.store.Head(ctx, key.SID())
}

// HeadOf finds an incarnation, also one that has retired.
func (a *Archive) HeadOf(ctx context.Context, inc messages.Incarnation) (Head, error) {
	return a.store.HeadOf(ctx, inc)
}

// Bytes returns what the journal keeps of all sessions whose SID begins with prefix: the bodies
// of their records, and in SQLite and PostgreSQL their blobs. Erased ones count nothing.
func (a *Archive) Bytes(ctx context.Context, prefix string) (n int64, err error) {
	store := a.store
	if live, ok := store.(*livestore.Store); ok {
		store = live.Store
	}
	if s, ok := store.(interface {
		Bytes(ctx context.Context, prefix string) (int64, error)
	}); ok {
		return s.Bytes(ctx, prefix)
	}
	for h, err := range a.Sessions(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		for r, err := range a.Records(ctx, h.Inc) {
			if err != nil {
				return 0, err
			}
			n += int64(len(r.Raw))
		}
	}
	return n, nil
}

// Checkpoint writes a signed list of the heads of all sessions: a few hundred bytes each, as
// lines of JSON. Kept elsewhere, it shows cut tails, rewritten and dropped sessions
// (stile verify --since). It returns how many sessions it has, and the digest that is signed.
// ERR_JOURNAL when the keys have no receipt key in force.
func (a *Archive) Checkpoint(ctx context.Context, keys *keyring.Ring, w io.Writer) (sessions int64, digest messages.Digest, err error) {
	now := time.Now
	if a.now != nil {
		now = a.now
	}
	c, err := proof.WriteCheckpoint(ctx, a.store, keyfile.Signer{Ring: keys}, now(), w)
	return c.Sessions, c.Digest, err
}

// Records reads a session from its first record on, bodies typed.
func (a *Archive) Records(ctx context.Context, inc messages.Incarnation) iter.Seq2[*Record, error] {
	return journal.ReadTyped(ctx, a.store, inc, 0, 0)
}

// Parent returns the session and action that a child session runs for; nil for a top-level
// session, and for one whose first record was erased.
func (a *Archive) Parent(ctx context.Context, inc messages.Incarnation) (*messages.ParentLink, error) {
	return journal.Parent(ctx, a.store, inc)
}

// Approvals lists the calls of a session that wait for approval, without waking it. One
// whose time is over is still listed until the session is woken.
func (a *Archive) Approvals(ctx context.Context, h Head) ([]Approval, error) {
	if !h.Open {
		return nil, nil
	}
	_, state, err := load.State(ctx, a.store, h.Inc)
	if err != nil {
		return nil, err
	}
	return turn.ApprovalsOf(&state), nil
}

// CheckAnswer returns the error with which Session.Approve would refuse an answer to q on
// behalf of by; nil when the answer would count now. It wakes no session: a refused answer
// must not touch a run that waits to be continued.
func (a *Archive) CheckAnswer(ctx context.Context, h Head, q Approval, by string) error {
	_, state, err := load.State(ctx, a.store, h.Inc)
	if err != nil {
		return err
	}
	now := time.Now
	if a.now != nil {
		now = a.now
	}
	return state.Refuses(&turn.Approve{Approval: q.ID, Digest: q.Digest, Answer: messages.GateApprove, By: by}, now())
}

// Blob returns the bytes that a record names by digest; ERR_NOT_FOUND when they were erased.
func (a *Archive) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	b, err := a.store.Blob(ctx, inc, d)
	return b, missing(err)
}

// PublicKeys are the receipt keys the journal was signed with, public halves only.
func (a *Archive) PublicKeys(ctx context.Context) (*keyring.Set, error) {
	return keyfile.Published(ctx, a.store)
}

// VerifyOptions are the keys, heads and policy that Verify compares a session with.
type VerifyOptions struct {
	// Keys are the public receipt keys. nil takes the keys stored beside the records. These
	// do not detect an attacker who replaced records and keys alike; pass keys that were
	// exported and kept elsewhere to detect that too.
	Keys *keyring.Set
	// Head is an exported head; with it Verify detects a cut tail.
	Head journal.Anchor
	// Since is an earlier head, such as one of a checkpoint: the session's chain must contain it.
	Since journal.Anchor
	// Receipts is the policy for sessions whose opening record names none, as written by early
	// versions. With Keys, "" reports every missing receipt of a decision as removed.
	Receipts journal.Receipts
	// AllowMissing accepts missing receipts, and erasures without a signed statement, also
	// with Keys: for journals that were written without a signer.
	AllowMissing bool
}

// Verify checks a session's chain, salted bodies and receipts, offline. The report
// names every problem; the error is for a journal that cannot be read at all.
func (a *Archive) Verify(ctx context.Context, inc messages.Incarnation, opts VerifyOptions) (journal.Report, error) {
	trusted := opts.Keys != nil && !opts.AllowMissing
	if opts.Keys == nil {
		var err error
		if opts.Keys, err = a.PublicKeys(ctx); err != nil {
			return journal.Report{}, err
		}
	}
	head, err := a.store.HeadOf(ctx, inc)
	if err != nil {
		return journal.Report{}, err
	}
	if opts.Head == (journal.Anchor{}) {
		opts.Head = journal.Anchor{Seq: head.Seq, Hash: head.Hash}
	}
	return journal.Verify(a.store.Read(ctx, inc, 0, 0), journal.VerifyOptions{
		SID: head.SID, Inc: inc, Keys: keyfile.Verifier{Set: opts.Keys}, Trusted: trusted, Receipts: opts.Receipts, Head: opts.Head, Since: opts.Since,
	}), nil
}

// ReceiptKeys makes the keys that journal.Verify takes of a set of public keys, to verify
// exported records without an Archive.
func ReceiptKeys(set *keyring.Set) journal.ReceiptKeys { return keyfile.Verifier{Set: set} }

// Export writes a session as JSON lines, one record each: the header, the body,
// the salt, the hashes and the receipt. Erased bodies are null.
func (a *Archive) Export(ctx context.Context, inc messages.Incarnation, w io.Writer) error {
	var buf []byte
	for r, err := range a.store.Read(ctx, inc, 0, 0) {
		if err != nil {
			return err
		}
		buf = append(journal.AppendRecord(buf[:0], r), '\n')
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// ExportBlobs writes the part of an export that follows the records: the blobs that the
// records of an incarnation name by digest and the journal still holds (replies, system
// messages, OUTPUT and SCRATCHPAD of turns), each once, one line of JSON each.
func (a *Archive) ExportBlobs(ctx context.Context, inc messages.Incarnation, w io.Writer) error {
	seen := map[messages.Digest]bool{}
	var line []byte
	for r, err := range a.Records(ctx, inc) {
		if err != nil {
			return err
		}
		for _, d := range journal.Blobs(r.Body) {
			if seen[d] {
				continue
			}
			seen[d] = true
			b, err := a.store.Blob(ctx, inc, d)
			if journal.IsNotFound(err) {
				continue // erased
			}
			if err != nil {
				return err
			}
			line = append(journal.AppendBlob(line[:0], messages.Blob{Digest: d, Data: b}), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrNoManifest means that a journal does not hold the manifest a session ran
// under, so that the caller must pass an agent.
var ErrNoManifest = errors.New("stile: the journal does not hold the session's manifest")
