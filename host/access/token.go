package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// Prefix begins every token of ours, so that people and scanners of secrets know one.
const Prefix = "stile_"

const (
	secretBytes  = 32
	idBytes      = 6
	maxFileBytes = 16 << 20
	// MaxTokens bounds a file of tokens, revoked ones included.
	MaxTokens  = 10000
	fileFormat = 1

	// deadFor is how long a token that is revoked or expired stays in the file.
	deadFor = 30 * 24 * time.Hour
	// What tokens make of their own tenant leaves room: for the command, whatever tenants
	// do, and for every other tenant. A tenant has fewTokens if the file has room at all,
	// and one more for every four that are free.
	tenantTokens   = 1000
	operatorTokens = 500
	fewTokens      = 16
	fairness       = 4
)

// ReasonTokens is the reason of ERR_BUSY for a tenant, or a file, that has as many tokens
// as it may.
const ReasonTokens = "TOKENS_FULL"

// Token is what is kept of a token.
type Token struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"` // hex of the SHA-256 of all of the token
	Tenant  string    `json:"tenant"`
	User    string    `json:"user"`
	Scopes  []Scope   `json:"scopes"`
	Note    string    `json:"note,omitzero"`
	Maker   string    `json:"maker,omitzero"` // id of the token that made it over HTTP
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// file is what is in the file.
type file struct {
	Format int     `json:"format"`
	Tokens []Token `json:"tokens"`
}

// Tokens are those of one file, or of a cluster (OpenShared). Several processes may use them at
// once; changes are made under a lock and put in place in one step. Its methods are safe for
// concurrent use.
type Tokens struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	seen fs.FileInfo
	byID map[string]*entry
	bad  error // why nothing could be read

	hosts *hostTokens // those of a cluster, in place of a file; nil
}

type entry struct {
	hash   [sha256.Size]byte
	token  Token
	undone bool // the database has lost its end
}

// Open uses the file of that path, which need not exist yet: then no token is known. One
// that is damaged, or that others than its owner can change, is ERR_CONFIG. now is for
// tests; nil is the clock.
func Open(path string, now func() time.Time) (*Tokens, error) {
	t := &Tokens{path: path, now: now}
	if t.now == nil {
		t.now = time.Now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refresh(); t.bad != nil {
		return nil, t.bad
	}
	return t, nil
}

// refresh reads the file when it is another one than before. The lock is held. Where
// there is none no token is known: that is an answer, and not a failure to give one.
func (t *Tokens) refresh() {
	if t.hosts != nil {
		t.bad = t.behind()
		return
	}
	info, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.seen, t.byID, t.bad = nil, nil, nil
		return
	}
	if err == nil && t.seen != nil && t.bad == nil && os.SameFile(info, t.seen) && info.ModTime().Equal(t.seen.ModTime()) && info.Size() == t.seen.Size() {
		return
	}
	var f file
	if err == nil {
		f, info, err = readTokens(t.path)
	}
	if err == nil {
		t.byID, err = index(f.Tokens)
	}
	t.seen, t.bad = info, t.placed(err)
}

// placed names the file as little as is needed.
func (t *Tokens) placed(err error) error {
	if err == nil {
		return nil
	}
	var e *messages.Error
	if errors.As(err, &e) {
		return messages.InFile(e, filepath.Base(t.path))
	}
	return &messages.Error{Code: messages.ErrConfig, File: filepath.Base(t.path), Detail: "the tokens cannot be read or written", Cause: files.Cause(err)}
}

func readTokens(path string) (f file, info fs.FileInfo, err error) {
	in, err := os.Open(path)
	if err != nil {
		return f, nil, err
	}
	defer in.Close()
	if info, err = in.Stat(); err != nil {
		return f, nil, err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return f, info, &messages.Error{Code: messages.ErrConfig, Detail: "others than its owner can change the file: chmod 600"}
	}
	b, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	if err != nil {
		return f, info, err
	}
	f, err = parse(b)
	return f, info, err
}

