package host

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// agentGone reports whether err means that the host does not have a session's agent.
func agentGone(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == stile.ReasonAgentGone
}

// instant is a time as answers have it; "" for none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// amendment is a change of a session's description.
type amendment struct {
	by                string
	title             *string
	tags, add, remove []string
}

// about is what a wish for a session describes it with; nil for nothing.
func (w *sessionSpec) about(by string) *amendment {
	if w.Title == "" && len(w.Tags) == 0 {
		return nil
	}
	a := &amendment{by: by, tags: w.Tags}
	if w.Title != "" {
		a.title = &w.Title
	}
	return a
}

// check refuses what no session can be described with.
func (a *amendment) check() error {
	if err := (*messages.SessionDescribed)(nil).Changed(a.title, a.tags, a.add, nil).Validate(); err != nil {
		return inBody(err)
	}
	return nil
}

func (a *amendment) amend(ctx context.Context, ses *stile.Session) error {
	return inBody(ses.Amend(ctx, a.by, a.title, a.tags, a.add, a.remove))
}

// inBody says that the field of a refusal is one of the body.
func inBody(err error) error {
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field == "" {
		return err
	}
	own := *e
	own.Field = "body." + e.Field
	return &own
}

// sessionChange is the body of a PATCH.
type sessionChange struct {
	Title  *string  `json:"title,omitempty" maxLength:"200" doc:"takes the place of the title; empty removes it"`
	Tags   []string `json:"tags,omitempty" maxItems:"16" doc:"take the place of all tags; an empty list removes them"`
	Add    []string `json:"add,omitempty" maxItems:"16" doc:"tags to add"`
	Remove []string `json:"remove,omitempty" maxItems:"16" doc:"tags to remove; those that the session does not have are ignored"`
}

// maxLooked bounds the sessions that one request for a list looks at.
const maxLooked = 10_000

type listIn struct {
	After        string    `query:"after" maxLength:"128" doc:"next of the page before; an id lists by id behind it"`
	Limit        int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Order        string    `query:"order" enum:"updated,id" default:"updated" doc:"updated: the session that changed last comes first; id: by id, without the other filters"`
	Agent        string    `query:"agent" maxLength:"128" doc:"only sessions that were opened under this agent"`
	State        string    `query:"state" enum:"idle,running,suspended,interrupted" doc:"only sessions in this state"`
	Tag          []string  `query:"tag,explode" maxItems:"16" doc:"only sessions with this tag, all of them when it is repeated; key also finds key=value"`
	Q            string    `query:"q" maxLength:"200" doc:"only sessions whose title contains this, in letters of either case"`
	CreatedAfter time.Time `query:"created_after" doc:"only sessions that were created later"`
	UpdatedAfter time.Time `query:"updated_after" doc:"only sessions that changed later"`
	Decision     string    `query:"decision" enum:"DONE,ABORT,HALT" doc:"only sessions whose last run has ended so"`
	Last         bool      `query:"last" doc:"with the decision of each session's last run"`
	Ephemeral    bool      `query:"ephemeral" doc:"also conversations that clients of OpenAI began without a session"`
}

// filtered reports whether the request selects among sessions.
func (in *listIn) filtered() bool {
	return in.Agent != "" || in.State != "" || in.Decision != "" || len(in.Tag) > 0 || in.Q != "" || !in.CreatedAfter.IsZero() || !in.UpdatedAfter.IsZero()
}

func (s *Server) listRoutes() {
	route(s, get("list-sessions", "/v1/sessions", "The caller's sessions, the one that changed last first", "sessions"),
		func(ctx context.Context, in *listIn) (*answered[sessionList], error) {
			byID := in.Order == "id" || in.After != "" && !strings.Contains(in.After, cursorMark)
			if byID && in.filtered() {
				return nil, refusalOf(messages.ErrInvalid, "query.order", "lists by id have no filters; leave out order=id, and pass next of a filtered page as after")
			}
			if byID {
				return s.listByID(ctx, in)
			}
			return s.list(ctx, in)
		})
	type patchIn struct {
		ID   string `path:"id" maxLength:"128"`
		Body sessionChange
	}
	route(s, huma.Operation{OperationID: "describe-session", Method: http.MethodPatch, Path: "/v1/sessions/{id}", Summary: "Change the title and tags of a session", Tags: []string{"sessions"}},
		func(ctx context.Context, in *patchIn) (*answered[sessionView], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			b := &in.Body
			a := &amendment{by: s.principal(ctx).user, title: b.Title, tags: b.Tags, add: b.Add, remove: b.Remove}
			if err := a.check(); err != nil {
				return nil, err
			}
			if err := a.amend(ctx, ses); err != nil {
				return nil, err
			}
			return s.view(ctx, ses, in.ID)
		})
}

