package host

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// decisionView is a turn's decision, with the members of the decision log under their
// names (docs/spec/aeiou.md §17).
type decisionView struct {
	Seq      int64  `json:"seq"`
	Run      int64  `json:"run"`
	Turn     int64  `json:"turn"`
	Code     string `json:"code,omitempty" doc:"as reason"`
	Detail   string `json:"detail,omitempty"`
	Repair   bool   `json:"repair,omitempty" doc:"the run goes on in a turn that is told why this one failed"`
	At       string `json:"at" format:"date-time" doc:"as ts"`
	TS       string `json:"ts" format:"date-time"`
	SID      string `json:"SID"`
	Index    int64  `json:"turn_index"`
	Decision string `json:"decision" enum:"CONTINUE,DONE,ABORT,HALT"`
	Reason   string `json:"reason,omitempty" doc:"why, for HALT"`
	KID      string `json:"kid,omitempty" doc:"key of the chosen control token"`
	JTI      string `json:"jti,omitempty" doc:"its id"`
	Latency  int64  `json:"latency_ms" doc:"from the turn's begin to its commit"`
	Output   int64  `json:"output_bytes" doc:"of OUTPUT, LFs included"`
	Scratch  int64  `json:"scratch_bytes" doc:"of SCRATCHPAD, LFs included"`
	Failed   string `json:"verification_failure_reason,omitempty" doc:"CODE/DETAIL of the failed token that got furthest"`

	Lints    []string `json:"lints,omitempty"`
	Failures []string `json:"failures,omitempty" doc:"CODE/DETAIL of every failed token, in order"`
	Gas      int64    `json:"gas_used,omitempty"`
}

func viewDecision(r *messages.Record, b *messages.TurnDecided) decisionView {
	at := r.TS.UTC().Format(time.RFC3339Nano)
	v := decisionView{
		Seq: r.Seq, Run: r.Run, Turn: r.Turn, Code: string(b.Reason), Detail: b.Detail, Repair: b.Repair, At: at, TS: at, SID: r.SID, Index: b.TurnIndex,
		Decision: string(b.Decision), Reason: string(b.Reason), KID: b.KID, JTI: b.JTI, Latency: b.LatencyMS, Output: b.OutputBytes, Scratch: b.ScratchBytes,
		Failed: b.Verification, Failures: b.Failures, Gas: b.GasUsed,
	}
	for _, code := range b.Lints {
		v.Lints = append(v.Lints, string(code))
	}
	return v
}
