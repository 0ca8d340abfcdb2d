package access

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/board/boardtest"
	"github.com/seed14be6753/stile/messages"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is one that stands until it is set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

var ofHosts = board.Secret("what all hosts of this test know alone")

// tokensAt are the tokens of a cluster as one of its hosts has them.
func tokensAt(t *testing.T, b *boardtest.Memory, c *clock, file string) (*Tokens, *observer.ObservedLogs) {
	t.Helper()
	if b.Clock == nil {
		b.Clock = c.now
	}
	core, logs := observer.New(zap.InfoLevel)
	toks, err := OpenShared(t.Context(), b, ofHosts, file, zap.New(core), c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(toks.Close)
	return toks, logs
}

// reasonAt is why a host refuses a token; "" when it does not.
func reasonAt(toks *Tokens, secret string) string {
	if _, err := toks.Authenticate(context.Background(), secret); err != nil {
		return reasonOf(err)
	}
	return ""
}

func wish() Wish { return Wish{Tenant: "acme", User: "ann", Scopes: []string{"read"}} }

// A token made at one host is good at all; one that is revoked or replaced at another is refused at
// all; and the database has no secret of any.
func TestSharedTokens(t *testing.T) {
	var b boardtest.Memory
	c := &clock{at: start}
	x, _ := tokensAt(t, &b, c, "")
	y, logs := tokensAt(t, &b, c, "")
	one, tok, err := x.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	if reasonAt(x, one) != "" || reasonAt(y, one) == "" {
		t.Error("a token is not good where it was made, or known where it was not told")
	}
	b.Tell(false)
	if got := reasonAt(y, one); got != "" {
		t.Errorf("at the other host: %s", got)
	}
	if id, err := y.Authenticate(t.Context(), one); err != nil || id.Tenant != "acme" || id.User != "ann" || id.Token != tok.ID {
		t.Errorf("%+v, %v", id, err)
	}
	two, next, _, err := y.Rotate(Rotation{ID: tok.ID, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.Tell(false)
	if reasonAt(x, one) != "" || reasonAt(x, two) != "" {
		t.Error("within the grace both are good")
	}
	c.at = c.at.Add(time.Hour)
	b.Tell(false)
	if got := reasonAt(x, one); got != ReasonExpired {
		t.Errorf("after the grace: %q", got)
	}
	if _, _, err := x.Revoke(Revocation{ID: next.ID}); err != nil {
		t.Fatal(err)
	}
	b.Tell(false)
	for _, toks := range []*Tokens{x, y} {
		if got := reasonAt(toks, two); got != ReasonRevoked {
			t.Errorf("a revoked one: %q", got)
		}
	}
	all, err := y.List()
	if err != nil || len(all) != 2 || all[0].ID != tok.ID || all[1].ID != next.ID {
		t.Errorf("%+v, %v", all, err)
	}
	notes, _, _, _ := b.Read(t.Context(), board.Tokens, 0)
	for _, n := range notes {
		for _, secret := range []string{one, two} {
			if _, part, _ := strings.Cut(strings.TrimPrefix(secret, Prefix), "_"); strings.Contains(string(n.Body), part) {
				t.Error("the database has a secret")
			}
		}
	}
	if logs.Len() != 0 {
		t.Errorf("%v", logs.All())
	}
	z, _ := tokensAt(t, &b, c, "") // which comes later
	if reasonAt(z, two) != ReasonRevoked {
		t.Error("a host that comes later")
	}
}

// Refusals of Create, Rotate and Revoke change nothing.
func TestSharedTokensRefuse(t *testing.T) {
	var b boardtest.Memory
	toks, _ := tokensAt(t, &b, &clock{at: start}, "")
	if _, _, err := toks.Revoke(Revocation{ID: "none"}); messages.CodeOf(err) != messages.ErrNotFound {
		t.Error(err)
	}
	_, tok, err := toks.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("not this one")
	if _, _, _, err := toks.Rotate(Rotation{ID: tok.ID, May: func(Token) error { return why }}); !errors.Is(err, why) {
		t.Error(err)
	}
	if all, err := toks.List(); err != nil || len(all) != 1 || all[0].State(start) != StateGood {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := OpenShared(t.Context(), &b, ofHosts[:31], "", nil, nil); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

// A note without a seal of the hosts makes no token, and changes none to more than it was.
func TestForgedTokens(t *testing.T) {
	var b boardtest.Memory
	c := &clock{at: start}
	toks, logs := tokensAt(t, &b, c, "")
	secret, tok, err := toks.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	mine, forged, err := fresh()
	if err != nil {
		t.Fatal(err)
	}
	forged.Tenant, forged.User, forged.Scopes = "local", "local", Scopes()
	other := board.Secret("which the hosts do not have at all")
	more := tok
	more.Scopes = Scopes()
	for name, n := range map[string]board.Note{
		"new":         noteBy(t, other, &forged),
		"more scopes": noteBy(t, other, &more),
		"another id":  ofHosts.Sealed(board.Tokens, "0123456789ab", noteBy(t, ofHosts, &tok).Body),
		"not a note":  ofHosts.Sealed(board.Tokens, "ba9876543210", []byte("[]")),
	} {
		err := b.Change(t.Context(), board.Tokens, func([]board.Note) ([]board.Note, []string, error) { return []board.Note{n}, nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		told := logs.Len()
		b.Tell(false)
		if reasonAt(toks, mine) == "" {
			t.Errorf("%s: a forged token is good", name)
		}
		if id, err := toks.Authenticate(t.Context(), secret); err == nil && len(id.Scopes) != 1 {
			t.Errorf("%s: the token may do %v", name, id.Scopes)
		}
		if logs.Len() != told+1 {
			t.Errorf("%s is not told once: %v", name, logs.All())
		}
		b.Tell(false)
	}
}

func noteBy(t *testing.T, secret board.Secret, tok *Token) board.Note {
	t.Helper()
	n, err := (&hostTokens{secrets: board.Secrets{secret}}).noteOf(tok)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A database that has lost a revocation, or has an earlier note put back, gets it again from a host
// that knows; and no caller is let in meanwhile.
func TestLostRevocations(t *testing.T) {
	for name, shortens := range map[string]func(*Tokens, string) error{
		"revoked": func(toks *Tokens, id string) error {
			_, _, err := toks.Revoke(Revocation{ID: id})
			return err
		},
		"expires": func(toks *Tokens, id string) error {
			_, _, _, err := toks.Rotate(Rotation{ID: id, Grace: time.Minute})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b boardtest.Memory
			c := &clock{at: start}
			x, logs := tokensAt(t, &b, c, "")
			secret, tok, err := x.Create(wish())
			if err != nil {
				t.Fatal(err)
			}
			before, _, _, err := b.Read(t.Context(), board.Tokens, 0)
			if err == nil {
				err = shortens(x, tok.ID)
			}
			if err == nil {
				err = b.Change(t.Context(), board.Tokens, func([]board.Note) ([]board.Note, []string, error) { return before, nil, nil })
			}
			if err != nil {
				t.Fatal(err)
			}
			c.at = c.at.Add(time.Minute)
			b.Tell(false)
			if reasonAt(x, secret) == "" {
				t.Error("the token is good again")
			}
			if logs.Len() == 0 {
				t.Error("it is not told")
			}
			y, _ := tokensAt(t, &b, c, "")
			if reasonAt(y, secret) == "" {
				t.Error("a host that comes later takes the token")
			}
		})
	}
}

// Tokens that the database has not confirmed for a while are not believed; a moment is bridged.
func TestTokensWithoutTheDatabase(t *testing.T) {
	var b boardtest.Memory
	c := &clock{at: start}
	toks, _ := tokensAt(t, &b, c, "")
	secret, _, err := toks.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(maxBehind)
	if got := reasonAt(toks, secret); got != "" {
		t.Errorf("after %s: %s", maxBehind, got)
	}
	c.at = c.at.Add(time.Second)
	if got := reasonAt(toks, secret); got != ReasonUnavailable {
		t.Errorf("later: %q", got)
	}
	b.Tell(false)
	if got := reasonAt(toks, secret); got != "" {
		t.Errorf("with the database again: %s", got)
	}
	down := errors.New("away")
	b.Down = func() error { return down }
	if _, _, err := toks.Create(wish()); !errors.Is(err, down) {
		t.Error(err)
	}
	b.Tell(true) // it must be read, and cannot
	c.at = c.at.Add(maxBehind + time.Second)
	if got := reasonAt(toks, secret); got != ReasonUnavailable {
		t.Errorf("unread: %q", got)
	}
	if _, err := OpenShared(t.Context(), &b, ofHosts, "", nil, c.now); !errors.Is(err, down) {
		t.Error(err)
	}
	b.Down = nil
	b.Tell(false)
	if got := reasonAt(toks, secret); got != "" {
		t.Errorf("read at last: %s", got)
	}
}

// The first host of a cluster takes over the tokens of its file; what a file has later is not read.
func TestFileOfTokensIsTakenOver(t *testing.T) {
	c := &clock{at: start}
	path := filepath.Join(t.TempDir(), "tokens.json")
	alone, err := Open(path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	one, tok, err := alone.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "tokens.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var b boardtest.Memory
	x, logs := tokensAt(t, &b, c, path)
	if reasonAt(x, one) != "" || logs.Len() != 1 {
		t.Errorf("the token of the file: %s, %v", reasonAt(x, one), logs.All())
	}
	if _, _, err := x.Revoke(Revocation{ID: tok.ID}); err != nil {
		t.Fatal(err)
	}
	two, _, err := alone.Create(wish())
	if err != nil {
		t.Fatal(err)
	}
	y, logs := tokensAt(t, &b, c, copied)
	if reasonAt(y, one) != ReasonRevoked || logs.Len() != 0 {
		t.Errorf("a copy brings a token back: %s, %v", reasonAt(y, one), logs.All())
	}
	z, logs := tokensAt(t, &b, c, path)
	if reasonAt(z, two) == "" || logs.FilterMessageSnippet("does not know").Len() != 1 {
		t.Errorf("a token of the file alone: %v", logs.All())
	}
}

// Tokens are made and expire by the clock of the database. One at a host whose own clock is a day ahead
// or late is as good as at the others; the host's own says for how long the database was silent.
func TestTokensExpireByTheClockOfTheDatabase(t *testing.T) {
	for _, ahead := range []time.Duration{-25 * time.Hour, 25 * time.Hour} {
		place, here := &clock{at: start}, &clock{at: start.Add(ahead)}
		b := boardtest.Memory{Clock: place.now}
		toks, _ := tokensAt(t, &b, here, "")
		wish := wish()
		wish.Expires = toks.Now().Add(time.Hour)
		secret, tok, err := toks.Create(wish)
		if err != nil || !tok.Created.Equal(start) {
			t.Fatalf("%+v, %v", tok, err)
		}
		for _, later := range []struct {
			age  time.Duration
			want string
		}{{0, ""}, {time.Hour - time.Second, ""}, {time.Hour, ReasonExpired}} {
			place.at, here.at = start.Add(later.age), start.Add(ahead+later.age)
			b.Tell(false)
			if got := reasonAt(toks, secret); got != later.want {
				t.Errorf("with a clock %s ahead, after %s: %q, want %q", ahead, later.age, got, later.want)
			}
		}
		place.at = start // as a server whose clock is behind takes the place of the database
		here.at = here.at.Add(maxBehind + time.Second)
		if got := reasonAt(toks, secret); got != ReasonUnavailable {
			t.Errorf("without the database: %q", got)
		}
	}
}
