package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// kept is a token as the host tells of it.
type kept struct {
	ID, Tenant, User, State, Note, Maker, Secret string
	Scopes                                       []string
	Created, Expires, Revoked                    string
}

// tokens lists those that a caller sees, page by page.
func (d *door) tokens(limit int, headers ...string) (all []kept) {
	d.t.Helper()
	for after := ""; ; {
		var page struct {
			Tokens []kept
			Next   string
		}
		d.call(200, &page, "GET", fmt.Sprintf("/v1/tokens?limit=%d&after=%s", limit, after), "", headers...)
		all = append(all, page.Tokens...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// A token from its making to its revocation: shown once, good at once, and refused at once.
func TestTokensOverHTTP(t *testing.T) {
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: access.First(k), Audit: host.AuditFile(audit)}, agentOf("talker", speaks(nil, always())))
	admin, adminID := k.make("acme", "ann", "admin")
	k.make("globex", "eve", "admin")
	var tok kept
	d.call(201, &tok, "POST", "/v1/tokens", `{"scopes": ["submit", "read"], "note": "the shop"}`, auth(admin)...)
	if tok.Tenant != "acme" || tok.User != "ann" || tok.State != "good" || tok.Note != "the shop" || tok.Maker != adminID || tok.Expires == "" || !slices.Equal(tok.Scopes, []string{"read", "submit"}) {
		t.Errorf("%+v", tok)
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(tok.Secret)...)
	d.refused(403, messages.ErrDenied, "GET", "/v1/tokens", "", auth(tok.Secret)...)
	var ever kept
	if d.call(201, &ever, "POST", "/v1/tokens", `{"scopes": ["read"], "expires_in_s": 0}`, auth(admin)...); ever.Expires != "" {
		t.Errorf("%+v", ever)
	}
	text, err := json.Marshal(d.tokens(2, auth(admin)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{admin, tok.Secret, ever.Secret, "hash", "globex"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the list tells %q", secret)
		}
	}
	d.call(200, nil, "DELETE", "/v1/tokens/"+tok.ID, "", auth(admin)...)
	d.call(200, nil, "DELETE", "/v1/tokens/"+tok.ID, "", auth(admin)...)
	if p := d.refused(401, messages.ErrDenied, "GET", "/v1/agents", "", auth(tok.Secret)...); p.Reason != access.ReasonRevoked {
		t.Errorf("%+v", p)
	}
	if all := d.tokens(1, auth(admin)...); len(all) != 3 || all[0].ID != adminID || all[1].State != "revoked" || all[1].Revoked == "" || all[2].State != "good" {
		t.Errorf("%+v", all)
	}
	d.refused(404, messages.ErrNotFound, "DELETE", "/v1/tokens/nobody", "", auth(admin)...)
	d.refused(400, messages.ErrInvalid, "GET", "/v1/tokens?after=nobody", "", auth(admin)...)
	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for line := range strings.Lines(string(log)) {
		var e host.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Token != adminID || e.User != "ann" {
			t.Fatalf("%s: %v", line, err)
		}
		told = append(told, fmt.Sprint(e.Action, " ", e.Status, " ", e.Detail))
	}
	want := []string{
		"create-token 201 token " + tok.ID + " of acme:ann, scopes read, submit, until " + tok.Expires,
		"create-token 201 token " + ever.ID + " of acme:ann, scopes read, for ever",
		"revoke-token 200 token " + tok.ID, "revoke-token 200 token " + tok.ID, "revoke-token 404 token nobody",
	}
	if !slices.Equal(told, want) || strings.Contains(string(log), tok.Secret) {
		t.Errorf("audit log: %q, want %q", told, want)
	}
}

// A token is replaced by one that may do the same, and stays good for a while; none is by a caller that may not
// make it.
func TestTokensRotateOverHTTP(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks(nil, always())))
	admin, adminID := k.make("acme", "ann", "admin")
	_, operator := k.make("acme", "ann", "operator")
	_, bob := k.make("acme", "bob", "read")
	_, eve := k.make("globex", "eve", "admin")
	var tok kept
	d.call(201, &tok, "POST", "/v1/tokens", `{"scopes": ["read"], "note": "the shop"}`, auth(admin)...)
	var answer struct{ Token, Old kept }
	d.call(201, &answer, "POST", "/v1/tokens/"+tok.ID+"/rotate", `{}`, auth(admin)...)
	out, old := answer.Token, answer.Old
	if out.ID == tok.ID || out.User != "ann" || out.Note != "the shop" || out.Maker != adminID || !slices.Equal(out.Scopes, tok.Scopes) || old.ID != tok.ID || old.State != "good" || old.Expires >= tok.Expires {
		t.Errorf("%+v", answer)
	}
	for _, secret := range []string{tok.Secret, out.Secret} {
		d.call(200, nil, "GET", "/v1/agents", "", auth(secret)...)
	}
	var again struct{ Old kept }
	d.call(201, &again, "POST", "/v1/tokens/"+out.ID+"/rotate", `{"grace_s": 0, "expires_in_s": 0}`, auth(admin)...)
	if p := d.refused(401, messages.ErrDenied, "GET", "/v1/agents", "", auth(out.Secret)...); p.Reason != access.ReasonRevoked || again.Old.State != "revoked" {
		t.Errorf("%+v %+v", p, again)
	}
	d.refused(409, messages.ErrConflict, "POST", "/v1/tokens/"+out.ID+"/rotate", `{}`, auth(admin)...)
	for _, id := range []string{operator, bob} { // scopes and users that the admin does not have
		d.refused(403, messages.ErrDenied, "POST", "/v1/tokens/"+id+"/rotate", `{}`, auth(admin)...)
	}
	for _, id := range []string{eve, "nobody"} {
		d.refused(404, messages.ErrNotFound, "POST", "/v1/tokens/"+id+"/rotate", `{}`, auth(admin)...)
	}
}

