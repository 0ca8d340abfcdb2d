package turn

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// render is one line for an effect: "+seq" is an eager record, "~seq" a lazy
// one, "-seq" one that may wait shortly.
func render(e Effect, now time.Time) string {
	w := &words{}
	switch e := e.(type) {
	case *Persist:
		sign := map[time.Duration]string{0: "+", LazyHold: "~", EndedHold: "-"}[e.Hold]
		w.put(fmt.Sprintf("%s%d %s", sign, e.Record.Seq, e.Record.Body.Kind()))
		if e.Record.Run > 0 {
			w.put(fmt.Sprintf("r%d", e.Record.Run))
		}
		if e.Record.Turn > 0 {
			w.put(fmt.Sprintf("t%d", e.Record.Turn))
		}
		renderBody(w, e.Record.Body)
		if len(e.Blobs) > 0 {
			w.str("blobs", fmt.Sprint(len(e.Blobs)))
		}
	case *Publish:
		if r := e.Update.Record; r != nil {
			w.put(fmt.Sprintf("publish %d %s", r.Seq, r.Body.Kind()))
		} else {
			d := e.Update.Delta
			where := d.Unit.String()
			if d.Action != "" {
				where += "(" + d.Action + ")"
			}
			w.put(fmt.Sprintf("delta %d.%s.%d %q", d.Seq, where, d.Off, cut(d.Text)))
		}
	case *Answer:
		w.put(fmt.Sprintf("answer h%d", e.Handle))
		if e.Err != nil {
			w.put("refused " + e.Err.Error())
			break
		}
		w.num("run", e.Run)
		w.num("seq", e.Seq)
		w.flag("joined", e.Joined)
		w.flag("merged", e.Merged)
	case *OpenModel:
		w.put(fmt.Sprintf("open-model t%d r%d pass=%d ordinal=%d", e.Turn, e.Run, e.Pass, e.Ordinal))
		w.quoted("text", e.Text)
		w.quoted("userdata", e.Userdata)
		w.quoted("out", string(e.Out))
		w.quoted("scr", string(e.Scr))
		w.flag("out-blob", !e.HaveCarry && !e.OutDigest.IsZero())
		w.flag("scr-blob", !e.HaveCarry && !e.ScrDigest.IsZero())
		w.quoted("memory", string(e.State))
		w.quoted("last_error", e.LastError)
		for i := range e.Failed {
			w.str("failed", told(&e.Failed[i]))
		}
		w.quoted("note", e.Note)
		for _, f := range e.Feeds {
			w.str("feed", f.ID+":"+f.Value+f.Error)
		}
	case *FetchFeeds:
		w.put(fmt.Sprintf("fetch-feeds t%d r%d", e.Turn, e.Run))
		for _, name := range e.Names {
			w.put(name)
		}
	case *CancelModel:
		w.put(fmt.Sprintf("cancel-model t%d", e.Turn))
	case *RunProgram:
		w.put(fmt.Sprintf("run-program t%d %q", e.Turn, cut(string(e.Source))))
		w.quoted("userdata", e.Userdata)
		w.num("emissions", int64(e.Emissions))
		for _, r := range e.Results {
			w.put(r.ID + ":" + string(r.State))
		}
	case *StopProgram:
		w.put(fmt.Sprintf("stop-program t%d %s", e.Turn, e.Code))
	case *AskGate:
		w.put(fmt.Sprintf("ask-gate %s %s %s %s", e.ID, e.Name, e.Class, e.Args))
	case *StartAction:
		w.put(fmt.Sprintf("start-action %s %s %s", e.ID, e.Name, e.Class))
		if e.Type != "" && e.Args != "[]" {
			w.put(e.Args)
		}
		w.flag("detached", e.Detached)
		w.flag("stream", e.Stream)
		if !e.Deadline.IsZero() {
			w.str("within", e.Deadline.Sub(now).String())
		}
	case *HoldModel:
		w.put(fmt.Sprintf("hold-model t%d %v", e.Turn, e.Hold))
	case Hurry:
		w.put("hurry")
	case Reached:
		w.put(fmt.Sprintf("reached %s %d", e.Limit, e.N))
	case RolledBack:
		w.put("rolled-back " + e.Outcome)
	case *Schedule:
		w.put(fmt.Sprintf("schedule %s attempt=%d in %s", e.ID, e.Attempt, e.At.Sub(now)))
	case *CancelAction:
		w.put("cancel-action " + e.ID)
		w.flag("withdrawn", e.Withdrawn)
	case *EndChildren:
		w.put(fmt.Sprintf("end-children t%d %s", e.Turn, e.ID))
	case *AnswerCall:
		w.put(fmt.Sprintf("answer-call %s %s", e.ID, e.State))
		w.quoted("result", e.Result)
		w.num("error_code", e.ErrorCode)
		w.str("reason", e.Reason)
	case *Verify:
		w.put(fmt.Sprintf("verify t%d %q", e.Turn, cut(string(e.Out))))
	case *SetTimer:
		w.put(fmt.Sprintf("set-timer %s %s", e.Clock, e.At.Sub(now)))
	case *StopTimer:
		w.put("stop-timer " + e.Clock.String())
	default:
		w.put(fmt.Sprintf("%T", e))
	}
	return w.String()
}

