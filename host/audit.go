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
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// AuditEntry is a line of the audit log: who did what to which session, when, and what
// came of it. It holds no secret and nothing that was said.
type AuditEntry struct {
	At       time.Time `json:"at"`
	Request  string    `json:"request,omitempty"`        // as in the answer's X-Request-Id and in logs
	Client   string    `json:"client_request,omitempty"` // the X-Request-Id that the request came with
	Token    string    `json:"token"`                    // id of the token, or jwt: and its own
	Tenant   string    `json:"tenant"`
	User     string    `json:"user"` // for whom
	Action   string    `json:"action"`
	Tool     string    `json:"tool,omitempty"` // of a call over MCP: the agent
	Session  string    `json:"session,omitempty"`
	Run      string    `json:"run,omitempty"`
	Approval string    `json:"approval,omitempty"`
	Status   int       `json:"status,omitempty"` // of the answer
	Code     string    `json:"code,omitempty"`   // of a refusal
	Reason   string    `json:"reason,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	// Prev is the SHA-256, in hex, of the line before without its end; zeros in the first
	// of all. Who writes the entry sets it.
	Prev string `json:"prev,omitempty"`
}

// WriteAudit appends an entry to a log, as one line in one write. On an AuditFile it
// follows the line before; another writer may get lines of others, and has no chain then.
func WriteAudit(w io.Writer, e AuditEntry) error {
	if path, ok := w.(AuditFile); ok && path.regular() {
		return path.follow(e)
	}
	b, err := e.line("")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// line is an entry as the log has it, without its end.
func (e AuditEntry) line(prev string) ([]byte, error) {
	e.At, e.Prev = e.At.UTC(), prev
	return json.Marshal(e)
}

// AuditFile is a file that is only appended to, for its owner's eyes alone. It is opened
// for each line, so that it can be moved away at any time, and several processes may
// write to it. As Config.Audit its lines are a chain, it is put aside with a number behind
// its name when it has 64 MiB, and a file .head beside it has the hash of the last line.
type AuditFile string

// auditWait bounds the wait for the reader of a pipe.
const auditWait = 5 * time.Second

// Write implements io.Writer: it appends as it is told, outside the chain. A pipe that nothing
// reads, or whose reader does not go on, is an error.
func (path AuditFile) Write(p []byte) (n int, err error) {
	f, err := os.OpenFile(string(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, err
	}
	_ = f.SetWriteDeadline(time.Now().Add(auditWait)) // a file on a disk has none
	n, err = f.Write(p)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// regular reports whether the file is one that can be read back, if it is there: no pipe and no
// device.
func (path AuditFile) regular() bool {
	info, err := os.Stat(string(path))
	return err != nil || info.Mode().IsRegular()
}

func (path AuditFile) follow(e AuditEntry) error {
	return audit.File{Path: string(path)}.Append(e.line)
}

// ledger is where a host's entries go.
type ledger struct {
	w    io.Writer
	file AuditFile // if it is one; else the chain is that of this process
	prev string
	torn []byte // of a line that was not taken whole
}

// newLedger looks whether the log can be written.
func newLedger(w io.Writer) (*ledger, error) {
	l := &ledger{w: w, prev: audit.Zero}
	if path, ok := w.(AuditFile); ok && path.regular() {
		l.file = path
		return l, audit.File{Path: string(path)}.Check()
	}
	_, err := w.Write(nil)
	return l, err
}

// add appends an entry. With an error it is not in the log, but for a part of it, which
// stands on a line of its own.
func (l *ledger) add(e AuditEntry) error {
	if l.file != "" {
		return l.file.follow(e)
	}
	if len(l.torn) > 0 {
		if _, err := l.w.Write([]byte("\n")); err != nil {
			return err
		}
		l.prev, l.torn = audit.Hash(l.torn), nil
	}
	b, err := e.line(l.prev)
	if err != nil {
		return err
	}
	n, err := l.w.Write(append(b, '\n'))
	if err != nil {
		l.torn = b[:min(n, len(b))]
		return err
	}
	l.prev = audit.Hash(b)
	return nil
}

// head is the hash of the last line.
func (l *ledger) head() string {
	if l.file == "" {
		return l.prev
	}
	hash, err := audit.File{Path: string(l.file)}.Head()
	if err != nil {
		return ""
	}
	return hash
}

// tellHead says in the log of the host where the audit log stands: kept there, it shows
// what is cut off later.
func (s *Server) tellHead() {
	if s.ledger == nil {
		return
	}
	s.auditing.Lock()
	defer s.auditing.Unlock()
	s.log.Info("the audit log stands", zap.String("head", s.ledger.head()))
}

// trail is what becomes known of a request while it is answered.
type trail struct {
	id           string // of the request
	client       string // what the client calls it
	parent       caller // span of the client
	action       string // where the route is not the operation
	tool         string
	calls        int          // of tools, in a request of the Model Context Protocol
	recorded     atomic.Int32 // of those: they have lines of their own
	session, run string       // that came of it, if the path does not say
	code, reason string       // of a refusal
	detail       string
}

type trailKey struct{}

func trailOf(ctx context.Context) *trail {
	t, _ := ctx.Value(trailKey{}).(*trail)
	return t
}

type parentKey struct{}

// caller is the span of a client: traceparent, and tracestate beside it.
type caller struct{ parent, state string }

// parentOf is the span that a submit's request came with; the zero one without.
func parentOf(ctx context.Context) caller {
	if t := trailOf(ctx); t != nil {
		return t.parent
	}
	parent, _ := ctx.Value(parentKey{}).(caller)
	return parent
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

// newTrail gives a request its id. The one that it came with is kept beside it: a client
// must not choose what the log knows its requests by.
func newTrail(r *http.Request) *trail {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it does not fail
	t := &trail{id: hex.EncodeToString(b[:])}
	id := r.Header.Get("X-Request-Id")
	good := len(id) <= maxRequestID
	for i := 0; good && i < len(id); i++ {
		c := id[i]
		good = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if good {
		t.client = id
	}
	if h := r.Header["Traceparent"]; len(h) == 1 {
		t.parent = caller{h[0], strings.Join(r.Header["Tracestate"], ",")}
	}
	return t
}

// changes reports whether a request is one that changes something.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// audited lists what leaves a line: what changes something, and what takes all of a
// session away.
func audited(r *http.Request, pattern string) bool {
	return changes(r) || pattern == "GET /v1/sessions/{id}/export"
}

// witness is an answer that tells when its status is decided.
type witness struct {
	http.ResponseWriter
	decided func(status int)
	late    func() bool // what comes of the request is not known with its status
	once    sync.Once
	status  int
}

func (w *witness) say(status int) {
	if w.status == 0 {
		w.status = status
	}
	if !w.late() {
		w.once.Do(func() { w.decided(w.status) })
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *witness) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.say(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *witness) Write(b []byte) (int, error) {
	w.say(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what is below.
func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// watch has an entry written when the answer to a request is decided, before the client
// hears of it; end is called when the request is over.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, pattern string) (answer http.ResponseWriter, end func()) {
	p, known := knownAs(r)
	if s.ledger == nil || !known || !audited(r, pattern) {
		return w, func() {}
	}
	t := trailOf(r.Context())
	out := &witness{ResponseWriter: w, late: func() bool { return t.calls > 0 }}
	out.decided = func(status int) {
		if t.calls > 0 && int(t.recorded.Load()) >= t.calls {
			return
		}
		if id := inPath(r, pattern, "{token}"); id != "" && t.detail == "" {
			t.noting("token " + id)
		}
		e := t.entry(p, cmp.Or(t.action, s.names[pattern], pattern), status)
		e.Session, e.Run, e.Approval = cmp.Or(e.Session, inPath(r, pattern, "{id}")), cmp.Or(e.Run, inPath(r, pattern, "{run}")), inPath(r, pattern, "{approval}")
		s.record(e)
	}
	return out, func() { out.once.Do(func() { out.decided(cmp.Or(out.status, http.StatusInternalServerError)) }) }
}

// entry is what is known of a request.
func (t *trail) entry(p principal, action string, status int) AuditEntry {
	return AuditEntry{
		At: time.Now(), Request: t.id, Client: t.client, Token: p.identity.Token, Tenant: p.tenant, User: p.user, Action: action, Tool: t.tool,
		Session: t.session, Run: t.run, Status: status, Code: t.code, Reason: t.reason, Detail: t.detail,
	}
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
		s.log.Error("the audit log cannot be written", zap.Error(files.Cause(err)), zap.Any("entry", e))
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
		if err := s.ledger.add(s.unrecorded[0]); err != nil {
			return err
		}
		s.unrecorded = s.unrecorded[1:]
	}
	return nil
}
