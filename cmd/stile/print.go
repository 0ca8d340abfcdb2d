package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// printer writes a session's updates for people, one line each, under a column of
// labels. With growing, text of the model appears as it comes; without, when its
// record is there. It is not safe for concurrent use. Errors of the writer stick.
type printer struct {
	w       io.Writer
	colour  bool
	growing bool
	columns int  // of the terminal; 0 where there is none, or its width is not known
	past    bool // of a session that is looked at: with what each step took
	indent  string
	err     error

	// The unit whose text stands on the last line, still growing.
	open  messages.UnitID
	shown int64  // bytes of it that were printed or are held in cut
	cut   string // the first bytes of a character that is not complete yet

	out, scr int64             // bytes the next prompt carries over
	names    map[string]string // of the actions of this turn
	halted   messages.Code     // what the last turn of the run was halted for
}

func (a *app) printer(indent string) *printer {
	p := &printer{w: a.out, colour: a.colour(), growing: a.outTerminal, indent: indent}
	if a.outTerminal && a.size != nil {
		p.columns, _ = a.size()
	}
	return p
}

// The colours: SGR parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p *printer) paint(sgr, s string) string {
	if !p.colour || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}

func (p *printer) print(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// labelWidth is the column at which the text begins.
const labelWidth = 9

// shownLines bounds the lines of one emission or text that are shown at once.
const shownLines = 200

// line writes text under a label; further lines are indented as far.
func (p *printer) line(sgr, label, text string) {
	p.finish()
	p.print(p.indent + p.paint(sgr, fmt.Sprintf("%-*s", labelWidth, label)))
	// A line end of its own is no further line.
	p.print(p.hang(wrapped(harmless(strings.TrimSuffix(text, "\n")), p.columns-len(p.indent)-labelWidth)) + "\n")
}

// leastWrapped is the least width at which words are kept together.
const leastWrapped = 16

// wrapped breaks the lines of a text at spaces, so that none is wider than columns; a word
// that is wider stays whole. A width that is too small, such as one that is not known, leaves
// the text as it is.
func wrapped(text string, columns int) string {
	if columns < leastWrapped || !strings.Contains(text, " ") {
		return text
	}
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if textWidth(line) <= columns {
			b.WriteString(line)
			continue
		}
		at := 0
		for j, word := range strings.Split(line, " ") {
			width := textWidth(word)
			switch {
			case j == 0:
			case at+1+width > columns:
				b.WriteByte('\n')
				at = 0
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += width
		}
	}
	return b.String()
}

// hang indents the lines of a text but the first.
func (p *printer) hang(s string) string {
	return strings.ReplaceAll(s, "\n", "\n"+p.indent+strings.Repeat(" ", labelWidth))
}

// finish ends the line of a growing text.
func (p *printer) finish() {
	if p.open != (messages.UnitID{}) {
		p.print(harmless(p.cut) + "\n")
		p.open, p.shown, p.cut = messages.UnitID{}, 0, ""
	}
}

func (p *printer) update(u stile.Update) error {
	switch {
	case u.Delta != nil:
		p.delta(u.Delta)
	case u.Record != nil:
		p.record(u.Record)
	}
	return p.err
}

func (p *printer) delta(d *messages.Delta) {
	if !p.growing || d.Kind == messages.KindProgress || d.Kind == messages.ResultText { // these are of the table of live
		return
	}
	if d.Retract {
		p.line(dim, "retract", fmt.Sprintf("of this text only %d bytes count", d.Off))
		return
	}
	if p.open != d.Unit {
		p.finish()
		p.open = d.Unit
		p.print(p.indent + p.paint(unitColour(d.Kind), fmt.Sprintf("%-*s", labelWidth, unitLabel(d.Kind))) + harmless(placeText(d.Thought)))
	}
	from := d.Off - int64(len(d.Text))
	if from > p.shown || d.Off <= p.shown {
		return // a piece was lost, and the record brings it; or it is known
	}
	p.grow(d.Text[p.shown-from:])
}

// grow adds to the growing text, without cutting a character.
func (p *printer) grow(text string) {
	p.shown += int64(len(text))
	text = p.cut + text
	whole := wholeRunes(text)
	p.cut = text[whole:]
	p.print(p.hang(harmless(text[:whole])))
}

func unitLabel(k messages.Kind) string {
	switch k {
	case messages.ThoughtUnit:
		return "thought"
	case messages.TextUnit:
		return "text"
	}
	return "says"
}

// placeText stands in front of the text of a numbered thought: its depth, ordinal and label.
func placeText(at *messages.Block) string {
	if at == nil {
		return ""
	}
	return strings.Repeat("› ", at.Depth-1) + strings.TrimSuffix(fmt.Sprintf("[%d %s", at.N, at.Label), " ") + "] "
}

func unitColour(k messages.Kind) string {
	if k == messages.ResponseUnit {
		return green
	}
	return dim
}

// unit shows a finished text, or what of it has not been shown.
func (p *printer) unit(b *messages.UnitText) {
	if p.open.String() == b.Unit && p.shown <= int64(len(b.Text)) {
		p.grow(b.Text[p.shown:])
		p.finish()
	} else {
		p.line(unitColour(b.UnitKind), unitLabel(b.UnitKind), placeText(b.Place())+b.Text)
	}
	if !b.Complete {
		p.line(yellow, "", "(cut off)")
	}
}

// originText says what an action undoes, of which template it was made, and in which numbered
// thought.
func originText(b *messages.ActionDeclared) (text string) {
	if b.Compensates != "" {
		text = ", undoes " + b.Compensates
		if b.CompensatesTurn > 0 {
			text += fmt.Sprintf(" of turn %d", b.CompensatesTurn)
		}
	}
	if b.Template != "" {
		text += " by template " + b.Template
	}
	if b.Thought > 0 {
		text += fmt.Sprintf(" in thought %d", b.Thought)
	}
	return text
}

// record shows one record. Those that only the host needs are left out.
func (p *printer) record(r *messages.Record) {
	switch b := r.Body.(type) {
	case *messages.Undecoded:
		p.line(dim, "erased", fmt.Sprintf("record %d, %s", r.Seq, b.Of))
	case *messages.SessionOpened:
		p.opened(b)
	case *messages.SessionClosed:
		p.line(dim, "closed", b.Reason)
	case *messages.SessionDescribed:
		p.line(dim, "about", describedText(b))
	case *messages.Input:
		p.line(cyan, "input", b.Text+b.Userdata)
		for _, part := range b.Parts {
			p.line(cyan, "with", part.String())
		}
	case *messages.TurnBegin:
		p.begin(r, b)
	case *messages.ModelReply:
		if b.Finish != messages.FinishComplete {
			p.line(yellow, "model", "the reply ended: "+string(b.Finish))
		}
		if b.Unpriced || b.CostUSD > 0 || p.past && b.Usage != (messages.Usage{}) {
			p.line(dim, "model", costText(b))
		}
	case *messages.ModelFallback:
		p.line(yellow, "model", b.From+" failed, asking "+b.To+": "+b.Reason)
	case *messages.UnitText:
		if b.UnitKind != messages.TextUnit || b.Text != "" {
			p.unit(b)
		}
	case *messages.Emit:
		switch {
		case b.Candidate:
			p.line(dim, "token", oneLine(b.Text, 60))
		case b.Held:
			p.line(dim, "held", firstLines(b.Text))
		default:
			p.line(green, "emit", firstLines(b.Text))
		}
	case *messages.Whisper:
		p.line(dim, "whisper", firstLines(b.Text))
	case *messages.BlockBegin, *messages.BlockDecided, *messages.BlockEnded:
		p.block(b)
	case *messages.ActionDeclared:
		if p.names == nil {
			p.names = map[string]string{}
		}
		p.names[b.ID] = b.Name
		p.line(cyan, "call", b.ID+" "+b.Name+" "+oneLine(b.Args, 100)+originText(b)+blockText(b))
	case *messages.ActionTemplate:
		p.line(cyan, "template", b.Name+" "+oneLine(b.Definition, 100))
	case *messages.RollbackBegin:
		p.line(yellow, "rollback", b.Group+": "+b.Cause)
	case *messages.ActionStarted:
		if b.Child != "" {
			p.line(dim, "", b.ID+" runs in session "+b.Child)
		}
	case *messages.ActionApproval:
		if b.State != messages.GateApprove || b.Approval != "" {
			p.line(yellow, "gate", strings.TrimSpace(b.ID+" "+p.names[b.ID])+": "+string(b.State)+" by "+b.By+reasonText(b.Reason))
		}
	case *messages.ActionEnded:
		p.ended(b)
	case *messages.RelicChanged:
		p.line(dim, "keeps", b.ID+b.By+" "+b.Relic+" "+oneLine(b.Args, 100))
	case *messages.FeedInjected:
		text := b.ID
		if b.Error != "" {
			text += ": " + b.Error
		} else if b.Stale {
			text += ", stale"
		}
		text += reasonText(b.Reason)
		if b.Origin != "" {
			text += ", from " + b.Origin
		}
		p.line(dim, "feed", text)
	case *messages.ParseFault:
		why := b.Detail
		if b.Reason == messages.MoreErrors {
			why = count(b.N, "more error")
		}
		p.line(yellow, "fault", fmt.Sprintf("%s at byte %d%s", b.Code, b.Offset, reasonText(why)))
	case *messages.Lint:
		p.line(yellow, "lint", fmt.Sprintf("%s at byte %d%s", b.Code, b.Offset, reasonText(b.Detail)))
	case *messages.TurnSuspended:
		p.line(yellow, "waits", strings.Join(b.Waiting, " ")+" for approval, until "+b.Until)
	case *messages.Retract:
		text := "what was said in " + b.Unit + " is taken back"
		if b.Thought {
			text = "what was said in " + b.Unit + " is a thought"
		}
		p.line(dim, "", text)
	case *messages.RunWithdrawn:
		p.line(yellow, "run", fmt.Sprintf("%d is taken back for run %d", r.Run, b.By))
	case *messages.TurnRestored:
		p.line(yellow, "restored", map[string]string{
			messages.RestoreCrash: "after a restart", messages.RestoreApproval: "after an approval",
			messages.RestoreRollback: "for its rollbacks, then the turn ends",
		}[b.Cause])
	case *messages.TurnDecided:
		p.decided(b)
	case *messages.RunEnd:
		text := fmt.Sprintf("%d ended %s after %s", r.Run, b.Decision, count(b.Turns, "turn"))
		if b.Reason != "" && b.Reason != p.halted { // no turn has said it
			text += ": " + haltText(b.Reason, b.Detail)
		}
		p.halted = ""
		p.line(dim, "run", text)
	case *messages.Control:
		p.control(b)
	case *messages.Audit:
		word := "denied"
		if b.Allowed {
			word = "allowed"
		}
		p.line(dim, "audit", word+": "+b.What+reasonText(b.Text))
	case *messages.Note:
		p.line(dim, "note", b.Text)
	case *messages.RunBegin, *messages.ModelRequest, *messages.ModelSession, *messages.ModelChunk, *messages.ActionChunk:
	}
}

// costText says what a reply cost, and when that is not known.
func costText(b *messages.ModelReply) string {
	text := fmt.Sprintf("%d tokens in", b.Usage.Input)
	if b.Usage.CacheRead > 0 {
		text += fmt.Sprintf(" (%d cached)", b.Usage.CacheRead)
	}
	text += fmt.Sprintf(", %d out", b.Usage.Output)
	if b.Usage.Estimated {
		text += ", estimated"
	}
	switch {
	case b.Unpriced:
		return text + "; cost unknown, the model has no price"
	case b.CostUSD == 0:
		return text
	}
	return text + fmt.Sprintf("; $%d.%06d", b.CostUSD/1_000_000, b.CostUSD%1_000_000)
}

func (p *printer) opened(b *messages.SessionOpened) {
	text := strings.TrimSpace(b.Name + " (" + b.Dialect + ")")
	if b.Origin != nil {
		text += fmt.Sprintf(", forked from %s at record %d", b.Origin.SID, b.Origin.Seq)
	}
	if b.Parent != nil {
		text += fmt.Sprintf(", for action %s of %s in turn %d", b.Parent.Action, b.Parent.SID, b.Parent.Turn)
	}
	p.line(dim, "opened", text)
}

func (p *printer) begin(r *messages.Record, b *messages.TurnBegin) {
	text := fmt.Sprintf("%d", r.Turn)
	if b.Dialect == "aeiou" {
		var carried []string
		if p.out > 0 {
			carried = append(carried, "OUTPUT "+sizeText(p.out))
		}
		if p.scr > 0 {
			carried = append(carried, "SCRATCHPAD "+sizeText(p.scr))
		}
		if carried != nil {
			text += p.paint(dim, "  the prompt carries "+strings.Join(carried, ", "))
		}
	}
	p.finish()
	p.print(p.indent + p.paint(bold, fmt.Sprintf("%-*s", labelWidth, "turn")) + text + "\n")
}

func (p *printer) ended(b *messages.ActionEnded) {
	text := b.ID + " " + string(b.State) + reasonText(b.Reason)
	if b.ErrorCode != 0 {
		text += fmt.Sprintf(" (code %d)", b.ErrorCode)
	}
	if p.past {
		text += fmt.Sprintf(", %d ms", b.MS)
	}
	switch {
	case b.State == messages.ActionOK:
		text += fmt.Sprintf(", %s: %s", sizeText(int64(len(b.Result))), oneLine(b.Result, 60))
	case b.Result != "": // what the model is told of the failure
		text += ": " + oneLine(b.Result, 60)
	}
	sgr := dim
	if b.State != messages.ActionOK {
		sgr = yellow
	}
	p.line(sgr, "", text)
}

func (p *printer) control(b *messages.Control) {
	text, code := b.What, string(b.Code)
	if strings.HasPrefix(b.Detail, code) {
		code = "" // it is said once
	}
	for _, s := range []string{b.Name, code, b.Detail} {
		if s != "" {
			text += " " + s
		}
	}
	if b.By != "" {
		text += " by " + b.By
	}
	p.line(yellow, "control", text)
}

func (p *printer) decided(b *messages.TurnDecided) {
	p.out, p.scr, p.names, p.halted = b.OutputBytes, b.ScratchBytes, nil, b.Reason
	sgr, text := green, ""
	switch b.Decision {
	case messages.Halt:
		sgr, text = red, haltText(b.Reason, b.Detail)
		if b.Verification != "" && !strings.Contains(b.Detail, b.Verification) {
			text += " (" + b.Verification + ")"
		}
	case messages.Abort:
		sgr = yellow
	}
	facts := fmt.Sprintf("%d ms", b.LatencyMS)
	if b.GasUsed > 0 {
		facts += fmt.Sprintf(", gas %d", b.GasUsed)
	}
	for _, l := range b.Lints {
		facts += ", " + string(l)
	}
	if b.Repair {
		facts += ", the run goes on"
	}
	if text != "" {
		text += " "
	}
	p.finish()
	p.print(p.indent + p.paint(bold+";"+sgr, fmt.Sprintf("%-*s", labelWidth, b.Decision)) + harmless(text) + p.paint(dim, "("+facts+")") + "\n")
}

// haltText is the code of a HALT and its detail, which may begin with the code.
func haltText(code messages.Code, detail string) string {
	if detail = oneLine(detail, 160); strings.HasPrefix(detail, string(code)) {
		return detail
	}
	return string(code) + reasonText(detail)
}

func reasonText(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// firstLines cuts a long text.
func firstLines(s string) string {
	at := 0
	for range shownLines {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return s
		}
		at += i + 1
	}
	return s[:at] + "…"
}

// describedText is a title with its tags behind it.
func describedText(b *messages.SessionDescribed) string {
	text := b.Title
	for _, t := range b.Tags {
		text += " [" + t + "]"
	}
	return strings.TrimSpace(text)
}
