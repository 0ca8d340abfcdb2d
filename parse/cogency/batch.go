package cogency

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// execute reads a batch up to its closer. json takes its beginning, as long as that is JSON and
// within the limit. The rest, which should be the closer, is kept in body and followed by
// quotes. A batch that is too large, or has a control character in a string and so cannot
// become JSON, ends at once.
func (d *decoder) execute(p []byte, at int64) int {
	room := d.bodyAt + int64(d.limits.ExecuteBytes) - at
	end := int(min(int64(len(p)), room+int64(len(shutExecute))))
	i := 0
	if !d.jsonEnded {
		i = d.write(p[:min(int64(len(p)), room)])
		if i < len(p) {
			d.jsonEnded = true
			d.slipAt = d.off(at + int64(i))
			d.quotes.inside = d.json.InString()
			if d.json.Closed() {
				d.body = append(d.body, p[i])
				d.fail(ExecuteJSON, at+int64(i))
				return len(p)
			}
		}
	}
	for i < end {
		n, what := d.quotes.step(p[i:end])
		d.body = append(d.body, p[i:i+n]...)
		i += n
		switch {
		case what == nextControl:
			d.fail(ExecuteJSON, at+int64(i))
			return len(p)
		case what == nextAngle && bytes.HasSuffix(d.body, []byte(shutExecute)):
			if d.complete(d.body[:len(d.body)-len(shutExecute)]) {
				d.batch(at + int64(i))
			} else {
				d.fail(ExecuteJSON, at+int64(i))
			}
			return len(p)
		}
	}
	if int64(end) == room+int64(len(shutExecute)) {
		d.fail(ExecuteTooLarge, at+int64(end))
		return len(p)
	}
	d.closer.read(p)
	return len(p)
}

// write gives json the bytes that continue the batch, and takes a code fence around it. n is
// the number of bytes.
func (d *decoder) write(p []byte) (n int) {
	for n < len(p) {
		if d.fence.opening() && d.fence.open(p[n]) {
			n++
			continue
		}
		if n += d.json.Write(p[n:]); n == len(p) {
			break
		}
		if !d.forgive.Has(parse.HabitFence) || !d.fence.edge(p[n], d.json) {
			break
		}
		n++
	}
	return n
}

// closer looks for the closer of a batch, whatever stands around it.
type closer struct {
	begun int // bytes of a closer that the last piece ended with
	found bool
}

func (c *closer) read(p []byte) {
	for len(p) > 0 && !c.found {
		switch {
		case c.begun == 0:
			k := bytes.IndexByte(p, shutExecute[0])
			if k < 0 {
				return
			}
			c.begun, p = 1, p[k+1:]
		case p[0] == shutExecute[c.begun]:
			c.begun, p = c.begun+1, p[1:]
			c.found = c.begun == len(shutExecute)
		default:
			c.begun = 0
		}
	}
}

// unterminated decides about a batch whose closer is missing. At a clean end a stop sequence
// may have removed it (docs/spec/cogency.md §2.3); in a string it may be content (§2.2).
func (d *decoder) unterminated(clean bool) {
	rest := bytes.TrimRightFunc(d.body, unicode.IsSpace)
	if i := bytes.LastIndexByte(rest, '<'); i >= 0 && len(rest)-i < len(shutExecute) && shutExecute[:len(rest)-i] == string(rest[i:]) {
		rest = bytes.TrimRightFunc(rest[:i], unicode.IsSpace)
	}
	switch {
	case d.inString() && d.closer.found:
		d.fail(ExecuteJSON, d.pos)
	case d.inString() || !clean || d.second && !d.forgive.Has(parse.HabitClosing) || !d.complete(rest):
		d.fail(ExecuteUnterminated, d.pos)
	case len(rest) > 0:
		d.fail(ExecuteTooLarge, d.pos)
	default:
		d.closerAdded = d.second
		d.batch(d.pos)
	}
}

// inString reports whether the batch so far ends within a string.
func (d *decoder) inString() bool {
	if d.jsonEnded {
		return d.quotes.inside
	}
	return d.json.InString()
}

// complete reports whether the batch, with the rest that json did not take yet, is JSON.
func (d *decoder) complete(rest []byte) bool {
	return d.write(rest) == len(rest) && d.json.End()
}

