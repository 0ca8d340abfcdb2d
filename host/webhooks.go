package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/webhook"
	"github.com/seed14be6753/stile/messages"
)

// Webhook is an endpoint that is told of the ends of runs and of calls that wait for approval, by
// requests that are signed as the Standard Webhooks convention has it.
type Webhook struct {
	Name string // lower-case letters, digits, hyphens
	URL  string
	// Events are those that it is told of, run.ended and approval.waiting, Tenants whose they are;
	// none means all.
	Events, Tenants []string
	// Networks are addresses and prefixes that the endpoint may have beside public ones. Plain
	// HTTP goes to these alone.
	Networks []string
	// Secrets sign, each of them: whsec_ and the base64 of 24 to 64 bytes.
	Secrets []string
}

// hooksOf are webhooks as the sender has them.
func hooksOf(all []Webhook) (hooks []webhook.Hook) {
	for _, h := range all {
		hooks = append(hooks, webhook.Hook(h))
	}
	return hooks
}

// newHooks makes the sender. It sends while the server serves.
func (s *Server) newHooks() (err error) {
	m := s.rt.Metrics()
	s.hooks, err = webhook.New(webhook.Options{
		Path: s.cfg.WebhookFile, Wanted: s.toBeTold, Agent: "stile/" + s.cfg.Version, Log: s.log.Named("webhooks"),
		Count: m.WebhookCounted, Took: m.WebhookTook, Waiting: m.WebhookWaiting,
	})
	if err != nil {
		return err
	}
	if err := s.hooks.Set(hooksOf(s.cfg.Webhooks)); err != nil {
		return err
	}
	s.rt.ObserveAgents(func(agent string, r *stile.Record) {
		if !s.hooks.Active() {
			return
		}
		if e, ok := eventOf(agent, r); ok {
			s.hooks.Offer(e)
		}
	})
	return nil
}

