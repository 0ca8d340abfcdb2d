package turn

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// fullState has every field set.
func fullState() State {
	d := messages.Digest{1}
	failed := Failed{Run: 1, Turn: 2, Why: "w", Reply: d, Shown: "s\n", More: 1, Calls: []FailedCall{{
		Name: "n", Args: "[]", Class: messages.Keyed, State: messages.ActionOK, Reason: "r", Result: "1",
	}}}
	return State{
		Seq: 40, Turn: 7, Runs: 4, Requests: 9, Closed: true, Signed: SignedRuns, OutDigest: d, ScrDigest: d,
		Queue:     []Waiting{{Run: 4, Seq: 39, Text: "<é>", Userdata: `{"subject":"s","fields":{}}`}},
		Keys:      []KeyUse{{Key: "k", Run: 3, Seq: 30}},
		Variables: Variables{"v": "[1]"}, Relics: map[string]map[string]string{"r": {"k": "1"}}, Scoped: 3, RelicUntil: map[string]map[string]int64{"r": {"k": 9}},
		Note: "n", Failed: []Failed{failed},
		Keep:      []byte{1},
		Zone:      "UTC+2",
		About:     &messages.SessionDescribed{By: "ann", Tags: []string{"k=v"}, Title: "t"},
		Window:    &Window{Waiting: Waiting{Run: 2, Seq: 35, Text: "w", Policy: messages.Interrupt, Userdata: "u", Budget: &messages.Budget{Actions: 1, CostUSD: 2, Tokens: 3}, More: []Part{{Seq: 36}}, Merged: []Part{{Seq: 37}}}, Opened: 3, Until: 4},
		Feeds:     SessionFeeds{Edits: []FeedEdit{{ID: "f", Added: true, Gone: true, Disabled: true, Spec: "{}", Since: 3}}, Cleared: 2, Changed: 4},
		Questions: []ClosedQuestion{{ID: "q", Answer: messages.GateDeny}},
		Detached: []Detached{{Run: 2, Turn: 5, OpenAction: OpenAction{
			ID: "f", Name: "y", Args: "{}", Class: messages.Pure, Started: true, Type: messages.TypeRelic, Detached: true, Attempt: 1,
			Question: &Question{ID: "p", Asked: 1, Expires: 2, Answer: messages.GateApprove, Reason: "r"},
		}}},
		Open: &OpenRun{
			Away:         9,
			Retract:      []string{"7.0"},
			Templates:    []*messages.ActionTemplate{{Name: "f", Definition: "{}"}},
			Instructions: d, Completed: true, OutBefore: d, ScrBefore: d, FailedBefore: []Failed{failed}, Repairs: 1, Asked: 1, Fell: true, Done: []Deed{{Name: "n", Args: "[]", State: messages.ActionOK}}, MoreDone: 1,
			Waiting: Waiting{
				Run: 3, Seq: 30, Text: "t", Budget: &messages.Budget{Actions: 1, CostUSD: 2, Tokens: 3}, Policy: messages.Rollback, More: []Part{{Seq: 31, Text: "m"}}, Merged: []Part{{Seq: 32, Userdata: "{}"}},
			}, Began: 1, Turns: 2, Lost: 1, Actions: 3, Tokens: 4, Cost: 5, Settlements: 1,
			State: []byte{0, 255}, LastError: "e", Progress: Progress{Digest: d, N: 2},
			Loop:   Loop{Seen: []Seen{{Call: d, N: 2}}, Last: []messages.Digest{d}},
			Panics: map[string]int64{"b": 1, "a": 2}, Cancel: &Cancelled{Seq: 38, By: "u", Superseded: 4, Withdrawn: 4},
			Groups: []Group{{ID: "g", Cause: "asked", Done: true, Members: []Member{{ID: "a", Turn: 6, Key: "k", Undo: "{}", State: messages.ActionOK, End: 35, Undoing: true}}}},
			Ending: &Ending{Decision: messages.Halt, Reason: messages.ErrCrash, Detail: "x"},
			Turn: &OpenTurn{
				Index: 7, Seq: 33, Nonce: "n", Began: 2, Last: 5, Away: 3, Replied: true, Restores: 2, Unwinds: 1, Suspended: true, Until: 8,
				Breach: &Breach{Code: messages.ErrTimeout, Detail: "turn_wall"},
				Actions: []OpenAction{{
					ID: "#1", Name: "x", Args: "[]", Class: messages.Keyed, Started: true, Attempt: 2, Type: messages.TypeRelic, Detached: true, Retries: 1,
					Reserved: &messages.Budget{Actions: 1, CostUSD: 2, Tokens: 3}, Used: &messages.Budget{Actions: 1, CostUSD: 1, Tokens: 1},
					Question: &Question{ID: "q", Asked: 6, Expires: 8, Answer: messages.GateApprove, Reason: "r"},
				}},
				Calls: []ActionShape{{Call: d, Counts: true}}, Blocks: []string{"c"}, BlockKinds: map[string]string{"c": "if"}, Rendering: 2, Did: failed,
				Was:       map[string]*string{"v": nil, "w": new(string)},
				Templates: []*messages.ActionTemplate{{Name: "g", Definition: "{}"}},
			},
		},
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, s := range []State{{}, fullState()} {
		b := encoded(t, &s)
		got, err := DecodeState(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("decoded %+v\nwant %+v", got, s)
		}
		if again := encoded(t, &got); !bytes.Equal(again, b) {
			t.Errorf("encoded again %s\nwant %s", again, b)
		}
	}
	// A field added without a place in this test would be added without a thought.
	full := fullState()
	var empty func(v reflect.Value, path string)
	empty = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			empty(v.Elem(), path)
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if v.Field(i).IsZero() && path+"."+f.Name != ".Open.Waiting.Userdata" {
					t.Errorf("fullState leaves %s.%s empty", path, f.Name)
					continue
				}
				empty(v.Field(i), path+"."+f.Name)
			}
		}
	}
	empty(reflect.ValueOf(full), "")
}

