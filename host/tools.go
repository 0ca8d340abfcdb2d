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

func (s *Server) toolRoutes(mux *http.ServeMux) {
	door := mcp.New(mcp.Config{Agents: s.toolAgents, Version: cmp.Or(s.cfg.Version, "0"), Caller: func(r *http.Request) mcp.Caller {
		p := s.principal(r.Context())
		return mcp.Caller{Key: p.tenant + ":" + p.user, Tenant: p.tenant, May: func(agent string) bool { return s.may(p.tenant, agent) }, Ask: func(ctx context.Context, c mcp.Call) (mcp.Answer, error) {
			ctx, cancel := asked(ctx, r, p)
			defer cancel()
			answer, err := s.askAgent(ctx, c, trailOf(r.Context()))
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
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		s.require(access.Submit, method+" /mcp")
		s.names[method+" /mcp"] = mcpOperation
		mux.HandleFunc(method+" /mcp", func(w http.ResponseWriter, r *http.Request) {
			place, err := s.place(r.Context())
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			defer place()
			if r.Method == http.MethodPost {
				if err := s.peek(r); err != nil {
					s.refuse(w, r, err)
					return
				}
			}
			door.ServeHTTP(w, r)
		})
	}
}

// toolAgents are the agents that a new session of the protocol has as tools, in the order of their
// names.
func (s *Server) toolAgents() (agents []mcp.Agent) {
	for name, a := range s.offer.Load().agents {
		agents = append(agents, mcp.Agent{Name: name, Summary: a.Manifest.Summary})
	}
	slices.SortFunc(agents, func(a, b mcp.Agent) int { return strings.Compare(a.Name, b.Name) })
	return agents
}

// mcpOperation begins the names of what the audit log has of this door: the method of the
// message follows, as in mcp:tools/call.
const mcpOperation = "mcp"

// peek reads what a request says, for the audit log, and puts it back.
func (s *Server) peek(r *http.Request) error {
	t := trailOf(r.Context())
	if s.ledger == nil || t == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		return refusal(http.StatusRequestEntityTooLarge, messages.ErrInvalid, "body", "a body has at most 1 MiB")
	}
	if err != nil {
		return unserved("body", "the body did not arrive whole")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
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
	return nil
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

// submitCall submits a message for a tool's caller; id is that of the session.
func (s *Server) submitCall(ctx context.Context, c mcp.Call) (id string, run *stile.Run, err error) {
	id = c.Session
	if id == "" {
		id = "mcp-" + uuid.Must(uuid.NewV7()).String()
	} else if err := checkID(id); err != nil {
		return "", nil, err
	}
	agent := s.offered(ctx, c.Agent)
	if agent == nil {
		return "", nil, &messages.Error{Code: messages.ErrNotFound, Field: "name", Detail: "no agent of that name is offered"}
	}
	name := s.principal(ctx).sid(id)
	ses, err := s.rt.Find(ctx, name)
	if stile.IsNotFound(err) {
		ses, err = s.begin(ctx, name, agent)
	}
	if err != nil {
		return id, nil, err
	}
	if ses.AgentName() != c.Agent {
		return id, nil, &messages.Error{Code: messages.ErrConflict, Field: "session", Detail: "the session runs another agent"}
	}
	run, err = s.submit(ctx, ses, c.Message)
	return id, run, err
}

// askAgent submits a message for a tool's caller and waits for the run; of is the trail of
// the request that the call came with.
func (s *Server) askAgent(ctx context.Context, c mcp.Call, of *trail) (mcp.Answer, error) {
	id, run, err := s.submitCall(ctx, c)
	s.called(ctx, of, c, id, run, err)
	if err != nil {
		return mcp.Answer{}, err
	}
	answer := mcp.Answer{Session: id, Run: run.Ordinal()}
	// The text is that of the records, so that nothing is in it that was taken back; progress
	// is of the text as it grows.
	reply, growing := newReply(run), newReply(run)
	var text strings.Builder
	var grown int64
	for u, err := range run.Events(ctx) {
		if err == nil && c.Progress != nil {
			if piece, _ := growing.take(u); piece != "" {
				grown += int64(len(piece))
				c.Progress(piece, grown)
			}
		}
		if err == nil && u.Delta != nil {
			continue
		}
		var piece string
		if err == nil {
			piece, err = reply.take(u)
			text.WriteString(piece)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			if s.leaving.Err() != nil {
				return answer, leavingChat()
			}
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
			defer cancel()
			if bad := run.Cancel(end, s.principal(ctx).user); bad != nil {
				s.log.Warn("a run that no caller waits for was not cancelled", zap.Error(bad))
			}
			return answer, err
		case err != nil && (reply.Ended != nil || u.Record != nil):
			p := problemOf(err)
			answer.Code, answer.Detail, answer.Text = p.Code, cmp.Or(p.Detail, p.Title), text.String()
			if end := reply.end(); end != nil {
				answer.Decision = string(end.Decision)
			}
			return answer, nil
		case err != nil:
			return answer, err
		case reply.Ended != nil:
			answer.Run, answer.Decision, answer.Text = reply.Ended.Run, string(reply.end().Decision), text.String()
			return answer, nil
		}
	}
	return answer, nil
}
