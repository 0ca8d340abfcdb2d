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

// An admin rotates the keys of the running host, at most once an hour; the audit log has it.
func TestRotateKeysOverHTTP(t *testing.T) {
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: access.First(k), Audit: host.AuditFile(audit)}, agentOf("talker", speaks(nil, always())))
	admin, _ := k.make("acme", "ann", "admin")
	user, _ := k.make("acme", "bob", "read", "submit", "approve", "users", "metrics")
	var before, after struct{ Keys []struct{ KID string } }
	d.call(200, &before, "GET", "/v1/keys", "")
	d.refused(403, messages.ErrDenied, "POST", "/v1/keys/rotate", "", auth(user)...)
	d.call(200, &after, "POST", "/v1/keys/rotate", "", auth(admin)...)
	if len(before.Keys) == 0 || len(after.Keys) != 2*len(before.Keys) {
		t.Errorf("%d keys before, %d after", len(before.Keys), len(after.Keys))
	}
	for _, old := range before.Keys {
		if !slices.Contains(after.Keys, old) {
			t.Errorf("the public half of %s is gone", old.KID)
		}
	}
	d.refused(409, messages.ErrConflict, "POST", "/v1/keys/rotate", "", auth(admin)...)
	log, err := os.ReadFile(audit)
	if err != nil || strings.Count(string(log), "keys rotated") != 1 {
		t.Errorf("audited: %s, %v", log, err)
	}
}
