package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
)

// AuditEntry is a line of the audit log: who did what to which session, when, and what
// came of it. It holds no secret and nothing that was said.
type AuditEntry struct {
	At       time.Time `json:"at"`
	Request  string    `json:"request,omitempty"` // as in the answer's X-Request-Id and in logs
	Token    string    `json:"token"`             // id of the token, or jwt: and its own
	Tenant   string    `json:"tenant"`
	User     string    `json:"user"` // for whom
	Action   string    `json:"action"`
	Session  string    `json:"session,omitempty"`
	Run      string    `json:"run,omitempty"`
	Approval string    `json:"approval,omitempty"`
	Status   int       `json:"status,omitempty"` // of the answer
	Code     string    `json:"code,omitempty"`   // of a refusal
	Reason   string    `json:"reason,omitempty"`
	Detail   string    `json:"detail,omitempty"`
}

// WriteAudit appends an entry to a log, as one line in one write.
func WriteAudit(w io.Writer, e AuditEntry) error {
	_, err := writeAudit(w, e)
	return err
}

func writeAudit(w io.Writer, e AuditEntry) (n int, err error) {
	e.At = e.At.UTC()
	b, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	return w.Write(append(b, '\n'))
}

// AuditFile is a file that is only appended to, for its owner's eyes alone. It is opened
// for each line, so that it can be moved away at any time, and several processes may
// write to it.
type AuditFile string

// Write implements io.Writer.
func (path AuditFile) Write(p []byte) (n int, err error) {
	f, err := os.OpenFile(string(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = f.Write(p)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// trail is what becomes known of a request while it is answered.
type trail struct {
	id           string // of the request
	session, run string // that came of it, if the path does not say
	code, reason string // of a refusal
	detail       string
}

type trailKey struct{}

func trailOf(ctx context.Context) *trail {
	t, _ := ctx.Value(trailKey{}).(*trail)
	return t
}

// about notes what came of a request.
func (t *trail) about(session string, run int64) {
	if t == nil {
		return
	}
	t.session = session
	if run > 0 {
		t.run = strconv.FormatInt(run, 10)
	}
}

// noting notes what else was done.
func (t *trail) noting(detail string) {
	if t != nil {
		t.detail = detail
	}
}

// refusing notes a refusal.
func (t *trail) refusing(p *problem) {
	if t != nil {
		t.code, t.reason = p.Code, p.Reason
	}
}

// maxRequestID bounds an id that a client or proxy gives a request.
const maxRequestID = 64

// requestID takes the id that a request has, or gives it one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	good := id != "" && len(id) <= maxRequestID
	for i := 0; good && i < len(id); i++ {
		c := id[i]
		good = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if good {
		return id
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return hex.EncodeToString(b[:])
}

// audited tells what leaves a line: what changes something, and what takes all of a
// session away.
func audited(r *http.Request, pattern string) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions || pattern == "GET /v1/sessions/{id}/export"
}

// witness is an answer that tells when its status is decided.
type witness struct {
	http.ResponseWriter
	decided func(status int)
	once    sync.Once
}

// WriteHeader implements http.ResponseWriter.
func (w *witness) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.once.Do(func() { w.decided(status) })
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *witness) Write(b []byte) (int, error) {
	w.once.Do(func() { w.decided(http.StatusOK) })
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is below.
func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// watch has an entry written when the answer to a request is decided, before the client
// hears of it; end is called when the request is over.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, pattern string) (answer http.ResponseWriter, end func()) {
	p, known := knownAs(r)
	if s.cfg.Audit == nil || !known || !audited(r, pattern) {
		return w, func() {}
	}
	out := &witness{ResponseWriter: w, decided: func(status int) {
		t := trailOf(r.Context())
		name := s.names[pattern]
		if name == "" {
			name = pattern
		}
		if id := inPath(r, pattern, "{token}"); id != "" && t.detail == "" {
			t.noting("token " + id)
		}
		s.record(AuditEntry{
			At: time.Now(), Request: t.id, Token: p.identity.Token, Tenant: p.tenant, User: p.user, Action: name,
			Session: cmp.Or(t.session, inPath(r, pattern, "{id}")), Run: cmp.Or(t.run, inPath(r, pattern, "{run}")), Approval: inPath(r, pattern, "{approval}"),
			Status: status, Code: t.code, Reason: t.reason, Detail: t.detail,
		})
	}}
	return out, func() { out.once.Do(func() { out.decided(http.StatusInternalServerError) }) }
}

// inPath is what a path says where its pattern has a name: the request may have been
// refused before it was routed.
func inPath(r *http.Request, pattern, name string) string {
	_, want, _ := strings.Cut(pattern, " ")
	parts := strings.Split(r.URL.Path, "/")
	for i, p := range strings.Split(want, "/") {
		if p == name && i < len(parts) {
			return parts[i][:min(len(parts[i]), messages.MaxSIDBytes)]
		}
	}
	return ""
}

// reasonAudit is that of what is refused because it could not be recorded.
const reasonAudit = "AUDIT"

// maxUnrecorded bounds what waits for an audit log that takes nothing: the requests that
// were under way when it failed, and refusals.
const maxUnrecorded = 4096

// record writes an entry, one at a time. One that the log does not take is kept, and goes
// before all others when it takes entries again.
func (s *Server) record(e AuditEntry) {
	if e.Reason == reasonAudit {
		return // nothing was done; each would be one more that is not taken
	}
	s.auditing.Lock()
	defer s.auditing.Unlock()
	s.unrecorded = append(s.unrecorded, e)
	if err := s.catchUp(); err != nil {
		s.log.Error("the audit log cannot be written", zap.Error(bare(err)), zap.Any("entry", e))
		s.unrecorded = s.unrecorded[max(0, len(s.unrecorded)-maxUnrecorded):] // the log of the host has them
	}
}

// recordable refuses what could not be recorded: that the audit log is whole is worth more
// than an hour of work.
func (s *Server) recordable() error {
	s.auditing.Lock()
	defer s.auditing.Unlock()
	if s.catchUp() != nil {
		return tooMuch(http.StatusServiceUnavailable, messages.ErrAudit, reasonAudit, "the audit log cannot be written", 5*time.Second)
	}
	return nil
}

// catchUp writes what is not recorded yet.
func (s *Server) catchUp() error {
	for len(s.unrecorded) > 0 {
		if s.torn {
			if _, err := s.cfg.Audit.Write([]byte("\n")); err != nil {
				return err
			}
			s.torn = false
		}
		if n, err := writeAudit(s.cfg.Audit, s.unrecorded[0]); err != nil {
			s.torn = n > 0
			return err
		}
		s.unrecorded = s.unrecorded[1:]
	}
	return nil
}
