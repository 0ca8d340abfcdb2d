package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/textdiff"
)

// trialJSON is a replay under another manifest.
type trialJSON struct {
	SID         string       `json:"sid"`
	OK          bool         `json:"ok"`     // nothing came out otherwise
	Hashes      bool         `json:"hashes"` // every record comes out with the same hash: it is the session's own agent
	Turns       int64        `json:"turns"`
	Same        int64        `json:"same"`
	Differ      int64        `json:"differ"`
	NotReached  int64        `json:"not_reached"`
	Differences []changeJSON `json:"differences"`
	Stopped     *stoppedJSON `json:"stopped,omitempty"`
}

type changeJSON struct {
	Sort    string `json:"sort"`
	Turn    int64  `json:"turn"`
	Seq     int64  `json:"seq"`
	Turns   int64  `json:"turns"` // how many have one of this sort
	Was     string `json:"was"`
	Now     string `json:"now"`
	Diff    string `json:"diff"`
	Missing string `json:"missing,omitempty"`
}

type stoppedJSON struct {
	Turn int64  `json:"turn"`
	Seq  int64  `json:"seq"`
	Why  string `json:"why"`
}

// diffAround is how many lines stand around a change.
const diffAround = 3

// try replays a session under another manifest and shows what comes out otherwise.
func (a *app) try(ctx context.Context, ar *stile.Archive, head *stile.Head, agent *stile.Agent, asJSON bool) (replay.Trial, error) {
	t, err := ar.Try(ctx, head.Inc, agent)
	if err != nil {
		return t, err
	}
	hashes := false
	if !t.Differs() { // then it may be the very agent
		_, err := ar.Replay(ctx, head.Inc, agent)
		if d := (*replay.Divergence)(nil); err != nil && !errors.As(err, &d) {
			return t, err
		}
		hashes = err == nil
	}
	if asJSON {
		out := trialJSONOf(&t)
		out.Hashes = hashes
		return t, a.writeJSON(out)
	}
	return t, a.trialText(&t, hashes)
}

func trialJSONOf(t *replay.Trial) trialJSON {
	out := trialJSON{
		SID: t.SID, OK: !t.Differs(), Turns: t.Recorded, Same: t.Same, Differ: t.Differ, NotReached: t.Recorded - t.Same - t.Differ, Differences: []changeJSON{},
	}
	for _, c := range t.Changes {
		j := changeJSON{Sort: string(c.Sort), Turn: c.Turn, Seq: c.Seq, Turns: c.N, Was: c.Was, Now: c.Now, Missing: c.Missing}
		if c.Missing == "" {
			j.Diff = textdiff.Unified(c.Was, c.Now, diffAround)
		}
		out.Differences = append(out.Differences, j)
	}
	if d := t.Stopped; d != nil {
		out.Stopped = &stoppedJSON{Turn: t.StoppedAt, Seq: d.Seq, Why: d.Why}
	}
	return out
}

// trialText shows the first prompt and the first decision that differ, then the rest in one
// line each, and the sums.
func (a *app) trialText(t *replay.Trial, hashes bool) error {
	p := a.printer("")
	for _, sort := range []replay.Sort{replay.ChangedPrompt, replay.ChangedDecision, replay.ChangedText, replay.ChangedCall} {
		c := t.Change(sort)
		if c == nil {
			continue
		}
		p.line(red, string(sort), fmt.Sprintf("turn %d, record %d: the first of %s whose %s differs", c.Turn, c.Seq, count(c.N, "turn"), sort))
		if c.Missing != "" {
			p.line(dim, "", "the recorded prompt "+c.Missing)
			continue
		}
		p.diff(c.Was, c.Now)
	}
	if d := t.Stopped; d != nil {
		p.line(red, "stopped", fmt.Sprintf("turn %d, record %d: %s", t.StoppedAt, d.Seq, d.Why))
	}
	sums := fmt.Sprintf("%s  %s the same, %d otherwise", t.SID, count(t.Same, "turn"), t.Differ)
	if n := t.Recorded - t.Same - t.Differ; n > 0 {
		sums += fmt.Sprintf(", %d not reached", n)
	}
	if hashes {
		sums += ", every hash too"
	}
	if t.Differs() {
		p.line(red, "differs", sums)
	} else {
		p.line(green, "same", sums)
	}
	return p.err
}