// parse reads a file's bytes.
func parse(b []byte) (f file, err error) {
	if len(b) > maxFileBytes {
		return f, &messages.Error{Code: messages.ErrConfig, Detail: "is larger than 16 MiB"}
	}
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		bad := &messages.Error{Code: messages.ErrConfig, Detail: "is no file of tokens", Cause: err}
		var at *jsontext.SyntacticError
		if errors.As(err, &at) {
			bad.Offset, bad.HasOffset, bad.Cause = at.ByteOffset, true, at.Err
		}
		return f, bad
	}
	if f.Format != fileFormat {
		return f, &messages.Error{Code: messages.ErrConfig, Field: "format", Detail: "want " + strconv.Itoa(fileFormat)}
	}
	_, err = index(f.Tokens)
	return f, err
}

// index checks the tokens of a file.
func index(all []Token) (map[string]*entry, error) {
	if len(all) > MaxTokens {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "tokens", Detail: "more than " + strconv.Itoa(MaxTokens)}
	}
	byID := make(map[string]*entry, len(all))
	for i, tok := range all {
		at := func(member string) string { return "tokens[" + strconv.Itoa(i) + "]." + member }
		e := &entry{token: tok}
		if h, err := hex.DecodeString(tok.Hash); err != nil || len(h) != len(e.hash) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at("hash"), Detail: "want 64 hex digits"}
		} else {
			copy(e.hash[:], h)
		}
		if tok.ID == "" || byID[tok.ID] != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at("id"), Detail: "is empty, or there twice"}
		}
		if Part(tok.Tenant) != tok.Tenant && !strings.HasPrefix(tok.Tenant, hashedPart) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at("tenant"), Detail: "is no name of a tenant"}
		}
		if Part(tok.User) != tok.User && !strings.HasPrefix(tok.User, hashedPart) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at("user"), Detail: "is no name of a user"}
		}
		for _, s := range tok.Scopes {
			if !slices.Contains(Scopes(), s) {
				return nil, &messages.Error{Code: messages.ErrConfig, Field: at("scopes"), Detail: "there is no scope " + quoted(string(s))}
			}
		}
		byID[tok.ID] = e
	}
	return byID, nil
}

// Now is the time by which tokens expire: in a cluster by the clock of its database.
func (t *Tokens) Now() time.Time { return t.now() }

// Authenticate implements Authenticator.
func (t *Tokens) Authenticate(_ context.Context, bearer string) (Identity, error) {
	if len(bearer) > MaxBearerBytes {
		return Identity{}, unknown()
	}
	sum := sha256.Sum256([]byte(bearer))
	id := idOf(bearer)
	t.mu.Lock()
	t.refresh()
	bad, e := t.bad, t.byID[id]
	t.mu.Unlock()
	if bad != nil {
		return Identity{}, &messages.Error{Code: messages.ErrDenied, Reason: ReasonUnavailable, Field: "Authorization", Detail: "the host cannot read its tokens", Cause: bad}
	}
	if e == nil {
		e = &entry{} // what no token hashes to: an unknown one takes the same way
	}
	if subtle.ConstantTimeCompare(sum[:], e.hash[:]) != 1 || e.token.ID == "" {
		return Identity{}, unknown()
	}
	return e.token.identity(t.now())
}

// The states of a token.
const (
	StateGood    = "good"
	StateExpired = "expired"
	StateRevoked = "revoked"
)

// State reports whether a token is good.
func (tok *Token) State(now time.Time) string {
	switch {
	case !tok.Revoked.IsZero():
		return StateRevoked
	case !tok.Expires.IsZero() && !now.Before(tok.Expires):
		return StateExpired
	}
	return StateGood
}

// Grant tells in words what a token is good for, as the audit log has it.
func (tok *Token) Grant() string {
	until := "for ever"
	if !tok.Expires.IsZero() {
		until = "until " + tok.Expires.Format(time.RFC3339)
	}
	return "of " + tok.Tenant + ":" + tok.User + ", scopes " + joined(tok.Scopes) + ", " + until
}