func TestSnapshotRefused(t *testing.T) {
	open := func(body string) string { return `{"seq":9,"turn":2,"runs":2,"requests":0,"open":` + body + `}` }
	for name, c := range map[string]struct{ in, field string }{
		"empty":         {"", ""},
		"not an object": {"[]", ""},
		"unknown":       {`{"seq":0,"new":1}`, ""},
		"twice":         {`{"seq":0,"seq":0}`, ""},
		"trailing":      {`{"seq":0} {}`, ""},
		"digest":        {`{"seq":0,"out":"ABC"}`, ""},
		"not UTF-8":     {"{\"seq\":0,\"keys\":[{\"key\":\"\xff\"}]}", ""},
		"seq":           {`{"seq":-1}`, "seq"},
		"turn":          {`{"turn":-1}`, "turn"},
		"runs":          {`{"runs":-1}`, "runs"},
		"requests":      {`{"requests":-1}`, "requests"},
		"keys":          {`{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, KeyMemory+1), ",") + `]}`, "keys"},
		"queue run":     {`{"seq":9,"runs":1,"queue":[{"run":2,"seq":1}]}`, "queue"},
		"queue seq":     {`{"seq":9,"runs":1,"queue":[{"run":1,"seq":10}]}`, "queue"},
		"queue more":    {`{"seq":9,"runs":1,"queue":[{"run":1,"seq":1,"more":[{"seq":10}]}]}`, "queue"},
		"window run":    {`{"seq":9,"runs":1,"window":{"run":2,"seq":1}}`, "window"},
		"window ends":   {`{"seq":9,"runs":1,"window":{"run":1,"seq":1,"opened":2,"until":1}}`, "window"},
		"open run":      {open(`{"run":3,"seq":1}`), "open.run"},
		"open waiting":  {`{"seq":9,"runs":2,"queue":[{"run":2,"seq":1}],"open":{"run":2,"seq":1}}`, "open.run"},
		"open turns":    {open(`{"run":1,"seq":1,"turns":3}`), "open.turns"},
		"open tokens":   {open(`{"run":1,"seq":1,"tokens":-1}`), "open"},
		"open budget":   {open(`{"run":1,"seq":1,"budget":{"tokens":-1}}`), "open.budget"},
		"open turn":     {open(`{"run":1,"seq":1,"turn":{"index":1}}`), "open.turn.index"},
		"open turn seq": {open(`{"run":1,"seq":1,"turn":{"index":2,"seq":10}}`), "open.turn.seq"},
		"open away":     {open(`{"run":1,"seq":1,"away":-1}`), "open"},
		"turn restores": {open(`{"run":1,"seq":1,"turn":{"index":2,"seq":1,"restores":-1}}`), "open.turn"},
		"groups":        {open(`{"run":1,"seq":1,"groups":[` + strings.TrimSuffix(strings.Repeat(`{"id":"g","members":[]},`, MaxGroups+1), ",") + `]}`), "open.groups"},
		"questions":     {`{"questions":[` + strings.TrimSuffix(strings.Repeat(`{"id":"q"},`, QuestionMemory+1), ",") + `]}`, "questions"},
	} {
		_, err := DecodeState([]byte(c.in))
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrJournal || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	full := fullState()
	b, err := EncodeState(&full)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"seq":9,"turn":2,"runs":2,"open":{"run":1,"seq":1,"turn":{"index":2,"seq":1,"nonce":"n","actions":[{"id":"#1"}]}}}`))
	f.Add([]byte(`{"seq":9,"runs":1,"queue":[{"run":1,"seq":1,"text":"t"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeState(b)
		if err != nil {
			if messages.CodeOf(err) != messages.ErrJournal {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		one := encoded(t, &s)
		again, err := DecodeState(one)
		if err != nil || !bytes.Equal(encoded(t, &again), one) {
			t.Fatalf("round trip: %v", err)
		}
		// Whatever a snapshot says, a machine made of it settles or refuses.
		m := New(Config{Key: rigKey, Rules: &Rules{Judge: programJudge{}}}, again, nonces(1))
		now := time.Unix(1, 0)
		if _, err := m.Step(now, &Settle{}); err != nil {
			return
		}
		if id, ok := m.Flight(); ok {
			if _, err := m.Step(now, &ReplyEnd{Ident: id, Finish: messages.FinishComplete}); err != nil && messages.CodeOf(err) == "" {
				t.Fatal(err)
			}
		}
	})
}

func TestFoldRefuses(t *testing.T) {
	s := State{Seq: 3}
	for name, r := range map[string]*messages.Record{
		"gap":       {Seq: 5, Body: &messages.Note{}},
		"again":     {Seq: 3, Body: &messages.Note{}},
		"undecoded": {Seq: 4, Body: &messages.Undecoded{Of: messages.KindInput}},
		"no body":   {Seq: 4},
	} {
		if err := s.Apply(r); messages.CodeOf(err) != messages.ErrJournal || s.Seq != 3 {
			t.Errorf("%s: %v, seq %d", name, err, s.Seq)
		}
	}
}

// What an agent used for a feed of a prompt counts to the run, as the model's own tokens do.
func TestFeedsCountToTheRun(t *testing.T) {
	var s State
	for _, body := range []messages.Body{
		&messages.Input{Text: "go"}, &messages.RunBegin{}, &messages.TurnBegin{Pass: 1},
		&messages.FeedInjected{ID: "f", Tokens: 5, CostUSD: 7}, &messages.FeedInjected{ID: "g", Tokens: 1, CostUSD: 1},
		&messages.ModelReply{Usage: messages.Usage{Input: 2, Output: 3}, CostUSD: 4},
	} {
		r := &messages.Record{Seq: s.Seq + 1, Run: 1, TS: time.Unix(1, 0), Body: body}
		if s.Seq >= 2 {
			r.Turn = 1
		}
		if err := s.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	if s.Open.Tokens != 11 || s.Open.Cost != 12 {
		t.Errorf("%d tokens, %v", s.Open.Tokens, s.Open.Cost)
	}
}

// Attempts after failures are retries; one after a crash is none, nor is one that joins the run of
// a child that took text back: the key of the child is made with their number.
func TestRetriesAreCounted(t *testing.T) {
	var s State
	for i, body := range []messages.Body{
		&messages.Input{Text: "go"}, &messages.RunBegin{}, &messages.TurnBegin{Pass: 1}, &messages.ActionDeclared{ID: "a", Name: "w", Args: "{}", Type: messages.TypeAgent},
		&messages.ActionStarted{ID: "a", Attempt: 1}, &messages.ActionStarted{ID: "a", Attempt: 2, Failure: ReasonTakenBack},
		&messages.ActionStarted{ID: "a", Attempt: 3, Failure: reasonCrash}, &messages.ActionStarted{ID: "a", Attempt: 4, Failure: string(messages.ErrModel)},
	} {
		r := &messages.Record{Seq: s.Seq + 1, Run: 1, TS: time.Unix(1, 0), Body: body}
		if i >= 2 {
			r.Turn = 1
		}
		if err := s.Apply(r); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if i == 7 {
			want = 1
		}
		if i > 3 && s.Open.Turn.Actions[0].Retries != want {
			t.Errorf("attempt %d: %d retries, want %d", i-3, s.Open.Turn.Actions[0].Retries, want)
		}
	}
}

func TestClosedSession(t *testing.T) {
	r := newRig(t, Rules{Judge: textJudge{}}, 1)
	if _, _, err := r.step(&Submit{}); err == nil {
		t.Error("a submit before session.opened was taken")
	}
	r = newRig(t, Rules{Judge: textJudge{}}, 1)
	if _, _, err := r.step(&Open{}); err != nil {
		t.Fatal(err)
	}
	state := *r.m.State()
	if err := state.Apply(&messages.Record{Seq: 2, Body: &messages.SessionClosed{}}); err != nil {
		t.Fatal(err)
	}
	m := New(Config{Key: rigKey, Rules: &r.rules}, state, nonces(1))
	effects, err := m.Step(r.now, &Submit{Handle: 4, Input: messages.Input{Policy: messages.Enqueue}})
	if err != nil || len(effects) != 1 || messages.CodeOf(effects[0].(*Answer).Err) != messages.ErrDenied {
		t.Errorf("a closed session answers %v %v", effects, err)
	}
}

// TestNoRandomness: nothing is recorded when there is no nonce.
func TestNoRandomness(t *testing.T) {
	m := New(Config{Key: rigKey, Rules: &Rules{Judge: textJudge{}}}, State{}, bytes.NewReader(make([]byte, 15)))
	if _, err := m.Step(time.Unix(1, 0), &Open{}); err != nil {
		t.Fatal(err)
	}
	effects, err := m.Step(time.Unix(1, 0), &Submit{})
	if messages.CodeOf(err) != messages.ErrCrash || effects != nil {
		t.Errorf("%v %v", effects, err)
	}
}
