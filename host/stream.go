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
	type eventsIn struct {
		ID      string `path:"id" maxLength:"128"`
		After   string `query:"after" maxLength:"128" doc:"the id of the last update seen; nothing for all"`
		Last    string `header:"Last-Event-ID" maxLength:"128" doc:"as after, and before it: what a browser sends when it comes back"`
		Upgrade string `header:"Upgrade" maxLength:"32" doc:"websocket: each event is a message"`
		Stream  string `query:"stream" enum:"token,event" default:"token" doc:"with growing text, or without"`
	}
	position := func(after, last string) (stile.Position, error) {
		field, id := "Last-Event-ID", last
		if id == "" {
			field, id = "after", after
		}
		if id == "" {
			return stile.Position{}, nil
		}
		at, err := messages.ParsePosition(id)
		if err != nil {
			return at, &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: "want the id of an update: seq, or seq.turn.unit.offset"}
		}
		return at, nil
	}
	op := stream(get("follow-session", "/v1/sessions/{id}/events", "Follow a session, from any update on", "events"), "text/event-stream")
	route(s, op, func(ctx context.Context, in *eventsIn) (*huma.StreamResponse, error) {
		ses, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		at, err := position(in.After, in.Last)
		if err != nil {
			return nil, err
		}
		return s.resume(ctx, ses, at, in.Stream, ses.Resume)
	})
	type runEventsIn struct {
		ID      string `path:"id" maxLength:"128"`
		Run     int64  `path:"run" minimum:"1"`
		After   string `query:"after" maxLength:"128" doc:"the id of the last update seen; nothing for all"`
		Last    string `header:"Last-Event-ID" maxLength:"128" doc:"as after, and before it: what a browser sends when it comes back"`
		Upgrade string `header:"Upgrade" maxLength:"32" doc:"websocket: each event is a message"`
		Stream  string `query:"stream" enum:"token,event" default:"token" doc:"with growing text, or without"`
	}
	op = stream(get("follow-run", "/v1/sessions/{id}/runs/{run}/events", "Follow a run to its end, from any update on", "events"), "text/event-stream")
	route(s, op, func(ctx context.Context, in *runEventsIn) (*huma.StreamResponse, error) {
		ses, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		at, err := position(in.After, in.Last)
		if err != nil {
			return nil, err
		}
		run := ses.Run(in.Run)
		o, ended, err := run.Outcome(ctx)
		if err != nil {
			return nil, err
		}
		if ended && at.Seq >= o.EndSeq {
			if strings.EqualFold(in.Upgrade, "websocket") { // there it is the close that tells
				return s.resume(ctx, ses, at, in.Stream, func(context.Context, stile.Position) iter.Seq2[stile.Update, error] {
					return func(func(stile.Update, error) bool) {}
				})
			}
			// All of it was seen. 204 tells an EventSource not to come back.
			return &huma.StreamResponse{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, nil
		}
		out, err := s.resume(ctx, ses, at, in.Stream, run.Resume)
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
func (s *Server) resume(ctx context.Context, ses *stile.Session, at stile.Position, kind string,
	updates func(context.Context, stile.Position) iter.Seq2[stile.Update, error],
) (*huma.StreamResponse, error) {
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
	return s.events(place, kind == "token", func(ctx context.Context) iter.Seq2[stile.Update, error] { return updates(ctx, at) }), nil
}

// events is an answer that streams updates until they end, the client goes, or the host
// stops. An event's name is the record's type, delta or retract; its id is where the
// next one resumes; its data one line of JSON. A comment each heartbeat tells that the
// stream lives. An error ends it as an event named error, with a problem.
func (s *Server) events(release func(), deltas bool, updates func(context.Context) iter.Seq2[stile.Update, error]) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer release()
		r, w := unwrap(c)
		if isSocket(r) {
			s.socket(w, r, deltas, updates)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // a proxy shall pass it on as it comes
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.leaving, cancel)()
		out := newEventWriter(w, func() error { return s.still(r.Context()) }, cancel)
		defer out.stop()
		out.begin()
		_ = s.pump(ctx, r, out, deltas, updates) // the stream has told it
	}}
}

// pump writes updates until they end, the client goes, or the host stops. It gives the
// error that ended it, if it was not the client's going.
func (s *Server) pump(ctx context.Context, r *http.Request, out *eventWriter, deltas bool, updates func(context.Context) iter.Seq2[stile.Update, error]) error {
	defer out.flush()
	for u, err := range updates(stile.OnWait(ctx, out.flush)) {
		if gone := out.refused(); gone != nil {
			err = gone
		}
		switch {
		case err == nil && u.Delta != nil && !deltas:
			continue
		case err == nil:
			if out.update(u) != nil || u.Record != nil && u.Record.Body.Kind() == messages.KindSessionClosed {
				return nil // after that comes nothing
			}
			continue
		case out.failed():
			return nil
		case s.leaving.Err() != nil:
			out.event("leaving", "", []byte(`{"detail":"the host stops; come back with the last id"}`))
			return errLeaving
		case r.Context().Err() == nil:
			s.log.Warn("a stream ended early", zap.String("path", r.URL.Path), zap.Error(err))
			if b, bad := json.Marshal(problemOf(err)); bad == nil {
				out.event("error", "", b)
			}
			return err
		}
		return nil
	}
	return nil
}

func unwrap(c huma.Context) (*http.Request, http.ResponseWriter) { return humago.Unwrap(c) }

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
