package host_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

type auditPage struct {
	Entries []host.AuditEntry
	Next    string
}

// Administrators read what was done in their tenant, page by page from the newest entry, and nothing
// of another tenant.
func TestAuditIsRead(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k, Audit: host.AuditFile(filepath.Join(t.TempDir(), "audit.jsonl"))}, agentOf("talker", speaks([]string{"hello"}, always())))
	ann, _ := k.make("acme", "ann", "submit", "admin")
	eve, _ := k.make("evil", "eve", "submit", "admin")
	bob, _ := k.make("acme", "bob", "submit")
	for i := range 5 {
		d.call(201, nil, "POST", "/v1/sessions", fmt.Sprintf(`{"agent": "talker", "id": "s%d"}`, i), auth(ann)...)
		d.call(201, nil, "POST", "/v1/sessions", fmt.Sprintf(`{"agent": "talker", "id": "e%d"}`, i), auth(eve)...)
	}
	d.refused(403, messages.ErrDenied, "DELETE", "/v1/sessions/s0", "", auth(bob)...)
	var got []string
	for before := ""; ; {
		var page auditPage
		d.call(200, &page, "GET", "/v1/audit?limit=2&before="+before, "", auth(ann)...)
		if len(page.Entries) > 2 {
			t.Errorf("a page of %d entries", len(page.Entries))
		}
		for _, e := range page.Entries {
			got = append(got, fmt.Sprintf("%s %s %s %s %d %s", e.Tenant, e.User, e.Action, e.Session, e.Status, e.Code))
		}
		if before = page.Next; before == "" {
			break
		}
	}
	want := []string{"acme bob delete-session s0 403 ERR_DENIED"}
	for i := 4; i >= 0; i-- {
		want = append(want, fmt.Sprintf("acme ann create-session s%d 201 ", i))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.refused(403, messages.ErrDenied, "GET", "/v1/audit", "", auth(bob)...)
	d.refused(400, messages.ErrInvalid, "GET", "/v1/audit?before=x", "", auth(ann)...)
	none := serve(t, host.Config{}, agentOf("talker", speaks(nil, always())))
	none.refused(409, messages.ErrConflict, "GET", "/v1/audit", "")
}
