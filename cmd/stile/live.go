package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// live shows a run on a terminal: what is finished scrolls by as the printer writes it,
// and below it stands what still changes, redrawn in place: the line of text that grows
// and a table of the turn's actions with their state and time.
//
// The region below is never higher than the terminal, every row of it is cut to the
// terminal's width, and a frame is one write that overwrites what differs: nothing
// flickers, and a change of size between two frames is made good by the next. Nothing a
// model or tool wrote gets to the terminal but through harmless.
//
// update, tick and end may be called by several goroutines.
type live struct {
	mu   sync.Mutex
	out  io.Writer
	size func() (columns, rows int)
	now  func() time.Time
	p    printer // writes finished lines into done
	done bytes.Buffer

	drawn []string // the rows that stand below, without colours
	last  string   // the frame that drew them
	err   error

	// The text that grows.
	unit  messages.UnitID
	kind  messages.Kind
	line  []byte // its last line, harmless
	begun bool   // lines of it are above
	shown int64  // bytes of it
	cut   string // the first bytes of a character that is not complete yet

	rows  []liveRow
	index map[string]int
}

// liveRow is an action of the turn.
type liveRow struct {
	id, name, state, more string
	began, ended          time.Time
	sgr                   string
}

func newLive(out io.Writer, colour bool, size func() (int, int), now func() time.Time) *live {
	l := &live{out: out, size: size, now: now}
	l.p = printer{w: &l.done, colour: colour}
	return l
}

// liveEvery is how often the time of what runs is shown anew.
const liveEvery = 100 * time.Millisecond

// run ticks until stop is closed.
func (l *live) run(stop <-chan struct{}) {
	t := time.NewTicker(liveEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			l.tick()
		case <-stop:
			return
		}
	}
}

// update takes one update and draws.
func (l *live) update(u stile.Update) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.Delta != nil {
		l.delta(u.Delta)
	} else if u.Record != nil {
		l.record(u)
	}
	l.draw(false)
	return l.err
}

// tick draws again: time passes for the actions that run.
func (l *live) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw(false)
}

// end leaves what stands below as it is, finished.
func (l *live) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeText()
	l.commit()
	l.draw(true)
	return l.err
}

func (l *live) delta(d *messages.Delta) {
	if d.Kind == messages.KindProgress {
		if r := l.row(d.Action); r != nil && r.ended.IsZero() {
			r.more = progressText(d)
		}
		return
	}
	if d.Kind == messages.ResultText { // the row has its last line
		if r := l.row(d.Action); r != nil && r.ended.IsZero() && !d.Retract {
			text := strings.TrimRight(d.Text, "\n")
			r.more = oneLine(text[strings.LastIndexByte(text, '\n')+1:], 60)
		}
		return
	}
	if d.Retract {
		l.closeText()
		l.p.line(dim, "retract", fmt.Sprintf("of this text only %d bytes count", d.Off))
		return
	}
	if l.unit != d.Unit {
		l.closeText()
		l.unit, l.kind = d.Unit, d.Kind
		l.line = append(l.line, harmless(placeText(d.Thought))...)
	}
	from := d.Off - int64(len(d.Text))
	if from > l.shown || d.Off <= l.shown {
		return // a piece was lost, and the record brings it; or it is known
	}
	l.grow(d.Text[l.shown-from:])
}

// grow adds to the growing text. Its complete lines are finished.
func (l *live) grow(text string) {
	l.shown += int64(len(text))
	text = l.cut + text
	whole := wholeRunes(text)
	l.cut = text[whole:]
	l.line = append(l.line, harmless(text[:whole])...)
	for {
		i := bytes.IndexByte(l.line, '\n')
		if i < 0 {
			return
		}
		l.finishLine(string(l.line[:i]))
		l.line = l.line[i+1:]
	}
}

// wholeRunes is how much of a text is complete characters.
func wholeRunes(text string) int {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return len(text) - i
			}
			break
		}
	}
	return len(text)
}

// finishLine writes a line of the growing text for good.
func (l *live) finishLine(s string) {
	columns, _ := l.size()
	fmt.Fprintf(&l.done, "%s%s\n", l.label(), l.p.hang(wrapped(s, columns-labelWidth)))
	l.begun = true
}

