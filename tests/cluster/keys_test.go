package cluster

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal/postgres"
)

// kids are the ids of the keys that a host verifies with.
func (w *world) kids(host string) (kids []string) {
	w.t.Helper()
	for _, k := range w.ask(host, http.MethodGet, "/v1/keys", "", http.StatusOK)["keys"].([]any) {
		kids = append(kids, k.(map[string]any)["kid"].(string))
	}
	slices.Sort(kids)
	return kids
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it does not come: %s", what)
		}
	}
}

// Each host began with an empty folder, and has keys of its own. All verify with those of all; a
// rotation at one is known at the others; what the database has been given by others is refused;
// and it has no private half.
func keys(t *testing.T, w *world) {
	all := w.kids("a")
	w.until("the keys of all hosts at all", func() bool {
		all = w.kids("a")
		return len(all) == 9 && slices.Equal(all, w.kids("b")) && slices.Equal(all, w.kids("c"))
	})
	w.ask("a", http.MethodPost, "/v1/keys/rotate", "{}", http.StatusOK)
	w.until("the next keys of a at the others", func() bool {
		all = w.kids("a")
		return len(all) == 12 && slices.Equal(all, w.kids("b")) && slices.Equal(all, w.kids("c"))
	})
	before := w.ask("b", http.MethodGet, "/v1/keys", "", http.StatusOK)

	// Forged are a key of another id, and another key under each id that there is: in the
	// database alone, which a program without the secret of the hosts may write to.
	notes := w.job.Schema + ".notes"
	exec := func(statements ...string) {
		t.Helper()
		statements = append(statements, "UPDATE "+w.job.Schema+".boards SET version = version + 1 WHERE kind = 'key'")
		if err := postgrestest.Exec(w.job.URL, strings.Join(statements, "; ")); err != nil {
			t.Fatal(err)
		}
	}
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" // of a key whose private half is public
	next := "(SELECT version + 1 FROM " + w.job.Schema + ".boards WHERE kind = 'key')"
	exec("UPDATE "+notes+" SET version = "+next+`, body = convert_to(regexp_replace(convert_from(body, 'UTF8'), '"x":"[^"]*"', '"x":"`+x+`"'), 'UTF8') WHERE kind = 'key'`,
		"INSERT INTO "+notes+" (kind, id, body, seal, version) SELECT kind, 'forged', convert_to(replace(convert_from(body, 'UTF8'), id, 'forged'), 'UTF8'), seal, "+next+" FROM "+notes+" WHERE kind = 'key' LIMIT 1")
	// The hosts that live put their own notes back: then they have read the others.
	w.until("the notes of the hosts that live", func() bool {
		forged, err := postgrestest.Query(w.job.URL, "SELECT count(*) FROM "+notes+" WHERE kind = 'key' AND convert_from(body, 'UTF8') LIKE '%"+x+"%'")
		if err != nil {
			t.Fatal(err)
		}
		return forged == "1" // the one of no host
	})
	for _, host := range []string{"a", "b", "c"} {
		if got := w.kids(host); !slices.Equal(got, all) {
			t.Errorf("%s has the keys %v, want %v", host, got, all)
		}
	}
	if after := w.ask("b", http.MethodGet, "/v1/keys", "", http.StatusOK); !same(before, after) {
		t.Errorf("the keys of b are\n%v, want\n%v", after, before)
	}
	exec("DELETE FROM " + notes + " WHERE id = 'forged'")
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// privateHalves are those in the key file of a host.
func (w *world) privateHalves(host string) (all []string) {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, host, stile.KeyFile))
	if err != nil {
		w.t.Fatal(err)
	}
	var doc struct{ Keys []struct{ Private string } }
	if err := json.Unmarshal(b, &doc); err != nil {
		w.t.Fatal(err)
	}
	for _, k := range doc.Keys {
		if k.Private != "" {
			all = append(all, k.Private)
		}
	}
	if len(all) < 3 {
		w.t.Fatalf("%s has %d private halves", host, len(all))
	}
	return all
}

