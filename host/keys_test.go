package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// What all tenants share is the operator's: it rotates the keys of the running host, at most once
// an hour, and the audit log has it. An admin of a tenant can neither do that nor have the host
// read its settings again.
func TestRotateKeysOverHTTP(t *testing.T) {
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: access.First(k), Audit: host.AuditFile(audit)}, agentOf("talker", speaks(nil, always())))
	operator, _ := k.make("acme", "ann", "operator")
	admin, _ := k.make("acme", "bob", "admin")
	user, _ := k.make("acme", "bob", "read", "submit", "approve", "admin", "users", "metrics", "feeds")
	var before, after struct{ Keys []struct{ KID string } }
	d.call(200, &before, "GET", "/v1/keys", "")
	for _, token := range []string{user, admin} {
		d.refused(403, messages.ErrDenied, "POST", "/v1/keys/rotate", "", auth(token)...)
		d.refused(403, messages.ErrDenied, "POST", "/v1/reload", "", auth(token)...)
		d.refused(403, messages.ErrDenied, "POST", "/v1/tokens", `{"scopes": ["operator"]}`, auth(token)...)
	}
	d.refused(409, messages.ErrConflict, "POST", "/v1/reload", "", auth(operator)...) // which this program cannot
	d.call(200, &after, "POST", "/v1/keys/rotate", "", auth(operator)...)
	if len(before.Keys) == 0 || len(after.Keys) != 2*len(before.Keys) {
		t.Errorf("%d keys before, %d after", len(before.Keys), len(after.Keys))
	}
	for _, old := range before.Keys {
		if !slices.Contains(after.Keys, old) {
			t.Errorf("the public half of %s is gone", old.KID)
		}
	}
	d.refused(409, messages.ErrConflict, "POST", "/v1/keys/rotate", "", auth(operator)...)
	log, err := os.ReadFile(audit)
	if err != nil || strings.Count(string(log), "keys rotated") != 1 {
		t.Errorf("audited: %s, %v", log, err)
	}
}