func renderBody(w *words, body messages.Body) {
	switch b := body.(type) {
	case *messages.SessionOpened:
		w.str("dialect", b.Dialect)
	case *messages.Input:
		w.str("policy", string(b.Policy))
		w.str("key", b.Key)
		w.quoted("text", b.Text)
		w.quoted("userdata", b.Userdata)
	case *messages.RunBegin:
		w.num("input", b.Input)
		w.seqs("merged", b.Merged)
	case *messages.RunWithdrawn:
		w.num("by", b.By)
	case *messages.Note:
		w.put(fmt.Sprintf("%q", b.Text))
	case *messages.RunEnd:
		w.put(string(b.Decision))
		w.put(string(b.Reason))
		w.quoted("detail", b.Detail)
		w.put(fmt.Sprintf("turns=%d", b.Turns))
		w.seqs("merged", b.Merged)
		w.num("next", b.Next)
	case *messages.TurnBegin:
		w.num("pass", b.Pass)
		w.seqs("merged", b.Merged)
	case *messages.ModelChunk:
		w.put(fmt.Sprintf("off=%d bytes=%d", b.Off, len(b.Bytes)))
	case *messages.ModelReply:
		w.put(string(b.Finish))
		w.put(fmt.Sprintf("length=%d", b.Length))
		w.num("in", b.Usage.Input)
		w.num("out", b.Usage.Output)
		w.num("cost", b.CostUSD)
		w.flag("estimated", b.Usage.Estimated)
		w.flag("unpriced", b.Unpriced)
		w.quoted("error", b.Error)
	case *messages.ModelFallback:
		w.put(b.From + "→" + b.To)
	case *messages.UnitText:
		w.put(b.Unit + fmt.Sprintf(" %q", cut(b.Text)))
		w.flag("final", b.Final)
		w.flag("incomplete", !b.Complete)
		if b.N > 0 {
			w.put(fmt.Sprintf("n=%d parent=%d depth=%d label=%q", b.N, b.Parent, b.Depth, b.Label))
		}
	case *messages.Emit:
		w.put(fmt.Sprintf("%q", b.Text))
		w.flag("candidate", b.Candidate)
	case *messages.Whisper:
		w.put(b.Target + fmt.Sprintf(" %q", b.Text))
	case *messages.ActionDeclared:
		w.put(b.ID + " " + b.Name + " " + string(b.Class))
		w.str("template", b.Template)
		if b.Thought > 0 {
			w.put(fmt.Sprintf("thought=%d", b.Thought))
		}
		w.str("block", b.Block)
		w.str("of", b.Of)
		w.str("group", b.Group)
		w.str("compensates", b.Compensates)
		w.num("of_turn", b.CompensatesTurn)
		if b.Compensates != "" {
			w.put(b.Args)
		}
	case *messages.RollbackBegin:
		w.put(b.Group)
		w.str("cause", b.Cause)
	case *messages.BlockBegin:
		w.put(b.ID + " " + b.BlockKind)
		w.str("block", b.Block)
		w.str("of", b.Of)
	case *messages.BlockDecided:
		w.put(b.ID)
		w.str("branch", b.Branch)
		w.num("count", b.Count)
	case *messages.BlockEnded:
		w.put(b.ID + " " + string(b.State))
		w.quoted("reason", b.Reason)
		w.num("ok", b.OK)
		w.num("failed", b.Failed)
	case *messages.ActionTemplate:
		w.put(b.Name + " " + b.Definition)
	case *messages.ActionApproval:
		w.put(b.ID + " " + string(b.State))
		w.str("by", b.By)
		w.quoted("reason", b.Reason)
		w.flag("asked", b.Approval != "")
	case *messages.TurnSuspended:
		w.put(strings.Join(b.Waiting, ","))
		if at, err := time.Parse(time.RFC3339Nano, b.Until); err == nil {
			w.str("until", at.Format("02T15:04:05"))
		}
	case *messages.TurnRestored:
		w.put(b.Cause)
		w.num("count", b.Count)
	case *messages.ActionStarted:
		w.put(b.ID)
		if b.Attempt > 1 {
			w.num("attempt", b.Attempt)
		}
		w.quoted("after", b.Failure)
		w.quoted("args", b.Args)
	case *messages.ActionEnded:
		w.put(b.ID + " " + string(b.State))
		w.str("reason", b.Reason)
		w.quoted("result", b.Result)
		w.num("error_code", b.ErrorCode)
		w.num("streamed", b.Streamed)
	case *messages.ActionChunk:
		w.put(fmt.Sprintf("%s %d off=%d %q", b.ID, b.Seq, b.Off, cut(string(b.Bytes))))
	case *messages.Retract:
		w.put(fmt.Sprintf("%s off=%d", b.Unit, b.Off))
		w.flag("thought", b.Thought)
	case *messages.FeedInjected:
		w.put(b.ID)
		w.str("error", b.Error)
		w.flag("stale", b.Stale)
		w.flag("truncated", b.Truncated)
	case *messages.ParseFault:
		w.put(string(b.Code))
	case *messages.Lint:
		w.put(string(b.Code))
	case *messages.TurnDecided:
		w.put(string(b.Decision))
		w.put(string(b.Reason))
		w.quoted("detail", b.Detail)
		w.flag("resumed", b.Resumed)
		w.flag("repair", b.Repair)
		w.flag("counted", !b.Digest.IsZero())
		w.num("output_bytes", b.OutputBytes)
		w.num("scratch_bytes", b.ScratchBytes)
		w.num("latency_ms", b.LatencyMS)
		w.num("gas_used", b.GasUsed)
		w.str("kid", b.KID)
		w.str("jti", b.JTI)
		w.str("verification", b.Verification)
		w.str("failures", strings.Join(b.Failures, ","))
		for _, l := range b.Lints {
			w.put(string(l))
		}
	case *messages.Control:
		w.put(b.What)
		w.str("name", b.Name)
		w.put(string(b.Code))
		w.str("by", b.By)
		w.quoted("detail", b.Detail)
	case *messages.Audit:
		w.put(b.Who + " " + b.What)
	case *messages.ModelRequest, *messages.ModelSession, *messages.RelicChanged, *messages.SessionClosed, *messages.SessionDescribed, *messages.Undecoded:
	}
}

