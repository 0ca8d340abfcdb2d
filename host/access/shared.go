package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/messages"
)

// Hosts of a cluster keep tokens in the database of their journal, each in a note under the seal of
// the hosts: there is no secret of a token in it, and a program that can write to the database
// alone can neither make a token nor lengthen one's life.

const (
	// sharedWait bounds one question to the database.
	sharedWait = 10 * time.Second
	// maxBehind is how long tokens are believed that the database has not confirmed.
	maxBehind = 15 * time.Second
)

// hostTokens are tokens in the database.
type hostTokens struct {
	board   board.Port
	secrets board.Secrets
	file    string
	log     *zap.Logger
	now     func() time.Time
	stop    func()

	mu        sync.Mutex // held to read notes; guards what follows
	version   int64
	told      map[string]bool
	confirmed time.Time // guarded by Tokens.mu
}

// OpenShared uses the tokens of a cluster, in the database of its journal (postgres.Store.Board).
// The secret is the cluster's, of at least 32 bytes. Changes of other hosts are known within a
// second; while the database cannot be reached, tokens are good for 15 seconds more, and then
// refuse every caller. Close ends that.
//
// Tokens expire by the database's clock, on which all hosts agree.
//
// file is a file of tokens that is taken over when the database has never had one, and not read
// later; "" is none. log and now, the host's own clock, may be nil. old are secrets that are believed as well, while the hosts
// change theirs.
func OpenShared(ctx context.Context, in board.Port, secret []byte, file string, log *zap.Logger, now func() time.Time, old ...[]byte) (*Tokens, error) {
	secrets, ok := board.NewSecrets(secret, old)
	if !ok {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "cluster.secret_file", Detail: "want at least " + strconv.Itoa(board.MinSecret) + " bytes"}
	}
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = zap.NewNop()
	}
	h := &hostTokens{board: in, secrets: secrets, file: file, log: log, now: now, told: map[string]bool{}}
	t := &Tokens{path: file, now: in.Now, hosts: h}
	if err := h.begin(ctx, t); err != nil {
		return nil, err
	}
	h.stop = in.Watch(board.Tokens, func(ctx context.Context, at time.Time, version int64, lost bool) { h.look(ctx, t, at, version, lost) })
	return t, nil
}

// Close ends what OpenShared began.
func (t *Tokens) Close() {
	if t.hosts != nil {
		t.hosts.stop()
	}
}

