package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

func (s *Server) find(ctx context.Context, id string) (*stile.Session, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	sid := s.principal(ctx).sid(id)
	ses, err := s.rt.Find(ctx, sid)
	if err == nil {
		err = s.usable(sid, ses.AgentName())
	}
	if err != nil {
		return nil, err
	}
	return ses, nil
}

// checkID refuses an id that is no part of a SID: above all one that would name another
// user's session.
func checkID(id string) error {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return &messages.Error{Code: messages.ErrInvalid, Field: "id", Detail: "an id is made of letters, digits, dots, underscores and hyphens"}
		}
	}
	switch id {
	case "":
		return &messages.Error{Code: messages.ErrInvalid, Field: "id", Detail: "the id is empty"}
	case ".", "..":
		return &messages.Error{Code: messages.ErrInvalid, Field: "id", Detail: "an id is not . or .., which mean folders in a path"}
	}
	return nil
}

// sessionView is a session as the door shows it.
type sessionView struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation" doc:"tells this session from an earlier one of the same id"`
	State       string `json:"state" enum:"idle,running,suspended,interrupted,closed" doc:"suspended: a call waits for approval; interrupted: no process works on what is open, which goes on once it was looked at"`
	Seq         int64  `json:"seq" doc:"of the last record"`
	Run         int64  `json:"run" doc:"ordinal of the last run begun"`
	Turn        int64  `json:"turn" doc:"index of the last turn begun"`
	Queued      int64  `json:"queued" doc:"accepted inputs that wait"`
	Hash        string `json:"hash" doc:"of the last record: with seq it is what a cut tail is found with"`

	Agent      string   `json:"agent,omitempty" doc:"that the session was opened under, by name"`
	AgentKnown bool     `json:"agent_known" doc:"the host has an agent of that name or manifest: without one the session takes no input, and answers 409"`
	Created    string   `json:"created,omitempty" format:"date-time"`
	Updated    string   `json:"updated,omitempty" format:"date-time" doc:"when an input came, a run began, waited or ended, or the session was described or closed, last"`
	Title      string   `json:"title,omitempty"`
	Tags       []string `json:"tags,omitempty" doc:"key or key=value, sorted"`
	Parent     string   `json:"parent,omitempty" doc:"id of the session that it works for"`
	Origin     string   `json:"origin,omitempty" doc:"id of the session that it continues as a fork"`
	Decision   string   `json:"decision,omitempty" enum:"DONE,ABORT,HALT" doc:"of the last run, once it has ended; in lists with last=true"`
	Code       string   `json:"code,omitempty" doc:"why, for HALT; in lists with last=true"`
}

type sessionList struct {
	Sessions []sessionView `json:"sessions"`
	Next     string        `json:"next,omitempty" doc:"pass it as after for the next page, which is the last one when it has none; a page may be shorter than the limit"`
}

// sessionSpec is the wish for a session.
type sessionSpec struct {
	Agent string `json:"agent" minLength:"1" maxLength:"128" doc:"one of /v1/agents"`
	ID    string `json:"id,omitempty" maxLength:"128" doc:"a new one when it is left out"`

	Title string   `json:"title,omitempty" maxLength:"200" doc:"one line, of at most 200 bytes; of a session that is there already it stays as it is when this is left out"`
	Tags  []string `json:"tags,omitempty" maxItems:"16" doc:"key or key=value, without spaces, of at most 64 bytes each"`
}

type sessionIn struct {
	ID string `path:"id" maxLength:"128"`
}

func (s *Server) sessionRoutes() {
	route(s, post("create-session", "/v1/sessions", "Begin a session", http.StatusCreated, "sessions"), s.createSession)
	route(s, get("get-session", "/v1/sessions/{id}", "What a session is doing", "sessions"), s.getSession)
	s.listRoutes()
	s.searchRoute()
	route(s, stream(get("export-session", "/v1/sessions/{id}/export", "All records as JSON lines, to be verified anywhere", "sessions"), "application/jsonl", listOf(s.recordSchema())), s.exportSession)
	s.recordRoutes()
	s.partRoute()
	s.keyRoutes()
}

type createSessionIn struct {
	Key  string `header:"Idempotency-Key" maxLength:"256" doc:"names a session that is given no id: a repeated request with the same key finds the session of the first; another agent under it is refused with 422"`
	Body sessionSpec
}

