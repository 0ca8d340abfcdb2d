package turn

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// A key-value relic keeps JSON values by key in its session. It is the fold of the records
// relic.changed. One change is one record, made in the Step that decides it. So calls that run
// side by side see each other's changes, the fence of the journal protects them, a replay
// repeats them, and a fork has the values of its turn. A call that is repeated under its key
// after a crash finds its earlier result.
//
// A value with a time to live ends by the time of the call that asks for it. No timer drops
// it; the next change of its relic does.

// Operations of a key-value relic, as the parameter operation selects them.
const (
	RelicGet    = "get"    // key → {found, value}
	RelicSet    = "set"    // key, value, expect?, ttl? → {key, replaced}
	RelicDelete = "delete" // key → {deleted, key}
	RelicAdd    = "add"    // key, by? → {key, value}: of integers, atomic
	RelicList   = "list"   // prefix?, after?, limit? → {keys, more}
)

// RelicOperations lists the operations.
var RelicOperations = []string{RelicGet, RelicSet, RelicDelete, RelicAdd, RelicList}

// Bounds of a key-value relic that no manifest can raise, and the defaults.
const (
	MaxRelicKeys       = 4096
	MaxRelicValueBytes = 256 << 10
	MaxRelicBytes      = 4 << 20 // keys and values together
	MaxRelicKeyBytes   = 256
	MaxRelicList       = 256                // keys in one answer
	MaxRelicTTL        = 366 * 24 * 60 * 60 // seconds, of a value that does not stay for ever

	DefaultRelicKeys       = 1024
	DefaultRelicValueBytes = 64 << 10
	DefaultRelicBytes      = 1 << 20
)

// Reasons of failed operations, as action.ended has them.
const (
	ReasonKeyLimit   = "key_limit"   // one key too many
	ReasonRelicLimit = "relic_limit" // too many bytes in all
	ReasonConflict   = "conflict"    // the value is not the expected one
	ReasonNotInteger = "not_integer" // add to a value that is no integer, or past 2^53−1
	ReasonReadOnly   = "read_only"   // the caller may only read
	ReasonNoSession  = "no_session"  // there is no session, or the action has ended
)

// Kept is the result of a change that an open action made to a relic: a call that is
// repeated under Key returns it.
type Kept struct {
	Key    string `json:"key"` // idempotency key
	Result string `json:"result"`
}

// changed reports whether a call of the action has changed a relic.
func (a *OpenAction) changed() bool { return a != nil && len(a.Kept) > 0 }

// stands returns the state to record for the end of an action. An action that changed a relic
// has its change in the journal: it cannot end as cancelled, and without an answer not as
// failed, because the model would do it again.
func (a *OpenAction) stands(state messages.ActionState, how plan.Failure) messages.ActionState {
	if a.changed() && (state == messages.ActionCancelled || state == messages.ActionFailed && !how.Answered()) {
		return messages.ActionUnknown
	}
	return state
}

// bounded returns l with defaults filled in and capped.
func bounded(l messages.RelicLimits) messages.RelicLimits {
	l.Keys = min(cmp.Or(max(l.Keys, 0), DefaultRelicKeys), MaxRelicKeys)
	l.ValueBytes = min(cmp.Or(max(l.ValueBytes, 0), DefaultRelicValueBytes), MaxRelicValueBytes)
	l.Bytes = min(cmp.Or(max(l.Bytes, 0), DefaultRelicBytes), MaxRelicBytes)
	return l
}

// hardest are the limits of the fold: a recorded change was within them when it was made.
var hardest = messages.RelicLimits{Keys: MaxRelicKeys, ValueBytes: MaxRelicValueBytes, Bytes: MaxRelicBytes}

