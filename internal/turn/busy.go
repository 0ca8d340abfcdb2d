package turn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// What happens to a submit while a run is in flight (docs/spec/design.md §9). Everything
// follows from the input records: under interrupt and rollback the input's record itself
// cancels the run in flight, so that no restart can separate the two. Besides inputs, a
// timer's control record closes the window of debounce, and turn.begin and run.begin name
// the inputs they take up.
//
// A waiting run with a superseding run behind it counts as in flight: it begins and ends at
// once, so that its fate does not depend on timing.

// Bounds of the note on a withdrawn run.
const (
	NoteEffects = 32      // effects that are listed one by one
	NoteArgs    = 200     // bytes of an effect's arguments
	NoteBytes   = 4 << 10 // bytes of all notes that a run is given
)

// Part is an input that joined others.
type Part struct {
	Seq      int64  `json:"seq"`
	Text     string `json:"text,omitzero"`
	Userdata string `json:"userdata,omitzero"`
}

// Window gathers inputs that come shortly after one another. It closes at Until, which
// every input moves.
type Window struct {
	Waiting
	Opened int64 `json:"opened"` // unix nanoseconds
	Until  int64 `json:"until"`  // unix nanoseconds
}

// Deed is an effect that an action of a run had or may have had.
type Deed struct {
	Name  string               `json:"name"`
	Args  string               `json:"args"`
	State messages.ActionState `json:"state"`
}

// Joiner is a Judge that makes one input out of several, given in the order of their
// arrival. It is pure. For other judges texts are joined by LF.
type Joiner interface {
	JoinInputs(parts []messages.Input) (messages.Input, error)
}

// refusal returns the error to refuse a submit with, nil to accept it, and the position of
// the record that the refusal rests on: the refusal must wait until that record is durable,
// because a restart could forget it otherwise.
func (m *Machine) refusal(in *messages.Input) (after int64, err error) {
	s := &m.state
	if s.Closed {
		return 0, messages.Errorf(messages.ErrDenied, "the session is closed")
	}
	// A run waits because of an input, of a run that ended and left inputs, or of a window
	// that closed.
	waiting, latest := len(s.Queue), max(m.lastEnd, m.lastShut)
	for i := range s.Queue { // a superseding run came last and stands in front
		latest = max(latest, s.Queue[i].Seq)
	}
	if s.Window != nil {
		waiting, latest = waiting+1, max(latest, s.Window.Seq)
	}
	switch in.Policy {
	case messages.Reject:
		switch {
		case s.Open != nil:
			return s.Open.Seq, messages.Errorf(messages.ErrBusy, "a run is in flight")
		case waiting > 0:
			return latest, messages.Errorf(messages.ErrBusy, "a run is about to begin")
		}
		return 0, nil
	case messages.Merge, messages.Debounce:
		if m.joins(in.Policy) > 0 {
			return m.refusesToJoin(in)
		}
	case messages.Enqueue, messages.Interrupt, messages.Rollback:
	case messages.Answer: // the facade has replaced it by another policy
		fallthrough
	default:
		return 0, &messages.Error{Code: messages.ErrInvalid, Field: "policy", Detail: "want one of reject, enqueue, interrupt, rollback, merge, debounce"}
	}
	if waiting >= messages.QueueLimit {
		return latest, messages.Errorf(messages.ErrBusy, "%d runs are waiting already", waiting)
	}
	return 0, nil
}

// joins returns the run that an input under policy joins, 0 if it gets a run of its own.
func (m *Machine) joins(policy messages.Policy) int64 {
	s := &m.state
	switch {
	case policy == messages.Debounce && s.Window != nil:
		return s.Window.Run
	case policy != messages.Merge:
	case s.Open != nil:
		return s.Open.Run
	case s.Window != nil:
		return s.Window.Run
	}
	return 0
}

