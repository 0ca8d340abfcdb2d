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

// What a submit meets when a run is in flight (docs/spec/design.md §9). Everything follows from
// the input records: under interrupt and rollback one cancels the run in flight by
// itself, so that no restart can take the two apart. Beside them there are the window of
// debounce, which a timer's control record closes, and turn.begin and run.begin, which
// name the inputs they take up.
//
// A run in front of which another one supersedes is as good as in flight: it begins and
// ends at once, so that what became of it does not depend on who was quicker.

// Bounds of the note on a withdrawn run.
const (
	NoteEffects = 32      // effects that are told one by one
	NoteArgs    = 200     // bytes of an effect's arguments
	NoteBytes   = 4 << 10 // bytes of all notes a run is told
)

// Part is an input that joined others.
type Part struct {
	Seq      int64  `json:"seq"`
	Text     string `json:"text,omitzero"`
	Userdata string `json:"userdata,omitzero"`
}

// Window gathers inputs that come shortly after one another. It is open until Until,
// which every input moves.
type Window struct {
	Waiting
	Opened int64 `json:"opened"` // unix nanoseconds
	Until  int64 `json:"until"`  // unix nanoseconds
}

// Deed is an effect that an action of the run has had, or may have had.
type Deed struct {
	Name  string               `json:"name"`
	Args  string               `json:"args"`
	State messages.ActionState `json:"state"`
}

// Joiner is a Judge that makes one input out of several, in the order in which they
// came. It is pure. Without it texts are joined by LF.
type Joiner interface {
	JoinInputs(parts []messages.Input) (messages.Input, error)
}

// refusal says whether a submit is refused now, and which record says so: a refusal
// that a restart would forget must not be seen either.
func (m *Machine) refusal(in *messages.Input) (after int64, err error) {
	s := &m.state
	if s.Closed {
		return 0, messages.Errorf(messages.ErrDenied, "the session is closed")
	}
	// Whoever stands in line is there by an input, by a run that left it, or by a window
	// that gathers no more.
	waiting, latest := len(s.Queue), max(m.lastEnd, m.lastShut)
	for i := range s.Queue { // one that supersedes came late and stands in front
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
	case messages.Answer: // the facade has made another of it
		fallthrough
	default:
		return 0, &messages.Error{Code: messages.ErrInvalid, Field: "policy", Detail: "it is none of reject, enqueue, interrupt, rollback, merge, debounce"}
	}
	if waiting >= messages.QueueLimit {
		return latest, messages.Errorf(messages.ErrBusy, "%d runs are waiting already", waiting)
	}
	return 0, nil
}

// joins gives the run that an input under policy joins, 0 for a run of its own.
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

// refusesToJoin says whether an input is one too many for the run it would join, or
// makes no input together with the others.
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

// supersede cancels the run in flight, which the fold of an input says is superseded.
func (m *Machine) supersede(by string) {
	open := m.state.Open
	if open == nil || m.flight == nil { // to be settled, and settle sees it
		return
	}
	m.denyQuestions(by, open.Cancel.why())
	m.stop(messages.ErrCancelled, open.Cancel.why())
}

// denyQuestions denies what the turn in flight waits for.
func (m *Machine) denyQuestions(by, why string) {
	for _, a := range append([]OpenAction(nil), m.state.Open.Turn.Actions...) {
		if q := a.Question; q != nil && q.Answer == "" {
			m.persist(&messages.ActionApproval{
				Approval: q.ID, ID: a.ID, State: messages.GateDeny, By: by, Reason: why, Digest: a.AskDigest(),
			}, 0)
		}
	}
}

// passOver begins and ends the runs in front of one that supersedes them.
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

// closeRun records the end of the open run, and what a withdrawn one leaves behind.
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

// noteOn says what a run that is taken back has done; "" for nothing.
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

// windowClock keeps the clock of the window: set anew by every input, stopped when the
// window is closed.
func (m *Machine) windowClock() {
	w := m.state.Window
	if w == nil {
		m.stopTimer(ClockDebounce)
		return
	}
	m.setTimer(ClockDebounce, time.Unix(0, w.Until).UTC())
}

