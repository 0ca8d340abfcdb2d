package access_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// clock is one that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func open(t *testing.T, path string, c *clock) *access.Tokens {
	t.Helper()
	toks, err := access.Open(path, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return toks
}

func refused(t *testing.T, a access.Authenticator, bearer, reason string) {
	t.Helper()
	id, err := a.Authenticate(t.Context(), bearer)
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrDenied || e.Reason != reason || id.Tenant != "" || id.Scopes != nil {
		t.Errorf("%+v, %v; want %s", id, err, reason)
	}
	if bearer != "" && err != nil && strings.Contains(err.Error(), bearer) {
		t.Errorf("the refusal tells the token: %v", err)
	}
}

// A token is known by its secret alone, until it expires or is revoked: also by a host
// that was running before it was made.
func TestTokens(t *testing.T) {
	c := &clock{at: start}
	path := filepath.Join(t.TempDir(), "data", "tokens.json")
	running, command := open(t, path, c), open(t, path, c)
	refused(t, running, "stile_00_x", access.ReasonUnauthenticated) // there is no file
	secret, tok, err := command.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"submit", "read", "submit"}, Note: "laptop", Expires: start.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []access.Authenticator{running, command, access.First(running, command)} {
		id, err := a.Authenticate(t.Context(), secret)
		if err != nil || id.Tenant != "acme" || id.User != "ann" || id.Token != tok.ID || !slices.Equal(id.Scopes, []access.Scope{access.Read, access.Submit}) || !id.Expires.Equal(start.Add(time.Hour)) {
			t.Errorf("%+v, %v", id, err)
		}
	}
	rest, ours := strings.CutPrefix(secret, access.Prefix)
	id, random, ok := strings.Cut(rest, "_")
	if raw, err := base64.RawURLEncoding.DecodeString(random); !ours || !ok || id != tok.ID || err != nil || len(raw) != 32 {
		t.Errorf("%q: %v", secret, err)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), random) || strings.Contains(string(b), secret) {
		t.Errorf("the file has the secret: %s, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	other, _, err := command.Create(access.Wish{Tenant: "acme", User: "bob", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	_, foreign, _ := strings.Cut(strings.TrimPrefix(other, access.Prefix), "_")
	for _, bad := range []string{
		"", "x", access.Prefix, access.Prefix + id, access.Prefix + id + "_", secret + "x", secret[:len(secret)-1], strings.ToUpper(secret), " " + secret,
		access.Prefix + id + "_" + foreign, access.Prefix + "ffffffffffff_" + random, strings.Repeat("x", 100000), strings.TrimPrefix(secret, access.Prefix),
		access.Prefix + id + "_" + tok.Hash, tok.Hash,
	} {
		refused(t, running, bad, access.ReasonUnauthenticated)
	}
	c.pass(time.Hour - time.Nanosecond)
	if _, err := running.Authenticate(t.Context(), secret); err != nil {
		t.Error(err)
	}
	c.pass(time.Nanosecond)
	refused(t, running, secret, access.ReasonExpired)
	if _, err := running.Authenticate(t.Context(), other); err != nil {
		t.Error(err)
	}
	all, err := command.List()
	if err != nil || len(all) != 2 || all[1].User != "bob" {
		t.Fatalf("%+v, %v", all, err)
	}
	first, _, err := command.Revoke(access.Revocation{ID: all[1].ID})
	if err != nil || len(first) != 1 || !first[0].Revoked.Equal(c.now()) {
		t.Errorf("%+v, %v", first, err)
	}
	refused(t, running, other, access.ReasonRevoked)
	c.pass(time.Hour)
	if again, _, err := command.Revoke(access.Revocation{ID: all[1].ID}); err != nil || !again[0].Revoked.Equal(first[0].Revoked) {
		t.Errorf("%+v, %v", again, err)
	}
	if _, _, err := command.Revoke(access.Revocation{ID: "nobody"}); messages.CodeOf(err) != messages.ErrNotFound {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused(t, running, secret, access.ReasonUnauthenticated)
}

// A rotation is one step: a token like the old one, which is good until its grace or its own end.
func TestRotate(t *testing.T) {
	c := &clock{at: start}
	toks := open(t, filepath.Join(t.TempDir(), "tokens.json"), c)
	secret, tok, err := toks.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read"}, Note: "shop", Expires: start.Add(10 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	c.at = start.Add(4 * time.Hour)
	good := func(secret string, want bool) {
		t.Helper()
		if _, err := toks.Authenticate(t.Context(), secret); (err == nil) != want {
			t.Errorf("%v", err)
		}
	}
	next, made, old, err := toks.Rotate(access.Rotation{ID: tok.ID, Tenant: "acme", Grace: time.Hour})
	if err != nil || made.User != "ann" || made.Note != "shop" || !slices.Equal(made.Scopes, tok.Scopes) || !made.Expires.Equal(c.at.Add(10*time.Hour)) || !old.Expires.Equal(c.at.Add(time.Hour)) {
		t.Fatalf("%+v %+v %v", made, old, err)
	}
	good(secret, true)
	good(next, true)
	c.at = c.at.Add(time.Hour)
	good(secret, false)
	good(next, true)
	ever := time.Duration(0)
	last, made, old, err := toks.Rotate(access.Rotation{ID: made.ID, Grace: 100 * time.Hour, Life: &ever})
	if err != nil || !made.Expires.IsZero() || !old.Expires.Equal(start.Add(14*time.Hour)) {
		t.Errorf("%+v %+v %v", made, old, err)
	}
	_, _, old, err = toks.Rotate(access.Rotation{ID: made.ID})
	good(last, false)
	if err != nil || old.State(c.at) != access.StateRevoked {
		t.Errorf("%+v %v", old, err)
	}
	before, err := toks.List()
	if err != nil {
		t.Fatal(err)
	}
	refuses := errors.New("no")
	for name, row := range map[string]struct {
		r    access.Rotation
		code messages.Code
	}{
		"of another tenant": {access.Rotation{ID: before[3].ID, Tenant: "globex"}, messages.ErrNotFound},
		"not there":         {access.Rotation{ID: "x"}, messages.ErrNotFound},
		"revoked":           {access.Rotation{ID: made.ID}, messages.ErrConflict},
		"expired":           {access.Rotation{ID: tok.ID}, messages.ErrConflict},
		"negative":          {access.Rotation{ID: before[3].ID, Grace: -1}, messages.ErrInvalid},
		"not allowed":       {access.Rotation{ID: before[3].ID, May: func(access.Token) error { return refuses }}, ""},
	} {
		if _, _, _, err := toks.Rotate(row.r); err == nil || row.code != "" && messages.CodeOf(err) != row.code || row.code == "" && !errors.Is(err, refuses) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, err := toks.List(); err != nil || len(after) != 4 || len(before) != 4 {
		t.Errorf("%+v %v", after, err)
	}
}

func TestWishes(t *testing.T) {
	c := &clock{at: start}
	toks := open(t, filepath.Join(t.TempDir(), "tokens.json"), c)
	good := access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read"}}
	for field, change := range map[string]func(*access.Wish){
		"tenant":  func(w *access.Wish) { w.Tenant = "a:b" },
		"user":    func(w *access.Wish) { w.User = "" },
		"scopes":  func(w *access.Wish) { w.Scopes = []string{"read", "root"} },
		"scopes2": func(w *access.Wish) { w.Scopes = nil },
		"tenant2": func(w *access.Wish) { w.Tenant = strings.Repeat("x", 41) },
		"user2":   func(w *access.Wish) { w.User = "h-abc" },
		"note":    func(w *access.Wish) { w.Note = strings.Repeat("x", 257) },
		"expires": func(w *access.Wish) { w.Expires = start },
	} {
		w := good
		change(&w)
		_, _, err := toks.Create(w)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != strings.TrimSuffix(field, "2") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if all, err := toks.List(); err != nil || all != nil {
		t.Errorf("%v, %v", all, err)
	}
}

// A token that is dead stays in the file while what it made does: a revocation of its own
// maker goes through it.
func TestDeadTokensInALine(t *testing.T) {
	c := &clock{at: start}
	toks := open(t, filepath.Join(t.TempDir(), "tokens.json"), c)
	maker, ids := "", []string{}
	for range 3 {
		_, tok, err := toks.Create(access.Wish{Tenant: "acme", User: "u", Scopes: []string{"admin"}, Maker: maker})
		if err != nil {
			t.Fatal(err)
		}
		maker, ids = tok.ID, append(ids, tok.ID)
	}
	if _, _, err := toks.Revoke(access.Revocation{ID: ids[1]}); err != nil {
		t.Fatal(err)
	}
	c.pass(365 * 24 * time.Hour)
	if _, _, err := toks.Create(access.Wish{Tenant: "acme", User: "u", Scopes: []string{"read"}}); err != nil {
		t.Fatal(err)
	}
	gone, _, err := toks.Revoke(access.Revocation{ID: ids[0], WithMade: true})
	if err != nil || len(gone) != 2 || gone[1].ID != ids[2] {
		t.Errorf("%+v, %v", gone, err)
	}
}

// Commands at the same time lose nothing.
func TestCreateTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	c := &clock{at: start}
	running := open(t, path, c)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			toks, err := access.Open(path, c.now)
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				secret, _, err := toks.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read"}})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := running.Authenticate(t.Context(), secret); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if all, err := running.List(); err != nil || len(all) != 20 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// A file that cannot be trusted lets nobody in: at the start, and later.
func TestBadFiles(t *testing.T) {
	hash := strings.Repeat("0", 64)
	tok := func(more string) string {
		return `{"format": 1, "tokens": [{"id": "a", "hash": "` + hash + `", "tenant": "t", "user": "u", "scopes": ["read"], "created": "2026-11-01T00:00:00Z"` + more + `}]}`
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"empty":          {"", 0o600},
		"no JSON":        {`{"format": 1, "tokens": [`, 0o600},
		"another format": {`{"format": 2, "tokens": []}`, 0o600},
		"unknown member": {tok(`, "x": 1`), 0o600},
		"twice":          {strings.Replace(tok(""), "]}", `, {"id": "a", "hash": "`+hash+`", "tenant": "t", "user": "u", "scopes": ["read"], "created": "2026-11-01T00:00:00Z"}]}`, 1), 0o600},
		"tenant":         {strings.Replace(tok(""), `"t"`, `"a:b"`, 1), 0o600},
		"scope":          {strings.Replace(tok(""), `"read"`, `"root"`, 1), 0o600},
		"hash":           {strings.Replace(tok(""), hash, "00", 1), 0o600},
		"writable":       {tok(""), 0o622},
		"duplicate name": {strings.Replace(tok(""), `"format": 1`, `"format": 1, "format": 1`, 1), 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens.json")
			running := open(t, path, &clock{at: start})
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := access.Open(path, nil); messages.CodeOf(err) != messages.ErrConfig || strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Errorf("opened with %v", err)
			}
			refused(t, running, "stile_a_x", access.ReasonUnavailable)
			if _, _, err := running.Create(access.Wish{Tenant: "t", User: "u", Scopes: []string{"read"}}); messages.CodeOf(err) != messages.ErrConfig {
				t.Errorf("changed with %v", err)
			}
		})
	}
}

// Names from elsewhere become parts of a SID, each its own.
func TestPart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"ann", "Ann", "ann@example.com", "a:b", "", "h-", "h-abc", strings.Repeat("x", 40), strings.Repeat("x", 41), "ü", "\x00", "a b", access.Part("a:b")} {
		part := access.Part(name)
		if other, ok := seen[part]; ok {
			t.Errorf("%q and %q are both %q", name, other, part)
		}
		seen[part] = name
		if err := (messages.SessionKey{Tenant: part, User: part, ID: strings.Repeat("i", 36)}).Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if access.Part("ann") != "ann" {
		t.Error("a name that can stay was changed")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte(`{"format": 1, "tokens": [{"id": "a", "hash": "`+strings.Repeat("0", 64)+`", "tenant": "t", "user": "u", "scopes": ["read"], "created": "2026-11-01T00:00:00Z"}]}`), "stile_a_x")
	f.Add([]byte(`{"format": 1, "tokens": null}`), "")
	f.Add([]byte(`[`), "stile__")
	path := filepath.Join(f.TempDir(), "tokens.json")
	f.Fuzz(func(t *testing.T, b []byte, bearer string) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		toks, err := access.Open(path, nil)
		if err != nil {
			if messages.CodeOf(err) != messages.ErrConfig {
				t.Fatal(err)
			}
			return
		}
		if id, err := toks.Authenticate(t.Context(), bearer); err == nil {
			t.Fatalf("%q let %+v in", bearer, id)
		}
	})
}
