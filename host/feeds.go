package host

import (
	"context"
	"time"
)

// feedView is a context feed of a session.
type feedView struct {
	ID         string `json:"id"`
	Trigger    string `json:"trigger" enum:"on_demand,periodic"`
	Source     string `json:"source" doc:"its kind, and what is called"`
	IntervalMS int64  `json:"interval_ms,omitempty" doc:"of a periodic one"`
	Added      bool   `json:"added,omitempty" doc:"by the model"`
	Disabled   bool   `json:"disabled,omitempty"`
	Pinned     bool   `json:"pinned,omitempty" doc:"kept when the prompt has no room for all"`
	Updated    string `json:"updated,omitempty" format:"date-time" doc:"when its value was fetched; absent when there is none"`
	Stale      bool   `json:"stale" doc:"there is no value, or one that a refresh should have replaced"`
	Reason     string `json:"reason,omitempty" doc:"why its last fetch failed; absent when it did not"`
	Value      string `json:"value,omitempty" doc:"JSON, before the limits of prompts; left out with values=false"`
}

type feedList struct {
	Feeds []feedView `json:"feeds"`
}

func (s *Server) feedRoutes() {
	type feedsIn struct {
		ID     string `path:"id" maxLength:"128"`
		Values bool   `query:"values" default:"true" doc:"with their values"`
	}
	route(s, get("list-feeds", "/v1/sessions/{id}/feeds", "The context feeds of a session, in the order of their injection", "feeds"),
		func(ctx context.Context, in *feedsIn) (*answered[feedList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			all, err := ses.Feeds(ctx)
			if err != nil {
				return nil, err
			}
			var out answered[feedList]
			out.Body.Feeds = []feedView{}
			for _, f := range all {
				v := feedView{
					ID: f.ID, Trigger: f.Trigger, Source: f.Source, IntervalMS: f.Interval.Milliseconds(),
					Added: f.Added, Disabled: f.Disabled, Pinned: f.Pinned, Stale: f.Stale, Reason: f.Reason,
				}
				if !f.Updated.IsZero() {
					v.Updated = f.Updated.UTC().Format(time.RFC3339Nano)
				}
				if in.Values {
					v.Value = f.Value
				}
				out.Body.Feeds = append(out.Body.Feeds, v)
			}
			return &out, nil
		})
}
