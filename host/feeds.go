package host

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// feedView is a context feed of a session.
type feedView struct {
	ID         string `json:"id"`
	Trigger    string `json:"trigger" enum:"on_demand,periodic"`
	Source     string `json:"source,omitempty" doc:"its kind, and what is called"`
	IntervalMS int64  `json:"interval_ms,omitempty" doc:"of a periodic one"`
	Added      bool   `json:"added,omitempty" doc:"by the model"`
	Disabled   bool   `json:"disabled,omitempty"`
	Pinned     bool   `json:"pinned,omitempty" doc:"kept when the prompt has no room for all"`
	Updated    string `json:"updated,omitempty" format:"date-time" doc:"when its value was fetched; absent when there is none"`
	Stale      bool   `json:"stale" doc:"there is no value, or one that a refresh should have replaced"`
	Reason     string `json:"reason,omitempty" doc:"why its last fetch failed; absent when it did not"`
	Value      string `json:"value,omitempty" doc:"JSON, before the limits of prompts; left out with values=false"`
	Failure    string `json:"failure,omitempty" enum:"failed,timeout,too_large,forwarded" doc:"of a feed that values names: why it has no value"`
}

type feedList struct {
	Feeds []feedView `json:"feeds"`
	// Of named feeds: where they come from.
	Session     string `json:"session,omitempty" doc:"tenant:user:id, where values names feeds"`
	Agent       string `json:"agent,omitempty" doc:"of the session, where values names feeds"`
	Incarnation string `json:"incarnation,omitempty" doc:"of the session, where values names feeds"`
	Seq         int64  `json:"seq,omitempty" doc:"of the session's last record, where values names feeds"`
}

// feedsOut answers list-feeds. Named feeds have a tag, and 304 for one that the caller has.
type feedsOut struct {
	Status int
	ETag   string `header:"ETag"`
	Body   feedList
}

const (
	feedsPath = "/v1/sessions/{id}/feeds"
	// maxNamed bounds the feeds that one request names, and maxPeerValue a value that it gets.
	maxNamed     = 32
	maxPeerValue = 8 << 20
	// peerPatience is how long a request for values waits for what is fetched: an answer must
	// be with the other host within its two seconds.
	peerPatience = 1500 * time.Millisecond
)

// named returns the feeds that the query values names; ok is false for a word of truth, which
// asks for the list. A name that is such a word is followed by a comma.
func named(values string) (ids []string, ok bool) {
	if _, err := strconv.ParseBool(values); err == nil || values == "" {
		return nil, false
	}
	return strings.Split(strings.TrimSuffix(values, ","), ","), true
}

// forPeer reports whether a request asks for the values of named feeds, as other hosts do. That
// asks for a right of its own.
func forPeer(r *http.Request, pattern string) bool {
	if pattern != "GET "+feedsPath {
		return false
	}
	_, names := named(r.URL.Query().Get("values"))
	return names
}

func (s *Server) feedRoutes() {
	type feedsIn struct {
		ID     string `path:"id" maxLength:"128"`
		Values string `query:"values" default:"true" maxLength:"4096" doc:"true or false: the list, with values or without; else the names of feeds, separated by commas, whose values are fetched where they are too old: for other hosts, with the scope feeds"`
		Hop    int    `header:"Stile-Feed-Hop" minimum:"0" maximum:"1" doc:"1: the values are for another host, so those that come from a further one are refused"`
		Wait   int    `query:"wait" minimum:"0" maximum:"30" doc:"of named feeds: the seconds to wait for another answer than that of If-None-Match"`
		Tag    string `header:"If-None-Match" maxLength:"1024" doc:"of named feeds: the ETag of the answer at hand"`
	}
	route(s, get("list-feeds", feedsPath, "The context feeds of a session, in the order of their injection", "feeds"),
		func(ctx context.Context, in *feedsIn) (*feedsOut, error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			ids, byName := named(in.Values)
			if (s.principal(ctx).scope == access.Feeds) != byName { // a query that says two things
				return nil, access.Denied(access.ReasonScope, "values is said once")
			}
			if byName {
				return s.feedValues(ctx, ses, ids, in.Hop > 0, in.Tag, time.Duration(in.Wait)*time.Second)
			}
			all, err := ses.Feeds(ctx)
			if err != nil {
				return nil, err
			}
			out := feedsOut{Status: http.StatusOK}
			out.Body.Feeds = []feedView{}
			for i := range all {
				v := feedViewOf(&all[i])
				if in.Values != "" {
					if with, err := strconv.ParseBool(in.Values); err == nil && !with {
						v.Value = ""
					}
				}
				out.Body.Feeds = append(out.Body.Feeds, v)
			}
			return &out, nil
		})
}