// eventData is what an event says: names, ids and codes. What was said in a session is asked for with
// a token.
type eventData struct {
	Session  string `json:"session"`
	Tenant   string `json:"tenant"`
	User     string `json:"user"`
	Agent    string `json:"agent,omitempty"`
	Run      int64  `json:"run"`
	Decision string `json:"decision,omitempty"`
	Code     string `json:"code,omitempty"`
	Turns    int64  `json:"turns,omitempty"`
	Approval string `json:"approval,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Expires  string `json:"expires,omitempty"`
}

// eventOf makes the event of a record; ok is false for one of which nothing is told.
func eventOf(agent string, r *stile.Record) (e webhook.Event, ok bool) {
	switch b := r.Body.(type) {
	case *messages.RunEnd:
	case *messages.ActionApproval:
		if b.State != messages.GateConfirm || b.Approval == "" {
			return e, false
		}
	default:
		return e, false
	}
	key, err := messages.ParseSID(r.SID)
	if err != nil || key.ID == messages.ProfileID { // the host's own
		return e, false
	}
	d := eventData{Session: key.ID, Tenant: key.Tenant, User: key.User, Agent: agent, Run: r.Run}
	switch b := r.Body.(type) {
	case *messages.RunEnd:
		e.Type = webhook.RunEnded
		d.Decision, d.Code, d.Turns = string(b.Decision), string(b.Reason), b.Turns
	case *messages.ActionApproval:
		e.Type = webhook.ApprovalWaiting
		d.Approval, d.Digest, d.Expires = b.Approval, b.Digest.String(), b.Expires
	}
	sum := sha256.Sum256([]byte(r.Inc.String() + "\n" + strconv.FormatInt(r.Seq, 10)))
	body, err := json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp string    `json:"timestamp"`
		Data      eventData `json:"data"`
	}{e.Type, r.TS.UTC().Format(time.RFC3339Nano), d})
	e.ID, e.Tenant, e.Inc, e.At, e.Body = "msg_"+hex.EncodeToString(sum[:16]), key.Tenant, r.Inc.String(), r.TS, string(body)
	return e, err == nil
}

// toBeTold leaves out the ends of runs of child sessions, which are parts of runs of their parents.
func (s *Server) toBeTold(ctx context.Context, e *webhook.Event) (bool, error) {
	if e.Type != webhook.RunEnded {
		return true, nil
	}
	inc, err := uuid.Parse(e.Inc)
	if err != nil {
		return false, nil
	}
	parent, err := s.rt.Archive().Parent(ctx, inc)
	if stile.IsNotFound(err) { // deleted
		return true, nil
	}
	return parent == nil, err
}

// tellHooks sends until the function that comes back is called. What happened while no process told of it
// is found in the journal.
func (s *Server) tellHooks() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	sent, found := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		s.hooks.Run(ctx)
	}()
	go func() {
		defer close(found)
		if err := s.overlooked(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("what webhooks were not told of is looked for again at the next start", zap.Error(err))
		}
	}()
	return func() {
		cancel()
		<-found
		<-sent
	}
}

// overlookedPage is how many records and sessions are read at once.
const overlookedPage = 200

// overlooked offers what happened since the sender's file was written.
func (s *Server) overlooked(ctx context.Context) error {
	since := s.hooks.Until()
	if since.IsZero() {
		return nil
	}
	q := stile.SessionQuery("")
	q.Limit, q.UpdatedAfter = overlookedPage, since.Add(-time.Second)
	for {
		page, err := s.rt.Archive().Listings(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := s.overlookedIn(ctx, page[i].Inc, page[i].Agent, since); err != nil {
				return err
			}
		}
		if len(page) < overlookedPage {
			s.hooks.CaughtUp()
			return nil
		}
		last := page[len(page)-1]
		q.AfterUpdated, q.AfterInc = last.Updated, last.Inc
	}
}

// overlookedIn offers the events of a session, without approvals that have been answered.
func (s *Server) overlookedIn(ctx context.Context, inc messages.Incarnation, agent string, since time.Time) error {
	answered := map[string]bool{}
	var all []webhook.Event
	for to := int64(0); ; {
		var page []*stile.Record
		q := stile.RecordQuery{To: to, Latest: overlookedPage, Kinds: []messages.Kind{messages.KindRunEnd, messages.KindActionApproval}}
		for r, err := range s.rt.Archive().Query(ctx, inc, q) {
			if err != nil {
				return err
			}
			page = append(page, r)
		}
		for i := len(page) - 1; i >= 0; i-- { // answers come before their questions then
			r := page[i]
			if b, ok := r.Body.(*messages.ActionApproval); ok {
				if b.State != messages.GateConfirm {
					answered[b.Approval] = true
				} else if answered[b.Approval] {
					continue
				}
			}
			if e, ok := eventOf(agent, r); ok && !r.TS.Before(since) {
				all = append(all, e)
			}
		}
		if len(page) < overlookedPage || page[0].TS.Before(since) || page[0].Seq == 1 {
			break
		}
		to = page[0].Seq - 1
	}
	for i := range all {
		s.hooks.Offer(all[len(all)-1-i])
	}
	return nil
}

// webhookView is a webhook as lists show it.
type webhookView struct {
	Name    string   `json:"name"`
	Origin  string   `json:"origin" doc:"scheme and host of its URL"`
	Events  []string `json:"events"`
	Waiting int      `json:"waiting" doc:"events of the tenant that are still to be sent"`
	Dead    int      `json:"dead" doc:"events of the tenant that could not be delivered"`
}

type webhookList struct {
	Webhooks []webhookView `json:"webhooks"`
}

// letterView is an event that could not be delivered.
type letterView struct {
	ID       string          `json:"id"`
	Webhook  string          `json:"webhook"`
	Type     string          `json:"type"`
	At       string          `json:"at" format:"date-time" doc:"of the event"`
	Died     string          `json:"died" format:"date-time"`
	Attempts int             `json:"attempts"`
	Error    string          `json:"error" doc:"of the last attempt"`
	Body     json.RawMessage `json:"body" doc:"what is sent"`
}

type letterList struct {
	Letters []letterView `json:"letters"`
	Next    string       `json:"next,omitempty" doc:"pass it as after for the next page"`
}

func (s *Server) webhookRoutes() {
	route(s, asks(access.Admin, get("list-webhooks", "/v1/webhooks", "The webhooks that are told of the caller's tenant", "webhooks")),
		func(ctx context.Context, _ *struct{}) (*answered[webhookList], error) {
			out := answered[webhookList]{Body: webhookList{Webhooks: []webhookView{}}}
			for _, h := range s.hooks.Status(s.principal(ctx).tenant) {
				out.Body.Webhooks = append(out.Body.Webhooks, webhookView(h))
			}
			return &out, nil
		})
	type listIn struct {
		After string `query:"after" maxLength:"128" doc:"next of the page before"`
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	}
	route(s, asks(access.Admin, get("list-dead-letters", "/v1/webhooks/dead", "The events of the caller's tenant that could not be delivered, oldest first", "webhooks")),
		func(ctx context.Context, in *listIn) (*answered[letterList], error) {
			all, err := s.hooks.Dead(s.principal(ctx).tenant, in.After, in.Limit+1)
			if err != nil {
				return nil, err
			}
			out := answered[letterList]{Body: letterList{Letters: []letterView{}}}
			if len(all) > in.Limit {
				all = all[:in.Limit]
				out.Body.Next = all[in.Limit-1].ID
			}
			for _, l := range all {
				out.Body.Letters = append(out.Body.Letters, letterView{
					ID: l.ID, Webhook: l.Hook, Type: l.Event.Type, At: l.Event.At.UTC().Format(time.RFC3339Nano), Died: l.Died.UTC().Format(time.RFC3339Nano),
					Attempts: l.Attempts, Error: l.Error, Body: json.RawMessage(l.Event.Body),
				})
			}
			return &out, nil
		})
	type letterIn struct {
		Letter string `path:"letter" maxLength:"128" doc:"the id"`
	}
	route(s, asks(access.Admin, post("retry-dead-letter", "/v1/webhooks/dead/{letter}/retry", "Send an event again, from the first attempt on", http.StatusNoContent, "webhooks")),
		func(ctx context.Context, in *letterIn) (*struct{}, error) {
			return nil, s.hooks.Retry(s.principal(ctx).tenant, in.Letter)
		})
	drop := huma.Operation{OperationID: "drop-dead-letter", Method: http.MethodDelete, Path: "/v1/webhooks/dead/{letter}", Summary: "Forget an event that could not be delivered", DefaultStatus: http.StatusNoContent, Tags: []string{"webhooks"}}
	route(s, asks(access.Admin, drop), func(ctx context.Context, in *letterIn) (*struct{}, error) {
		return nil, s.hooks.Drop(s.principal(ctx).tenant, in.Letter)
	})
}
