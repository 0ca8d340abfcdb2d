package host

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// runView is a run as the door shows it.
type runView struct {
	Session  string `json:"session"`
	Run      int64  `json:"run" doc:"ordinal in the session, from 1; once it has ended, of a merged submit that of the run which took it up"`
	Position string `json:"position,omitempty" doc:"in front of the run's updates: where its events begin"`
	Joined   bool   `json:"joined,omitempty" doc:"the idempotency key named an earlier submit"`
	Ended    bool   `json:"ended"`
	State    string `json:"state,omitempty" enum:"queued,running,waiting,interrupted,ended" doc:"waiting: a call waits for approval; interrupted: no process works on it, and it goes on once it was looked at; left out in the answer to a submit that does not wait"`
	Decision string `json:"decision,omitempty" enum:"DONE,ABORT,HALT" doc:"when it has ended"`
	Code     string `json:"code,omitempty" doc:"why, for HALT"`
	Detail   string `json:"detail,omitempty"`
	Turns    int64  `json:"turns,omitempty"`
	*wholeView
	Output any `json:"output,omitempty" doc:"the answer, of an agent that wants one that fits a schema"`
}

// message is what is submitted.
type message struct {
	Input  string `json:"input" maxLength:"524288" doc:"the message; for aeiou also a JSON object with subject and fields"`
	Parts  []part `json:"parts,omitempty" maxItems:"8" doc:"pictures and files that the model sees with the message"`
	Policy string `json:"policy,omitempty" maxLength:"32" doc:"when a run is in flight; the agent's own when it is left out"`
	Zone   string `json:"zone,omitempty" maxLength:"64" doc:"the user's time zone, such as Europe/Oslo or UTC+2; the session keeps the last one"`
}

type decisionList struct {
	Decisions []decisionView `json:"decisions"`
}

type runIn struct {
	ID  string `path:"id" maxLength:"128"`
	Run int64  `path:"run" minimum:"1"`
}

func (s *Server) run(ctx context.Context, in *runIn) (*stile.Run, error) {
	ses, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return ses.Run(in.Run), nil
}

// The states of a run; one that is interrupted has that of its session.
const (
	runQueued  = "queued"
	runRunning = "running"
	runWaiting = "waiting"
	runEnded   = "ended"
)

// runState says how a run stands that has not ended. It wakes the session of one that no
// process works on.
func (s *Server) runState(ctx context.Context, ses *stile.Session, run int64) (string, error) {
	h, err := ses.Head(ctx)
	if err != nil {
		return "", err
	}
	status, err := s.rt.Archive().Status(ctx, h)
	switch {
	case err != nil:
		return "", err
	case status == stile.StatusInterrupted && s.rt.ReadOnly():
		return string(status), nil
	case status == stile.StatusInterrupted:
		return string(status), ses.Wake(ctx)
	}
	return stateOf(status, h, run), nil
}

func (s *Server) runRoutes() {
	s.runListRoute()
	op := stream(post("submit", "/v1/sessions/{id}/runs", "Submit a message", http.StatusAccepted, "runs"), "text/event-stream", s.eventSchema())
	op.Description = "The body has at most 12 MiB with its pictures and files."
	taken := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[runView](), true, "RunView")
	op.Responses["202"] = &huma.Response{Description: "The run that was begun, or waits", Content: map[string]*huma.MediaType{"application/json": {Schema: taken}}}
	op.Responses["200"] = &huma.Response{Description: "The run, when it was waited for and has ended, or its stream", Content: map[string]*huma.MediaType{"application/json": {Schema: taken}, "text/event-stream": {Schema: s.eventSchema()}}}
	route(s, op, s.submitRun)
	route(s, get("get-run", "/v1/sessions/{id}/runs/{run}", "How a run stands, and what it said", "runs"), s.getRun)
	route(s, post("cancel-run", "/v1/sessions/{id}/runs/{run}/cancel", "Cancel a run: it ends HALT(ERR_CANCELLED)", http.StatusNoContent, "runs"), s.cancelRun)
	route(s, get("list-decisions", "/v1/sessions/{id}/decisions", "The decisions of a session's turns", "runs"), s.listDecisions)
}

type submitIn struct {
	ID     string `path:"id" maxLength:"128"`
	Key    string `header:"Idempotency-Key" maxLength:"256" doc:"a repeated submit with the same key joins the run of the first; another input under it is refused with 422"`
	Stream string `query:"stream" enum:"token,event,none" default:"none" doc:"follow the run in the answer: with growing text, without, or not at all"`
	Format string `query:"format" enum:"records,simple" default:"records" doc:"of the events: records and deltas, or think, respond, call, result, end and so on"`
	Wait   string `query:"wait" maxLength:"32" doc:"with stream=none: how long to wait for the run's end, at most 10m; then the answer is 200 and has what the run said. 202 when it takes longer, or waits for an approval"`
	Body   message
}

// submitRun submits a message. It answers with the run, at once or when that has ended, or with its stream.
func (s *Server) submitRun(ctx context.Context, in *submitIn) (*huma.StreamResponse, error) {
	wait, err := waitOf(in.Wait, in.Stream)
	if err != nil {
		return nil, err
	}
	if err := s.mayAnswer(ctx, in.Body.Policy); err != nil {
		return nil, err
	}
	ses, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	opts, err := in.options(s.principal(ctx).user)
	if err != nil {
		return nil, err
	}
	var place func()
	if in.Stream != "none" || wait > 0 {
		// Before the submit: a run that was taken is not answered with a refusal.
		if place, err = s.place(ctx); err != nil {
			return nil, err
		}
	}
	run, err := s.submit(ctx, ses, in.Body.Input, opts...)
	if err != nil {
		if place != nil {
			place()
		}
		return nil, err
	}
	if in.Stream == "none" {
		at := stile.Position{Seq: max(0, run.Seq()-1)}
		v := runView{Session: in.ID, Run: run.Ordinal(), Joined: run.Joined(), Position: at.String()}
		if place == nil {
			return answer(http.StatusAccepted, v), nil
		}
		defer place()
		return s.waited(ctx, wait, ses, run, v)
	}
	from := messages.Position{Seq: max(0, run.Seq()-1)}
	return s.events(s.followed(place), start{from, from.String()}.told(run, in.Format, in.Stream)), nil
}