func (s *Server) listByID(ctx context.Context, in *listIn) (*answered[sessionList], error) {
	if in.After != "" {
		if err := checkID(in.After); err != nil {
			return nil, err
		}
	}
	own := s.principal(ctx).sid("")
	out := answered[sessionList]{Body: sessionList{Sessions: []sessionView{}}}
	for h, err := range s.rt.Archive().SessionsAfter(ctx, own, in.After) {
		if err != nil {
			return nil, err
		}
		if !h.Live || h.Closed || !in.Ephemeral && isEphemeral(idOf(h.SID)) || s.reachable(ctx, h.SID) != nil {
			continue
		}
		if len(out.Body.Sessions) == in.Limit {
			out.Body.Next = out.Body.Sessions[in.Limit-1].ID
			break
		}
		v, err := s.viewOf(ctx, h.SID[len(own):], h)
		if err != nil {
			return nil, err
		}
		out.Body.Sessions = append(out.Body.Sessions, v)
	}
	return &out, nil
}

func (s *Server) list(ctx context.Context, in *listIn) (*answered[sessionList], error) {
	own := s.principal(ctx).sid("")
	q := stile.SessionQuery(own)
	q.Agent, q.Tags, q.Title, q.CreatedAfter, q.UpdatedAfter = in.Agent, in.Tag, in.Q, in.CreatedAfter, in.UpdatedAfter
	q.Suspended = in.State == string(stile.StatusSuspended)
	q.Pending = in.State == string(stile.StatusRunning) || in.State == string(stile.StatusInterrupted)
	if in.After != "" {
		var err error
		if q.AfterUpdated, q.AfterInc, err = parseCursor(in.After); err != nil {
			return nil, err
		}
	}
	q.Decision = messages.Decision(in.Decision)
	const most = maxLooked
	out := answered[sessionList]{Body: sessionList{Sessions: []sessionView{}}}
	for looked, hidden := 0, 0; ; {
		q.Limit = min(in.Limit+1-len(out.Body.Sessions)+hidden, most) // one more says whether there is a page behind
		page, err := s.rt.Archive().Listings(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if len(out.Body.Sessions) == in.Limit || looked == most || hidden == maxLooked {
				out.Body.Next = cursor(q.AfterUpdated, q.AfterInc)
				return &out, nil
			}
			q.AfterUpdated, q.AfterInc = l.Updated, l.Inc
			if !in.Ephemeral && isEphemeral(idOf(l.SID)) { // there is a bound of these
				hidden++
				continue
			}
			looked++
			if l.Closed || s.reachable(ctx, l.SID) != nil {
				continue
			}
			v, err := s.headView(ctx, l.SID[len(own):], l.Head)
			if err != nil {
				return nil, err
			}
			if in.State != "" && v.State != in.State {
				continue
			}
			if in.Last || in.Decision != "" {
				decision, code := l.Last()
				v.Decision, v.Code = string(decision), string(code)
			}
			v.Agent, v.AgentKnown, v.Title, v.Tags = l.Agent, s.rt.Knows(l), l.Title, l.Tags
			v.Created, v.Updated, v.Parent, v.Origin = instant(l.Created), instant(l.Updated), idOf(l.Parent), idOf(l.Origin)
			out.Body.Sessions = append(out.Body.Sessions, v)
		}
		if len(page) < q.Limit {
			return &out, nil
		}
	}
}

// cursorMark stands in a cursor, and in no id.
const cursorMark = "~"

// cursor names the last session of a page: a session that changes meanwhile goes to the
// front, and every other one keeps its place.
func cursor(updated time.Time, inc messages.Incarnation) string {
	return strconv.FormatInt(updated.UnixNano(), 36) + cursorMark + inc.String()
}

func parseCursor(s string) (updated time.Time, inc messages.Incarnation, err error) {
	at, id, _ := strings.Cut(s, cursorMark)
	ns, err := strconv.ParseInt(at, 36, 64)
	if err == nil {
		inc, err = uuid.Parse(id)
	}
	if err != nil || len(id) != len(uuid.UUID{}.String()) {
		return updated, inc, refusalOf(messages.ErrInvalid, "query.after", "is next of a page before, or an id")
	}
	return time.Unix(0, ns).UTC(), inc, nil
}
