package host

import (
	"context"
	"strings"

	"github.com/seed14be6753/stile"
)

// foundText is a session in which something was said that a search looks for.
type foundText struct {
	Session string   `json:"session"`
	Title   string   `json:"title,omitempty"`
	Agent   string   `json:"agent,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Seq     int64    `json:"seq" doc:"of the record with the text: the newest of the session that was looked at"`
	Run     int64    `json:"run"`
	Turn    int64    `json:"turn,omitempty" doc:"of a reply"`
	At      string   `json:"at" format:"date-time"`
	Role    string   `json:"role" enum:"user,assistant" doc:"who said it"`
	Before  string   `json:"before,omitempty" doc:"what stands in front of the word, on one line; … for what is left out"`
	Match   string   `json:"match" doc:"the first word of the search in the text"`
	After   string   `json:"after,omitempty" doc:"what stands behind it"`
}

type foundList struct {
	Found  []foundText `json:"found"`
	More   bool        `json:"more,omitempty" doc:"there may be other matches: say more words"`
	Behind bool        `json:"behind,omitempty" doc:"sessions were left out that are not in the index yet: the same request finds more of them, until it leaves this out"`
}

type searchIn struct {
	Q         string `query:"q" maxLength:"200" doc:"words that a text must have, each anywhere in it, in letters of either case; without one nothing is found"`
	Agent     string `query:"agent" maxLength:"128" doc:"only sessions that were opened under this agent"`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"of sessions"`
	Ephemeral bool   `query:"ephemeral" doc:"also conversations that clients of OpenAI began without a session"`
}

func (s *Server) searchRoute() {
	route(s, get("search-texts", "/v1/search", "The caller's sessions in which a text was said, the newest first", "sessions"),
		func(ctx context.Context, in *searchIn) (*answered[foundList], error) {
			own := s.principal(ctx).sid("")
			out := &answered[foundList]{Body: foundList{Found: []foundText{}}}
			q := stile.SearchQuery(own, in.Q)
			if len(q.Words) == 0 {
				return out, nil
			}
			found, more, behind, err := s.rt.Archive().Search(ctx, q)
			if err != nil {
				return nil, err
			}
			out.Body.More, out.Body.Behind = more, behind
			for _, f := range found {
				id, ok := strings.CutPrefix(f.SID, own)
				if !ok || !in.Ephemeral && isEphemeral(id) || s.reachable(ctx, f.SID) != nil {
					continue
				}
				of := stile.SessionQuery(own)
				of.Inc = f.Inc
				about, err := s.rt.Archive().Listings(ctx, of)
				if err != nil {
					return nil, err
				}
				if len(about) == 0 || about[0].Closed || in.Agent != "" && about[0].Agent != in.Agent {
					continue
				}
				if len(out.Body.Found) == in.Limit {
					out.Body.More = true
					break
				}
				out.Body.Found = append(out.Body.Found, foundText{
					Session: id, Title: about[0].Title, Agent: about[0].Agent, Tags: about[0].Tags,
					Seq: f.Seq, Run: f.Run, Turn: f.Turn, At: instant(f.TS), Role: string(f.Role), Before: f.Before, Match: f.Match, After: f.After,
				})
			}
			return out, nil
		})
}
