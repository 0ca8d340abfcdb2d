package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// What an attempt at an action of type agent does next, whatever happens to it.
func TestDelegation(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"as it should be":                      {"begin accepted", "submit await"},
		"its time was up before it began":      {"begin-over", "cease"},
		"a repetition asks all the same":       {"begin-again-over accepted over", "submit await cancel"},
		"the child breaks twice":               {"begin broke broke accepted", "submit submit submit await"},
		"the child breaks three times":         {"begin broke broke broke", "submit submit submit lose"},
		"it is stopped once":                   {"begin accepted over over", "submit await cancel await"},
		"the cancel is not answered":           {"begin accepted over broke", "submit await cancel lose"},
		"a run that was accepted breaks":       {"begin accepted broke", "submit await lose"},
		"it cannot be followed":                {"begin accepted unheard unheard unheard", "submit await await await lose"},
		"it cannot be followed when it stops":  {"begin accepted unheard unheard over unheard unheard unheard", "submit await await await cancel await await lose"},
		"submits are counted, not other tries": {"begin broke accepted unheard unheard", "submit submit await await await"},
	} {
		t.Run(name, func(t *testing.T) {
			var d Delegation
			var got []string
			for _, what := range strings.Fields(c.script) {
				var e Errand
				switch what {
				case "begin":
					e = d.Begin(1, false)
				case "begin-over":
					e = d.Begin(1, true)
				case "begin-again-over":
					e = d.Begin(2, true)
				case "accepted":
					e = d.Accepted()
				case "broke":
					e = d.Broke()
				case "unheard":
					e = d.Unheard()
				case "over":
					e = d.Over()
				}
				got = append(got, e.String())
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s, want %s", s, c.want)
			}
			if want := strings.Contains(c.want, "cancel"); d.Stopping() != want {
				t.Errorf("stopping is %v, want %v", d.Stopping(), want)
			}
		})
	}
}

// What the end of a child's run is for its action.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		decision messages.Decision
		unknown  int
		stopped  bool
		want     Outcome
	}{
		{messages.Done, 0, false, Answered},
		{messages.Done, 2, false, Answered},
		{messages.Done, 0, true, Answered},
		{messages.Halt, 0, false, Refused},
		{messages.Abort, 0, false, Refused},
		{messages.Halt, 1, false, Unknown},
		{messages.Halt, 1, true, Unknown},
		{messages.Halt, 0, true, Ceased},
		{messages.Abort, 0, true, Ceased},
	} {
		var d Delegation
		if d.Begin(1, false); c.stopped {
			d.Over()
		}
		if got := d.Ended(c.decision, c.unknown); got != c.want {
			t.Errorf("%s, %d unknown, stopped %v: %s, want %s", c.decision, c.unknown, c.stopped, got, c.want)
		}
	}
}

// An attempt shows what its child says, unless too many before it were cut off.
func TestShowsWhole(t *testing.T) {
	for _, c := range []struct {
		attempt, retries int64
		want             bool
	}{{1, 0, false}, {turn.MaxTakenBack + 1, 0, false}, {turn.MaxTakenBack + 2, 0, true}, {turn.MaxTakenBack + 2, 1, false}, {turn.MaxTakenBack + 3, 1, true}} {
		if got := ShowsWhole(c.attempt, c.retries); got != c.want {
			t.Errorf("attempt %d after %d failures: %v", c.attempt, c.retries, got)
		}
	}
}

// A child's name and link follow from the attempt alone.
func TestChild(t *testing.T) {
	key := messages.SessionKey{Tenant: "t", User: "u", ID: "s"}
	top := &Parent{Key: key, SID: key.SID(), Inc: "i"}
	child, link, refusal := top.Child(3, "a", "scout", "k", 0)
	if want := (messages.ParentLink{SID: key.SID(), Incarnation: "i", Turn: 3, Action: "a", Depth: 1}); refusal != Granted || link != want {
		t.Errorf("%v, linked %+v, want %+v", refusal, link, want)
	}
	if again, _, _ := top.Child(3, "a", "scout", "k", 0); again != child {
		t.Errorf("a repetition has the child %v, the attempt %v", again, child)
	}
	if next, _, _ := top.Child(3, "a", "scout", "k", 1); next == child {
		t.Error("the attempt after a failure has the child of the one before")
	}
	for depth, want := range map[int64]Refusal{1: Granted, MaxAgentDepth - 1: Granted, MaxAgentDepth: TooDeep} {
		p := &Parent{Key: key, SID: key.SID(), Inc: "i", Link: &messages.ParentLink{Depth: depth}}
		if _, link, got := p.Child(1, "a", "scout", "k", 0); got != want || link.Depth != depth+1 {
			t.Errorf("below depth %d: %v at %d, want %v", depth, got, link.Depth, want)
		}
	}
	long := &Parent{Key: messages.SessionKey{Tenant: strings.Repeat("t", 100), User: strings.Repeat("u", 100), ID: "s"}}
	if _, _, got := long.Child(1, "a", "scout", "k", 0); got != Nameless {
		t.Errorf("a name without room: %v", got)
	}
}

