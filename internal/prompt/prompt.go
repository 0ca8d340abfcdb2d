// Package prompt turns a session's journal into what a model is asked: records
// become a projection, a dialect renders the projection, and the rendered
// messages get a digest (docs/spec/design.md §§3, 5, 6).
//
// Invariants:
//   - pure: the same records and spec give the same messages and the same digest;
//   - for a dialect that renders a transcript, the messages of a run are a prefix
//     of those of the next one, up to this turn's input, as long as no run between
//     them was withdrawn and the tools stayed the same. Resume mode and the
//     providers' prompt caches live on that;
//   - nothing of a withdrawn run but its note, and of finished runs no thought and no
//     text between blocks gets into a projection, unless the dialect's model sees them
//     as they went.
//
// It does not know a dialect by name, cut to a window (parse.Window does), or fetch
// anything: bytes that lie outside the records come in with the spec.
package prompt

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/messages"
)

// Dialect is what assembly needs of a dialect.
type Dialect interface {
	// Render writes the history and this turn's input as messages.
	Render(messages.Projection) []messages.Message
	// Primer tells the model how to speak the dialect.
	Primer([]messages.ToolSpec) string
}

// Spec says which turn is to be asked for, and brings what is not in the records.
type Spec struct {
	SID  string
	Run  int64 // ordinal of the run; 0 is the last one begun
	Turn int64 // turn_index; 0 is a turn after all records
	Pass int   // 1-based turn within the run
	Last bool  // the run may take no turn after it
	// Rendering is the version that the prompt is written in (messages.Rendering); 0 is 1.
	Rendering int64
	// Carry is the trait of dialects whose history is the streams of the turn
	// before (messages.Traits.Carry): Out and Scr are taken over and the
	// transcript is left empty.
	Carry    bool
	Out, Scr []byte
	// Transcript is the trait of dialects whose finished runs go back as they went
	// (messages.Traits.Transcript); Reply is needed for it.
	Transcript bool
	Tools      []messages.ToolSpec
	Primer     string          // for Tools, where the caller keeps it
	Feeds      []messages.Feed // of the turn, in order
	FeedsLast  bool            // they end the prompt, so that the next one begins with what is in front of them
	// Reply gives the exact bytes of a reply, or of its side, by their digest; nil leaves
	// out what the model wrote in earlier turns of the run.
	Reply func(messages.Digest) []byte
	// Tell is that of a Historian. Without it turns whose calls came in the provider's own
	// form are told as text alone.
	Tell func(*messages.Reply) []messages.Message
	// Past is that of a Historian, by which Window.Bytes counts; may be nil.
	Past func(*messages.Item) []messages.Message
	// Window leaves out finished runs. Its Messages are not looked at: they are counted
	// when all is rendered (parse.Window).
	Window Window
}

// For is s for a dialect: how it tells of what is over.
func (s Spec) For(d Dialect) Spec {
	if h, ok := d.(Historian); ok {
		s.Tell, s.Past = h.Tell, h.Past
	}
	return s
}

// told tells of the turns that have more to them than their text, as a Log does.
func (s *Spec) told(replies []messages.Reply) []messages.Reply {
	for i := range replies {
		if r := &replies[i]; r.Told == nil && r.Side != "" && s.Tell != nil {
			r.Told = native.Attach(s.Tell(r), r)
		}
	}
	return replies
}

// text is a reply as text.
func (s *Spec) text(d messages.Digest) string { return string(s.Reply(d)) }

// Project builds the projection of a turn from the session's records, which come
// in order of their seq, with their bodies decoded; an erased body is passed over. Records from the turn.begin of spec.Turn on are ignored, so
// the projection of an old turn can be rebuilt from the whole journal.
//
// A conversation that came with an input (messages.Input.History) is in front of its run.
// Of a finished run the transcript has the user's text and its responses: before
// rendering 2 the final ones, and what there is where it ended without one. Its actions
// are with its user's text. A run given as USERDATA has that JSON as its user text. What joined a run later is a user's text of its own at that turn; of a
// withdrawn run there is the note on its effects, if it had any. Of the run itself the
// input, the failure of the turn before, and what its earlier turns said and did are
// taken.
func Project(records iter.Seq[*messages.Record], spec Spec) messages.Projection {
	runs, _ := gather(records, &spec, false)
	p, _ := project(runs, &spec)
	return p
}

// ProjectTail is Project for records that begin somewhere in the session. It tells of
// the runs that are whole among them and follow each other up to the last one; ok is
// false when not even spec.Run is. settled reports whether earlier records would change nothing,
// by spec.Window.
func ProjectTail(records iter.Seq[*messages.Record], spec Spec) (p messages.Projection, settled, ok bool) {
	runs, ok := gather(records, &spec, true)
	p, settled = project(runs, &spec)
	return p, settled && ok, ok
}

