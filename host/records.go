package host

import (
	"context"
	"encoding/json"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// recordList is a page of a session's journal.
type recordList struct {
	Records []json.RawMessage `json:"records" doc:"as an export has them, in the order of the journal"`
	Next    int64             `json:"next,omitempty" doc:"pass it as before for the page in front of this one"`
}

// recordRoutes give the records of a session by pages, from the last one backwards: what a
// reader looks at first is the end. The stream of events has what follows.
func (s *Server) recordRoutes() {
	type in struct {
		ID     string   `path:"id" maxLength:"128"`
		Before int64    `query:"before" minimum:"0" doc:"next of the page before: only records with a lower seq"`
		Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"200"`
		Kind   []string `query:"kind,explode" maxItems:"16" doc:"only records of this type; repeated, of one of these types"`
	}
	route(s, get("list-records", "/v1/sessions/{id}/records", "The records of a session by pages, from the last backwards", "events"),
		func(ctx context.Context, in *in) (*answered[recordList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			out := answered[recordList]{Body: recordList{Records: []json.RawMessage{}}}
			if in.Before == 1 {
				return &out, nil
			}
			q := stile.RecordQuery{To: max(0, in.Before-1), Latest: in.Limit}
			for _, k := range in.Kind {
				q.Kinds = append(q.Kinds, messages.Kind(k))
			}
			first := int64(0)
			for r, err := range s.rt.Archive().Query(ctx, ses.Incarnation(), q) {
				if err != nil {
					return nil, err
				}
				if first == 0 {
					first = r.Seq
				}
				line, err := stile.AppendUpdate(nil, stile.Update{Record: r})
				if err != nil {
					return nil, err
				}
				out.Body.Records = append(out.Body.Records, line)
			}
			if len(out.Body.Records) == in.Limit && first > 1 {
				out.Body.Next = first
			}
			return &out, nil
		})
}

// waitingCall is a call that waits for approval, with the session that it is of.
type waitingCall struct {
	Session string `json:"session"`
	Title   string `json:"title,omitempty" doc:"of the session"`
	Agent   string `json:"agent,omitempty" doc:"of the session"`
	Since   string `json:"since,omitempty" format:"date-time" doc:"when the session began to wait"`
	ID      string `json:"id"`
	Action  string `json:"action"`
	Name    string `json:"name" doc:"of the tool"`
	Args    string `json:"args" doc:"the call's arguments, canonical JSON"`
	Basis   string `json:"basis,omitempty" doc:"what else the call rests on, canonical JSON"`
	Digest  string `json:"digest" doc:"of what would run: an answer names the one it was given for"`
	Expires string `json:"expires,omitempty" format:"date-time"`
}

type inbox struct {
	Approvals []waitingCall `json:"approvals"`
	Next      string        `json:"next,omitempty" doc:"pass it as after for the next page"`
}

// inboxRoute lists what waits for a person in all of the caller's sessions.
func (s *Server) inboxRoute() {
	type in struct {
		After string `query:"after" maxLength:"128" doc:"next of the page before"`
		Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"how many sessions that wait a page is made of"`
	}
	route(s, get("list-waiting", "/v1/approvals", "The calls that wait for approval in all of the caller's sessions, the one that changed last first", "approvals"),
		func(ctx context.Context, in *in) (*answered[inbox], error) {
			page, err := s.list(ctx, &listIn{After: in.After, Limit: in.Limit, State: string(stile.StatusSuspended)})
			if err != nil {
				return nil, err
			}
			out := answered[inbox]{Body: inbox{Approvals: []waitingCall{}, Next: page.Body.Next}}
			for i := range page.Body.Sessions {
				v := &page.Body.Sessions[i]
				h, err := s.rt.Archive().Head(ctx, s.principal(ctx).sid(v.ID))
				if err != nil {
					if messages.CodeOf(err) == messages.ErrNotFound { // deleted meanwhile
						continue
					}
					return nil, err
				}
				calls, err := s.rt.Archive().Approvals(ctx, h)
				if err != nil {
					return nil, err
				}
				for _, a := range calls {
					c := viewOfApproval(a)
					out.Body.Approvals = append(out.Body.Approvals, waitingCall{
						Session: v.ID, Title: v.Title, Agent: v.Agent, Since: v.Updated,
						ID: c.ID, Action: c.Action, Name: c.Name, Args: c.Args, Basis: c.Basis, Digest: c.Digest, Expires: c.Expires,
					})
				}
			}
			return &out, nil
		})
}