// refusesToJoin is refusal for an input that would join a run: the run may have too many
// inputs already, or they may not make one input together.
func (m *Machine) refusesToJoin(in *messages.Input) (after int64, err error) {
	s := &m.state
	var parts []Part
	limit := messages.MergeLimit
	switch {
	case in.Policy == messages.Debounce:
		limit = messages.WindowLimit
		parts = s.Window.parts()
	case s.Open != nil:
		parts = s.Open.Merged
	}
	if n := len(parts); n >= limit {
		return parts[n-1].Seq, messages.Errorf(messages.ErrBusy, "%d inputs wait for the same turn already", n)
	}
	parts = append(slices.Clone(parts), Part{Text: in.Text, Userdata: in.Userdata})
	_, err = m.join(parts)
	return 0, err
}

// supersede stops the run in flight, which the fold of an input has marked as superseded.
func (m *Machine) supersede(by string) {
	open := m.state.Open
	if open == nil || m.flight == nil { // settle will see the mark
		return
	}
	m.denyQuestions(by, open.Cancel.why())
	m.stop(messages.ErrCancelled, open.Cancel.why())
}

// denyQuestions denies the open questions of the turn in flight.
func (m *Machine) denyQuestions(by, why string) {
	for _, a := range append([]OpenAction(nil), m.state.Open.Turn.Actions...) {
		if q := a.Question; q != nil && q.Answer == "" {
			m.persist(&messages.ActionApproval{
				Approval: q.ID, ID: a.ID, State: messages.GateDeny, By: by, Reason: why, Digest: a.AskDigest(),
			}, 0)
		}
	}
}

// passOver begins and ends the waiting runs in front of one that supersedes them.
func (m *Machine) passOver() {
	for m.state.Open == nil && len(m.state.Queue) > 1 && m.state.Queue[1].Policy.Supersedes() {
		by := m.state.Queue[1]
		m.beginRun()
		if by.Policy == messages.Rollback {
			m.append(m.state.Open.Run, 0, &messages.RunWithdrawn{By: by.Run}, 0)
		}
		c := Cancelled{Superseded: by.Run}
		m.recordEnd(messages.Verdict{Decision: messages.Halt, Code: messages.ErrCancelled, Detail: c.why()}, 0, "")
	}
}

// closeRun records the end of the open run, with the note of a withdrawn one.
func (m *Machine) closeRun(v messages.Verdict, turn int64, value string) {
	run := m.state.Open
	if run.withdrawn() {
		if text := m.noteOn(run); text != "" {
			m.append(run.Run, turn, &messages.Note{Text: text}, 0)
		}
		m.append(run.Run, turn, &messages.RunWithdrawn{By: run.Cancel.Withdrawn}, 0)
	}
	m.recordEnd(v, turn, value)
}

// recordEnd writes run.end of the open run.
func (m *Machine) recordEnd(v messages.Verdict, turn int64, value string) {
	run := m.state.Open
	end := &messages.RunEnd{Decision: v.Decision, Detail: v.Detail, Turns: run.Turns}
	switch v.Decision {
	case messages.Halt:
		end.Reason = v.Code
	case messages.Done:
		end.Output = value
	}
	if len(run.Merged) > 0 {
		end.Next = m.state.Runs + 1
	}
	m.append(run.Run, turn, end, 0)
}

// noteOn lists the effects of a run that is taken back; "" if it had none.
func (m *Machine) noteOn(run *OpenRun) string {
	var b strings.Builder
	tell := func(d Deed) {
		how := string(d.State)
		switch d.State {
		case messages.ActionUnknown:
			how = "outcome unknown, it may have happened"
		case "":
			how = "still under way"
		}
		fmt.Fprintf(&b, "\n- %s %s: %s", d.Name, d.Args, how)
	}
	for _, d := range run.Done {
		tell(d)
	}
	for _, d := range m.state.Detached {
		if d.Run == run.Run && touches(d.Class) {
			tell(Deed{Name: d.Name, Args: clip.Short(d.Args, NoteArgs)})
		}
	}
	if run.MoreDone > 0 {
		fmt.Fprintf(&b, "\n- and %d more", run.MoreDone)
	}
	if b.Len() == 0 {
		return ""
	}
	return clip.Short("The user took back the request before this one. What had been done for it stands:"+b.String(), NoteBytes)
}

// windowClock sets the clock of the window again, or stops it when there is no window.
func (m *Machine) windowClock() {
	w := m.state.Window
	if w == nil {
		m.stopTimer(ClockDebounce)
		return
	}
	m.setTimer(ClockDebounce, time.Unix(0, w.Until).UTC())
}

