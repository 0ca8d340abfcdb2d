package host

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

func (s *Server) streamRoutes() {
	type From struct {
		After   string `query:"after" maxLength:"128" doc:"the id of the last update seen; nothing for all"`
		Last    string `header:"Last-Event-ID" maxLength:"128" doc:"as after, and before it: what a browser sends when it comes back"`
		Upgrade string `header:"Upgrade" maxLength:"32" doc:"websocket: each event is a message"`
		Stream  string `query:"stream" enum:"token,event" default:"token" doc:"with growing text, or without"`
		Format  string `query:"format" enum:"records,simple" default:"records" doc:"records and deltas; or think, respond, call, result, end and so on, each with type, content and timestamp"`
	}
	type eventsIn struct {
		ID string `path:"id" maxLength:"128"`
		From
	}
	op := stream(get("follow-session", "/v1/sessions/{id}/events", "Follow a session, from any update on", "events"), "text/event-stream", s.eventSchema())
	route(s, op, func(ctx context.Context, in *eventsIn) (*huma.StreamResponse, error) {
		ses, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		from, err := beginning(in.After, in.Last, in.Format)
		if err != nil {
			return nil, err
		}
		return s.resume(ctx, ses, from.at, from.told(ses, in.Format, in.Stream))
	})
	type runEventsIn struct {
		ID  string `path:"id" maxLength:"128"`
		Run int64  `path:"run" minimum:"1"`
		From
	}
	op = stream(get("follow-run", "/v1/sessions/{id}/runs/{run}/events", "Follow a run to its end, from any update on", "events"), "text/event-stream", s.eventSchema())
	op.Responses["204"] = &huma.Response{Description: "All of the run was seen"}
	route(s, op, func(ctx context.Context, in *runEventsIn) (*huma.StreamResponse, error) {
		ses, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		from, err := beginning(in.After, in.Last, in.Format)
		if err != nil {
			return nil, err
		}
		run := ses.Run(in.Run)
		o, ended, err := run.Outcome(ctx)
		if err != nil {
			return nil, err
		}
		if ended && from.at.Seq >= o.EndSeq {
			if strings.EqualFold(in.Upgrade, "websocket") { // there it is the close that tells
				return s.resume(ctx, ses, from.at, func(context.Context) iter.Seq2[told, error] {
					return func(func(told, error) bool) {}
				})
			}
			// All of it was seen. 204 tells an EventSource not to come back.
			return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
		}
		out, err := s.resume(ctx, ses, from.at, from.told(run, in.Format, in.Stream))
		if err != nil {
			return nil, err
		}
		body := out.Body
		out.Body = func(c huma.Context) {
			defer s.followed(func() {})()
			body(c)
		}
		return out, nil
	})
}

// resume streams behind a position that the session has.
func (s *Server) resume(ctx context.Context, ses *stile.Session, at stile.Position, all telling) (*huma.StreamResponse, error) {
	h, err := ses.Head(ctx)
	if err != nil {
		return nil, err
	}
	if at.Seq > h.Seq {
		return nil, &messages.Error{Code: messages.ErrConflict, Field: "after", Detail: "the session has no such record"}
	}
	place, err := s.place(ctx)
	if err != nil {
		return nil, err
	}
	return s.events(place, all), nil
}

// events is an answer that streams until there is no more, the client goes, or the host
// stops. An event's name is the record's type, delta or retract, and message in the simple
// format; its id is where the next one resumes; its data one line of JSON. A comment each
// heartbeat shows that the stream lives. An error ends it as an event named problem, with the
// document: error is what an EventSource calls its own.
func (s *Server) events(release func(), all telling) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer release()
		r, w := humago.Unwrap(c)
		if isSocket(r) {
			s.socket(w, r, all)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // a proxy shall pass it on as it comes
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.leaving, cancel)()
		out := newEventWriter(w, cancel)
		defer out.stop()
		out.begin()
		_ = s.pump(ctx, r, out, all) // the stream has told it
	}}
}

// pump writes what is told until it ends, the client goes, or the host stops. It gives the
// error that ended it, if it was not the client's going.
func (s *Server) pump(ctx context.Context, r *http.Request, out *eventWriter, all telling) error {
	defer out.last()
	moves := misdirectedOf(ctx)
	for e, err := range all(stile.OnWait(ctx, out.flush)) {
		no := lost(ctx)
		if no != nil {
			err = no
		}
		if moves != nil && no == nil && err != nil && r.Context().Err() == nil && (problemOf(err).goesElsewhere() || s.leaving.Err() != nil && forwarded(ctx)) {
			moves.cut = true // the stream goes on at another host, which may be long in coming
			out.flush()
			return err
		}
		switch {
		case err == nil:
			if out.tell(e) != nil || e.last() {
				return nil
			}
			continue
		case out.failed():
			return nil
		case no == nil && s.leaving.Err() != nil && e.simple != nil:
			return errLeaving // it has no word for that: the client comes back with the last id
		case no == nil && s.leaving.Err() != nil:
			out.event("leaving", "", []byte(`{"detail":"the host stops; come back with the last id"}`))
			return errLeaving
		case no != nil || r.Context().Err() == nil:
			s.log.Warn("a stream ended early", zap.String("path", r.URL.Path), zap.Error(err))
			p := problemOf(err)
			if e.simple != nil {
				_ = out.tell(told{simple: simpleProblem(p, s.now())}) // it sticks
			} else if b, bad := json.Marshal(p); bad == nil {
				out.event("problem", "", b)
			}
			return err
		}
		return nil
	}
	return nil
}

// answer is a JSON body from an operation that may stream instead.
func answer(status int, v any) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "application/json")
		c.SetStatus(status)
		_ = json.NewEncoder(c.BodyWriter()).Encode(v)
	}}
}

// appendEvent writes one event; without a name it has data alone. Data must hold no line
// break.
func appendEvent(buf *bytes.Buffer, name, id string, data []byte) {
	if name != "" {
		buf.WriteString("event: ")
		buf.WriteString(name)
		buf.WriteByte('\n')
	}
	if id != "" {
		buf.WriteString("id: ")
		buf.WriteString(id)
		buf.WriteByte('\n')
	}
	buf.WriteString("data: ")
	buf.Write(data)
	buf.WriteString("\n\n")
}