func feedViewOf(f *stile.FeedState) feedView {
	v := feedView{
		ID: f.ID, Trigger: f.Trigger, Source: f.Source, IntervalMS: f.Interval.Milliseconds(), Value: f.Value,
		Added: f.Added, Disabled: f.Disabled, Pinned: f.Pinned, Stale: f.Stale, Reason: f.Reason, Failure: f.Failure,
	}
	if !f.Updated.IsZero() {
		v.Updated = f.Updated.UTC().Format(time.RFC3339Nano)
	}
	return v
}

// feedValues answers another host. It learns values alone: neither what is called for them nor
// why one failed.
func (s *Server) feedValues(ctx context.Context, ses *stile.Session, ids []string, forwarded bool, tag string, wait time.Duration) (*feedsOut, error) {
	if len(ids) > maxNamed {
		return nil, &messages.Error{Code: messages.ErrInvalid, Field: "values", Detail: "names more than " + strconv.Itoa(maxNamed) + " feeds"}
	}
	out, all, err := s.namedFeeds(ctx, ses, ids, forwarded)
	if err != nil || tag != out.ETag {
		return out, err
	}
	if wait > 0 {
		waiting, done := context.WithTimeout(ctx, wait)
		defer done()
		defer context.AfterFunc(s.leaving, done)()
		if ses.AwaitFeeds(waiting, all) == nil {
			if out, _, err = s.namedFeeds(ctx, ses, ids, forwarded); err != nil || tag != out.ETag {
				return out, err
			}
		}
		if err := lost(ctx); err != nil {
			return nil, err
		}
	}
	out.Status = http.StatusNotModified
	return out, nil
}

// namedFeeds is the answer for named feeds, and what it was made of.
func (s *Server) namedFeeds(ctx context.Context, ses *stile.Session, ids []string, forwarded bool) (*feedsOut, []stile.FeedState, error) {
	patient, done := context.WithTimeout(ctx, peerPatience)
	defer done()
	all, seq, err := ses.FeedValues(patient, ids, forwarded)
	if err != nil {
		return nil, nil, err
	}
	out := feedsOut{Status: http.StatusOK}
	out.Body.Feeds = []feedView{}
	sum := sha256.New()
	for i := range all {
		v := feedViewOf(&all[i])
		if len(v.Value) > maxPeerValue {
			v.Value, v.Failure = "", "too_large"
		}
		v = feedView{ID: v.ID, Trigger: v.Trigger, Updated: v.Updated, Stale: v.Stale, Value: v.Value, Failure: v.Failure}
		out.Body.Feeds = append(out.Body.Feeds, v)
		v.Updated = "" // the same value, fetched again, is the same
		if err := json.NewEncoder(sum).Encode(v); err != nil {
			return nil, nil, err
		}
	}
	_, _ = sum.Write([]byte(ses.Incarnation().String())) // a hash takes everything
	out.ETag = `"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)) + `"`
	out.Body.Session, out.Body.Agent, out.Body.Incarnation, out.Body.Seq = ses.SID(), ses.AgentName(), ses.Incarnation().String(), seq
	return &out, all, nil
}