// A revocation takes what a token made along if it is asked to, and tells what stays
// good if it is not. Another tenant's stays, whatever its maker.
func TestTokensWithWhatTheyMade(t *testing.T) {
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: k, Audit: host.AuditFile(audit)}, agentOf("talker", speaks(nil, always())))
	admin, adminID := k.make("acme", "ann", "admin")
	other, _ := k.make("acme", "bob", "admin")
	stranger, _ := k.make("globex", "eve", "admin")
	var deputy, shop, own kept
	d.call(201, &deputy, "POST", "/v1/tokens", `{"scopes": ["admin"]}`, auth(admin)...)
	d.call(201, &shop, "POST", "/v1/tokens", `{"scopes": ["read"]}`, auth(deputy.Secret)...)
	d.call(201, &own, "POST", "/v1/tokens", `{"scopes": ["read"]}`, auth(other)...)
	if shop.Maker != deputy.ID || own.Maker == "" {
		t.Errorf("%+v, %+v", shop, own)
	}
	d.refused(404, messages.ErrNotFound, "DELETE", "/v1/tokens/"+adminID+"?with_made=true", "", auth(stranger)...)
	var gone struct{ Revoked, Left []kept }
	ids := func(all []kept) (ids []string) {
		for _, tok := range all {
			ids = append(ids, tok.ID)
		}
		return ids
	}
	d.call(200, &gone, "DELETE", "/v1/tokens/"+adminID, "", auth(other)...)
	if !slices.Equal(ids(gone.Revoked), []string{adminID}) || !slices.Equal(ids(gone.Left), []string{deputy.ID, shop.ID}) {
		t.Errorf("%+v", gone)
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(shop.Secret)...)
	d.call(200, &gone, "DELETE", "/v1/tokens/"+adminID+"?with_made=true", "", auth(other)...)
	if !slices.Equal(ids(gone.Revoked), []string{adminID, deputy.ID, shop.ID}) || len(gone.Left) != 0 {
		t.Errorf("%+v", gone)
	}
	for _, secret := range []string{admin, deputy.Secret, shop.Secret} {
		if p := d.refused(401, messages.ErrDenied, "GET", "/v1/agents", "", auth(secret)...); p.Reason != access.ReasonRevoked {
			t.Errorf("%+v", p)
		}
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(own.Secret)...)
	if log, err := os.ReadFile(audit); err != nil || !strings.Contains(string(log), `"detail":"token `+adminID+", "+deputy.ID+", "+shop.ID+`"`) {
		t.Errorf("audit log: %s, %v", log, err)
	}
}