// project makes the projection of runs, without those that the window leaves out. settled
// is that of Window.since.
func project(runs []*run, spec *Spec) (p messages.Projection, settled bool) {
	p = messages.Projection{
		SID: spec.SID, Turn: spec.Turn, Pass: spec.Pass, Last: spec.Last, Rendering: spec.Rendering, Tools: spec.Tools, Primer: spec.Primer, Feeds: spec.Feeds, FeedsLast: spec.FeedsLast,
	}
	var pasts []past
	var ends []int // of their items in the history
	told := func(r *run) {
		of := past{withdrawn: r.withdrawn}
		if spec.Window.Bytes > 0 {
			begin := 0
			if len(ends) > 0 {
				begin = ends[len(ends)-1]
			}
			of.size = spec.size(p.History[begin:])
		}
		pasts, ends = append(pasts, of), append(ends, len(p.History))
	}
	for _, r := range runs {
		switch {
		case r.ordinal == spec.Run:
			if !spec.Carry {
				var first int
				if first, settled = spec.Window.since(len(pasts), func(i int) past { return pasts[i] }); first > 0 {
					p.History = p.History[ends[first-1]:]
				}
				p.History = r.before(p.History)
			}
			p.Text, p.Userdata = r.given()
			p.Parts = r.parts()
			p.LastError, p.Refused, p.Broken = r.lastError, r.refused, r.broken
			if !spec.Carry && spec.Reply != nil {
				text := &p.Text
				if p.Text == "" && p.Userdata != "" {
					text = &p.Userdata
				}
				p.Replies = spec.told(r.replies(spec.text, text, false))
			}
		case spec.Carry:
		case r.withdrawn:
			if r.note != "" {
				p.History = append(p.History, messages.Item{Role: messages.RoleUser, Text: r.note, Run: r.ordinal, Turn: r.turn})
			}
			told(r)
		case !r.ended:
		default:
			p.History = r.items(r.before(p.History), spec)
			told(r)
		}
	}
	if spec.Carry {
		p.Out, p.Scr = spec.Out, spec.Scr
	}
	return p, settled
}

// Reads reports whether a projection looks into records of a kind. Others may come with
// their bodies undecoded.
func Reads(k messages.Kind) bool {
	switch k {
	case messages.KindInput, messages.KindRunBegin, messages.KindRunEnd, messages.KindRunWithdrawn, messages.KindTurnBegin, messages.KindTurnDecided,
		messages.KindModelReply, messages.KindResponse, messages.KindParseError, messages.KindActionDeclared, messages.KindActionStarted,
		messages.KindActionEnded, messages.KindNote, messages.KindRetract,
		messages.KindBlockBegin, messages.KindBlockDecided, messages.KindBlockEnded:
		return true
	}
	return false
}

// run is what the records say of one run.
type run struct {
	ordinal   int64
	turn      int64 // its first
	inputs    []*messages.Input
	joined    []joined
	note      string
	responses []response
	final     bool // one of the responses is
	ended     bool
	withdrawn bool
	lastError string
	broken    string // that the reply of the turn before broke off
	refused   string // what is wrong with the answer of the turn before, where it was asked for again
	turns     []*turnOf
}

// joined is what came to a run with one of its turns.
type joined struct {
	turn int64
	text string
}

// given is what the run began with: one input as it is, several as one text.
func (r *run) given() (text, userdata string) {
	if len(r.inputs) == 1 {
		return r.inputs[0].Text, r.inputs[0].Userdata
	}
	return textOf(r.inputs), ""
}

// parts are the pictures and files of what the run began with.
func (r *run) parts() (all []messages.Part) {
	for _, in := range r.inputs {
		all = append(all, in.Parts...)
	}
	return all
}

// textOf joins texts by LF; USERDATA is the JSON.
func textOf(ins []*messages.Input) string {
	texts := make([]string, len(ins))
	for i, in := range ins {
		texts[i] = in.Text + in.Userdata // one of them is empty
	}
	return strings.Join(texts, "\n")
}

// turnOf is what the records say of one turn.
type turnOf struct {
	turn    int64
	reply   messages.Digest
	side    messages.Digest // of the reply
	finish  messages.Finish
	replied bool // there is a model.reply
	calls   []messages.Call
	byID    map[string]int                      // index into calls
	undoes  map[string]*messages.ActionDeclared // compensations by id
	errors  []messages.ParseError
	told    texts // what a Log's dialect made of it
	shown   bool  // a view has calls: they are copied before they change
	loops   map[string]*loop
	blocks  bool // there are control blocks among calls
}

