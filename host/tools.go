package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/mcp"
	"github.com/seed14be6753/stile/messages"
)

// The door for clients of the Model Context Protocol, at /mcp: agents are tools.

// reasonTools is that of a refusal of a further session of the protocol.
const reasonTools = "MCP_SESSIONS"

// toolsPath is where the door is.
const toolsPath = "/mcp"

func (s *Server) toolRoutes(mux *http.ServeMux) {
	home := ""
	if s.cluster != nil {
		home = s.cluster.home
	}
	door := mcp.New(mcp.Config{Agents: s.toolAgents, Version: cmp.Or(s.cfg.Version, "0"), Home: home, Caller: func(r *http.Request) mcp.Caller {
		p := s.principal(r.Context())
		return mcp.Caller{Key: p.tenant + ":" + p.user, Tenant: p.tenant, May: func(agent string) bool { return s.may(p.tenant, agent) }, Approve: p.identity.May(access.Approve), Ask: func(ctx context.Context, c mcp.Call) (mcp.Answer, error) {
			ctx, cancel := asked(ctx, r, p)
			defer cancel()
			answer, err := s.askAnywhere(ctx, r, c)
			if err != nil {
				err = orLost(ctx, err)
			}
			return answer, err
		}}
	}, Full: func(w http.ResponseWriter, r *http.Request, what string) {
		status, detail := http.StatusTooManyRequests, "the "+what+" has as many sessions of the protocol open as it may"
		if what == mcp.OverHost {
			status = http.StatusServiceUnavailable
		}
		s.refuse(w, r, tooMuch(status, messages.ErrBusy, reasonTools, detail, 10*time.Second))
	}})
	context.AfterFunc(s.leaving, door.Close)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} { // toolPattern is one of them
		s.require(access.Submit, method+" /mcp")
		s.names[method+" /mcp"] = mcpOperation
		mux.HandleFunc(method+" /mcp", func(w http.ResponseWriter, r *http.Request) {
			place, err := s.place(r.Context())
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			defer place()
			if forwardedFor(r.Context()) == wantsCall {
				s.answerCall(w, r)
				return
			}
			if r.Method == http.MethodPost {
				body, err := readMessage(r, toolPattern, "")
				if err != nil {
					s.refuse(w, r, err)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				s.peek(r, body)
			}
			door.ServeHTTP(w, r)
		})
	}
}

// toolAgents are the agents that a new session of the protocol has as tools, in the order of their
// names.
func (s *Server) toolAgents() (agents []mcp.Agent) {
	for name, a := range s.offer.Load().agents {
		schema, err := a.Manifest.OutputSchema()
		if err != nil || a.Manifest.OutputFile() != "" {
			schema = "" // it is the compiler's to read, or to refuse
		}
		agents = append(agents, mcp.Agent{Name: name, Summary: a.Manifest.Summary, Output: schema})
	}
	slices.SortFunc(agents, func(a, b mcp.Agent) int { return strings.Compare(a.Name, b.Name) })
	return agents
}

// mcpOperation begins the names of what the audit log has of this door: the method of the
// message follows, as in mcp:tools/call.
const mcpOperation = "mcp"

// toolPattern is the route of the protocol's messages.
const toolPattern = "POST /mcp"

// peek notes what the body of a request says, for the audit log.
func (s *Server) peek(r *http.Request, body []byte) {
	t := trailOf(r.Context())
	if s.ledger == nil || t == nil {
		return
	}
	type message struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	var one message
	var all []message
	if json.Unmarshal(body, &all) != nil && json.Unmarshal(body, &one) == nil {
		all = []message{one}
	}
	for _, m := range all {
		if m.Method == "tools/call" {
			t.calls++
			t.tool = plainName(m.Params.Name)
		}
	}
	switch {
	case len(all) == 1 && all[0].Method != "":
		t.action = mcpOperation + ":" + plainName(all[0].Method)
	case len(all) > 1:
		t.noting(strconv.Itoa(len(all)) + " messages")
	}
}

// plainName is a name of a client's as the audit log shows it.
func plainName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), 64)], "?")
}

