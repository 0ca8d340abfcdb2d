package turn

import (
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
)

// The commands of the scripts. Those that bring an answer of a child take
// turn=N and nonce=stale to come from another turn than the one in flight.
//
//	session judge=text|program final=no …    a new session; see there
//	submit text= userdata= policy= key=
//	cancel run= by=
//	ack N | ack                              the journal has records up to N, or all
//	opened | switched                        model.request, model.fallback
//	text "…" | unit begin|text "…"|end       a push of text in a unit of its own, or by events
//	bytes N                                  a push of N bytes without events
//	fault ERR_… | lint LINT_…                the decoder complains
//	replyend finish= in= out= cost= err=     with source="…": the decoder found a program
//	reply "…"                                opened, text and replyend in one
//	source "…"                               opened and replyend with a program
//	emit "…" candidate | whisper "…"         the program speaks
//	call #1 name= class= args=               the program calls
//	judge #1 approve|deny|confirm reason= record     the gate answers
//	end #1 state=ok result= reason= code=    the action ends
//	action #1 …                              call, judge and ack in one
//	program code= reason= out= scr= token=… gas= magic_failed
//	verified token=…                         when program was told verify=later
//	turn token=…                             source and program in one
//	tick 30s                                 time passes, clocks ring
//	timer clock= gen=                        a clock that was not set
//	crash model|interpreter|action|#1 detail=
//	restart                                  the process dies with what is not acknowledged
//	lose N                                   as restart, the journal ends at N
//	restart bare                             and the open turn is not read from the journal
//	settle                                   with what the journal has of the open turn
//	approve #1 deny by= reason= digest= id=  an answer to the question about an action, or to id
//	expire                                   questions may have expired
//	talk fallback reason=X                   what became of the conversation with the provider
//	speak "…" | hush finish=                 the reply of a stream judge, and its end
//	feeds id:json id late                    values of feeds, or none; late: of what was asked for by name
//	due #1                                   the next attempt's time has come
//	repeat N …; … | quiet …                  $i counts; nothing is printed
//	show phase|queue|state|groups|dropped|blobs
var commands map[string]func(*script, *command)

func init() {
	commands = map[string]func(*script, *command){
		"session": (*script).session, "submit": (*script).submit, "cancel": (*script).cancel,
		"ack": (*script).acknowledge, "opened": (*script).opened, "switched": (*script).switched, "talk": (*script).talk,
		"text": (*script).text, "unit": (*script).unit, "bytes": (*script).bytes, "fault": (*script).fault, "lint": (*script).fault, "hollow": (*script).hollow,
		"replyend": (*script).replyEnd, "reply": (*script).reply, "source": (*script).source,
		"emit": (*script).emit, "whisper": (*script).emit, "call": (*script).call, "judge": (*script).judge,
		"end": (*script).end, "action": (*script).action, "program": (*script).program, "verified": (*script).verified,
		"turn": (*script).turn, "tick": (*script).tick, "timer": (*script).timer, "crash": (*script).crash,
		"restart": (*script).restart, "lose": (*script).restart, "settle": (*script).settle, "show": (*script).show,
		"approve": (*script).approve, "expire": (*script).expire, "speak": (*script).speak, "hush": (*script).silence, "stutter": (*script).stutter, "due": (*script).dueNow, "chunk": (*script).chunk, "feeds": (*script).feeds,
	}
}

