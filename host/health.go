package host

import (
	"context"
	"math"
	"time"

	"github.com/seed14be6753/stile/host/access"
)

// healthView is the history of a host's health.
type healthView struct {
	Span  string `json:"span"`
	Step  int64  `json:"step_s" doc:"seconds from one point to the next"`
	Since string `json:"since,omitempty" format:"date-time" doc:"since when the host has points: it keeps them in memory, and begins anew when it starts"`
	// Times and the values of each series are of one length.
	Times  []int64        `json:"times" doc:"of the points, in seconds since 1970, the oldest first"`
	Series []healthSeries `json:"series"`
}

type healthSeries struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit,omitempty" enum:"1/s,s,bytes" doc:"left out for a number"`
	Doc    string     `json:"doc"`
	Values []*float64 `json:"values" doc:"one for each time; null where nothing was to measure"`
}

type healthIn struct {
	Span  string `query:"span" enum:"hour,day,week" default:"hour" doc:"hour has a point every 10 seconds, day every 2 minutes, week every 15 minutes"`
	After int64  `query:"after" minimum:"0" doc:"only points that are later than this second, such as the last time of the answer before"`
}

func (s *Server) healthRoutes() {
	route(s, asks(access.Metrics, get("get-health", "/v1/health", "The health of the host over time", "host")), func(_ context.Context, in *healthIn) (*answered[healthView], error) {
		var after time.Time
		if in.After > 0 {
			after = time.Unix(in.After, 999_999_999)
		}
		h := s.rt.Metrics().History(in.Span, after)
		out := healthView{Span: h.Span, Step: int64(h.Step / time.Second), Since: instant(h.Since), Times: make([]int64, len(h.Times)), Series: make([]healthSeries, len(h.Series))}
		for i, t := range h.Times {
			out.Times[i] = t.Unix()
		}
		for i, one := range h.Series {
			out.Series[i] = healthSeries{Name: one.Name, Unit: one.Unit, Doc: one.Doc, Values: make([]*float64, len(one.Values))}
			for k, v := range one.Values {
				if !math.IsNaN(v) {
					out.Series[i].Values[k] = &v
				}
			}
		}
		return &answered[healthView]{Body: out}, nil
	})
}