// relicCall does one operation for an action that has begun.
func (m *Machine) relicCall(in *RelicCall) {
	answer := func(result string, err error) { m.do(&AnswerRelic{Handle: in.Handle, Result: result, Err: err}) }
	run, a := m.beganAs(in.Ident, in.ID)
	if a == nil {
		m.dropped++
		answer("", failure(messages.ErrCancelled, ReasonNoSession, "", "the action is over"))
		return
	}
	for _, k := range a.Kept {
		if k.Key == in.Key {
			answer(k.Result, nil)
			return
		}
	}
	args := clean(in.Args)
	change, result, err := operate(m.state.entries(in.Relic, m.now), args, bounded(in.Limits))
	if err != nil || change.kind == noChange {
		answer(result, err)
		return
	}
	m.append(run, in.Turn, &messages.RelicChanged{Args: args, ID: in.ID, Key: in.Key, Relic: in.Relic, Result: result}, LazyHold)
	answer(result, nil)
}

// ReadRelic does an operation that changes nothing, at time now. It is for callers without an
// action, such as feeds, for whom a change could not be recorded. Errors are *messages.Error:
// ERR_DENIED/read_only for an operation that changes something.
func (s *State) ReadRelic(relic, args string, now time.Time) (result string, err error) {
	args = clean(args)
	op, err := readOperation(args)
	switch {
	case err != nil:
		return "", err
	case op.name != RelicGet && op.name != RelicList:
		return "", failure(messages.ErrDenied, ReasonReadOnly, "parameters.operation", op.name+" is for actions: this is no more than a look")
	}
	_, result, err = operate(s.entries(relic, now), args, hardest)
	return result, err
}

// beganAs returns the state of an action that has begun, of the turn in flight or detached,
// and its run; nil if there is none.
func (m *Machine) beganAs(id Ident, action string) (run int64, a *OpenAction) {
	if !m.Runs(id, action) {
		return 0, nil
	}
	if t := m.state.Open; t != nil && t.Turn != nil && t.Turn.Index == id.Turn {
		return t.Run, t.Turn.action(action)
	}
	for i := range m.state.Detached {
		if d := &m.state.Detached[i]; d.Turn == id.Turn && d.ID == action {
			return d.Run, &d.OpenAction
		}
	}
	return 0, nil
}

// entries returns the values of a relic at time now.
func (s *State) entries(relic string, now time.Time) map[string]string {
	all, until := s.Relics[relic], s.RelicUntil[relic]
	over := func(key string) bool { at, ok := until[key]; return ok && at <= now.UnixMilli() }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(until)), over) {
		return all
	}
	there := maps.Clone(all)
	maps.DeleteFunc(there, func(key, _ string) bool { return over(key) })
	return there
}

// expire drops the values of a relic whose time is over.
func (s *State) expire(relic string, now time.Time) {
	for key, at := range s.RelicUntil[relic] {
		if at <= now.UnixMilli() {
			s.drop(relic, key)
		}
	}
}

// drop removes a key from a relic.
func (s *State) drop(relic, key string) {
	s.stay(relic, key)
	delete(s.Relics[relic], key)
	if len(s.Relics[relic]) == 0 {
		delete(s.Relics, relic)
	}
	if len(s.Relics) == 0 {
		s.Relics = nil
	}
}

// stay removes the time limit of a value.
func (s *State) stay(relic, key string) {
	delete(s.RelicUntil[relic], key)
	if len(s.RelicUntil[relic]) == 0 {
		delete(s.RelicUntil, relic)
	}
	if len(s.RelicUntil) == 0 {
		s.RelicUntil = nil
	}
}

// limit sets the time limit of a value.
func (s *State) limit(relic, key string, at time.Time) {
	if s.RelicUntil == nil {
		s.RelicUntil = map[string]map[string]int64{}
	}
	if s.RelicUntil[relic] == nil {
		s.RelicUntil[relic] = map[string]int64{}
	}
	s.RelicUntil[relic][key] = at.UnixMilli()
}