// session: judge, final, durability, no_progress_n, max_turns, repairs (under the newest
// rendering), answer (a word that the final answer must have), exempt_final,
// recovery, on_panic, the clocks by their names, actions, tokens, cost; broken=
// for a dialect that breaks its contract. ack=manual leaves acknowledging to the
// script; internal has actions on the session; brief leaves publications of records, clocks and held effects out. cut: an
// action in mode sync ends the reply of a stream. extensions names those of cortex that are on;
// rollback: what rolls a group back, with run_unknown members of unknown outcome as well.
func (s *script) session(c *command) {
	rules := Rules{
		Dialect: "test", NoProgressN: int(c.num("no_progress_n", 0)), MaxTurns: c.num("max_turns", 0),
		ExemptFinal: c.flag("exempt_final"), Recovery: c.str("recovery", "resume"),
		OnPanic: c.str("on_panic", "halt"), Durability: Durability(c.str("durability", "checkpoint")),
		Limits: Limits{
			ProgramWall: c.dur("program_wall"), GenerationWall: c.dur("generation_wall"), TurnWall: c.dur("turn_wall"),
			RunWall: c.dur("run_wall"), Actions: c.num("actions", 0), Tokens: c.num("tokens", 0), CostMicroUSD: c.num("cost", 0),
		},
	}
	if rules.Repairs = c.num("repairs", 0); rules.Repairs > 0 {
		rules.Rendering = messages.Rendering
	}
	if word := c.str("answer", ""); word != "" {
		rules.Output = func(text string) (value, fault string) {
			if !strings.Contains(text, word) {
				return "", "/: it has no " + word
			}
			return quote(word), ""
		}
	}
	if ids := c.str("feeds", ""); ids != "" {
		rules.Feeds = strings.Split(ids, ",")
	}
	if names := c.str("env", ""); names != "" {
		rules.Environment = strings.Split(names, ",")
	}
	switch c.str("judge", "text") {
	case "program":
		broken := c.str("broken", "")
		memory := 0
		if broken == "memory" {
			memory = MaxStateBytes + 1
		}
		rules.Judge = programJudge{guardFinal: c.str("final", "yes") == "yes", bare: broken == "bare", noReason: broken == "reason", memory: memory}
	case "batch":
		rules.Judge, rules.Target, rules.Limits.Parallel = cogency.Dialect{}, targets, int(c.num("parallel", 0))
	case "stream":
		rules.Judge, rules.Target, rules.Limits.Parallel = s.cortex(c), targets, int(c.num("parallel", 0))
		on := "," + c.str("rollback", "error") + ","
		rules.Rollback = Rollback{
			Error: strings.Contains(on, ",error,"), Halt: strings.Contains(on, ",halt,"), Cancel: strings.Contains(on, ",cancel,"), Unknown: c.flag("run_unknown"),
		}
		if c.flag("internal") {
			rules.Target = ruled
		}
	default:
		rules.Judge = textJudge{}
	}
	s.auto, s.brief = c.str("ack", "auto") == "auto", c.flag("brief")
	s.r = newRig(s.t, rules, 1)
	s.handle = 0
	s.last, s.prev = Ident{}, Ident{Turn: 99, Nonce: "none"}
	s.hearing, s.decoder = Ident{}, nil
	s.dialect = s.cortex(c)
	if c.str("judge", "") == "batch" {
		s.dialect = cogency.Dialect{}
	}
	s.step(&Open{Name: "script"})
}

// cortex is the dialect of a stream judge.
func (*script) cortex(c *command) cortex.Dialect {
	x := cortex.Dialect{Cut: c.flag("cut")}
	if on := c.str("extensions", ""); on != "" {
		x.Extensions = cortex.ExtensionsOf(strings.Split(on, ","))
	}
	return x
}

// targets are what actions of a reply may name: a name's first letter says its class.
func targets(t messages.ActionType, name string) (messages.Class, bool) {
	if t != messages.TypeTool && t != messages.TypeAgent {
		return "", false
	}
	class, ok := map[byte]messages.Class{
		'r': messages.ReadOnly, 'p': messages.Pure, 'i': messages.Idempotent, 'k': messages.Keyed, 'w': messages.Effectful,
	}[name[0]]
	return class, ok
}

