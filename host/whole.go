package host

import (
	"context"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// An answer in one piece: what a run said, when it has ended.

// maxWait is how long a submit may wait for its run.
const maxWait = 10 * time.Minute

// wholeView is what a run said: the text that its user gets to see, the pieces that it is
// made of, and what the models used.
type wholeView struct {
	Text  string      `json:"text" doc:"responses and emissions of all turns, without what was taken back"`
	Units []unitView  `json:"units" doc:"the responses and emissions, in their order"`
	Usage *wholeUsage `json:"usage" doc:"tokens of the run's model replies"`
}

type unitView struct {
	Kind string `json:"kind" enum:"response,emit"`
	Text string `json:"text"`
	unit string
}

type wholeUsage struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	CacheRead int64 `json:"cache_read,omitempty" doc:"of input: read from the provider's cache"`
	Cost      int64 `json:"cost_micro_usd,omitempty" doc:"millionths of a dollar, for models that have a price"`
	Estimated bool  `json:"estimated,omitempty" doc:"some was counted by the host, where a provider did not say"`
}

// waitOf reads the parameter wait.
func waitOf(text, stream string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	switch {
	case err != nil || wait < 0 || wait > maxWait:
		return 0, &messages.Error{Code: messages.ErrInvalid, Field: "query.wait", Detail: "want a duration from 0s to 10m, such as 60s"}
	case stream != "none":
		return 0, &messages.Error{Code: messages.ErrInvalid, Field: "query.wait", Detail: "a stream does not wait; leave one of them out"}
	}
	return wait, nil
}

// whole waits for the end of a run, as long as ctx lasts or until it waits for an approval,
// and gives what it said; nil when it has not ended.
func whole(ctx context.Context, run *stile.Run) (*messages.RunEnd, *wholeView, error) {
	v := &wholeView{Units: []unitView{}, Usage: &wholeUsage{}}
	// The text is that of the records, so that nothing is in it that was taken back.
	reply := &chatReply{hold: true, shown: map[string]int{}}
	for u, err := range run.Events(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, nil, nil
		case err != nil:
			return nil, nil, err
		case u.Delta != nil:
			continue
		}
		v.take(u.Record)
		piece, err := reply.take(u)
		v.Text += piece
		switch {
		case reply.ended: // a HALT is an error of a chat, and an answer here
			return reply.outcome, v, nil
		case err != nil:
			return nil, nil, nil
		}
	}
	return nil, nil, nil
}

// take adds what a record says.
func (v *wholeView) take(r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit && b.Text != "" {
			v.Units = append(v.Units, unitView{string(messages.KindResponse), b.Text, b.Unit})
		}
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			v.Units = append(v.Units, unitView{Kind: string(messages.KindEmit), Text: b.Text})
		}
	case *messages.Retract:
		for i := range v.Units {
			if u := &v.Units[i]; u.unit == b.Unit && int(b.Off) < len(u.Text) {
				if u.Text = u.Text[:b.Off]; u.Text == "" {
					v.Units = append(v.Units[:i], v.Units[i+1:]...)
				}
				break
			}
		}
	case *messages.ModelReply:
		v.Usage.Input += b.Usage.Input
		v.Usage.Output += b.Usage.Output
		v.Usage.CacheRead += b.Usage.CacheRead
		v.Usage.Cost += b.CostUSD
		v.Usage.Estimated = v.Usage.Estimated || b.Usage.Estimated
	}
}