// Which sessions work for an action that has ended.
func TestOrphaned(t *testing.T) {
	state := func(change func(*turn.State)) *turn.State {
		s := &turn.State{}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		state *turn.State
		want  bool
	}{
		"nothing open":    {state(func(*turn.State) {}), false},
		"its run is open": {state(func(s *turn.State) { s.Open = &turn.OpenRun{Waiting: turn.Waiting{Run: ChildRun}} }), true},
		"its run is cancelled": {state(func(s *turn.State) {
			s.Open = &turn.OpenRun{Waiting: turn.Waiting{Run: ChildRun}, Cancel: &turn.Cancelled{}}
		}), false},
		"a later run is open": {state(func(s *turn.State) { s.Open = &turn.OpenRun{Waiting: turn.Waiting{Run: 2}} }), false},
		"its run waits":       {state(func(s *turn.State) { s.Queue = []turn.Waiting{{Run: 2}, {Run: ChildRun}} }), true},
		"another run waits":   {state(func(s *turn.State) { s.Queue = []turn.Waiting{{Run: 2}} }), false},
	} {
		if got := HasChildRun(c.state); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	parent := state(func(s *turn.State) {
		s.Open = &turn.OpenRun{Waiting: turn.Waiting{Run: 1}, Turn: &turn.OpenTurn{Index: 4, Actions: []turn.OpenAction{{ID: "a", Started: true}, {ID: "b"}}}}
	})
	for link, want := range map[messages.ParentLink]bool{
		{Turn: 4, Action: "a"}:        false,
		{Turn: 4, Action: "a/step"}:   false,
		{Turn: 4, Action: "b"}:        true,
		{Turn: 4, Action: "c"}:        true,
		{Turn: 3, Action: "a"}:        true,
		{Turn: 4, Action: "aa"}:       true,
		{Turn: 4, Action: "other/a"}:  true,
		{Turn: 4, Action: "other/a/"}: true,
	} {
		if got := Orphaned(&link, parent); got != want {
			t.Errorf("%+v: %v, want %v", link, got, want)
		}
	}
	link := &messages.ParentLink{SID: "t:u:s", Action: "a"}
	if by := Unawaited(link); by != "action a of t:u:s, which is not waited for any more" || !IsUnawaited(by) || IsUnawaited("action a of t:u:s") {
		t.Errorf("cancelled by %q", by)
	}
}

// Which children an effect ends.
func TestEnds(t *testing.T) {
	e := &turn.EndChildren{Turn: 4, ID: "a"}
	of := messages.ParentLink{SID: "s", Incarnation: "i", Turn: 4, Action: "a"}
	for name, c := range map[string]struct {
		change func(*messages.ParentLink)
		want   bool
	}{
		"the action":          {func(*messages.ParentLink) {}, true},
		"a step of it":        {func(l *messages.ParentLink) { l.Action = "a/b" }, true},
		"another action":      {func(l *messages.ParentLink) { l.Action = "ab" }, false},
		"another turn":        {func(l *messages.ParentLink) { l.Turn = 5 }, false},
		"another session":     {func(l *messages.ParentLink) { l.SID = "z" }, false},
		"another incarnation": {func(l *messages.ParentLink) { l.Incarnation = "z" }, false},
	} {
		link := of
		c.change(&link)
		if got := Ends(e, "s", "i", &link); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is read back of a session before it goes on.
func TestRecover(t *testing.T) {
	open := &turn.OpenRun{Waiting: turn.Waiting{Run: 2, Seq: 5}}
	inTurn := &turn.OpenRun{Waiting: turn.Waiting{Run: 2, Seq: 5}, Turn: &turn.OpenTurn{Index: 3, Seq: 9}}
	for name, c := range map[string]struct {
		state   turn.State
		streams bool
		want    Recovery
	}{
		"nothing":                     {turn.State{}, true, Recovery{}},
		"an input waits":              {turn.State{Queue: []turn.Waiting{{}}}, true, Recovery{Settle: true}},
		"a window":                    {turn.State{Window: &turn.Window{}}, true, Recovery{Settle: true}},
		"a run between turns":         {turn.State{Open: open}, false, Recovery{Settle: true}},
		"a run between turns, a plan": {turn.State{Open: open}, true, Recovery{Settle: true, Run: 5}},
		"a turn":                      {turn.State{Open: inTurn}, false, Recovery{Settle: true, Turn: 9}},
		"a turn, a plan":              {turn.State{Open: inTurn}, true, Recovery{Settle: true, Run: 5, Turn: 9}},
	} {
		if got := Recover(&c.state, c.streams); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestReply(t *testing.T) {
	blob := messages.Digest{7}
	chunk := func(turnIndex, off int64, text string) *messages.Record {
		return &messages.Record{Turn: turnIndex, Body: &messages.ModelChunk{Off: off, Bytes: []byte(text)}}
	}
	reply := &messages.Record{Turn: 3, Body: &messages.ModelReply{Blob: blob, Finish: messages.FinishLength}}
	for name, c := range map[string]struct {
		recs   []*messages.Record
		chunks string
		blob   messages.Digest
		finish messages.Finish
	}{
		"nothing":                    {},
		"chunks":                     {[]*messages.Record{chunk(3, 0, "ab"), chunk(3, 2, "c")}, "abc", messages.Digest{}, ""},
		"of another turn":            {[]*messages.Record{chunk(2, 0, "x"), chunk(3, 0, "ab"), chunk(4, 2, "y")}, "ab", messages.Digest{}, ""},
		"a chunk that says it again": {[]*messages.Record{chunk(3, 0, "ab"), chunk(3, 0, "ab"), chunk(3, 2, "c")}, "abc", messages.Digest{}, ""},
		"an end":                     {[]*messages.Record{chunk(3, 0, "ab"), reply}, "", blob, messages.FinishLength},
		"the end of another turn":    {[]*messages.Record{chunk(3, 0, "ab"), {Turn: 2, Body: reply.Body}}, "ab", messages.Digest{}, ""},
	} {
		chunks, got, finish := Reply(c.recs, 3)
		if string(chunks) != c.chunks || got != c.blob || finish != c.finish {
			t.Errorf("%s: %q %v %q", name, chunks, got, finish)
		}
	}
}

// sayer is a decoder that says what it is told, from a buffer of its own.
type sayer struct{ buf []byte }

func (s *sayer) Push(p []byte, emit func(messages.Event)) {
	s.buf = append(s.buf[:0], p...)
	emit(messages.Event{Text: s.buf})
	s.buf[0] = '?'
}

func (*sayer) End(finish messages.Finish, emit func(messages.Event)) {
	emit(messages.Event{Text: []byte(finish)})
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		reply  string
		finish messages.Finish
		want   []string
	}{
		{"", "", nil},
		{"ab", "", []string{"ab"}},
		{"", messages.FinishError, []string{string(messages.FinishError)}},
		{"ab", messages.FinishLength, []string{"ab", string(messages.FinishLength)}},
	} {
		var got []string
		for _, ev := range Events(&sayer{}, []byte(c.reply), c.finish) {
			got = append(got, string(ev.Text))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, want %q", c.reply, c.finish, got, c.want)
		}
	}
}

func TestFeedValues(t *testing.T) {
	a, b := messages.Digest{1}, messages.Digest{2}
	recs := []*messages.Record{
		{Body: &messages.Note{}},
		{Body: &messages.FeedInjected{ID: "b", Digest: b}},
		{Body: &messages.FeedInjected{ID: "x", Error: "timeout"}},
		{Body: &messages.FeedInjected{ID: "a", Digest: a}},
	}
	if got := FeedValues(recs); !slices.Equal(got, []messages.Digest{b, a}) {
		t.Error(got)
	}
}

// Every value of the driver has a name.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []fmt.Stringer{Idle, Step, Send, Nothing, Perform, BeginTurn, Submit, Await, Cancel, Cease, Lose, Answered, Unknown, Ceased, Refused, InTime, TimeUp, Cancelled} {
		if s := v.String(); s == "" || seen[s] {
			t.Errorf("%T %d is %q", v, v, s)
		} else {
			seen[s] = true
		}
	}
}