// speak pushes reply bytes through the dialect's decoder.
func (s *script) speak(c *command) {
	id := s.id(c)
	if s.hearing != id {
		s.hearing, s.decoder = id, s.dialect.NewDecoder(messages.TurnInfo{Turn: id.Turn, Templates: s.templates()})
		s.opened(c)
	}
	in := &Decoded{Ident: id, Bytes: []byte(strings.Join(c.words, " "))}
	s.decoder.Push(in.Bytes, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
	s.spoken = in
	s.step(in)
}

// templates are those that the open run knew when its turn began.
func (s *script) templates() []*messages.ActionTemplate {
	if run := s.r.m.State().Open; run != nil {
		return run.Templates
	}
	return nil
}

// stutter says the last words again, as a broken decoder might.
func (s *script) stutter(*command) { s.step(s.spoken) }

func (s *script) silence(c *command) {
	in := &ReplyEnd{Ident: s.id(c), Finish: messages.Finish(c.str("finish", "complete"))}
	s.decoder.End(in.Finish, func(ev messages.Event) { in.Events = append(in.Events, ownEvent(ev)) })
	s.step(in)
}

func ownEvent(ev messages.Event) messages.Event {
	ev.Text = append([]byte(nil), ev.Text...)
	return ev
}

// feeds: each word is id:json, or id alone for one that failed.
func (s *script) feeds(c *command) {
	in := &FeedsReady{Ident: s.id(c)}
	for _, w := range c.words {
		if w == "late" {
			continue
		}
		id, value, ok := strings.Cut(w, ":")
		f := messages.Feed{ID: id, Value: value}
		if !ok {
			f.Error = "failed"
		}
		in.Feeds = append(in.Feeds, f)
		if c.flag("late") {
			in.Names = append(in.Names, id)
		}
	}
	s.step(in)
}

func (s *script) dueNow(c *command) {
	s.step(&Due{Ident: s.id(c), ID: c.word(0), Attempt: c.num("attempt", 2)})
}

func (s *script) id(c *command) Ident {
	id, ok := s.r.m.Flight()
	if !ok {
		id = s.last
	}
	id.Turn = c.num("turn", id.Turn)
	if c.str("nonce", "") == "stale" {
		id.Nonce = s.prev.Nonce
	}
	return id
}

func (s *script) submit(c *command) {
	s.handle++
	s.step(&Submit{Handle: s.handle, Input: messages.Input{
		Text: c.str("text", ""), Userdata: c.str("userdata", ""), Policy: messages.Policy(c.str("policy", "enqueue")),
		Key: c.str("key", ""), User: "u",
	}})
}

func (s *script) cancel(c *command) {
	s.handle++
	s.step(&Cancel{Handle: s.handle, By: c.str("by", "user"), Run: c.num("run", 0)})
}

func (s *script) acknowledge(c *command) {
	seq := int64(len(s.r.log))
	if len(c.words) > 0 {
		n, err := strconv.ParseInt(c.word(0), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		seq = n
	}
	s.ack(seq)
}

func (s *script) opened(c *command) {
	s.step(&ModelOpened{Ident: s.id(c), Request: messages.ModelRequest{Provider: "scripted", Messages: 1}})
}

func (s *script) switched(c *command) {
	s.step(&ModelSwitched{Ident: s.id(c), Fallback: messages.ModelFallback{From: "a", To: "b", Reason: "overloaded"}})
}

func (s *script) talk(c *command) {
	s.step(&ModelTalk{Ident: s.id(c), Session: messages.ModelSession{What: c.word(0), Session: 1, Reason: c.str("reason", "")}})
}

func unitBegin(n int) messages.Event {
	return messages.Event{Kind: messages.EventUnitBegin, Unit: n, UnitKind: messages.ResponseUnit}
}

func unitText(n int, text string) messages.Event {
	return messages.Event{Kind: messages.EventUnitText, Unit: n, Text: []byte(text)}
}

func unitEnd(n int) messages.Event {
	return messages.Event{Kind: messages.EventUnitEnd, Unit: n, Final: true, Complete: true}
}

func (s *script) text(c *command) {
	text := c.word(0)
	s.step(&Decoded{Ident: s.id(c), Bytes: []byte(text), Events: []messages.Event{unitBegin(0), unitText(0, text), unitEnd(0)}})
}

func (s *script) unit(c *command) {
	in := &Decoded{Ident: s.id(c)}
	n := int(c.num("n", 0))
	switch c.word(0) {
	case "begin":
		in.Events = []messages.Event{unitBegin(n)}
	case "text":
		in.Bytes, in.Events = []byte(c.word(1)), []messages.Event{unitText(n, c.word(1))}
	case "end":
		in.Events = []messages.Event{unitEnd(n)}
	case "rethink":
		in.Bytes = []byte("</think>")
		in.Events = []messages.Event{{Kind: messages.EventUnitEnd, Unit: n, UnitKind: messages.ThoughtUnit, Complete: true}}
	}
	s.step(in)
}

func (s *script) bytes(c *command) {
	n, err := strconv.Atoi(c.word(0))
	if err != nil {
		s.t.Fatal(err)
	}
	s.step(&Decoded{Ident: s.id(c), Bytes: make([]byte, n)})
}

func (s *script) fault(c *command) {
	kind := messages.EventParseError
	if c.name == "lint" {
		kind = messages.EventLint
	}
	ev := messages.Event{Kind: kind}
	if code := c.word(0); code != "none" {
		ev.Fault = &messages.ParseError{Code: messages.Code(code)}
	}
	s.step(&Decoded{Ident: s.id(c), Events: []messages.Event{ev}})
}

// hollow is an action that a decoder tells of and does not give.
func (s *script) hollow(c *command) {
	s.step(&Decoded{Ident: s.id(c), Events: []messages.Event{{Kind: messages.EventAction}}})
}

func (s *script) replyEnd(c *command) {
	in := &ReplyEnd{
		Ident: s.id(c), Finish: messages.Finish(c.str("finish", "complete")), Err: c.str("err", ""),
		Usage: messages.Usage{Input: c.num("in", 0), Output: c.num("out", 0)}, CostMicroUSD: c.num("cost", 0),
	}
	if src := c.str("source", ""); src != "" {
		in.Events = []messages.Event{{Kind: messages.EventProgram, Text: []byte(src)}}
	}
	s.step(in)
}

func (s *script) reply(c *command) {
	s.opened(c)
	s.text(c)
	s.replyEnd(c)
}

func (s *script) source(c *command) {
	s.opened(c)
	if len(c.words) == 0 {
		c.words = []string{"command … endcommand"}
	}
	c.args["source"] = c.words[0]
	s.replyEnd(c)
}

func (s *script) emit(c *command) {
	s.step(&Emitted{Ident: s.id(c), Emissions: []Emission{
		{Whisper: c.name == "whisper", Target: "self", Text: c.word(0), Candidate: c.flag("candidate")},
	}})
}

func (s *script) call(c *command) {
	s.step(&ProgramCall{
		Ident: s.id(c), ID: c.word(0), Name: c.str("name", "x"), Args: c.str("args", "[]"),
		Class: messages.Class(c.str("class", "effectful")),
	})
}

func (s *script) judge(c *command) {
	in := &Judged{Ident: s.id(c), ID: c.word(0), Answer: messages.GateApprove, By: "policy", Reason: c.str("reason", ""), Record: c.flag("record")}
	if c.flag("deny") {
		in.Answer = messages.GateDeny
	}
	if c.flag("confirm") {
		in.Answer = messages.GateConfirm
	}
	s.step(in)
}

func (s *script) approve(c *command) {
	s.handle++
	in := &Approve{Handle: s.handle, Approval: c.str("id", ""), Answer: messages.GateApprove, By: c.str("by", "ann"), Reason: c.str("reason", "")}
	if c.flag("deny") {
		in.Answer = messages.GateDeny
	}
	if in.Approval == "" { // the latest question about the action
		for _, r := range s.r.log {
			if b, ok := r.Body.(*messages.ActionApproval); ok && b.ID == c.word(0) && b.Approval != "" {
				in.Approval, in.Digest = b.Approval, b.Digest
			}
		}
	}
	if c.str("digest", "") != "" {
		in.Digest = messages.Digest{1}
	}
	s.step(in)
}

func (s *script) expire(*command) { s.step(&Expire{}) }

func (s *script) end(c *command) {
	s.step(&ActionEnded{
		Ident: s.id(c), ID: c.word(0), State: messages.ActionState(c.str("state", "ok")),
		Result: c.str("result", ""), Reason: c.str("reason", ""), ErrorCode: c.num("code", 0), MS: 7,
		Failure: map[string]plan.Failure{"timeout": plan.TimedOut}[c.str("failure", "")], Attempt: c.num("attempt", 0),
	})
}

func (s *script) chunk(c *command) {
	s.step(&ActionChunk{Ident: s.id(c), ID: c.word(0), Text: strings.Repeat(c.word(1), int(c.num("times", 1))), Attempt: c.num("attempt", 0)})
}

func (s *script) action(c *command) {
	s.call(c)
	s.judge(c)
	s.ack(int64(len(s.r.log)))
	if c.str("state", "") != "" || c.str("result", "") != "" {
		s.end(c)
	}
}

// tokens reads "continue,done,ERR_TOKEN_TTL/EXPIRED".
func (s *script) tokens(c *command) []messages.TokenCheck {
	var checks []messages.TokenCheck
	for i, w := range strings.Split(c.str("token", ""), ",") {
		switch {
		case w == "":
		case strings.HasPrefix(w, "ERR_"):
			code, reason, _ := strings.Cut(w, "/")
			checks = append(checks, messages.TokenCheck{Line: i, Failure: messages.Code(code), Reason: reason})
		default:
			checks = append(checks, messages.TokenCheck{Line: i, Action: w, KID: "k1", JTI: "j" + strconv.Itoa(i)})
		}
	}
	return checks
}

func (s *script) program(c *command) {
	code := c.str("code", "")
	if code == "ok" {
		code = ""
	}
	id := s.id(c)
	checks := s.tokens(c)
	s.step(&ProgramEnd{
		Ident: id, Code: messages.Code(code), Reason: c.str("reason", ""), Detail: c.str("detail", ""),
		Out: []byte(c.str("out", "")), Scr: []byte(c.str("scr", "")), Gas: c.num("gas", 0), MagicFailed: c.flag("magic_failed"),
		Minted: []byte(c.str("minted", "")),
	})
	if c.str("verify", "now") == "now" && s.r.m.Phase() == Verifying {
		s.step(&Verified{Ident: id, Checks: checks})
	}
}

func (s *script) verified(c *command) {
	s.step(&Verified{Ident: s.id(c), Checks: s.tokens(c)})
}

func (s *script) turn(c *command) {
	s.source(&command{t: c.t, line: c.line, args: map[string]string{}, used: map[string]bool{}})
	s.program(c)
}

func (s *script) tick(c *command) {
	d, err := time.ParseDuration(c.word(0))
	if err != nil {
		s.t.Fatal(err)
	}
	until := s.r.now.Add(d)
	for {
		next := s.r.due(until)
		if next == nil {
			break
		}
		if next.At.After(s.r.now) {
			s.r.now = next.At
		}
		s.r.timers[next.Clock] = nil
		s.step(&Timer{Clock: next.Clock, Gen: next.Gen})
	}
	s.r.now = until
}

func (s *script) timer(c *command) {
	for id := range NumClocks + 1 {
		if id.String() == c.str("clock", "?") {
			s.step(&Timer{Clock: id, Gen: uint64(c.num("gen", 0))})
			return
		}
	}
}

func (s *script) crash(c *command) {
	in := &ChildDown{Ident: s.id(c), Child: Child(c.word(0)), Detail: c.str("detail", "boom")}
	if strings.HasPrefix(c.word(0), "#") {
		in.Child, in.ID = ChildAction, c.word(0)
	}
	s.step(in)
}

func (s *script) restart(c *command) {
	if c.name == "lose" {
		n, err := strconv.ParseInt(c.word(0), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		s.r.box = NewOutbox(n)
		s.r.shown = n
	}
	s.r.rules.Recovery = c.str("recovery", s.r.rules.Recovery)
	s.r.activate()
	s.printf("at %d unsettled %v", s.r.box.Acked(), s.r.m.Unsettled())
	if s.r.m.Unsettled() && !c.flag("unsettled") {
		in := s.r.recorded()
		if c.flag("bare") {
			in = &Settle{}
		}
		s.step(in)
	}
}

func (s *script) settle(*command) { s.step(s.r.recorded()) }

func (s *script) show(c *command) {
	for _, w := range c.words {
		switch st := s.r.m.State(); w {
		case "phase":
			s.printf("phase %s", s.r.m.Phase())
		case "queue":
			s.printf("queue %d", len(st.Queue))
		case "groups":
			s.printf("eager groups %d", s.r.groups)
			s.r.groups = 0
		case "dropped":
			s.printf("dropped so far %d", s.r.m.Dropped())
		case "state":
			s.printf("%s", encoded(s.t, st))
		default:
			s.t.Fatalf("show what? %s", w)
		}
	}
}