// windowOver closes the window because no input came in time.
func (m *Machine) windowOver(in *Timer) {
	w := m.state.Window
	if !m.armed[ClockDebounce] || in.Gen != uint64(m.gens[ClockDebounce]) || w == nil {
		m.dropped++
		return
	}
	m.armed[ClockDebounce] = false
	m.append(w.Run, 0, &messages.Control{What: messages.ControlTimer, Name: ClockDebounce.String()}, 0)
	if m.flight == nil {
		m.nextRun()
	}
}

// inputOf returns the input of the run's turn: the one that began it, joined by those that
// came since.
func (m *Machine) inputOf(run *OpenRun) (text, userdata string) {
	in, err := m.join(run.parts())
	if err != nil && len(run.More) > 0 { // More was accepted as one input, but not together with that of a failed turn
		in, err = m.join(run.More)
	}
	if err != nil {
		return run.Text, run.Userdata
	}
	return in.Text, in.Userdata
}

func (m *Machine) userdata() string {
	_, userdata := m.inputOf(m.state.Open)
	return userdata
}

// join makes one input out of several.
func (m *Machine) join(parts []Part) (messages.Input, error) {
	if len(parts) == 1 {
		return messages.Input{Text: parts[0].Text, Userdata: parts[0].Userdata}, nil
	}
	ins := make([]messages.Input, len(parts))
	texts := make([]string, len(parts))
	for i, p := range parts {
		ins[i] = messages.Input{Text: p.Text, Userdata: p.Userdata}
		texts[i] = p.Text + p.Userdata // one of them is empty
	}
	if j, ok := m.cfg.Judge.(Joiner); ok {
		return j.JoinInputs(ins)
	}
	return messages.Input{Text: strings.Join(texts, "\n")}, nil
}

// Of the fold.

// accept puts an input where it waits: in the window, with a run, or in the queue.
func (s *State) accept(r *messages.Record, b *messages.Input) {
	part := Part{Seq: r.Seq, Text: b.Text, Userdata: b.Userdata}
	if w := s.Window; w != nil && b.Policy == messages.Debounce && r.Run == w.Run {
		w.More = append(w.More, part)
		w.Until = windowEnd(w.Opened, r.TS)
		return
	}
	s.closeWindow()
	w := Waiting{Run: r.Run, Seq: r.Seq, Text: b.Text, Userdata: b.Userdata, Budget: b.Budget}
	i := s.waiting(r.Run)
	switch {
	case s.Open != nil && s.Open.Run == r.Run:
		s.Open.Merged = append(s.Open.Merged, part)
	case i >= 0:
		s.Queue[i].Merged = append(s.Queue[i].Merged, part)
	case b.Policy == messages.Debounce:
		s.Window = &Window{Waiting: w, Opened: r.TS.UnixNano(), Until: windowEnd(r.TS.UnixNano(), r.TS)}
	case b.Policy.Supersedes():
		w.Policy = b.Policy
		first := 0
		if s.Open == nil { // after the run that is about to begin
			first = min(1, len(s.Queue))
		} else {
			s.Open.supersede(r, b.Policy)
		}
		s.first(w, first)
	default:
		s.Queue = append(s.Queue, w)
	}
}

// first inserts a run after the superseding ones and before all others.
func (s *State) first(w Waiting, at int) {
	for at < len(s.Queue) && s.Queue[at].Policy.Supersedes() {
		at++
	}
	s.Queue = slices.Insert(s.Queue, at, w)
}

func windowEnd(opened int64, now time.Time) int64 {
	return max(opened, min(now.Add(messages.DebounceQuiet).UnixNano(), opened+int64(messages.DebounceMost)))
}

// closeWindow appends the run of the window to the queue.
func (s *State) closeWindow() {
	if s.Window != nil {
		s.Queue = append(s.Queue, s.Window.Waiting)
		s.Window = nil
	}
}