// batch checks a batch that is JSON (docs/spec/cogency.md §2.2) and emits its calls. at is the
// position after it.
func (d *decoder) batch(at int64) {
	calls, ok := d.calls()
	var used parse.Habits
	if !ok && d.second {
		var problem string
		if calls, used, problem = d.leniently(string(d.json.Bytes())); problem != "" {
			d.problem = problem
		} else {
			ok = true
		}
	}
	switch {
	case !ok:
		d.fail(ExecuteShape, at)
		return
	case len(calls) > d.limits.Calls:
		d.fail(ExecuteTooMany, at)
		return
	}
	d.remark(used | d.habits())
	for i := range calls {
		d.emit(messages.Event{Kind: messages.EventAction, Offset: d.bodyOff, Complete: true, Action: &messages.Action{
			ID: "#" + strconv.Itoa(i+1), Type: messages.TypeTool, Mode: messages.ModeAsync, Name: calls[i].name, Args: calls[i].args,
			Timeout: CallTimeout, OnError: messages.OnErrorFail, Show: messages.ShowUser,
		}})
	}
	d.stop(at, false)
}

// habits returns the habits that the batch shows.
func (d *decoder) habits() (used parse.Habits) {
	if d.fence.used || d.fenced {
		used |= parse.HabitFence
	}
	commas, controls := d.json.Slipped()
	if commas {
		used |= parse.HabitCommas
	}
	if controls {
		used |= parse.HabitControls
	}
	if d.closerAdded {
		used |= parse.HabitClosing
	}
	return used
}

// remark emits a lint of each habit that was forgiven.
func (d *decoder) remark(used parse.Habits) {
	for one := parse.Habits(1); one <= used; one <<= 1 {
		if used.Has(one) {
			d.lint(one, d.bodyOff)
		}
	}
}

// lint emits a lint of a habit at offset off.
func (d *decoder) lint(habit parse.Habits, off int64) {
	d.emit(messages.Event{Kind: messages.EventLint, Offset: off, Fault: &messages.ParseError{
		Code: habit.Lint(), Offset: off, Detail: habit.String(),
	}})
}

// CallTimeout is the time limit of one call (docs/spec/cogency.md §5).
const CallTimeout = 30 * time.Second

// call is an element of a batch. args is in normal form.
type call struct{ name, args string }

// calls reads the elements of the array in d.json, which has the members of all elements in one
// list (docs/spec/cogency.md §1). Of repeated members the last counts.
func (d *decoder) calls() (calls []call, ok bool) {
	text, members := string(d.json.Bytes()), d.json.Members()
	if text[0] != '[' {
		return nil, false
	}
	for at := 1; text[at] != ']'; at++ {
		if text[at] == ',' {
			at++
		}
		if text[at] != '{' {
			return nil, false
		}
		var c call
		for at++; text[at] != '}'; {
			m := members[0]
			members = members[1:]
			switch at = m.ValueEnd; text[m.Key:m.KeyEnd] {
			case `"name"`:
				c.name = stringOf(text[m.Value:at])
			case `"args"`:
				c.args = objectOf(text[m.Value:at])
			}
		}
		if c.name == "" || c.args == "" {
			return nil, false
		}
		calls = append(calls, c)
	}
	return calls, true
}

// stringOf returns the text of a JSON string; "" for another value.
func stringOf(value string) string {
	switch {
	case value[0] != '"':
		return ""
	case strings.IndexByte(value, '\\') < 0:
		return value[1 : len(value)-1]
	}
	return string(scan.AppendString(nil, []byte(value)))
}

// objectOf returns value if it is an object, else "".
func objectOf(value string) string {
	if value[0] != '{' {
		return ""
	}
	return value
}

// scanners pools the scanners of batches: their memory is many times that of the rest of a
// decoder.
var scanners = sync.Pool{New: func() any { return new(scan.JSON) }}

// maxKeptBytes is the size above which a scanner is not pooled. A batch of the standard size
// stays below it unless it has very many members.
const maxKeptBytes = 4 << 20

// newScanner returns a scanner of a batch whose calls may nest to depth.
func newScanner(depth int) *scan.JSON {
	j := scanners.Get().(*scan.JSON)
	j.Reset()
	j.MaxDepth, j.Commas, j.Controls, j.Closer = depth+batchDepth, false, false, ""
	j.Keep = batchDepth // the members of calls are looked for, see calls
	return j
}

// free returns a scanner to the pool.
func free(j *scan.JSON) {
	if j.MemoryBytes() <= maxKeptBytes {
		scanners.Put(j)
	}
}
