package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Relics: shelves, which keep values by key in the session, and others, whose effects are
// outside like those of tools. What a relic answers and holds is read once more here, from
// the records.

// shelves are key-value relics; the narrow one is full at once.
var shelves = map[string]messages.RelicLimits{"box": {}, "slot": {Keys: 2, ValueBytes: 12}}

// flow is a workflow of steps on a relic.
const flow = "flow"

// relics are those that stand outside: of a database and of a server.
var relics = map[string]messages.Class{"ledger": messages.Keyed, "hook": messages.Effectful, "view": messages.ReadOnly}

// relic is an action on a relic, or a workflow.
func (a *author) relic(b *strings.Builder) {
	switch n := a.rnd.IntN(8); {
	case n < 5:
		a.head(b, "relic")
		fmt.Fprintf(b, `{"name":%q,"parameters":%s`, a.one("box", "slot"), a.operation())
	case n < 7:
		a.head(b, "relic")
		fmt.Fprintf(b, `{"name":%q,"parameters":{"n":%d}`, a.one("ledger", "hook", "view"), a.rnd.IntN(2))
	default:
		a.head(b, "workflow")
		fmt.Fprintf(b, `{"name":%q,"parameters":{}`, flow)
	}
	a.tail(b)
}

// operation is what an action asks of a relic, well or badly.
func (a *author) operation() string {
	key := a.one("n", "n", "m", "o", "$k", "$a", "${m}") // what stands for nothing has no answer that quotes it
	switch n := a.rnd.IntN(20); {
	case n < 7:
		return fmt.Sprintf(`{"operation":"add","key":%q,"by":%d}`, key, 1+a.rnd.IntN(3))
	case n < 8:
		return fmt.Sprintf(`{"operation":"add","key":%q}`, key)
	case n < 11:
		return fmt.Sprintf(`{"operation":"set","key":%q,"value":%s}`, key, a.one("1", "7", `"soft"`, `{"x":"deep"}`, "null", `"$k"`, `"quite a long text"`))
	case n < 13:
		return fmt.Sprintf(`{"operation":"set","key":%q,"value":2,"expect":%s}`, key, a.one("null", "1", "2", "7"))
	case n < 15:
		return fmt.Sprintf(`{"operation":"delete","key":%q}`, key)
	case n < 18:
		return fmt.Sprintf(`{"operation":"get","key":%q}`, key)
	case n < 19:
		return a.one(`{"operation":"list"}`, `{"operation":"list","prefix":"n","limit":1}`, `{"operation":"list","after":"m"}`)
	}
	return a.one(`{"operation":"odd"}`, `{"operation":"get"}`, `{"operation":"set","key":"n"}`, `{"operation":"add","key":"n","by":"x"}`, `{"operation":"get","key":"n","limit":1}`, `{"operation":"list","limit":0}`)
}

// asked is a call of a relic that waits for the machine, and its answer.
type relicCall struct {
	turn.RelicCall
	by     *attempt
	answer *turn.AnswerRelic
}

// onShelf reports whether an action is done on the session's own shelves.
func onShelf(t messages.ActionType, name string) bool {
	_, kept := shelves[name]
	return t == messages.TypeRelic && kept || t == messages.TypeWorkflow && name == flow
}

// steps are the calls that an attempt makes of shelves.
func (a *attempt) steps() (calls []turn.RelicCall) {
	e := a.start
	if e.Type == messages.TypeRelic {
		return []turn.RelicCall{{Key: e.Key, Relic: e.Name, Args: e.Args}}
	}
	for i, args := range []string{`{"operation":"add","key":"n","by":10}`, `{"operation":"get","key":"n"}`, `{"operation":"set","key":"m","value":0}`} {
		calls = append(calls, turn.RelicCall{Key: e.Key + "/" + strconv.Itoa(i), Relic: "box", Args: args})
	}
	return calls
}

// reach makes the attempt's next call of a relic, or ends it; nil while it waits.
func (a *attempt) reach(finish func(state messages.ActionState, reason, result string) turn.Input) turn.Input {
	s := a.s
	if c := a.call; c != nil {
		if c.answer == nil {
			return nil
		}
		if bad := (*messages.Error)(nil); errors.As(c.answer.Err, &bad) {
			return finish(messages.ActionFailed, cmp.Or(bad.Reason, "error"), `"refused"`)
		}
		a.said = c.answer.Result
	}
	all := a.steps()
	if a.step == len(all) {
		return finish(messages.ActionOK, "", a.said)
	}
	call := all[a.step]
	a.step++
	s.lastCall++
	call.Ident, call.ID, call.Limits, call.Handle = a.start.Ident, a.start.ID, shelves[call.Relic], s.lastCall
	a.call = &relicCall{RelicCall: call, by: a}
	s.calls[call.Handle] = a.call
	return &call
}

