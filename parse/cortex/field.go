package cortex

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// Defaults and bounds of an action's fields (docs/spec/streaming.md §3.1).
const (
	DefaultTimeout = 300 * time.Second
	MaxTimeout     = 3600 * time.Second
	MaxRetry       = 5
	MaxRetryDelay  = 60 * time.Second
	MaxBackoff     = 10
	OnErrorRetries = 3 // further attempts when on_error is retry and nothing says how many
)

// fields are the members of a body, as JSON in normal form; nil is absent or null.
type fields struct {
	name, parameters, outputKey, dependsOn, onError, skipOnError, retry, retryCount, retryDelay, backoff, timeout, show []byte

	refs []byte // false: "$" means nothing in the parameters

	stream, group, rollback []byte // of extensions that are on

	// Under other names (parse.HabitAliases).
	tool, arguments []byte
}

// fields returns the known members; others are ignored. Of repeated ones the last counts.
func (d *decoder) fields(text []byte) (f fields) {
	for _, m := range d.json.Members() {
		v := text[m.Value:m.ValueEnd]
		if v[0] == 'n' {
			v = nil
		}
		switch string(text[m.Key:m.KeyEnd]) {
		case `"name"`:
			f.name = v
		case `"parameters"`:
			f.parameters = v
		case `"output_key"`:
			f.outputKey = v
		case `"depends_on"`:
			f.dependsOn = v
		case `"on_error"`:
			f.onError = v
		case `"skip_on_error"`:
			f.skipOnError = v
		case `"retry"`:
			f.retry = v
		case `"retry_count"`:
			f.retryCount = v
		case `"retry_delay"`:
			if d.second {
				f.retryDelay = v
			}
		case `"backoff"`:
			if d.second {
				f.backoff = v
			}
		case `"timeout"`:
			f.timeout = v
		case `"show"`:
			f.show = v
		case `"refs"`:
			if d.second {
				f.refs = v
			}
		default:
			if d.ext != nil && d.ext.field(&f, string(text[m.Key:m.KeyEnd]), v) {
				break
			}
			if d.forgives(parse.HabitAliases) {
				f.other(string(text[m.Key:m.KeyEnd]), v)
			}
		}
	}
	if d.habits != 0 {
		d.mend(&f)
	}
	return f
}

// keepName puts the name into the arena. It returns false for a blank name.
func (d *decoder) keepName(v []byte) bool {
	if len(v) == 0 || v[0] != '"' {
		return false
	}
	from := len(d.arena)
	d.arena = scan.AppendString(d.arena, v)
	if len(bytes.TrimSpace(d.arena[from:])) == 0 {
		return false
	}
	d.mark()
	return true
}

// readFields reads the fields after the name, in the order in which mistakes are reported, and
// returns the first bad one. Output key, arguments and dependencies go to the arena.
func (d *decoder) readFields(f *fields, a *messages.Action) (bad string) {
	args := f.parameters
	if args == nil {
		args = []byte("{}")
	}
	if args[0] != '{' || d.body.twice {
		return "parameters"
	}
	if f.outputKey != nil {
		key, ok := plainString(f.outputKey)
		if !ok || !isKey(key) || d.ext != nil && d.ext.variable(string(key)) {
			return "output_key"
		}
		d.arena = append(d.arena, key...)
	}
	d.mark()
	d.arena = append(d.arena, args...)
	d.mark()
	if !d.keepDepends(f.dependsOn) {
		return "depends_on"
	}
	var ok bool
	if a.OnError, ok = d.onErrorOf(f); !ok {
		return "on_error"
	}
	if a.Retry, ok = retryOf(f, a.OnError); !ok {
		return "retry"
	}
	if a.RetryDelay, ok = retryDelayOf(f); !ok {
		return "retry_delay"
	}
	if f.backoff != nil {
		if a.Backoff, ok = count(f.backoff, MaxBackoff); !ok || a.Backoff < 1 {
			return "backoff"
		}
	}
	switch string(f.refs) {
	case "", "true":
	case "false":
		a.Literal = true
	default:
		return "refs"
	}
	a.Timeout = DefaultTimeout
	if f.timeout != nil {
		if a.Timeout, ok = seconds(f.timeout); !ok {
			return "timeout"
		}
	}
	a.Show = showOf(d.action.show, f.show)
	if d.ext != nil {
		return d.ext.readFields(f, a)
	}
	return ""
}

// plainString returns the content of a string as it is written. No word that the caller looks
// for has an escape.
func plainString(v []byte) ([]byte, bool) {
	if len(v) < 2 || v[0] != '"' || v[len(v)-1] != '"' {
		return nil, false
	}
	return v[1 : len(v)-1], true
}

// keepDepends puts the ids of the attribute and then of the body into the arena.
func (d *decoder) keepDepends(body []byte) bool {
	b := &d.action
	switch {
	case b.dependsBad:
		return false
	case len(b.depends) == 0:
	case b.depends[0] == '[':
		if !d.keepIDs(b.depends) {
			return false
		}
	default:
		for item := range bytes.SplitSeq(b.depends, []byte{','}) {
			if !d.keepID1(trim(item)) {
				return false
			}
		}
	}
	switch {
	case body == nil:
		return true
	case body[0] == '[':
		return d.keepIDs(body)
	}
	id, ok := plainString(body)
	return ok && d.keepID1(id)
}