// begin reads the tokens for the first time, and takes the file over where there never were any.
func (h *hostTokens) begin(ctx context.Context, t *Tokens) error {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	if err := h.secrets.Reseal(ctx, h.board, board.Tokens); err != nil {
		return err
	}
	notes, version, _, err := h.board.Read(ctx, board.Tokens, 0)
	if err != nil {
		return err
	}
	if h.file != "" {
		f, _, err := readTokens(h.file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return t.placed(err)
		case version == 0 && len(f.Tokens) > 0:
			if err := h.takeOver(ctx, &f); err != nil {
				return err
			}
		default:
			h.passOver(&f, notes)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.now()
	if err := h.read(ctx, t); err != nil {
		return err
	}
	t.confirm(asked)
	return nil
}

// takeOver puts up the tokens of a file.
func (h *hostTokens) takeOver(ctx context.Context, f *file) error {
	taken := 0
	err := h.board.Change(ctx, board.Tokens, func(all []board.Note) (put []board.Note, _ []string, err error) {
		if len(all) > 0 { // another host was first
			return nil, nil, nil
		}
		for i := range f.Tokens {
			n, err := h.noteOf(&f.Tokens[i])
			if err != nil {
				return nil, nil, err
			}
			put = append(put, n)
		}
		taken = len(put)
		return put, nil, nil
	})
	if taken > 0 {
		h.log.Info("the tokens of this host are those of the cluster from now on; their file is not read any more", zap.String("file", filepath.Base(h.file)), zap.Int("tokens", taken))
	}
	return err
}

// passOver warns of tokens in the file that the cluster does not have.
func (h *hostTokens) passOver(f *file, notes []board.Note) {
	there := map[string]bool{}
	for i := range notes {
		there[notes[i].ID] = true
	}
	lacks := 0
	for i := range f.Tokens {
		if tok := &f.Tokens[i]; tok.State(h.board.Now()) == StateGood && !there[tok.ID] {
			lacks++
		}
	}
	if lacks > 0 {
		h.log.Warn("a file has tokens that the cluster does not know: they are refused, as the cluster's tokens are in its database", zap.String("file", filepath.Base(h.file)), zap.Int("tokens", lacks))
	}
}

func (h *hostTokens) noteOf(tok *Token) (board.Note, error) {
	b, err := json.Marshal(tok)
	if err != nil {
		return board.Note{}, &messages.Error{Code: messages.ErrConfig, Field: "tokens", Detail: "a token cannot be written", Cause: err}
	}
	return h.secrets.Sealed(board.Tokens, tok.ID, b), nil
}

// tokenOf reads a note.
func (h *hostTokens) tokenOf(n *board.Note) (*entry, error) {
	if !h.secrets.Genuine(board.Tokens, n) {
		return nil, errors.New("the note is not of a host that has the secret of this cluster: it is refused")
	}
	var tok Token
	if err := json.Unmarshal(n.Body, &tok); err != nil {
		return nil, errors.New("the note cannot be read: a newer version may have made it")
	}
	byID, err := index([]Token{tok})
	if err != nil {
		return nil, err
	}
	e := byID[n.ID]
	if e == nil {
		return nil, errors.New("the note has another token than that of its id")
	}
	return e, nil
}

// good reads notes, and tells of those that are refused.
func (h *hostTokens) good(notes []board.Note) (all []*entry) {
	for i := range notes {
		e, err := h.tokenOf(&notes[i])
		if err != nil {
			if text := notes[i].ID + ": " + err.Error(); !h.told[text] && len(h.told) < MaxTokens {
				h.told[text] = true
				h.log.Error("a token in the database is not as it should be", zap.String("token", notes[i].ID), zap.Error(err))
			}
			continue
		}
		all = append(all, e)
	}
	return all
}

// look takes note of a version that was in force at a moment.
func (h *hostTokens) look(ctx context.Context, t *Tokens, at time.Time, version int64, lost bool) {
	h.mu.Lock()
	if lost {
		h.version = 0
	}
	asked := h.now().Add(-time.Since(at))
	if version != h.version || lost {
		if err := h.read(ctx, t); err != nil {
			h.mu.Unlock()
			if ctx.Err() == nil {
				h.log.Error("the tokens of the cluster cannot be read; the next attempt is made soon", zap.Error(err))
			}
			return
		}
	}
	h.mu.Unlock()
	t.confirm(asked)
	h.restore(ctx, t)
}

// read takes note of what has changed. h.mu is held.
func (h *hostTokens) read(ctx context.Context, t *Tokens) error {
	notes, version, whole, err := h.board.Read(ctx, board.Tokens, h.version)
	if err != nil {
		return err
	}
	changed := h.good(notes)
	t.mu.Lock()
	defer t.mu.Unlock()
	byID := map[string]*entry{}
	if !whole {
		for id, e := range t.byID {
			byID[id] = e
		}
		for i := range notes {
			delete(byID, notes[i].ID) // if its note is refused
		}
	}
	for _, e := range changed {
		if before := t.byID[e.token.ID]; before != nil {
			e.ends(&before.token)
		}
		byID[e.token.ID] = e
	}
	t.byID, h.version = byID, version
	return nil
}

// ends keeps what a host has seen of the end of a token: none lives longer than it was told to.
func (e *entry) ends(before *Token) {
	tok := &e.token
	if !before.Revoked.IsZero() && tok.Revoked.IsZero() {
		tok.Revoked, e.undone = before.Revoked, true
	}
	if !before.Expires.IsZero() && (tok.Expires.IsZero() || tok.Expires.After(before.Expires)) {
		tok.Expires, e.undone = before.Expires, true
	}
}

// restore writes down again what the database has lost of the ends of tokens.
func (h *hostTokens) restore(ctx context.Context, t *Tokens) {
	t.mu.Lock()
	undone := map[string]*entry{}
	for id, e := range t.byID {
		if e.undone {
			undone[id] = e
		}
	}
	t.mu.Unlock()
	if len(undone) == 0 {
		return
	}
	err := h.change(ctx, t, func(f *file) error {
		for i := range f.Tokens {
			if e := undone[f.Tokens[i].ID]; e != nil {
				h.log.Error("the database has lost that a token was revoked, or when it expires: this host writes it again", zap.String("token", e.token.ID))
				f.Tokens[i].Revoked, f.Tokens[i].Expires = e.token.Revoked, e.token.Expires
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		h.log.Error("the end of a token cannot be written; the next attempt is made soon", zap.Error(err))
	}
}

// change does one change to the tokens of all hosts, alone.
func (h *hostTokens) change(ctx context.Context, t *Tokens, do func(*file) error) error {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.board.Change(ctx, board.Tokens, func(all []board.Note) (put []board.Note, drop []string, err error) {
		f := file{Format: fileFormat}
		before := map[string][sha256.Size]byte{}
		for _, e := range h.good(all) {
			n, err := h.noteOf(&e.token)
			if err != nil {
				return nil, nil, err
			}
			before[e.token.ID] = sha256.Sum256(n.Body)
			f.Tokens = append(f.Tokens, e.token)
		}
		if err := do(&f); err != nil {
			return nil, nil, err
		}
		if _, err := index(f.Tokens); err != nil {
			return nil, nil, err
		}
		for i := range f.Tokens {
			n, err := h.noteOf(&f.Tokens[i])
			if err != nil {
				return nil, nil, err
			}
			if was, there := before[n.ID]; !there || was != sha256.Sum256(n.Body) {
				put = append(put, n)
			}
			delete(before, n.ID)
		}
		for id := range before {
			drop = append(drop, id)
		}
		return put, drop, nil
	})
	if err != nil {
		return err
	}
	return h.read(ctx, t)
}

// list returns the tokens as the database has them.
func (h *hostTokens) list(ctx context.Context) (all []Token, err error) {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	notes, _, _, err := h.board.Read(ctx, board.Tokens, 0)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.good(notes) {
		all = append(all, e.token)
	}
	return all, nil
}

// confirm takes note that tokens are as they were in the database at a moment.
func (t *Tokens) confirm(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts.confirmed = at
}

// behind is why tokens of the database are not believed any more, or nil. t.mu is held.
func (t *Tokens) behind() error {
	if late := t.hosts.now().Sub(t.hosts.confirmed); late > maxBehind {
		return &messages.Error{Code: messages.ErrConfig, Detail: "the database with the tokens has not answered for " + late.Round(time.Second).String()}
	}
	return nil
}