// answers takes what the machine says of a relic, and compares it with what the records
// said before this step.
func (s *shell) answersShelf(in *turn.RelicCall, e *turn.AnswerRelic) {
	w := s.host.w
	if c := s.calls[e.Handle]; c != nil {
		c.answer = e
		delete(s.calls, e.Handle)
	}
	var bad *messages.Error
	if e.Err != nil && !errors.As(e.Err, &bad) {
		w.violated("step", "a relic refuses without a reason: %v", e.Err)
	}
	if bad != nil && bad.Reason == turn.ReasonNoSession {
		if c := s.audit.call(in.Turn, in.ID); c != nil && c.attempts > 0 && !c.ended && s.machine.Runs(in.Ident, in.ID) {
			w.violated("effect", "action %s of turn %d runs, and its relic says that it is over", in.ID, in.Turn)
		}
		return
	}
	a := s.audit
	if was, again := a.kept[in.Key]; again {
		if e.Err != nil || e.Result != was.result {
			w.violated("effect", "call %s is done again and gives %s %v, it gave %s", in.Key, e.Result, e.Err, was.result)
		}
		return
	}
	_, result, reason := work(a.shelves[in.Relic], in.Args, shelves[in.Relic])
	if got := ""; reason != "" || e.Err != nil {
		if bad != nil {
			got = bad.Reason
		}
		if got != reason {
			w.violated("effect", "%s of %s is refused for %q, by the records for %q", in.Args, in.Relic, got, reason)
		}
	} else if e.Result != result {
		w.violated("effect", "%s of %s gives %s, by the records %s", in.Args, in.Relic, e.Result, result)
	}
}

// shelving is what an audit knows of the session's shelves.
type shelving struct {
	shelves map[string]map[string]string // JSON by key, by relic
	kept    map[string]kept              // by idempotency key: for good
}

// kept is a change that stands in the records.
type kept struct {
	result string
	turn   int64
	id     string
	seq    int64
}

// changes takes the change of a relic: it is made by an action that runs, once under a key
// of that action, and does what its operation says.
func (a *audit) changes(r *messages.Record, b *messages.RelicChanged) error {
	c := a.call(r.Turn, b.ID)
	if c == nil || c.attempts == 0 || c.ended || c.run != r.Run || !onShelf(c.typ, c.name) {
		return fmt.Errorf("action %s changes %s, and does not run", b.ID, b.Relic)
	}
	if b.Key != c.key && !strings.HasPrefix(b.Key, c.key+"/") {
		return fmt.Errorf("action %s changes %s under key %s, its own is %s", b.ID, b.Relic, b.Key, c.key)
	}
	if was, twice := a.kept[b.Key]; twice {
		return fmt.Errorf("the change under key %s of action %s is made again, record %d has it", b.Key, b.ID, was.seq)
	}
	next, result, reason := work(a.shelves[b.Relic], b.Args, shelves[b.Relic])
	if reason != "" || result != b.Result || maps.Equal(next, a.shelves[b.Relic]) && strings.Contains(b.Args, `"get"`) {
		return fmt.Errorf("%s of %s gives %s, it is %s %s", b.Args, b.Relic, b.Result, result, reason)
	}
	a.kept[b.Key] = kept{b.Result, r.Turn, b.ID, r.Seq}
	c.changed = true
	if a.shelves[b.Relic] = next; len(next) == 0 {
		delete(a.shelves, b.Relic)
	}
	return nil
}

// shelved checks the end of an action on a relic: what it did stands there, and is not
// taken for something that never was.
func (a *audit) shelved(c *act, b *messages.ActionEnded) error {
	if !onShelf(c.typ, c.name) || c.attempts == 0 {
		return nil
	}
	if c.changed && (b.State == messages.ActionCancelled || b.State == messages.ActionFailed && unanswered(b.Reason)) {
		return fmt.Errorf("action %s is %s for %q, and what it changed stands in the records", c.id, b.State, b.Reason)
	}
	if c.typ != messages.TypeRelic || b.State != messages.ActionOK {
		return nil
	}
	op := operationOf(c.args)
	was, changed := a.kept[c.key]
	switch {
	case changed && was.result != b.Result:
		return fmt.Errorf("action %s gives %s, its change gave %s", c.id, b.Result, was.result)
	case !changed && (op == turn.RelicSet || op == turn.RelicAdd || op == turn.RelicDelete && strings.Contains(b.Result, "true")):
		return fmt.Errorf("action %s gives %s, and no record has its change", c.id, b.Result)
	case changed && (op == turn.RelicGet || op == turn.RelicList):
		return fmt.Errorf("action %s only reads, and record %d is its change", c.id, was.seq)
	}
	return nil
}