// call finds a call of the turn that is about to change.
func (t *turnOf) call(id string) *messages.Call {
	i, ok := t.byID[id]
	if !ok {
		return nil
	}
	if t.shown {
		t.calls, t.shown = slices.Clone(t.calls), false
	}
	return &t.calls[i]
}

func (t *turnOf) add(rec *messages.Record) {
	t.told = texts{}
	switch b := rec.Body.(type) {
	case *messages.ModelReply:
		t.reply, t.side, t.finish, t.replied = b.Blob, b.Side, b.Finish, true
	case *messages.ParseFault:
		t.errors = append(t.errors, b.Complaint())
	case *messages.ActionDeclared:
		if b.Compensates != "" {
			break // rolled_back has its outcome
		}
		if t.byID == nil {
			t.byID = map[string]int{}
		}
		t.byID[b.ID] = len(t.calls)
		t.calls = append(t.calls, messages.Call{ID: b.ID, Name: b.Name, Args: b.Args, Class: b.Class, Mode: b.Mode, Block: b.Block, Of: b.Of, Unstreamed: b.Stream})
	case *messages.BlockBegin, *messages.BlockDecided, *messages.BlockEnded:
		t.block(b)
	case *messages.ActionStarted:
		if b.Args == "" {
			break
		}
		if c := t.call(b.ID); c != nil {
			c.Args = b.Args
		}
	case *messages.ActionEnded:
		if c := t.call(b.ID); c != nil {
			c.State, c.Reason, c.Value, c.MS = b.State, b.Reason, b.Result, b.MS
			c.Unstreamed = c.Unstreamed && b.State == messages.ActionOK && b.Streamed == 0
		}
	}
}

// rollback takes a compensation that is declared in turn t, or its end: that shows on the action
// that it undoes. One of an earlier turn, whose result was told, is told of once more.
func (r *run) rollback(t *turnOf, body messages.Body) {
	b, declared := body.(*messages.ActionDeclared)
	if declared && b.Compensates != "" {
		if t.undoes == nil {
			t.undoes = map[string]*messages.ActionDeclared{}
		}
		t.undoes[b.ID] = b
	}
	end, ended := body.(*messages.ActionEnded)
	if !ended || t.undoes[end.ID] == nil {
		return
	}
	b = t.undoes[end.ID]
	state, why := end.State, ""
	if state != messages.ActionOK && state != messages.ActionUnknown {
		state, why = messages.ActionFailed, end.Reason
	}
	c := t.call(b.Compensates)
	if b.CompensatesTurn > 0 {
		c = nil
		if of := r.at(b.CompensatesTurn); of != nil {
			if i, ok := of.byID[b.Compensates]; ok {
				was := of.calls[i]
				t.calls = append(slices.Clip(t.calls), messages.Call{ID: was.ID, Name: was.Name, Class: was.Class, State: was.State, Mode: was.Mode, Earlier: true})
				c = &t.calls[len(t.calls)-1]
			}
		}
	}
	if c != nil {
		c.RolledBack, c.RolledBackWhy = state, why
	}
}

// replies are the turns of the run that are over. What joined the run before it had any
// goes to its text. Of a turn that was cut short before its reply was on record there
// are, in a finished run, its responses.
func (r *run) replies(text func(messages.Digest) string, asked *string, finished bool) []messages.Reply {
	var out []messages.Reply
	rest := r.joined
	catchUp := func(turn int64) {
		for len(rest) > 0 && rest[0].turn <= turn {
			to := asked
			if len(out) > 0 {
				to = &out[len(out)-1].Joined
			}
			if *to != "" {
				*to += "\n"
			}
			*to += rest[0].text
			rest = rest[1:]
		}
	}
	defer func() { catchUp(math.MaxInt64) }()
	for _, t := range r.turns {
		catchUp(t.turn)
		reply := messages.Reply{Turn: t.turn, Finish: t.finish, Calls: t.reported(), Errors: t.errors, Told: t.told.messages}
		switch {
		case t.replied && !t.reply.IsZero():
			reply.Text = text(t.reply)
			if !t.side.IsZero() {
				reply.Side = text(t.side)
			}
		case !t.replied && !finished:
			continue
		case !t.replied:
			for _, u := range r.responses {
				if u.turn == t.turn {
					reply.Text += u.Text
				}
			}
			if reply.Text == "" && len(reply.Calls) == 0 {
				continue
			}
		}
		out = append(out, reply)
	}
	return out
}

