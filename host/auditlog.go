package host

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// maxAudited bounds what a request reads of the audit log, in bytes.
const maxAudited = 1 << 20

type auditIn struct {
	Before string `query:"before" maxLength:"64" doc:"next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type auditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty" doc:"pass it as before for older entries; a page may be shorter than its limit and still have a next: a request reads 1 MiB of the log"`
}

// auditRoutes show the audit log to administrators, each what was done in its own tenant.
func (s *Server) auditRoutes() {
	route(s, asks(access.Admin, get("list-audit", "/v1/audit", "What was done in the caller's tenant, by the audit log, the newest first", "audit")), func(ctx context.Context, in *auditIn) (*answered[auditList], error) {
		if s.ledger == nil || s.ledger.file == "" {
			return nil, refusal(http.StatusConflict, messages.ErrConflict, "", "this host keeps no audit log in a file")
		}
		var from audit.Place
		if in.Before != "" {
			var ok bool
			if from, ok = audit.ParsePlace(in.Before); !ok {
				return nil, refusalOf(messages.ErrInvalid, "query.before", "is next of a page before")
			}
		}
		tenant := s.principal(ctx).tenant
		out := &answered[auditList]{Body: auditList{Entries: []AuditEntry{}}}
		next, more, err := audit.File{Path: string(s.ledger.file)}.Back(from, maxAudited, func(line []byte) bool {
			var e AuditEntry
			if json.Unmarshal(line, &e) == nil && e.Tenant == tenant { // a torn line is no entry
				out.Body.Entries = append(out.Body.Entries, e)
			}
			return len(out.Body.Entries) < in.Limit && ctx.Err() == nil
		})
		if err != nil {
			return nil, &messages.Error{Code: messages.ErrAudit, Detail: "the audit log cannot be read", Cause: files.Cause(err)}
		}
		if more {
			out.Body.Next = next.String()
		}
		return out, ctx.Err()
	})
}