// over ends the open run. Inputs that joined it and got no turn become the next run.
func (s *State) over(next int64) {
	run := s.Open
	s.Open = nil
	if run.Turns > 0 && !run.withdrawn() {
		s.Note = ""
	}
	if next == 0 || len(run.Merged) == 0 {
		return
	}
	p := run.Merged[0]
	s.first(Waiting{Run: next, Seq: p.Seq, Text: p.Text, Userdata: p.Userdata, More: run.Merged[1:len(run.Merged):len(run.Merged)]}, 0)
	s.Runs = max(s.Runs, next)
	for i := range s.Keys {
		if slices.ContainsFunc(run.Merged, func(p Part) bool { return p.Seq == s.Keys[i].Seq }) {
			s.Keys[i].Run = next
		}
	}
}

// supersede records that an input cancels the run.
func (run *OpenRun) supersede(r *messages.Record, policy messages.Policy) {
	if run.Cancel == nil {
		run.Cancel = &Cancelled{Seq: r.Seq, Superseded: r.Run}
	}
	if policy == messages.Rollback && run.Cancel.Withdrawn == 0 {
		run.Cancel.Withdrawn = r.Run
	}
}

// withdrawn reports whether the run was taken back by a rollback.
func (run *OpenRun) withdrawn() bool { return run.Cancel != nil && run.Cancel.Withdrawn > 0 }

// join makes the merged inputs the input of the turn that begins. If the turn before did
// not answer, its input stays in front of them.
func (run *OpenRun) join(unanswered bool) {
	if len(run.Merged) == 0 {
		return
	}
	if unanswered {
		run.More, run.Merged = append(run.More[:len(run.More):len(run.More)], run.Merged...), nil
		return
	}
	p := run.Merged[0]
	run.Text, run.Userdata, run.More = p.Text, p.Userdata, nil
	if len(run.Merged) > 1 {
		run.More = run.Merged[1:]
	}
	run.Merged = nil
}

// did remembers an action that had or may have had an effect.
func (run *OpenRun) did(a *OpenAction, state messages.ActionState) {
	if !a.Started || !touches(a.Class) || state != messages.ActionOK && state != messages.ActionUnknown {
		return
	}
	if len(run.Done) >= NoteEffects {
		run.MoreDone++
		return
	}
	run.Done = append(run.Done, Deed{Name: a.Name, Args: clip.Short(a.Args, NoteArgs), State: state})
}

// touches reports whether actions of a class change something outside.
func touches(c messages.Class) bool { return c != messages.Pure && c != messages.ReadOnly }

// Superseded begins the detail of a run that ended because another superseded it.
const Superseded = "superseded by run "

// why returns the detail of the run's end.
func (c *Cancelled) why() string {
	if c.Superseded > 0 {
		return Superseded + strconv.FormatInt(c.Superseded, 10)
	}
	return cancelledBy(c.By)
}

// parts returns all inputs of the run, in order.
func (w *Waiting) parts() []Part {
	return append([]Part{{Seq: w.Seq, Text: w.Text, Userdata: w.Userdata}}, w.More...)
}

// waits returns a run that has not begun, also one whose window is open; nil if there is
// none.
func (s *State) waits(run int64) *Waiting {
	if i := s.waiting(run); i >= 0 {
		return &s.Queue[i]
	}
	if s.Window != nil && s.Window.Run == run {
		return &s.Window.Waiting
	}
	return nil
}

// pending reports whether the input of record seq waits for the next turn of the open run.
func (s *State) pending(seq int64) bool {
	if s.Open == nil {
		return false
	}
	return slices.ContainsFunc(s.Open.Merged, func(p Part) bool { return p.Seq == seq })
}

// strange reports whether no fold of records could give this run.
func (s *State) strange(w *Waiting) bool {
	if w.Run < 1 || w.Run > s.Runs {
		return true
	}
	for _, p := range append(w.parts(), w.Merged...) {
		if p.Seq < 1 || p.Seq > s.Seq {
			return true
		}
	}
	return false
}

// seqs returns the positions of parts; nil for none.
func seqs(parts []Part) (all []int64) {
	for i := range parts {
		all = append(all, parts[i].Seq)
	}
	return all
}

// joinNotes appends a note to those before it and keeps the last NoteBytes.
func joinNotes(was, text string) string {
	if was != "" {
		text = was + "\n" + text
	}
	if n := len(text) - NoteBytes; n > 0 {
		text = strings.ToValidUTF8(text[n:], "")
	}
	return text
}