// unanswered are the reasons of who does not know what became of an attempt.
func unanswered(reason string) bool {
	return reason == "timeout" || reason == "panic" || reason == "lost"
}

// stands compares the session's shelves with what the records made of them.
func (a *audit) stands(v map[string]map[string]string) error {
	if !maps.EqualFunc(v, a.shelves, maps.Equal[map[string]string]) {
		return fmt.Errorf("the session's shelves are %v, by its records %v", v, a.shelves)
	}
	return nil
}

// call is what the arguments of an operation say; the rest is nil where it is not given.
type call struct {
	Operation          string
	Key, Prefix, After *string
	Value, Expect      json.RawMessage
	By                 *json.Number
	Limit              *json.Number
}

func operationOf(args string) string {
	var in call
	_ = json.Unmarshal([]byte(args), &in)
	return in.Operation
}

// wants lists the parameters of operations: those that must be there, those that may.
var wants = map[string][2][]string{
	"get": {{"key"}}, "delete": {{"key"}}, "set": {{"key", "value"}, {"expect"}}, "add": {{"key"}, {"by"}}, "list": {nil, {"prefix", "after", "limit"}},
}

// work is an operation on a relic, from its description alone: what the relic holds
// afterwards, the answer, or why there is none. was stays as it is.
func work(was map[string]string, args string, l messages.RelicLimits) (next map[string]string, result, reason string) {
	var in call
	var names map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &names) != nil || json.Unmarshal([]byte(args), &in) != nil {
		return nil, "", turn.ReasonBadField
	}
	delete(names, "operation")
	takes, known := wants[in.Operation]
	for _, must := range takes[0] {
		_, there := names[must]
		known = known && there
	}
	for name, v := range names {
		known = known && (string(v) != "null" || name == "value" || name == "expect") && (slices.Contains(takes[0], name) || slices.Contains(takes[1], name))
	}
	limit := int64(turn.MaxRelicList)
	if in.Limit != nil {
		n, err := in.Limit.Int64()
		known, limit = known && err == nil && n > 0 && n <= limit, n
	}
	by := int64(1)
	if in.By != nil {
		n, err := in.By.Int64()
		known, by = known && err == nil, n
	}
	if !known || in.Key != nil && (*in.Key == "" || len(*in.Key) > turn.MaxRelicKeyBytes) {
		return nil, "", turn.ReasonBadField
	}
	if in.Operation == turn.RelicList {
		return was, list(was, &in, int(limit)), ""
	}
	key := *in.Key
	quoted := string(must(json.Marshal(key)))
	value, there := was[key]
	put := ""
	switch in.Operation {
	case turn.RelicGet:
		return was, fmt.Sprintf(`{"found":%v,"value":%s}`, there, cmp.Or(value, "null")), ""
	case turn.RelicDelete:
		next = maps.Clone(was)
		delete(next, key)
		return next, fmt.Sprintf(`{"deleted":%v,"key":%s}`, there, quoted), ""
	case turn.RelicSet:
		if in.Expect != nil && string(in.Expect) != cmp.Or(value, "null") {
			return nil, "", turn.ReasonConflict
		}
		put, result = string(in.Value), fmt.Sprintf(`{"key":%s,"replaced":%v}`, quoted, there)
	case turn.RelicAdd:
		n, err := strconv.ParseInt(cmp.Or(value, "0"), 10, 64)
		if err != nil {
			return nil, "", turn.ReasonNotInteger
		}
		put = strconv.FormatInt(n+by, 10)
		result = fmt.Sprintf(`{"key":%s,"value":%s}`, quoted, put)
	}
	switch {
	case l.ValueBytes > 0 && int64(len(put)) > l.ValueBytes:
		return nil, "", turn.ReasonValueLimit
	case l.Keys > 0 && !there && int64(len(was)) >= l.Keys:
		return nil, "", turn.ReasonKeyLimit
	}
	if next = maps.Clone(was); next == nil {
		next = map[string]string{}
	}
	next[key] = put
	return next, result, ""
}

func list(was map[string]string, in *call, limit int) string {
	keys := []string{}
	more := false
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if in.Prefix != nil && !strings.HasPrefix(k, *in.Prefix) || in.After != nil && k <= *in.After {
			continue
		}
		if more = len(keys) == limit; more {
			break
		}
		keys = append(keys, k)
	}
	return fmt.Sprintf(`{"keys":%s,"more":%v}`, must(json.Marshal(keys)), more)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
