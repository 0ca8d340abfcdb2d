package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// transcript writes a session as Markdown for people: who said what, what was called, and
// how each turn ended. Texts of others stand in fences that they cannot close. Errors of the
// writer stick.
type transcript struct {
	w     io.Writer
	err   error
	names map[string]string // of the actions of a turn
	tally tally
}

func (t *transcript) print(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// quote writes a text of others under a label.
func (t *transcript) quote(label, text string) {
	text = harmless(strings.TrimRight(text, "\n"))
	if text == "" {
		return
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	t.print("**%s**\n\n%stext\n%s\n%s\n\n", label, fence, text, fence)
}

// inline is a short text of others within a line: what Markdown or HTML would take for more
// than text is escaped.
func inline(s string) string {
	var b strings.Builder
	for _, r := range oneLine(s, 200) {
		if strings.ContainsRune("\\`*_[]<>|~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (a *app) sessionsTranscript(ctx context.Context, ar *stile.Archive, name string) error {
	head, err := named(ctx, ar, name)
	if err != nil {
		return err
	}
	t := &transcript{w: a.out, names: map[string]string{}}
	t.print("# Session %s\n\n", inline(head.SID))
	for r, err := range ar.Records(ctx, head.Inc) {
		if err != nil {
			return err
		}
		t.record(r)
	}
	t.print("---\n\n%s\n", t.tally.String())
	return t.err
}

func clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

func (t *transcript) record(r *stile.Record) {
	t.tally.record(r)
	switch b := r.Body.(type) {
	case *messages.Undecoded:
		t.print("*Record %d was erased.*\n\n", r.Seq)
	case *messages.SessionOpened:
		t.print("Agent %s, dialect %s, opened %s.\n\n", inline(b.Name), inline(b.Dialect), clock(r.TS))
		if b.Origin != nil {
			t.print("A fork of %s at record %d.\n\n", inline(b.Origin.SID), b.Origin.Seq)
		}
	case *messages.SessionDescribed:
		t.print("Title: %s\n\n", inline(describedText(b)))
	case *messages.SessionClosed:
		t.print("Closed %s: %s\n\n", clock(r.TS), inline(b.Reason))
	case *messages.Input:
		t.quote("User, "+clock(r.TS), b.Text+b.Userdata)
		for _, part := range b.Parts {
			t.quote("Sent with it", part.String())
		}
	case *messages.RunBegin:
		t.print("## Run %d\n\n", r.Run)
	case *messages.TurnBegin:
		clear(t.names)
		t.print("### Turn %d, %s\n\n", r.Turn, clock(r.TS))
	case *messages.UnitText:
		switch b.UnitKind {
		case messages.ThoughtUnit:
			t.quote("Thought", b.Text)
		case messages.ResponseUnit:
			t.quote("Agent", b.Text)
		}
	case *messages.Emit:
		if !b.Candidate && !b.Held {
			t.quote("Agent", b.Text)
		}
	case *messages.Retract:
		if !b.Thought { // else its text follows
			t.print("*What was said in %s is taken back.*\n\n", inline(b.Unit))
		}
	case *messages.BlockBegin:
		t.print("*Block %s: %s*\n\n", inline(b.ID), inline(blockHead(b)))
	case *messages.BlockDecided:
		if text := decidedText(b); text != "" {
			t.print("*Block %s %s.*\n\n", inline(b.ID), inline(text))
		}
	case *messages.BlockEnded:
		t.print("*Block %s: %s*\n\n", inline(b.ID), inline(endedText(b)))
	case *messages.ActionDeclared:
		t.names[b.ID] = b.Name
		t.quote("Call "+inline(b.ID)+": "+inline(b.Name), b.Args)
	case *messages.RollbackBegin:
		t.print("*Group %s is rolled back: %s.*\n\n", inline(b.Group), inline(b.Cause))
	case *messages.ActionApproval:
		if b.State != messages.GateApprove || b.Approval != "" {
			t.print("*Call %s: %s by %s%s*\n\n", inline(b.ID), b.State, inline(b.By), inline(reasonText(b.Reason)))
		}
	case *messages.ActionEnded:
		label := fmt.Sprintf("Result of %s: %s, %d ms", inline(strings.TrimSpace(b.ID+" "+t.names[b.ID])), b.State, b.MS)
		if b.Reason != "" {
			label += ", " + inline(b.Reason)
		}
		if b.Result == "" {
			t.print("**%s**\n\n", label)
		}
		t.quote(label, b.Result)
	case *messages.TurnSuspended:
		t.print("*Waits for approval until %s.*\n\n", inline(b.Until))
	case *messages.TurnDecided:
		t.print("**%s**", b.Decision)
		if b.Decision == messages.Halt {
			t.print(" %s: %s", inline(string(b.Reason)), inline(b.Detail))
		}
		t.print(" after %d ms\n\n", b.LatencyMS)
	case *messages.RunEnd:
		t.print("Run %d ended %s after %s.\n\n", r.Run, b.Decision, count(b.Turns, "turn"))
	}
}

// tally adds up what a session took.
type tally struct {
	turns, in, out, cost int64
	unpriced             bool
	model, tools         time.Duration
	asked                time.Time
}

func (t *tally) record(r *stile.Record) {
	switch b := r.Body.(type) {
	case *messages.TurnDecided:
		t.turns++
	case *messages.ModelRequest:
		if !t.asked.IsZero() { // which failed
			t.model += max(0, r.TS.Sub(t.asked))
		}
		t.asked = r.TS
	case *messages.ModelReply:
		t.in += b.Usage.Input
		t.out += b.Usage.Output
		t.cost += b.CostUSD
		t.unpriced = t.unpriced || b.Unpriced
		if !t.asked.IsZero() {
			t.model += max(0, r.TS.Sub(t.asked))
			t.asked = time.Time{}
		}
	case *messages.ActionEnded:
		t.cost += b.CostUSD
		t.tools += time.Duration(b.MS) * time.Millisecond
	}
}

// String is the closing line of a session.
func (t *tally) String() string {
	text := fmt.Sprintf("%s, %s in, %s out", count(t.turns, "turn"), thousands(t.in), thousands(t.out))
	if t.cost > 0 {
		text += fmt.Sprintf(", $%d.%06d", t.cost/1_000_000, t.cost%1_000_000)
	}
	if t.unpriced {
		text += ", replies without a price"
	}
	return text + fmt.Sprintf(", %s model, %s tools", seconds(t.model), seconds(t.tools))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// thousands groups digits by threes.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