// words joins what is not empty.
type words struct{ b strings.Builder }

func (w *words) String() string { return w.b.String() }

func (w *words) put(s string) {
	if s == "" {
		return
	}
	if w.b.Len() > 0 {
		w.b.WriteByte(' ')
	}
	w.b.WriteString(s)
}

func (w *words) str(name, v string) {
	if v != "" {
		w.put(name + "=" + v)
	}
}

func (w *words) quoted(name, v string) {
	if v != "" {
		w.put(fmt.Sprintf("%s=%q", name, cut(v)))
	}
}

func (w *words) num(name string, n int64) {
	if n != 0 {
		w.put(fmt.Sprintf("%s=%d", name, n))
	}
}

func (w *words) flag(name string, on bool) {
	if on {
		w.put(name)
	}
}

func cut(s string) string {
	if len(s) > 60 {
		return s[:24] + "…" + s[len(s)-24:]
	}
	return s
}

func (w *words) seqs(k string, v []int64) {
	if len(v) > 0 {
		w.put(fmt.Sprintf("%s=%d", k, v))
	}
}

// told is what later turns hear of one that failed.
func told(f *Failed) string {
	text := fmt.Sprintf("r%d.t%d{%s", f.Run, f.Turn, f.Why)
	if f.Shown != "" {
		text += fmt.Sprintf(" shown %q", f.Shown)
	}
	for _, c := range f.Calls {
		text += fmt.Sprintf(" %s %s %s", c.Name, c.Class, c.State)
	}
	return text + "}"
}
