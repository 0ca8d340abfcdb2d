package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// An answer in one piece: what a run said, when it has ended.

// maxWait is how long a submit may wait for its run.
const maxWait = 10 * time.Minute

// wholeView is what a run came to: the text that its user gets to see, the pieces that it is
// made of, what the models used, and when.
type wholeView struct {
	Text  string      `json:"text" doc:"responses and emissions of all turns, without what was taken back"`
	Units []unitView  `json:"units" doc:"the responses and emissions, in their order"`
	Usage *wholeUsage `json:"usage" doc:"of the run's model replies"`
	Began *time.Time  `json:"began_at,omitempty" doc:"when its first turn began; left out for a run that was cancelled while it waited"`
	End   time.Time   `json:"ended_at"`
	MS    int64       `json:"duration_ms" doc:"from began_at to ended_at"`
}

type unitView struct {
	Kind string `json:"kind" enum:"response,emit"`
	Text string `json:"text"`
}

type wholeUsage struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	CacheRead int64 `json:"cache_read,omitempty" doc:"of input: read from the provider's cache"`
	Cost      int64 `json:"cost_micro_usd,omitempty" doc:"millionths of a dollar, of replies and of what actions asked of models and agents; models without a price are not in it"`
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

// whole waits for the end of a run, as long as ctx lasts or until it comes to wait for an
// approval behind a position; nil when it has not ended.
func whole(ctx context.Context, run *stile.Run, from stile.Position) (*stile.Outcome, error) {
	for u, err := range run.Resume(ctx, from) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, nil
		case err != nil:
			return nil, err
		case u.Record != nil && u.Record.Body.Kind() == messages.KindTurnSuspended:
			return nil, nil
		}
	}
	o, err := run.Decision(ctx) // it has ended: this waits for nothing
	if err != nil {
		return nil, err
	}
	return &o, nil
}

// ended has a view say how its run ended.
func (v *runView) ended(o *stile.Outcome) {
	v.State, v.Ended, v.Run = runEnded, true, o.Run
	v.Decision, v.Code, v.Detail, v.Turns = string(o.Decision), string(o.Reason), o.Detail, o.Turns
	if len(o.Output) > 0 {
		v.Output = json.RawMessage(o.Output)
	}
	w := &wholeView{
		Text: o.Text, Units: make([]unitView, len(o.Units)), End: o.Ended, MS: o.Duration().Milliseconds(),
		Usage: &wholeUsage{o.Usage.Input, o.Usage.Output, o.Usage.CacheRead, o.CostMicroUSD, o.Usage.Estimated},
	}
	for i, u := range o.Units {
		w.Units[i] = unitView{string(u.UnitKind), u.Text}
	}
	if !o.Began.IsZero() {
		w.Began = &o.Began
	}
	v.wholeView = w
}