// acts reports whether an action of the run has not ended.
func (r *run) acts() bool {
	return slices.ContainsFunc(r.turns, func(t *turnOf) bool {
		return slices.ContainsFunc(t.calls, func(c messages.Call) bool { return c.State == "" })
	})
}

// before appends the conversation that callers sent with the run's inputs.
func (r *run) before(to []messages.Item) []messages.Item {
	for _, in := range r.inputs {
		for _, s := range in.History {
			to = append(to, messages.Item{Role: s.Role, Text: s.Text, Run: r.ordinal, Turn: r.turn})
		}
	}
	return to
}

// calls are all actions of the run, in order.
func (r *run) calls() (all []messages.Call) {
	for _, t := range r.turns {
		for _, c := range t.inOrder() {
			if c.Control == "" && c.Reason != messages.BranchNotTaken {
				all = append(all, c)
			}
		}
	}
	return all
}

type response struct {
	turn int64
	*messages.UnitText
}

func (r *run) items(to []messages.Item, spec *Spec) []messages.Item {
	asked := messages.Item{Role: messages.RoleUser, Text: textOf(r.inputs), Parts: r.parts(), Run: r.ordinal, Turn: r.turn}
	if spec.Transcript && spec.Reply != nil {
		if len(r.inputs) == 0 { // erased: answers without their question say nothing
			return to
		}
		asked.Replies = spec.told(r.replies(spec.text, &asked.Text, true))
		return append(to, asked)
	}
	if len(r.inputs) > 0 {
		asked.Calls = r.calls()
		to = append(to, asked)
	}
	rest := r.joined
	catchUp := func(turn int64) {
		for ; len(rest) > 0 && rest[0].turn <= turn; rest = rest[1:] {
			to = append(to, messages.Item{Role: messages.RoleUser, Text: rest[0].text, Run: r.ordinal, Turn: rest[0].turn})
		}
	}
	for _, u := range r.responses {
		catchUp(u.turn)
		if (u.Final || !r.final || spec.Rendering >= 2) && u.Text != "" {
			to = append(to, messages.Item{Role: messages.RoleAssistant, Text: u.Text, Run: r.ordinal, Turn: u.turn})
		}
	}
	catchUp(math.MaxInt64)
	return to
}

// gather groups the records by run, in order, and resolves spec.Run. Inputs are kept only until
// their run begins, because few wait in a journal. In a tail, a run whose input is before the
// tail drops all earlier runs too; whole reports whether spec.Run was kept.
func gather(records iter.Seq[*messages.Record], spec *Spec, tail bool) (runs []*run, whole bool) {
	var (
		byRun   = map[int64]*run{}
		waiting = map[int64]*messages.Input{} // by seq
		first   = int64(1)                    // of the records
	)
	for rec := range records {
		if tail {
			first, tail = rec.Seq, false
		}
		if rec.Turn == spec.Turn && spec.Turn != 0 {
			if b, begins := rec.Body.(*messages.TurnBegin); begins {
				if r := byRun[rec.Run]; r != nil {
					r.join(rec.Turn, b, waiting)
				}
				break
			}
		}
		switch b := rec.Body.(type) {
		case nil:
			// An erased body says nothing any more.
		case *messages.Input:
			waiting[rec.Seq] = heard(b, spec.Rendering)
		case *messages.RunBegin:
			if slices.Min(append([]int64{b.Input}, b.Merged...)) < first {
				runs = nil
				clear(byRun)
				continue
			}
			r := &run{ordinal: rec.Run, inputs: take(waiting, append([]int64{b.Input}, b.Merged...))}
			runs = append(runs, r)
			byRun[rec.Run] = r
		default:
			if r := byRun[rec.Run]; r != nil {
				if begin, ok := b.(*messages.TurnBegin); ok {
					r.join(rec.Turn, begin, waiting)
				}
				r.add(rec)
			}
		}
	}
	if spec.Run == 0 && len(runs) > 0 {
		spec.Run = runs[len(runs)-1].ordinal
	}
	return runs, byRun[spec.Run] != nil
}

// take returns the inputs of records, as far as they are there.
func take(waiting map[int64]*messages.Input, seqs []int64) (ins []*messages.Input) {
	for _, seq := range seqs {
		if in := waiting[seq]; in != nil {
			ins = append(ins, in)
			delete(waiting, seq)
		}
	}
	return ins
}

func (r *run) join(turn int64, b *messages.TurnBegin, waiting map[int64]*messages.Input) {
	if ins := take(waiting, b.Merged); len(ins) > 0 {
		r.joined = append(r.joined, joined{turn, textOf(ins)})
	}
}