func (tok *Token) identity(now time.Time) (Identity, error) {
	switch tok.State(now) {
	case StateRevoked:
		return Identity{}, Denied(ReasonRevoked, "the token was revoked")
	case StateExpired:
		return Identity{}, Denied(ReasonExpired, "the token has expired")
	}
	return Identity{Tenant: tok.Tenant, User: tok.User, Token: tok.ID, Scopes: tok.Scopes, Expires: tok.Expires}, nil
}

// idOf reads the id out of a token; "" when the token is not one of ours.
func idOf(bearer string) string {
	rest, ours := strings.CutPrefix(bearer, Prefix)
	id, _, ok := strings.Cut(rest, "_")
	if !ours || !ok {
		return ""
	}
	return id
}

// Wish says what token to make.
type Wish struct {
	Tenant, User string
	Scopes       []string
	Note         string
	Maker        string    // id of the token that makes it
	Expires      time.Time // zero: never
}

// Create makes a token and keeps what is needed to know it again. secret is told this
// once: it cannot be had from the file. A wish that names no tenant, user or scope, or
// whose time is over, is ERR_INVALID. A wish with a Maker is ERR_BUSY with ReasonTokens
// when the tenant has 1000 tokens that are good, or the file too few that are free; one
// without is bounded by MaxTokens alone.
func (t *Tokens) Create(w Wish) (secret string, tok Token, err error) {
	for _, p := range []struct{ field, name string }{{"tenant", w.Tenant}, {"user", w.User}} {
		if !kept(p.name) {
			return "", tok, &messages.Error{Code: messages.ErrInvalid, Field: p.field, Detail: wantPart}
		}
	}
	scopes, err := ParseScopes(w.Scopes)
	if err != nil {
		return "", tok, err
	}
	if len(w.Note) > 256 {
		return "", tok, &messages.Error{Code: messages.ErrInvalid, Field: "note", Detail: "has more than 256 bytes"}
	}
	now := t.now().UTC().Truncate(time.Second)
	if !w.Expires.IsZero() && !w.Expires.After(now) {
		return "", tok, &messages.Error{Code: messages.ErrInvalid, Field: "expires", Detail: "must be in the future"}
	}
	secret, tok, err = fresh()
	if err != nil {
		return "", tok, err
	}
	tok.Tenant, tok.User, tok.Scopes, tok.Note, tok.Maker, tok.Created, tok.Expires = w.Tenant, w.User, scopes, w.Note, w.Maker, now, w.Expires.UTC()
	err = t.change(func(f *file) error {
		if err := f.room(&tok, now); err != nil {
			return err
		}
		f.Tokens = append(f.Tokens, tok)
		return nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, tok, nil
}

// fresh makes a secret, and a token that has its id and hash alone.
func fresh() (secret string, tok Token, err error) {
	raw := make([]byte, idBytes+secretBytes)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return "", tok, &messages.Error{Code: messages.ErrConfig, Detail: "no randomness", Cause: err}
	}
	id := hex.EncodeToString(raw[:idBytes])
	secret = Prefix + id + "_" + base64.RawURLEncoding.EncodeToString(raw[idBytes:])
	sum := sha256.Sum256([]byte(secret))
	return secret, Token{ID: id, Hash: hex.EncodeToString(sum[:])}, nil
}

// room makes room for a token, or says that there is none. At a bound tokens that are dead
// go before their time: making and revoking uses nothing up.
func (f *file) room(tok *Token, now time.Time) error {
	f.drop(now.Add(-deadFor), "")
	if tok.Maker == "" {
		if len(f.Tokens) >= MaxTokens {
			f.drop(now, "")
		}
		if len(f.Tokens) >= MaxTokens {
			return full("the file has " + strconv.Itoa(MaxTokens) + " tokens, as many as it may: revoke some")
		}
		return nil
	}
	// First what is dead of the tenant itself goes, then what is of all.
	for _, of := range []string{tok.Tenant, ""} {
		if free, own := f.left(tok.Tenant); free > 0 && own < min(tenantTokens, max(free/fairness, fewTokens)) {
			return nil
		}
		f.drop(now, of)
	}
	free, own := f.left(tok.Tenant)
	switch {
	case own >= tenantTokens:
		return full("the tenant has " + strconv.Itoa(own) + " tokens, as many as it may: revoke some")
	case free <= 0 || own >= max(free/fairness, fewTokens):
		return full("what is left of the " + strconv.Itoa(MaxTokens) + " tokens of all tenants is for others: revoke some")
	}
	return nil
}

func full(detail string) error {
	return &messages.Error{Code: messages.ErrBusy, Reason: ReasonTokens, Field: "tokens", Detail: detail}
}

// left tells how many tokens may still be made by others, and how many a tenant has.
func (f *file) left(tenant string) (free, own int) {
	for i := range f.Tokens {
		if f.Tokens[i].Tenant == tenant {
			own++
		}
	}
	return MaxTokens - operatorTokens - len(f.Tokens), own
}

// drop takes out tokens that were dead at a time, of one tenant or of all. One that made
// what stays is kept: a revocation with what it made goes by that line.
func (f *file) drop(at time.Time, tenant string) {
	makes := map[string]bool{}
	kept := make([]Token, 0, len(f.Tokens))
	for _, tok := range slices.Backward(f.Tokens) { // a token is made by an earlier one
		dead := !tok.Revoked.IsZero() && !tok.Revoked.After(at) || !tok.Expires.IsZero() && !tok.Expires.After(at)
		if dead && !makes[tok.ID] && (tenant == "" || tok.Tenant == tenant) {
			continue
		}
		makes[tok.Maker] = true
		kept = append(kept, tok)
	}
	slices.Reverse(kept)
	f.Tokens = kept
}

// Rotation says which token to replace.
type Rotation struct {
	ID     string
	Tenant string // that the token has to be of; "" is any
	Maker  string // id of the token that rotates it over HTTP
	// Grace is how long the old one stays good, at most; at 0 it is revoked.
	Grace time.Duration
	// Life is how long the new one is good, 0 being for ever; nil is as long as the old one was when it
	// was made.
	Life *time.Duration
	// May refuses, with an error, to replace a token; nil refuses none.
	May func(Token) error
}

// Rotate makes a token with tenant, user, scopes and note of another one, which stays good for a
// while: its holders go over to the new one meanwhile. Both happen in one step, or neither.
// Errors: ERR_NOT_FOUND as in Revoke; ERR_CONFLICT, the old one is not good any more;
// ERR_INVALID, a negative time; and those of May and Create.
func (t *Tokens) Rotate(r Rotation) (secret string, tok, old Token, err error) {
	if r.Grace < 0 || r.Life != nil && *r.Life < 0 {
		return "", tok, old, &messages.Error{Code: messages.ErrInvalid, Field: "grace", Detail: "a time is negative"}
	}
	if secret, tok, err = fresh(); err != nil {
		return "", tok, old, err
	}
	now := t.now().UTC().Truncate(time.Second)
	err = t.change(func(f *file) error {
		at := func() int {
			return slices.IndexFunc(f.Tokens, func(tok Token) bool { return tok.ID == r.ID && (r.Tenant == "" || tok.Tenant == r.Tenant) })
		}
		i := at()
		if i < 0 {
			return &messages.Error{Code: messages.ErrNotFound, Reason: ReasonNotFound, Field: "id", Detail: "there is no token " + quoted(r.ID)}
		}
		old = f.Tokens[i]
		if state := old.State(now); state != StateGood {
			return &messages.Error{Code: messages.ErrConflict, Field: "id", Detail: "the token is " + state + ": make a new one"}
		}
		if r.May != nil {
			if err := r.May(old); err != nil {
				return err
			}
		}
		tok.Tenant, tok.User, tok.Scopes, tok.Note, tok.Maker, tok.Created = old.Tenant, old.User, old.Scopes, old.Note, r.Maker, now
		switch {
		case r.Life != nil && *r.Life > 0:
			tok.Expires = now.Add(*r.Life)
		case r.Life == nil && !old.Expires.IsZero():
			tok.Expires = now.Add(old.Expires.Sub(old.Created))
		}
		if err := f.room(&tok, now); err != nil {
			return err
		}
		i = at() // room may have dropped others
		switch end := now.Add(r.Grace); {
		case r.Grace == 0:
			f.Tokens[i].Revoked = now
		case old.Expires.IsZero() || end.Before(old.Expires):
			f.Tokens[i].Expires = end
		}
		old = f.Tokens[i]
		f.Tokens = append(f.Tokens, tok)
		return nil
	})
	if err != nil {
		return "", Token{}, Token{}, err
	}
	return secret, tok, old, nil
}

// Revocation says what to refuse.
type Revocation struct {
	ID     string
	Tenant string // that the token has to be of; "" is any
	// WithMade takes what the token made along, and what that made.
	WithMade bool
}

// Revoke refuses a token from now on. What is revoked already stays as it is; a token that
// is not there, or of another tenant, is ERR_NOT_FOUND. gone are the token that was named
// and what it took along, left is what it made that stays good.
func (t *Tokens) Revoke(r Revocation) (gone, left []Token, err error) {
	err = t.change(func(f *file) error {
		i := slices.IndexFunc(f.Tokens, func(tok Token) bool { return tok.ID == r.ID && (r.Tenant == "" || tok.Tenant == r.Tenant) })
		if i < 0 {
			return &messages.Error{Code: messages.ErrNotFound, Reason: ReasonNotFound, Field: "id", Detail: "there is no token " + quoted(r.ID)}
		}
		now := t.now().UTC().Truncate(time.Second)
		// A token is made by an earlier one, so that one look in their order finds all.
		line := map[string]bool{r.ID: true}
		for k := i; k < len(f.Tokens); k++ {
			tok := &f.Tokens[k]
			if k > i && !line[tok.Maker] {
				continue
			}
			line[tok.ID] = true
			switch good := tok.State(now) == StateGood; {
			case k > i && !good:
			case k > i && !r.WithMade:
				left = append(left, *tok)
			default:
				if tok.Revoked.IsZero() {
					tok.Revoked = now
				}
				gone = append(gone, *tok)
			}
		}
		return nil
	})
	return gone, left, err
}

// List returns all tokens, in the order in which they were made.
func (t *Tokens) List() ([]Token, error) {
	if t.hosts != nil {
		return t.hosts.list(context.Background())
	}
	f, _, err := readTokens(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f.Tokens, t.placed(err)
}

// change makes one change, alone.
func (t *Tokens) change(do func(*file) error) (err error) {
	if t.hosts != nil {
		return t.hosts.change(context.Background(), t, do)
	}
	dir := filepath.Dir(t.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t.placed(err)
	}
	unlock, err := files.Lock(t.path + ".lock")
	if err != nil {
		return t.placed(err)
	}
	defer unlock()
	f, _, err := readTokens(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = file{Format: fileFormat}, nil
	}
	if err != nil {
		return t.placed(err)
	}
	if err := do(&f); err != nil {
		return err
	}
	if _, err := index(f.Tokens); err != nil {
		return t.placed(err)
	}
	b, err := json.Marshal(f, jsontext.WithIndent("  "))
	if err != nil {
		return t.placed(err)
	}
	return t.placed(files.Replace(t.path, append(bytes.TrimSpace(b), '\n')))
}

// reasonOf is the reason in an error, or "".
func reasonOf(err error) string {
	var e *messages.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}