// Nobody makes a token that may do more than its maker, or for another user without
// acting for all of them.
func TestTokensGrantNoMore(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks(nil, always())))
	admin, _ := k.make("acme", "ann", "admin")
	backend, _ := k.make("acme", "ann", "admin", "users")
	for body, reason := range map[string]string{
		`{"scopes": ["users"]}`:                                access.ReasonScope,
		`{"scopes": ["read", "metrics"]}`:                      access.ReasonScope,
		`{"scopes": ["read"], "user": "bob"}`:                  access.ReasonScope,
		`{"scopes": ["read", "submit", "approve", "admin"]}`:   "",
		`{"scopes": ["read"], "user": "ann", "note": "again"}`: "",
	} {
		if reason == "" {
			d.call(201, nil, "POST", "/v1/tokens", body, auth(admin)...)
		} else if p := d.refused(403, messages.ErrDenied, "POST", "/v1/tokens", body, auth(admin)...); p.Reason != reason {
			t.Errorf("%s: %+v", body, p)
		}
	}
	d.refused(403, messages.ErrDenied, "POST", "/v1/tokens", `{"scopes": ["metrics"]}`, auth(backend)...)
	for body, user := range map[string]string{
		`{"scopes": ["users"]}`:                           "ann",
		`{"scopes": ["read"], "user": "bob"}`:             "bob",
		`{"scopes": ["read"], "user": "ann@example.com"}`: access.Part("ann@example.com"),
	} {
		var tok kept
		if d.call(201, &tok, "POST", "/v1/tokens", body, auth(backend)...); tok.User != user || tok.Tenant != "acme" {
			t.Errorf("%s: %+v", body, tok)
		}
	}
	var tok kept
	if d.call(201, &tok, "POST", "/v1/tokens", `{"scopes": ["read"]}`, auth(backend, "X-Stile-User", "carl")...); tok.User != "carl" {
		t.Errorf("%+v", tok)
	}
	for _, body := range []string{`{"scopes": []}`, `{"scopes": ["root"]}`, `{"scopes": ["read"], "tenant": "globex"}`, `{"scopes": ["read"], "expires_in_s": -1}`} {
		if p := d.ask("POST", "/v1/tokens", body, auth(backend)...); p.StatusCode != 400 && p.StatusCode != 422 {
			t.Errorf("%s: %s", body, p.Status)
		}
	}
}

// A host whose callers are not told apart by a file of tokens says so.
func TestTokensNeedAFile(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	d.refused(409, messages.ErrConfig, "POST", "/v1/tokens", `{"scopes": ["read"]}`)
	d.refused(409, messages.ErrConfig, "GET", "/v1/tokens", "")
	d.refused(409, messages.ErrConfig, "DELETE", "/v1/tokens/abc", "")
}

// Of what a host and a command change at once, nothing is lost.
func TestTokensHaveManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	own, err := access.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	admin, _, err := own.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	command, err := access.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, host.Config{Access: own}, agentOf("talker", speaks(nil, always())))
	const each = 10
	var wg sync.WaitGroup
	for range each {
		wg.Go(func() {
			if _, _, err := command.Create(access.Wish{Tenant: "acme", User: "bob", Scopes: []string{"read"}}); err != nil {
				t.Error(err)
			}
		})
	}
	for range each {
		var tok kept
		d.call(201, &tok, "POST", "/v1/tokens", `{"scopes": ["read"]}`, auth(admin)...)
		d.call(200, nil, "DELETE", "/v1/tokens/"+tok.ID, "", auth(admin)...)
	}
	wg.Wait()
	states := map[string]int{}
	for _, tok := range d.tokens(1000, auth(admin)...) {
		states[tok.User+" "+tok.State]++
	}
	if states["ann good"] != 1 || states["ann revoked"] != each || states["bob good"] != each {
		t.Errorf("%v", states)
	}
}