// at finds a turn of the run.
func (r *run) at(turn int64) *turnOf {
	for i := len(r.turns) - 1; i >= 0; i-- {
		if r.turns[i].turn == turn {
			return r.turns[i]
		}
	}
	return nil
}

func (r *run) add(rec *messages.Record) {
	if t := r.at(rec.Turn); t != nil { // a detached action may end turns later
		t.add(rec)
		r.rollback(t, rec.Body)
	}
	switch b := rec.Body.(type) {
	case *messages.TurnBegin:
		if r.turn == 0 {
			r.turn = rec.Turn
		}
		r.turns = append(r.turns, &turnOf{turn: rec.Turn})
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit {
			r.responses = append(r.responses, response{rec.Turn, b})
			r.final = r.final || b.Final
		}
	case *messages.Retract:
		r.retract(b)
	case *messages.TurnDecided:
		r.lastError, r.refused, r.broken = failure(b), "", ""
		switch {
		case b.Repair && b.Reason == messages.ErrOutput:
			r.lastError, r.refused = "", b.Detail
		case b.Repair && b.Reason == messages.ErrModel:
			r.lastError, r.broken = "", r.brokenOff(rec.Turn)
		}
	case *messages.RunEnd:
		r.ended = true
	case *messages.RunWithdrawn:
		r.withdrawn = true
	case *messages.Note:
		r.note = b.Text
	}
}

// retract takes back a text that another one replaced.
func (r *run) retract(b *messages.Retract) {
	for i := range r.responses {
		u := r.responses[i].UnitText
		if u.Unit == b.Unit {
			cut := *u
			cut.Text = cut.Text[:min(max(int(b.Off), 0), len(cut.Text))]
			r.responses[i].UnitText = &cut
		}
	}
}

// failure says in one line why a turn did not go through, or nothing.
func failure(d *messages.TurnDecided) string {
	if d.Decision != messages.Halt {
		return ""
	}
	s := string(d.Reason)
	if d.Detail != "" {
		s += ": " + d.Detail
	}
	return s
}

// Assemble renders p and puts the dialect's primer in front as the system message
// unless the dialect begins with one itself, or has none. The profile of the user ends what
// the system says (docs/spec/cogency.md §10). Feeds stand in front of the conversation, behind what
// the system says, or end the prompt (FeedsLast): they are data, and change with every turn.
func Assemble(d Dialect, p messages.Projection) []messages.Message {
	return assemble(d, p, nil, d.Render(p))
}

// assemble is Assemble of what was rendered. past stands in front of that; only a
// Historian has any, and renders no system message.
func assemble(d Dialect, p messages.Projection, past, rendered []messages.Message) []messages.Message {
	rendered = askAgain(&p, rendered)
	own := len(rendered) > 0 && rendered[0].Role == messages.RoleSystem
	primer := ""
	if !own {
		if primer = p.Primer; primer == "" {
			primer = d.Primer(p.Tools)
		}
	}
	told, rest := instructions(p.Feeds)
	known, rest := profile(rest)
	fed, any := feeds(rest, p.Rendering)
	if primer == "" && !any && told == "" && known == "" && len(past) == 0 {
		return rendered
	}
	out := make([]messages.Message, 0, 3+len(past)+len(rendered))
	if primer != "" {
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: primer})
	}
	for len(rendered) > 0 && rendered[0].Role == messages.RoleSystem {
		out = append(out, rendered[0])
		rendered = rendered[1:]
	}
	switch {
	case told == "":
	case len(out) == 0:
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: told})
	default:
		out[0].Text = told + "\n\n" + out[0].Text
	}
	switch {
	case known == "":
	case len(out) == 0:
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: known})
	default:
		last := &out[len(out)-1]
		last.Text = strings.TrimRight(last.Text, "\n") + "\n\n" + known
	}
	if any && !p.FeedsLast {
		out = append(out, fed)
	}
	if out = append(append(out, past...), rendered...); any && p.FeedsLast {
		out = append(out, fed)
	}
	return out
}

// Passing returns how many of the last messages hold for this prompt alone: the feeds that end
// it, with what the system says in front of them. The next prompt does not begin with them.
func Passing(ms []messages.Message) int {
	last := len(ms) - 1
	if last < 0 || ms[last].Holds != messages.HoldsFeeds {
		return 0
	}
	at := last
	for at > 0 && ms[at-1].Role == messages.RoleSystem {
		at--
	}
	if !slices.ContainsFunc(ms[:at], func(m messages.Message) bool { return m.Role == messages.RoleUser && m.Holds != messages.HoldsFeeds }) {
		return 0 // nothing would be asked without them
	}
	return len(ms) - at
}