// windowOver closes the window because nothing more came.
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

// said is what the user said to the open run: what began it, or what joined it since.
func (m *Machine) said(run *OpenRun) (text, userdata string) {
	in, err := m.join(run.parts())
	if err != nil && len(run.More) > 0 { // they were accepted together, and not with what a failed turn had
		in, err = m.join(run.More)
	}
	if err != nil {
		return run.Text, run.Userdata
	}
	return in.Text, in.Userdata
}

func (m *Machine) userdata() string {
	_, userdata := m.said(m.state.Open)
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

// accept takes an input to where it waits.
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
		if s.Open == nil { // behind the run that is about to begin
			first = min(1, len(s.Queue))
		} else {
			s.Open.supersede(r, b.Policy)
		}
		s.first(w, first)
	default:
		s.Queue = append(s.Queue, w)
	}
}

// first puts a run behind those that supersede, and before all others.
func (s *State) first(w Waiting, at int) {
	for at < len(s.Queue) && s.Queue[at].Policy.Supersedes() {
		at++
	}
	s.Queue = slices.Insert(s.Queue, at, w)
}

func windowEnd(opened int64, now time.Time) int64 {
	return max(opened, min(now.Add(messages.DebounceQuiet).UnixNano(), opened+int64(messages.DebounceMost)))
}

// closeWindow makes what the window gathered the last run of the queue.
func (s *State) closeWindow() {
	if s.Window != nil {
		s.Queue = append(s.Queue, s.Window.Waiting)
		s.Window = nil
	}
}

// over ends the open run. What was to join it and met no turn is the next run.
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

// supersede notes that an input cancels the run.
func (run *OpenRun) supersede(r *messages.Record, policy messages.Policy) {
	if run.Cancel == nil {
		run.Cancel = &Cancelled{Seq: r.Seq, Superseded: r.Run}
	}
	if policy == messages.Rollback && run.Cancel.Withdrawn == 0 {
		run.Cancel.Withdrawn = r.Run
	}
}

func (run *OpenRun) withdrawn() bool { return run.Cancel != nil && run.Cancel.Withdrawn > 0 }

// join makes what was merged the input of the turn that begins, behind the one before
// where the turn that had it did not answer.
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

// did notes what an action has done, if it could do something.
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

// touches reports whether an action of class changes something outside.
func touches(c messages.Class) bool { return c != messages.Pure && c != messages.ReadOnly }

// Superseded begins the detail of a run that ended because another one goes before it.
const Superseded = "superseded by run "

// why is the end's explanation.
func (c *Cancelled) why() string {
	if c.Superseded > 0 {
		return Superseded + strconv.FormatInt(c.Superseded, 10)
	}
	return cancelledBy(c.By)
}

// parts are all inputs of the run, in order.
func (w *Waiting) parts() []Part {
	return append([]Part{{Seq: w.Seq, Text: w.Text, Userdata: w.Userdata}}, w.More...)
}

// waits finds a run that has not begun, also one whose window is open.
func (s *State) waits(run int64) *Waiting {
	if i := s.waiting(run); i >= 0 {
		return &s.Queue[i]
	}
	if s.Window != nil && s.Window.Run == run {
		return &s.Window.Waiting
	}
	return nil
}

// pending reports whether an input waits for the next turn of the run in flight.
func (s *State) pending(seq int64) bool {
	if s.Open == nil {
		return false
	}
	return slices.ContainsFunc(s.Open.Merged, func(p Part) bool { return p.Seq == seq })
}

// strange tells that no fold of records gives this run.
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

// seqs are the records of parts; nil for none.
func seqs(parts []Part) (all []int64) {
	for i := range parts {
		all = append(all, parts[i].Seq)
	}
	return all
}

func joinNotes(was, text string) string {
	if was != "" {
		text = was + "\n" + text
	}
	if n := len(text) - NoteBytes; n > 0 {
		text = strings.ToValidUTF8(text[n:], "")
	}
	return text
}