// called leaves a line for a call of a tool, once it is known what comes of it.
func (s *Server) called(ctx context.Context, of *trail, c mcp.Call, session string, run *stile.Run, err error) {
	if s.ledger == nil || of == nil {
		return
	}
	t := &trail{id: of.id, client: of.client, tool: c.Agent, session: session}
	status := http.StatusOK
	if run != nil {
		t.about(session, run.Ordinal())
	}
	if err != nil {
		p := problemOf(err)
		t.refusing(p)
		status = p.Status
	}
	of.recorded.Add(1)
	s.record(t.entry(s.principal(ctx), mcpOperation+":tools/call", status))
}

// judged leaves a line for the answer to a call that waited, which a person gave at a client.
func (s *Server) judged(ctx context.Context, of *trail, agent, session string, a stile.Approval, allow bool, err error) {
	if s.ledger == nil || of == nil {
		return
	}
	t := &trail{id: of.id, client: of.client, tool: agent}
	t.about(session, a.Run)
	t.noting(string(messages.GateDeny))
	if allow {
		t.noting(string(messages.GateApprove))
	}
	status := http.StatusOK
	if err != nil {
		p := problemOf(err)
		t.refusing(p)
		status = p.Status
	}
	e := t.entry(s.principal(ctx), mcpOperation+":elicitation/create", status)
	e.Approval = a.ID
	s.record(e)
}