// label stands in front of the first line of a text; further lines are indented as far.
func (l *live) label() string {
	if l.begun {
		return strings.Repeat(" ", labelWidth)
	}
	return l.p.paint(unitColour(l.kind), fmt.Sprintf("%-*s", labelWidth, unitLabel(l.kind)))
}

// closeText finishes the growing text.
func (l *live) closeText() {
	if l.unit == (messages.UnitID{}) {
		return
	}
	l.line = append(l.line, harmless(l.cut)...)
	if len(l.line) > 0 || !l.begun {
		l.finishLine(string(l.line))
	}
	l.unit, l.line, l.begun, l.shown, l.cut = messages.UnitID{}, nil, false, 0, ""
}

func (l *live) record(u stile.Update) {
	at := u.Record.TS
	switch b := u.Record.Body.(type) {
	case *messages.UnitText:
		if l.unit.String() == b.Unit && l.shown <= int64(len(b.Text)) {
			l.grow(b.Text[l.shown:])
			l.closeText()
			if !b.Complete {
				l.p.line(yellow, "", "(cut off)")
			}
			return
		}
	case *messages.BlockBegin:
		l.addRow(liveRow{id: b.ID, name: b.BlockKind, state: "waiting", more: blockHead(b)})
		return
	case *messages.BlockDecided:
		if r := l.row(b.ID); r != nil {
			r.state, r.sgr, r.began = "running", cyan, at
			if text := decidedText(b); text != "" {
				r.more = text
			}
			return
		}
	case *messages.BlockEnded:
		if r := l.row(b.ID); r != nil {
			if r.state, r.ended, r.sgr = string(b.State), at, yellow; b.State == messages.ActionOK {
				r.sgr = green
			}
			if b.OK > 0 || b.Failed > 0 || b.Reason != "" {
				r.more = strings.TrimLeft(strings.TrimPrefix(endedText(b), string(b.State)), ",: ")
			}
			return
		}
	case *messages.ActionDeclared:
		if l.p.names == nil {
			l.p.names = map[string]string{}
		}
		l.p.names[b.ID] = b.Name
		l.addRow(liveRow{id: b.ID, name: b.Name, state: "waiting", more: oneLine(b.Args, 60) + originText(b) + blockText(b)})
		return
	case *messages.ActionApproval:
		if r := l.row(b.ID); r != nil && b.Approval != "" {
			r.state, r.sgr = map[messages.GateAnswer]string{messages.GateConfirm: "asks"}[b.State], yellow
			if r.state == "" {
				r.state = string(b.State)
			}
		}
	case *messages.ActionStarted:
		if r := l.row(b.ID); r != nil {
			r.state, r.sgr = "running", cyan
			if r.began.IsZero() {
				r.began = at
			}
			if b.Attempt > 1 {
				r.more = fmt.Sprintf("attempt %d%s", b.Attempt, reasonText(oneLine(b.Failure, 40)))
			}
			return
		}
	case *messages.ActionEnded:
		if r := l.row(b.ID); r != nil {
			r.state, r.ended, r.sgr = string(b.State), at, yellow
			r.more = oneLine(b.Reason, 60)
			if b.State == messages.ActionOK {
				r.sgr, r.more = green, sizeText(int64(len(b.Result)))+": "+oneLine(b.Result, 60)
			} else if b.Result != "" {
				r.more = strings.TrimPrefix(r.more+": "+oneLine(b.Result, 60), ": ")
			}
			return
		}
	case *messages.TurnDecided, *messages.RunEnd:
		l.closeText()
		l.commit()
	}
	before := l.done.Len()
	l.p.columns, _ = l.size()
	if err := l.p.update(u); err != nil && l.err == nil {
		l.err = err
	}
	if l.done.Len() > before && l.unit != (messages.UnitID{}) && len(l.line)+len(l.cut) > 0 {
		l.begun = true // what was written stands between the lines of the text
	}
}

// addRow adds a row to the table of actions.
func (l *live) addRow(r liveRow) {
	if l.index == nil {
		l.index = map[string]int{}
	}
	l.index[r.id] = len(l.rows)
	l.rows = append(l.rows, r)
}

// progressText is how far an action is, for people.
func progressText(d *messages.Delta) string {
	text := oneLine(d.Text, 60)
	switch {
	case d.Total > 0:
		return strings.TrimSpace(fmt.Sprintf("%d of %d %s", d.Off, d.Total, text))
	case d.Off > 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", d.Off, text))
	}
	return text
}