// changeRelic folds a change that was made at time now. a is the action that made it; nil if
// it has ended.
func (s *State) changeRelic(a *OpenAction, b *messages.RelicChanged, now time.Time) {
	s.expire(b.Relic, now)
	c, _, err := operate(s.Relics[b.Relic], b.Args, hardest)
	if err != nil || c.kind == noChange {
		return
	}
	if a != nil {
		a.Kept = append(a.Kept, Kept{Key: b.Key, Result: b.Result})
	}
	entries := s.Relics[b.Relic]
	switch {
	case c.kind == drops:
		s.drop(b.Relic, c.key)
		return
	case s.Relics == nil:
		s.Relics = map[string]map[string]string{}
	}
	if entries == nil {
		entries = map[string]string{}
		s.Relics[b.Relic] = entries
	}
	entries[c.key] = c.value
	switch {
	case c.ttl > 0:
		s.limit(b.Relic, c.key, now.Add(c.ttl))
	case !c.keeps:
		s.stay(b.Relic, c.key)
	}
}

type changeKind uint8

const (
	noChange changeKind = iota
	puts
	drops
)

type relicChange struct {
	kind       changeKind
	key, value string
	ttl        time.Duration // 0 for ever
	keeps      bool          // the key keeps its time limit
}

// operation is a call with its arguments read.
type operation struct {
	name               string
	key, value, expect string // value and expect are JSON, "" if absent
	prefix, after      string
	by                 int64
	limit              int
	ttl                time.Duration // 0 for ever
	hasAfter           bool
}

// operate returns the change and the result of one operation on the entries of a relic, or
// why it fails. It does not apply the change.
func operate(entries map[string]string, args string, l messages.RelicLimits) (c relicChange, result string, err error) {
	op, err := readOperation(args)
	if err != nil {
		return c, "", err
	}
	was, known := entries[op.key]
	switch op.name {
	case RelicGet:
		value := "null"
		if known {
			value = was
		}
		return c, `{"found":` + strconv.FormatBool(known) + `,"value":` + value + `}`, nil
	case RelicList:
		return c, listKeys(entries, &op), nil
	case RelicDelete:
		if known {
			c = relicChange{kind: drops, key: op.key}
		}
		return c, `{"deleted":` + strconv.FormatBool(known) + `,"key":` + quote(op.key) + `}`, nil
	case RelicSet:
		if op.expect != "" {
			now := cmp.Or(was, "null")
			if now != op.expect {
				return c, "", failure(messages.ErrConfig, ReasonConflict, "parameters.expect", "the value is another")
			}
		}
		c = relicChange{kind: puts, key: op.key, value: op.value, ttl: op.ttl}
		result = `{"key":` + quote(op.key) + `,"replaced":` + strconv.FormatBool(known) + `}`
	case RelicAdd:
		sum, err := add(was, op.by)
		if err != nil {
			return c, "", err
		}
		c = relicChange{kind: puts, key: op.key, value: sum, keeps: true}
		result = `{"key":` + quote(op.key) + `,"value":` + sum + `}`
	}
	if n := int64(len(c.value)); n > l.ValueBytes {
		return relicChange{}, "", failure(messages.ErrQuota, ReasonValueLimit, "parameters.value", "it has "+strconv.FormatInt(n, 10)+" bytes as JSON; the limit is "+strconv.FormatInt(l.ValueBytes, 10))
	}
	if n := int64(len(entries)) + 1; !known && n > l.Keys {
		return relicChange{}, "", failure(messages.ErrQuota, ReasonKeyLimit, "parameters.key", "the relic has "+strconv.FormatInt(l.Keys, 10)+" keys at most")
	}
	size := int64(len(c.key) + len(c.value))
	for k, v := range entries {
		if k != c.key {
			size += int64(len(k) + len(v))
		}
	}
	if size > l.Bytes {
		return relicChange{}, "", failure(messages.ErrQuota, ReasonRelicLimit, "parameters.value", "the relic would have "+strconv.FormatInt(size, 10)+" bytes; the limit is "+strconv.FormatInt(l.Bytes, 10))
	}
	return c, result, nil
}

// maxExact is the largest integer that every reader of JSON reads exactly.
const maxExact = 1<<53 - 1

// add returns the sum of a value, "" counting as 0, and by.
func add(was string, by int64) (string, error) {
	n, err := strconv.ParseInt(cmp.Or(was, "0"), 10, 64)
	if err != nil || n > maxExact || n < -maxExact {
		return "", failure(messages.ErrConfig, ReasonNotInteger, "parameters.key", "what is there is no integer within 2^53")
	}
	if n += by; n > maxExact || n < -maxExact {
		return "", failure(messages.ErrConfig, ReasonNotInteger, "parameters.by", "the sum is not within 2^53")
	}
	return strconv.FormatInt(n, 10), nil
}