// A token that is made at one host is good at the others, and refused at all once it is revoked at
// one; a row that no host wrote is no token; and the tables have no secret.
func TestTokens(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Tokens = true
	store, err := postgres.Open(t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	toks, err := tokensOf(t.Context(), store, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer toks.Close()
	admin, _, err := toks.Create(access.Wish{Tenant: "acme", User: "root", Scopes: []string{"admin", "users"}})
	if err != nil {
		t.Fatal(err)
	}
	w.start("a")
	w.start("b")
	asks := func(host, token string) int {
		w.t.Helper()
		a := w.raw(host, http.MethodGet, "/v1/sessions", "", "Authorization", "Bearer "+token)
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.status
	}
	as := func(token, host, method, path, body string, want int) map[string]any {
		t.Helper()
		return w.ask(host, method, path, body, want, "Authorization", "Bearer "+token)
	}
	made := func(host string) (id, secret string) {
		t.Helper()
		v := as(admin, host, http.MethodPost, "/v1/tokens", `{"user":"ann","scopes":["read","submit"]}`, http.StatusCreated)
		return v["id"].(string), v["secret"].(string)
	}
	id, ann := made("a")
	w.until("the token of a at b", func() bool { return asks("b", ann) == http.StatusOK })

	// A session of hers at a is asked for at b: both hosts check the token.
	as(ann, "a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"hers"}`, http.StatusCreated)
	run := as(ann, "b", http.MethodPost, "/v1/sessions/hers/runs", `{"input":"one"}`, http.StatusAccepted)
	r := w.reply()
	if r.host != "a" {
		t.Errorf("the session of a runs at %s", r.host)
	}
	r.say(t, "to Ann")
	r.end()
	if v := as(ann, "b", http.MethodGet, fmt.Sprintf("/v1/sessions/hers/runs/%v?wait=1m", run["run"]), "", http.StatusOK); v["text"] != "to Ann" {
		t.Errorf("%v", v)
	}

	// Written by a program with the database alone: her token with all scopes, and a token of its own.
	forged := "stile_feedfeedfeed_" + strings.Repeat("A", 43)
	sum := sha256.Sum256([]byte(forged))
	notes := w.job.Schema + ".notes"
	next := "(SELECT version + 1 FROM " + w.job.Schema + ".boards WHERE kind = 'token')"
	err = postgrestest.Exec(w.job.URL, strings.Join([]string{
		"INSERT INTO " + notes + " (kind, id, body, seal, version) SELECT kind, 'feedfeedfeed', convert_to(replace(regexp_replace(convert_from(body, 'UTF8'), '\"hash\":\"[^\"]*\"', '\"hash\":\"" + hex.EncodeToString(sum[:]) + "\"'), id, 'feedfeedfeed'), 'UTF8'), seal, " + next + " FROM " + notes + " WHERE id = '" + id + "'",
		"UPDATE " + w.job.Schema + ".boards SET version = version + 1 WHERE kind = 'token'",
	}, "; "))
	if err != nil {
		t.Fatal(err)
	}
	_, later := made("b")
	for _, host := range []string{"a", "b"} {
		w.until("a token behind the forged one at "+host, func() bool { return asks(host, later) == http.StatusOK })
		if got := asks(host, forged); got != http.StatusUnauthorized {
			t.Errorf("%s answers a forged token with %d", host, got)
		}
	}

	// Revoked at b, refused at a; and replaced by the command's way, in the database alone.
	as(admin, "b", http.MethodDelete, "/v1/tokens/"+id, "", http.StatusOK)
	for _, host := range []string{"a", "b"} {
		w.until("the revocation at "+host, func() bool { return asks(host, ann) == http.StatusUnauthorized })
	}
	if _, _, err := toks.Revoke(access.Revocation{ID: strings.Split(later, "_")[1]}); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a", "b"} {
		w.until("what the command revoked at "+host, func() bool { return asks(host, later) == http.StatusUnauthorized })
	}
	for _, secret := range []string{admin, ann, later} {
		_, part, _ := strings.Cut(strings.TrimPrefix(secret, access.Prefix), "_")
		w.holdsNo(part)
	}
}

// The secret changes while hosts are restarted one after the other: they understand each other at every
// step, and the tokens and keys from before are good behind the last one, at which no host has the old
// secret.
func TestSecretChanges(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Tokens = true
	store, err := postgres.Open(t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	toks, err := tokensOf(t.Context(), store, secret)
	if err != nil {
		t.Fatal(err)
	}
	ann, _, err := toks.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read", "submit"}})
	if toks.Close(); err != nil {
		t.Fatal(err)
	}
	as := func(host, method, path, body string, want int) map[string]any {
		t.Helper()
		return w.ask(host, method, path, body, want, "Authorization", "Bearer "+ann)
	}
	n := 0
	talk := func() { // a session of each host is asked for at the other one
		t.Helper()
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
			n++
			id := fmt.Sprintf("s-%d", n)
			as(pair[0], http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"`+id+`"}`, http.StatusCreated)
			as(pair[1], http.MethodPost, "/v1/sessions/"+id+"/runs", `{"input":"one"}`, http.StatusAccepted)
			w.speaks(pair[0], "said")
			as(pair[1], http.MethodGet, "/v1/sessions/"+id+"/runs/1?wait=1m", "", http.StatusOK)
		}
	}
	w.start("a")
	w.start("b")
	talk()
	before, after := string(secret), strings.Repeat("changed ", 5)
	for _, step := range [][]string{{before, after}, {after, before}, {after}} {
		w.job.Secrets = step
		for _, host := range []string{"a", "b"} {
			if err := w.hosts[host].cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-w.hosts[host].ended
			w.start(host)
			talk()
		}
	}
	b, err := store.Board()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{board.Keys, board.Tokens} {
		all, _, _, err := b.Read(t.Context(), kind, 0)
		if err != nil || len(all) == 0 {
			t.Fatalf("%d notes of %s, %v", len(all), kind, err)
		}
		for i := range all {
			if !board.Secret(after).Genuine(kind, &all[i]) {
				t.Errorf("the %s %s is still sealed with the old secret", kind, all[i].ID)
			}
		}
	}
	w.verified(n)
}

// holdsNo searches all tables of the journal for texts, as they are and in hexadecimal.
func (w *world) holdsNo(secrets ...string) {
	w.t.Helper()
	ask := func(sql string) string {
		w.t.Helper()
		text, err := postgrestest.Query(w.job.URL, sql)
		if err != nil {
			w.t.Fatal(err)
		}
		return text
	}
	tables := strings.Fields(ask("SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = '" + w.job.Schema + "'"))
	if len(tables) < 8 || !slices.Contains(tables, "notes") {
		w.t.Fatalf("the journal has the tables %v", tables)
	}
	for _, table := range tables {
		rows := ask("SELECT coalesce(string_agg(r::text, ' '), '') FROM " + w.job.Schema + "." + table + " r")
		if table == "notes" && !strings.Contains(rows, hex.EncodeToString([]byte(`"kid"`))) {
			w.t.Error("what is there is not found")
		}
		for _, secret := range secrets {
			raw, err := base64.RawURLEncoding.DecodeString(secret)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), hex.EncodeToString(raw)} {
				if strings.Contains(rows, form) {
					w.t.Errorf("the table %s holds a secret", table)
				}
			}
		}
	}
}