// mayAnswer refuses the policy answer, which may allow a call, to a caller who must not approve any.
func (s *Server) mayAnswer(ctx context.Context, policy string) error {
	asker := s.principal(ctx)
	if messages.Policy(policy) == messages.Answer && !asker.identity.May(access.Approve) {
		return access.Denied(access.ReasonScope, "the policy answer may allow a call: the token lacks the scope "+string(access.Approve))
	}
	return nil
}

// options returns how a user's message is submitted.
func (in *submitIn) options(user string) ([]stile.SubmitOption, error) {
	opts, err := attached(in.Body.Parts)
	if err != nil {
		return nil, err
	}
	if in.Body.Policy != "" {
		opts = append(opts, stile.Policy(messages.Policy(in.Body.Policy)))
		if messages.Policy(in.Body.Policy) == messages.Answer {
			opts = append(opts, stile.User(user)) // the record of the approval has who gave it
		}
	}
	if in.Body.Zone != "" {
		opts = append(opts, stile.Zone(in.Body.Zone))
	}
	if in.Key != "" {
		opts = append(opts, stile.IdempotencyKey(in.Key))
	}
	return opts, nil
}

func (s *Server) getRun(ctx context.Context, in *lookIn) (*answered[runView], error) {
	ses, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.look(ctx, ses, in)
}

func (s *Server) cancelRun(ctx context.Context, in *runIn) (*struct{}, error) {
	run, err := s.run(ctx, in)
	if err != nil {
		return nil, err
	}
	err = run.Cancel(ctx, s.principal(ctx).user)
	if messages.CodeOf(err) == messages.ErrDenied { // because of the run's state, not of the caller's rights
		p := problemOf(err)
		p.Status = http.StatusConflict
		err = p
	}
	return nil, err
}

type decisionsIn struct {
	ID    string `path:"id" maxLength:"128"`
	After int64  `query:"after" minimum:"0" doc:"position of the last one known"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Server) listDecisions(ctx context.Context, in *decisionsIn) (*answered[decisionList], error) {
	ses, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var out answered[decisionList]
	out.Body.Decisions = []decisionView{}
	for r, err := range ses.RecordsAfter(ctx, in.After) {
		if err != nil {
			return nil, err
		}
		b, ok := r.Body.(*messages.TurnDecided)
		if !ok {
			continue
		}
		out.Body.Decisions = append(out.Body.Decisions, viewDecision(r, b))
		if len(out.Body.Decisions) == in.Limit {
			break
		}
	}
	return &out, nil
}

// waited answers when a run has ended, or wait is over.
func (s *Server) waited(ctx context.Context, wait time.Duration, ses *stile.Session, run *stile.Run, v runView) (*huma.StreamResponse, error) {
	o, err := s.wholeWithin(ctx, wait, run, stile.Position{Seq: max(0, run.Seq()-1)})
	if err != nil {
		return nil, err
	}
	if o == nil {
		if v.State, err = s.runState(ctx, ses, v.Run); err != nil {
			return nil, err
		}
		return answer(http.StatusAccepted, v), nil
	}
	v.ended(o)
	return answer(http.StatusOK, v), nil
}

// wholeWithin is whole for at most wait, as long as the caller may and the host stays.
func (s *Server) wholeWithin(ctx context.Context, wait time.Duration, run *stile.Run, from stile.Position) (*stile.Outcome, error) {
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	o, err := whole(within, run, from)
	if no := lost(within); no != nil {
		return nil, no
	}
	return o, err
}

type lookIn struct {
	ID   string `path:"id" maxLength:"128"`
	Run  int64  `path:"run" minimum:"1"`
	Wait string `query:"wait" maxLength:"32" doc:"how long to wait for the run's end, at most 10m; the answer is how it stands then, sooner when it has ended or comes to wait for an approval"`
}

// look tells how a run stands, once it has ended or the wait is over.
func (s *Server) look(ctx context.Context, ses *stile.Session, in *lookIn) (*answered[runView], error) {
	wait, err := waitOf(in.Wait, "none")
	if err != nil {
		return nil, err
	}
	run, v := ses.Run(in.Run), runView{Session: in.ID, Run: in.Run}
	head, err := ses.Head(ctx) // in front of the look: what comes behind it is waited for
	if err != nil {
		return nil, err
	}
	o, ended, err := run.Outcome(ctx)
	if err != nil {
		return nil, err
	}
	if ended {
		v.ended(&o)
		return &answered[runView]{Body: v}, nil
	}
	if v.State, err = s.runState(ctx, ses, in.Run); err != nil || wait == 0 {
		return &answered[runView]{Body: v}, err
	}
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	defer place()
	late, err := s.wholeWithin(ctx, wait, run, stile.Position{Seq: head.Seq})
	switch {
	case err != nil:
		return nil, err
	case late != nil:
		v.ended(late)
	default:
		v.State, err = s.runState(ctx, ses, in.Run)
	}
	return &answered[runView]{Body: v}, err
}