// createSession begins a session, or finds the one that an earlier request with its key has begun.
func (s *Server) createSession(ctx context.Context, in *createSessionIn) (*answered[sessionView], error) {
	agent := s.offered(ctx, in.Body.Agent)
	if agent == nil {
		return nil, &messages.Error{Code: messages.ErrNotFound, Field: "body.agent", Detail: "no agent of that name is offered"}
	}
	id, keyed := in.Body.ID, in.Body.ID == "" && in.Key != ""
	switch {
	case keyed:
		id = keyedID(in.Key)
	case id == "":
		id = uuid.Must(uuid.NewV7()).String()
	}
	about := in.Body.about(s.principal(ctx).user)
	if about != nil {
		if err := about.check(); err != nil {
			return nil, err
		}
	}
	p := s.principal(ctx)
	done, err := s.vacant(ctx, p, id)
	if e := (*problem)(nil); keyed && errors.As(err, &e) && e.Code == string(messages.ErrConflict) { // it exists
		return s.begunBefore(ctx, id, in.Body.Agent)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	name, tenant := p.sid(id), p.tenant
	trailOf(ctx).about(id, 0)
	begun, err := s.room(ctx, tenant)
	if err != nil {
		return nil, err
	}
	ses, err := s.rt.Open(ctx, name, agent)
	begun(err == nil)
	if err != nil {
		return nil, err
	}
	if about != nil {
		if err := about.amend(ctx, ses); err != nil {
			return nil, err
		}
	}
	return s.view(ctx, ses, id)
}

// getSession answers what a session is doing, and wakes one that no process works on.
func (s *Server) getSession(ctx context.Context, in *sessionIn) (*answered[sessionView], error) {
	ses, err := s.find(ctx, in.ID)
	if agentGone(err) {
		return s.viewGone(ctx, in.ID)
	}
	if err != nil {
		return nil, err
	}
	out, err := s.view(ctx, ses, in.ID)
	if err == nil && out.Body.State == string(stile.StatusInterrupted) {
		err = ses.Wake(ctx)
	}
	return out, err
}

func (s *Server) exportSession(ctx context.Context, in *sessionIn) (*huma.StreamResponse, error) {
	ses, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "application/jsonl")
		if err := s.rt.Archive().Export(c.Context(), ses.Incarnation(), c.BodyWriter()); err != nil {
			panic(http.ErrAbortHandler) // cut, so that no client takes a part for the whole
		}
	}}, nil
}

func (s *Server) view(ctx context.Context, ses *stile.Session, id string) (*answered[sessionView], error) {
	h, err := ses.Head(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.viewOf(ctx, id, h)
	v.Agent, v.AgentKnown = ses.AgentName(), true
	return &answered[sessionView]{Body: v}, err
}

// viewGone shows a session whose agent the host does not have.
func (s *Server) viewGone(ctx context.Context, id string) (*answered[sessionView], error) {
	h, err := s.rt.Archive().Head(ctx, s.principal(ctx).sid(id))
	if err != nil {
		return nil, err
	}
	v, err := s.viewOf(ctx, id, h)
	v.AgentKnown = false
	return &answered[sessionView]{Body: v}, err
}

func (s *Server) viewOf(ctx context.Context, id string, h stile.Head) (sessionView, error) {
	l, err := s.rt.Archive().Listing(ctx, h)
	if err != nil {
		return sessionView{}, err
	}
	v, err := s.headView(ctx, id, h)
	v.Agent, v.AgentKnown, v.Title, v.Tags = l.Agent, s.rt.Knows(l), l.Title, l.Tags
	v.Created, v.Updated, v.Parent, v.Origin = instant(l.Created), instant(l.Updated), idOf(l.Parent), idOf(l.Origin)
	return v, err
}

// headView is what the head alone says.
func (s *Server) headView(ctx context.Context, id string, h stile.Head) (sessionView, error) {
	state, err := s.rt.Archive().Status(ctx, h)
	return sessionView{
		ID: id, Incarnation: h.Inc.String(), State: string(state), Seq: h.Seq, Run: h.Run, Turn: h.Turn, Queued: h.Queued, Hash: h.Hash.String(),
	}, err
}

// stream says in the description that an answer may be a stream of that type.
func stream(op huma.Operation, contentType string, of *huma.Schema) huma.Operation {
	op.Responses = map[string]*huma.Response{
		"200": {Description: "A stream", Content: map[string]*huma.MediaType{contentType: {Schema: of}}},
	}
	return op
}

// keyedID is the id of a session that is begun under a key. It is the same at every host, and after
// a restart.
func keyedID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key-" + hex.EncodeToString(sum[:16])
}

// begunBefore answers a request to begin a session that an earlier one with its key has begun.
func (s *Server) begunBefore(ctx context.Context, id, agent string) (*answered[sessionView], error) {
	ses, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if ses.AgentName() != agent {
		return nil, &messages.Error{Code: messages.ErrConflict, Reason: stile.ReasonKeyReused, Field: keyHeader, Detail: "the session that was begun with this key has another agent"}
	}
	trailOf(ctx).about(id, 0)
	return s.view(ctx, ses, id)
}