func listKeys(entries map[string]string, op *operation) string {
	var keys []string
	for k := range entries {
		if strings.HasPrefix(k, op.prefix) && (!op.hasAfter || k > op.after) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	more := len(keys) > op.limit
	if more {
		keys = keys[:op.limit]
	}
	b := []byte(`{"keys":[`)
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(k)...)
	}
	b = append(b, `],"more":`...)
	return string(append(strconv.AppendBool(b, more), '}'))
}

// takes says which parameters an operation has; true must be there.
var takes = map[string]map[string]bool{
	RelicGet:    {"key": true},
	RelicSet:    {"key": true, "value": true, "expect": false, "ttl": false},
	RelicDelete: {"key": true},
	RelicAdd:    {"key": true, "by": false},
	RelicList:   {"prefix": false, "after": false, "limit": false},
}

func readOperation(args string) (op operation, err error) {
	given := map[string]jsontext.Value{}
	if json.Unmarshal([]byte(args), &given) != nil || given == nil {
		return op, badOperation("", "they must be an object")
	}
	op.name = stringOf(given["operation"])
	if given["operation"] == nil && given["value"] != nil { // no other has a value
		op.name = RelicSet
	}
	want, ok := takes[op.name]
	if !ok {
		return op, badOperation("operation", "want one of "+strings.Join(RelicOperations, ", "))
	}
	delete(given, "operation")
	op.by, op.limit = 1, MaxRelicList
	// In order, so that the same mistake is always the one that is named.
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := want[name]; !ok {
			return op, badOperation(shortName(name), op.name+" takes no such parameter")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v, there := given[name]
		if !there {
			if want[name] {
				return op, badOperation(name, "missing")
			}
			continue
		}
		if err := op.read(name, v); err != nil {
			return op, err
		}
	}
	return op, nil
}

// read takes one parameter.
func (op *operation) read(name string, v jsontext.Value) error {
	switch name {
	case "value", "expect":
		own := v.Clone()
		if own.Canonicalize() != nil {
			return badOperation(name, "it is no JSON")
		}
		if name == "value" {
			op.value = string(own)
		} else {
			op.expect = string(own)
		}
		return nil
	case "by", "limit", "ttl":
		own := v.Clone()
		n, err := int64(0), own.Canonicalize()
		if err == nil {
			n, err = strconv.ParseInt(string(bytes.TrimSpace(own)), 10, 64)
		}
		switch {
		case err != nil || n > maxExact || n < -maxExact:
			return badOperation(name, "want an integer within 2^53")
		case name == "by":
			op.by = n
		case name == "ttl" && (n < 1 || n > MaxRelicTTL):
			return badOperation(name, "want 1 to "+strconv.Itoa(MaxRelicTTL)+" seconds")
		case name == "ttl":
			op.ttl = time.Duration(n) * time.Second
		case n < 1 || n > MaxRelicList:
			return badOperation(name, "want 1 to "+strconv.Itoa(MaxRelicList))
		default:
			op.limit = int(n)
		}
		return nil
	}
	if v.Kind() != '"' {
		return badOperation(name, "want text")
	}
	s := stringOf(v)
	if len(s) > MaxRelicKeyBytes || !utf8.ValidString(s) || name == "key" && s == "" {
		return badOperation(name, "want 1 to "+strconv.Itoa(MaxRelicKeyBytes)+" bytes of text")
	}
	switch name {
	case "key":
		op.key = s
	case "prefix":
		op.prefix = s
	case "after":
		op.after, op.hasAfter = s, true
	}
	return nil
}

// stringOf returns the text of a JSON string; "" for other values.
func stringOf(v jsontext.Value) string {
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(s)
}

func badOperation(name, why string) error {
	field := "parameters"
	if name != "" {
		field += "." + name
	}
	return failure(messages.ErrConfig, ReasonBadField, field, why)
}