// keepIDs keeps an array of ids in normal form. An id holds no byte with a meaning in JSON, so
// splitting at commas is exact.
func (d *decoder) keepIDs(list []byte) bool {
	list = list[1 : len(list)-1]
	if len(list) == 0 {
		return true
	}
	for item := range bytes.SplitSeq(list, []byte{','}) {
		id, ok := plainString(item)
		if !ok || !d.keepID1(id) {
			return false
		}
	}
	return true
}

func (d *decoder) keepID1(id []byte) bool {
	if !isID(id) {
		return false
	}
	d.arena = append(d.arena, id...)
	d.mark()
	return true
}

// onErrorOf reads on_error, or its alias.
func (d *decoder) onErrorOf(f *fields) (string, bool) {
	if f.onError == nil {
		switch {
		case f.skipOnError == nil || string(f.skipOnError) == "false":
			return messages.OnErrorFail, true
		case string(f.skipOnError) == "true":
			return messages.OnErrorSkip, true
		}
		return "", false
	}
	word, _ := plainString(f.onError)
	for _, o := range [...]string{messages.OnErrorFail, messages.OnErrorSkip, messages.OnErrorRetry} {
		if string(word) == o {
			return o, true
		}
	}
	return messages.OnErrorRollback, d.on(ExtRollback) && string(word) == messages.OnErrorRollback
}

// retryOf reads retry, or its alias.
func retryOf(f *fields, o string) (int, bool) {
	v := f.retry
	if v == nil {
		v = f.retryCount
	}
	switch {
	case v != nil:
		return count(v, MaxRetry)
	case o == messages.OnErrorRetry:
		return OnErrorRetries, true
	}
	return 0, true
}

// retryDelayOf reads retry_delay: seconds, capped; below 0 says that there is none.
func retryDelayOf(f *fields) (time.Duration, bool) {
	if f.retryDelay == nil {
		return 0, true
	}
	if n, ok := numberOf(f.retryDelay); ok && n.zero {
		return -1, true
	}
	d, ok := seconds(f.retryDelay)
	return min(d, MaxRetryDelay), ok
}

// count reads an integer ≥ 0 in any notation and caps it. It is exact: no literal passes
// through a float.
func count(v []byte, limit int) (int, bool) {
	n, ok := numberOf(v)
	switch {
	case !ok, n.negative && !n.zero, n.point < len(n.digits) && !n.zero:
		return 0, false
	case n.zero:
		return 0, true
	}
	value := 0
	for i := range n.point {
		value *= 10
		if i < len(n.digits) {
			value += int(n.digits[i] - '0')
		}
		if value >= limit {
			return limit, true
		}
	}
	return value, true
}

// number is 0.digits × 10^point. Unless zero, digits neither begin nor end with 0.
type number struct {
	negative bool
	zero     bool
	digits   []byte
	point    int
}

// maxExponent stands for every larger exponent: it exceeds all bounds of numbers here, and the
// length of a body.
const maxExponent = 1 << 30

// numberOf takes a JSON number apart.
func numberOf(v []byte) (n number, ok bool) {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return n, false
	}
	if v[0] == '-' {
		n.negative = true
		v = v[1:]
	}
	exp := 0
	if i := bytes.IndexAny(v, "eE"); i >= 0 {
		e, err := strconv.Atoi(string(v[i+1:]))
		if err != nil { // beyond an int; Atoi gives its nearest
			e = min(max(e, -maxExponent), maxExponent)
		}
		exp, v = min(max(e, -maxExponent), maxExponent), v[:i]
	}
	whole, fraction, _ := bytes.Cut(v, []byte{'.'})
	n.point = len(whole) + exp
	n.digits = append(append(make([]byte, 0, len(v)), whole...), fraction...)
	lead := len(n.digits) - len(bytes.TrimLeft(n.digits, "0"))
	n.digits = bytes.TrimRight(n.digits[lead:], "0")
	n.point -= lead
	n.zero = len(n.digits) == 0
	return n, true
}

// seconds reads a number of seconds above 0 and caps it. A time below a nanosecond counts as
// one.
func seconds(v []byte) (time.Duration, bool) {
	n, ok := numberOf(v)
	if !ok || n.zero || n.negative {
		return 0, false
	}
	f, _ := strconv.ParseFloat(string(v), 64) // out of range is 0 or infinite
	if f >= MaxTimeout.Seconds() {
		return MaxTimeout, true
	}
	return max(time.Duration(math.Round(f*float64(time.Second))), 1), true
}

// set keeps a member of a template as that of an action.
func (f *fields) set(name string, v []byte) {
	switch name {
	case "name":
		f.name = v
	case "output_key":
		f.outputKey = v
	case "on_error":
		f.onError = v
	case "skip_on_error":
		f.skipOnError = v
	case "retry":
		f.retry = v
	case "retry_count":
		f.retryCount = v
	case "timeout":
		f.timeout = v
	case "show":
		f.show = v
	case "stream":
		f.stream = v
	case "group":
		f.group = v
	case "rollback":
		f.rollback = v
	}
}

// has reports whether there is a member, by either of its words.
func (f *fields) has(name string) bool {
	switch name {
	case "output_key":
		return f.outputKey != nil
	case "on_error", "skip_on_error":
		return f.onError != nil || f.skipOnError != nil
	case "retry", "retry_count":
		return f.retry != nil || f.retryCount != nil
	case "timeout":
		return f.timeout != nil
	case "show":
		return f.show != nil
	case "stream":
		return f.stream != nil
	case "group":
		return f.group != nil
	}
	return false
}