// asked makes the context of a call of the request that it came with: that of the
// protocol's session, whose first request may have had another token, is passed in. It
// ends with the right of the request, and not with the request.
func asked(ctx context.Context, r *http.Request, p principal) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, trailKey{}, (*trail)(nil)) // a call has one of its own
	ctx, cancel := context.WithCancel(context.WithValue(ctx, principalKey{}, p))
	held := rightOf(r.Context())
	if held == nil {
		return ctx, cancel
	}
	ctx = context.WithValue(ctx, rightKey{}, held)
	stop := context.AfterFunc(held.ctx, func() {
		if lost(ctx) != nil {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// submitCall submits a message for a tool's caller, or finds the run whose answer it asks for; id
// is that of the session.
func (s *Server) submitCall(ctx context.Context, c *mcp.Call) (id string, ses *stile.Session, run *stile.Run, err error) {
	id = c.Session
	if id == "" {
		id = "mcp-" + uuid.Must(uuid.NewV7()).String()
	} else if err := checkID(id); err != nil {
		return "", nil, nil, err
	}
	agent := s.offered(ctx, c.Agent)
	if agent == nil {
		return "", nil, nil, &messages.Error{Code: messages.ErrNotFound, Field: "name", Detail: "no agent of that name is offered"}
	}
	parts := make([]part, len(c.Parts))
	for i, p := range c.Parts {
		parts[i] = part(p)
	}
	opts, err := attached(parts)
	if err != nil {
		return id, nil, nil, err
	}
	name := s.principal(ctx).sid(id)
	ses, err = s.rt.Find(ctx, name)
	if stile.IsNotFound(err) && c.Run == 0 {
		ses, err = s.begin(ctx, name, agent)
	}
	if err != nil {
		return id, nil, nil, err
	}
	if ses.AgentName() != c.Agent {
		return id, nil, nil, &messages.Error{Code: messages.ErrConflict, Field: "session", Detail: "the session runs another agent"}
	}
	if c.Run > 0 {
		run = ses.Run(c.Run)
		_, ended, err := run.Outcome(ctx)
		if err == nil && !ended {
			err = ses.Wake(ctx) // another process may have left it
		}
		return id, ses, run, err
	}
	if c.Key != "" {
		opts = append(opts, stile.IdempotencyKey(c.Key))
	}
	run, err = s.submitNow(ctx, ses, agent.Manifest.Loop.Busy, c.Message, opts...)
	return id, ses, run, err
}

// errUnsaid ends the following of a run whose call waits for an answer that does not come here.
var errUnsaid = errors.New("host: the client gave no answer")

// askAgent submits a message for a tool's caller and waits for the run; of is the trail of
// the request that the call came with.
func (s *Server) askAgent(ctx context.Context, c mcp.Call, of *trail) (mcp.Answer, error) {
	if of != nil {
		ctx = context.WithValue(ctx, parentKey{}, of.parent)
	}
	id, ses, run, err := s.submitCall(ctx, &c)
	if _, elsewhere := stile.IsElsewhere(err); !elsewhere { // else the host that runs the session says so
		s.called(ctx, of, c, id, run, err)
	}
	answer := mcp.Answer{Session: id}
	if p := (*problem)(nil); errors.As(err, &p) && p.Code == string(messages.ErrApproval) {
		return s.waits(ctx, answer, ses, err)
	}
	if err != nil {
		return mcp.Answer{}, err
	}
	answer.Run = run.Ordinal()
	c.Begun(id, answer.Run)
	c.Log(mcp.Event{Level: mcp.Info, Event: "run.begin", Session: id, Run: answer.Run})
	f := &calledRun{s: s, c: &c, of: of, ses: ses, run: run, id: id, answer: answer, reply: newReply(run), growing: newReply(run)}
	return f.follow(ctx)
}

// calledRun is the run that answers a call.
type calledRun struct {
	s   *Server
	c   *mcp.Call
	of  *trail
	ses *stile.Session
	run *stile.Run
	id  string // of the session

	answer mcp.Answer // as far as the run has come
	// The text is that of the records, so that nothing is in it that was taken back; progress
	// is of the text as it grows.
	reply, growing *chatReply
	text           strings.Builder
	grown          int64 // bytes of progress
}

// follow follows the run to its end, or until it waits for a person whom the client does not ask.
func (f *calledRun) follow(ctx context.Context) (mcp.Answer, error) {
	follow, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	asking, stop := context.WithCancel(ctx)
	q := &questions{s: f.s, ses: f.ses, c: f.c, of: f.of, id: f.id, ctx: asking, unsaid: func() { leave(errUnsaid) }}
	defer q.done.Wait()
	defer stop()
	for u, err := range f.run.Events(follow) {
		if err == nil {
			f.progress(u)
			if u.Record == nil {
				continue
			}
			err = f.take(u)
			q.heard(u.Record)
		}
		f.answer.Text = f.text.String()
		switch {
		case err == nil && f.reply.Ended == nil:
		case err == nil:
			return f.ended(), nil
		case errors.Is(context.Cause(follow), errUnsaid):
			return f.s.waits(ctx, f.answer, f.ses, waitsForApproval(callWaits))
		case ctx.Err() != nil:
			return f.hungUpOn(ctx, err)
		case u.Record != nil && u.Record.Body.Kind() == messages.KindTurnSuspended:
			if q.ask() {
				continue
			}
			if out, bad := f.s.waits(ctx, f.answer, f.ses, err); bad != nil || len(out.Approvals) > 0 {
				return out, bad
			} // else it was answered, and the run goes on
		case f.reply.Ended != nil || u.Record != nil:
			because(&f.answer, err)
			if end := f.reply.end(); end != nil {
				f.answer.Decision = string(end.Decision)
			}
			return f.answer, nil
		default:
			return f.answer, err
		}
	}
	return f.answer, nil
}

// progress tells the client by how much the text has grown.
func (f *calledRun) progress(u stile.Update) {
	if piece, _ := f.growing.take(u); piece != "" {
		f.grown += int64(len(piece))
		f.c.Progress(piece, f.grown)
	}
}

// take takes a record of the run. Its error is why the answer ends.
func (f *calledRun) take(u stile.Update) error {
	piece, err := f.reply.take(u)
	f.text.WriteString(piece)
	tell(f.c, f.id, u.Record)
	return err
}

// ended is the answer of a run that has ended.
func (f *calledRun) ended() mcp.Answer {
	end := f.reply.end()
	f.answer.Run, f.answer.Decision = f.reply.Ended.Run, string(end.Decision)
	if end.Output != "" {
		f.answer.Output = json.RawMessage(end.Output)
	}
	return f.answer
}

// hungUpOn cancels the run of a call that its client has given up. When the host stops, the run goes on.
func (f *calledRun) hungUpOn(ctx context.Context, err error) (mcp.Answer, error) {
	if f.s.leaving.Err() != nil {
		return f.answer, leavingChat()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if bad := f.run.Cancel(end, f.s.principal(ctx).user); bad != nil {
		f.s.log.Warn("a run that no caller waits for was not cancelled", zap.Error(bad))
	}
	return f.answer, err
}

// callWaits is why an answer has no decision.
const callWaits = "a call waits for approval; the run goes on when a person has answered"

// waits is the answer of a run, or of a session, that waits for a person: with what waits.
func (s *Server) waits(ctx context.Context, answer mcp.Answer, ses *stile.Session, why error) (mcp.Answer, error) {
	list, err := ses.Approvals(ctx)
	if err != nil {
		return answer, err
	}
	for _, a := range list {
		answer.Approvals = append(answer.Approvals, approvalOf(a))
		answer.Run = a.Run // that the answer of goes on
	}
	because(&answer, why)
	return answer, nil
}

func approvalOf(a stile.Approval) mcp.Approval {
	v := viewOfApproval(a)
	return mcp.Approval{ID: v.ID, Tool: v.Name, Args: v.Args, Basis: v.Basis, Digest: v.Digest, Expires: v.Expires}
}

// because says why an answer is none.
func because(answer *mcp.Answer, err error) {
	p := problemOf(err)
	answer.Code, answer.Detail = p.Code, cmp.Or(p.Detail, p.Title)
}

// tell tells a client what happens in a run.
func tell(c *mcp.Call, id string, r *messages.Record) {
	e := mcp.Event{Event: string(r.Body.Kind()), Session: id, Run: r.Run, Turn: r.Turn}
	switch b := r.Body.(type) {
	case *messages.TurnDecided:
		e.Level, e.Decision, e.Code = mcp.Debug, string(b.Decision), string(b.Reason)
	case *messages.TurnSuspended:
		e.Level = mcp.Notice
	case *messages.RunEnd:
		e.Level, e.Decision, e.Code = mcp.Info, string(b.Decision), string(b.Reason)
		if b.Decision == messages.Halt {
			e.Level = mcp.Warning
		}
	default:
		return
	}
	c.Log(e)
}

// questions asks the person at a client about the calls of a run that wait for approval. An answer
// that comes by another door takes a question back.
type questions struct {
	s      *Server
	ses    *stile.Session
	c      *mcp.Call
	of     *trail
	id     string
	ctx    context.Context // of all questions
	unsaid func()          // the person gave no answer

	mu            sync.Mutex
	asking, again bool            // a goroutine asks; there is more to ask
	asked         string          // id of the approval
	cancel        func()          // takes its question back
	settled       map[string]bool // approvals that were answered
	done          sync.WaitGroup
}

// ask begins to ask about what waits. It reports false where the client cannot be asked.
func (q *questions) ask() bool {
	if q.c.Question == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.again = q.asking; !q.asking {
		q.asking = true
		q.done.Go(q.all)
	}
	return true
}

func (q *questions) all() {
	for more := true; more; {
		list, err := q.ses.Approvals(q.ctx)
		for _, a := range list {
			if !q.one(a) {
				err = errUnsaid
				break
			}
		}
		if err != nil {
			q.unsaid()
		}
		q.mu.Lock()
		more = q.again && err == nil
		q.asking, q.again = more, false
		q.mu.Unlock()
	}
}

// one asks about a call; it reports whether there is an answer.
func (q *questions) one(a stile.Approval) bool {
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	q.mu.Lock()
	over := q.settled[a.ID]
	q.asked, q.cancel = a.ID, cancel
	q.mu.Unlock()
	if over {
		return true
	}
	word := q.c.Question(ctx, approvalOf(a))
	q.mu.Lock()
	over = q.settled[a.ID]
	q.mu.Unlock()
	switch {
	case over:
		return true
	case !word.Said:
		return false
	}
	// The run may have ended before its answer is back here.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(q.ctx), writeTimeout)
	defer cancel()
	by := q.s.principal(ctx).user
	err := q.s.recordable()
	if err == nil && word.Allow {
		err = q.ses.Approve(ctx, a, by)
	} else if err == nil {
		err = q.ses.Deny(ctx, a, by, word.Reason)
	}
	q.s.judged(ctx, q.of, q.c.Agent, q.id, a, word.Allow, err)
	var e *messages.Error
	return err == nil || errors.As(err, &e) && e.Reason == stile.ApprovalAnswered
}

// heard hears what happens: another door may have the answer.
func (q *questions) heard(r *messages.Record) {
	b, ok := r.Body.(*messages.ActionApproval)
	if !ok || b.State == messages.GateConfirm || b.Approval == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.settled == nil {
		q.settled = map[string]bool{}
	}
	q.settled[b.Approval] = true
	if q.asked == b.Approval {
		q.cancel()
	}
}