func (l *live) row(id string) *liveRow {
	if i, ok := l.index[id]; ok {
		return &l.rows[i]
	}
	return nil
}

// commit writes the table for good.
func (l *live) commit() {
	for i := range l.rows {
		text := l.table(i, 0)
		l.done.WriteString(l.p.paint(l.rows[i].sgr, text[:labelWidth]) + text[labelWidth:] + "\n")
	}
	l.rows, l.index = nil, nil
}

// table is a row of the table; columns 0 does not cut it.
func (l *live) table(i, columns int) string {
	r := &l.rows[i]
	label := ""
	if i == 0 {
		label = "actions"
	}
	took := ""
	switch {
	case !r.began.IsZero() && !r.ended.IsZero():
		took = tookText(r.ended.Sub(r.began))
	case !r.began.IsZero():
		took = tookText(l.now().Sub(r.began))
	}
	text := fmt.Sprintf("%-*s%s %s %s %7s  %s", labelWidth, label, pad(oneLine(r.id, 24), 12), pad(oneLine(r.name, 30), 18), pad(r.state, 9), took, r.more)
	text = strings.TrimRight(text, " ")
	if columns > 0 {
		text = cutWidth(text, columns)
	}
	return text
}

func tookText(d time.Duration) string {
	return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
}

// below are the rows that change, with and without colours.
func (l *live) below(columns, rows int) (plain, painted []string) {
	add := func(sgr, text string, head int) {
		text = cutWidth(text, columns-1) // a full line would move the cursor on some terminals
		head = min(head, len(text))
		plain = append(plain, text)
		painted = append(painted, l.p.paint(sgr, text[:head])+text[head:])
	}
	room := max(rows-1, 1)
	if l.unit != (messages.UnitID{}) {
		// The end of the line is what matters: earlier rows of a long one come when it is
		// finished.
		label := strings.Repeat(" ", labelWidth)
		if !l.begun {
			label = fmt.Sprintf("%-*s", labelWidth, unitLabel(l.kind))
		}
		parts := lastRows(string(l.line), max(columns-1-labelWidth, 1), max(room/2, 1))
		for i, part := range parts {
			if i > 0 {
				label = strings.Repeat(" ", labelWidth)
			}
			add(unitColour(l.kind), label+part, labelWidth)
		}
	}
	room -= len(plain)
	// Those that are not over go first when there is no room for all.
	show := make([]int, 0, len(l.rows))
	for _, over := range []bool{false, true} {
		for i := range l.rows {
			if !l.rows[i].ended.IsZero() == over {
				show = append(show, i)
			}
		}
	}
	if len(show) <= room {
		for i := range l.rows {
			add(l.rows[i].sgr, l.table(i, 0), labelWidth)
		}
		return plain, painted
	}
	for _, i := range show[:max(room-1, 0)] {
		add(l.rows[i].sgr, l.table(i, 0), labelWidth)
	}
	if room > 0 {
		add(dim, fmt.Sprintf("%*s… %d more", labelWidth, "", len(show)-max(room-1, 0)), 0)
	}
	return plain, painted
}

// draw writes what is finished, and below it what changes, as one write.
func (l *live) draw(last bool) {
	columns, rows := l.size()
	if columns < 2*labelWidth {
		columns = 80
	}
	if rows < 2 {
		rows = 24
	}
	plain, painted := l.below(columns, rows)
	frame := strings.Join(painted, "\n")
	if l.done.Len() == 0 && frame == l.last && !last || l.err != nil {
		return
	}
	var b bytes.Buffer
	// Up to the first row that was drawn. A terminal that became narrower has wrapped
	// them meanwhile.
	up := 0
	for _, row := range l.drawn {
		up += max(1, (textWidth(row)+columns-1)/columns)
	}
	if up > 1 {
		fmt.Fprintf(&b, "\x1b[%dA", min(up, rows)-1)
	}
	if up > 0 {
		b.WriteByte('\r')
	}
	if l.done.Len() > 0 {
		b.WriteString("\x1b[J") // a long line takes more rows than what it is written over
		b.Write(l.done.Bytes())
		l.done.Reset()
	}
	for i, row := range painted {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(row + "\x1b[K")
	}
	b.WriteString("\x1b[J") // of a higher frame before
	if _, err := l.out.Write(b.Bytes()); err != nil {
		l.err = err
	}
	l.drawn, l.last = plain, frame
}
