package host

import (
	"context"
	"slices"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

type runEntry struct {
	Run      int64  `json:"run" doc:"ordinal in the session, from 1"`
	State    string `json:"state" enum:"queued,running,waiting,interrupted,ended"`
	Decision string `json:"decision,omitempty" enum:"DONE,ABORT,HALT" doc:"when it has ended"`
	Code     string `json:"code,omitempty" doc:"why, for HALT"`
	Turns    int64  `json:"turns,omitempty" doc:"when it has ended"`
	Accepted string `json:"accepted,omitempty" format:"date-time" doc:"when its first input was durable"`
	Began    string `json:"began,omitempty" format:"date-time" doc:"left out for a run that waits, or was cancelled before it began"`
	Ended    string `json:"ended,omitempty" format:"date-time"`
}

type runList struct {
	Runs []runEntry `json:"runs"`
	Next int64      `json:"next,omitempty" doc:"pass it as before for the next page"`
}

// runWindow is how many records of runs are read at once, from the last backwards.
const runWindow = 256

func (s *Server) runListRoute() {
	type in struct {
		ID     string `path:"id" maxLength:"128"`
		Before int64  `query:"before" minimum:"0" doc:"next of the page before: only runs with a lower ordinal"`
		Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	}
	route(s, get("list-runs", "/v1/sessions/{id}/runs", "The runs of a session, the newest first", "runs"),
		func(ctx context.Context, in *in) (*answered[runList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			head, err := ses.Head(ctx)
			if err != nil {
				return nil, err
			}
			status, err := s.rt.Archive().Status(ctx, head)
			if err != nil {
				return nil, err
			}
			found, more, err := runsBefore(ctx, ses, head.Seq, in.Before, in.Limit)
			if err != nil {
				return nil, err
			}
			out := answered[runList]{Body: runList{Runs: []runEntry{}}}
			for _, e := range found {
				if e.State == "" {
					e.State = stateOf(status, head, e.Run)
				}
				out.Body.Runs = append(out.Body.Runs, *e)
			}
			if more && len(found) > 0 {
				out.Body.Next = found[len(found)-1].Run
			}
			return &out, nil
		})
}

func stateOf(status stile.Status, head stile.Head, run int64) string {
	switch {
	case status == stile.StatusInterrupted:
		return string(status)
	case run > head.Run:
		return runQueued
	case status == stile.StatusSuspended:
		return runWaiting
	}
	return runRunning
}

// runsBefore returns the runs with the highest ordinals below before, 0 for all, the highest
// first, and whether there are others below. It reads backwards from the record at seq. A
// run's first input comes in front of all else of it, and inputs come in the order of the
// runs that they begin: behind the first input of a run of lower ordinal nothing is left to
// find of those above.
func runsBefore(ctx context.Context, ses *stile.Session, seq, before int64, limit int) (found []*runEntry, more bool, err error) {
	by := map[int64]*runEntry{}
	entry := func(r *stile.Record) *runEntry {
		if r.Run < 1 || before > 0 && r.Run >= before {
			return &runEntry{}
		}
		e := by[r.Run]
		if e == nil {
			e = &runEntry{Run: r.Run}
			by[r.Run] = e
		}
		return e
	}
	kinds := []messages.Kind{messages.KindInput, messages.KindRunBegin, messages.KindRunEnd}
	for to := seq; to > 0; {
		var window []*stile.Record
		for r, err := range ses.Query(ctx, stile.RecordQuery{To: to, Kinds: kinds, Latest: runWindow}) {
			if err != nil {
				return nil, false, err
			}
			window = append(window, r)
		}
		for _, r := range slices.Backward(window) {
			e, at := entry(r), r.TS.UTC().Format(time.RFC3339Nano)
			switch b := r.Body.(type) {
			case *messages.RunEnd:
				e.State, e.Decision, e.Code, e.Turns, e.Ended = runEnded, string(b.Decision), string(b.Reason), b.Turns, at
			case *messages.RunBegin:
				e.Began = at
			case *messages.Input:
				e.Accepted = at // an earlier one of the same run comes later
			case *messages.Undecoded: // erased: the header still names the kind
				switch b.Of {
				case messages.KindRunEnd:
					e.State, e.Ended = runEnded, at
				case messages.KindRunBegin:
					e.Began = at
				case messages.KindInput:
					e.Accepted = at
				}
			}
		}
		if len(window) < runWindow {
			break
		}
		to = window[0].Seq - 1
		// An input in front of its run's beginning, not one that joined it later.
		if r := window[0]; r.Body.Kind() == messages.KindInput && len(by) > limit && r.Run <= kth(by, limit) && by[r.Run] != nil && by[r.Run].Began != "" {
			break
		}
	}
	found = make([]*runEntry, 0, len(by))
	for _, e := range by {
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b *runEntry) int { return int(b.Run - a.Run) })
	if len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

// kth is the ordinal of the first run behind a page of limit runs.
func kth(by map[int64]*runEntry, limit int) int64 {
	all := make([]int64, 0, len(by))
	for run := range by {
		all = append(all, run)
	}
	slices.Sort(all)
	return all[len(all)-1-limit]
}
