package aeiou

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// MaxUserdataDepth bounds the nesting of USERDATA; the outer object counts 1 (§4).
const MaxUserdataDepth = 64

// CheckUserdata checks that b is one JSON object after the schema of
// docs/spec/aeiou.md §4: RFC 8259 with nothing after it, valid UTF-8, nesting at most 64, no name
// twice in one object, no unpaired surrogate escape, subject a string, fields an
// object, brief a string if present. Other members are anything.
//
// The error is ERR_USERDATA_SCHEMA with offset and line in b (reason NON_UTF8 for
// bytes that are no UTF-8), or ERR_ENV_SIZE beyond 524,288 bytes. One pass, no
// recursion, one allocation for objects of ordinary width. Safe for concurrent use.
func CheckUserdata(b []byte) error {
	if len(b) > MaxSectionBytes {
		return sizeOfUserdata(len(b)).err(b)
	}
	if !utf8.Valid(b) {
		return notUTF8(b).err(b)
	}
	if f := checkUserdata(b); f.detail != "" {
		return f.err(b)
	}
	return nil
}

func sizeOfUserdata(n int) fault {
	return fault{
		code: messages.ErrEnvSize, field: userdata.String(),
		detail: fmt.Sprintf("%d bytes; the limit is %d", n, MaxSectionBytes),
	}
}

func notUTF8(b []byte) fault {
	return fault{
		code: messages.ErrUserdataSchema, reason: "NON_UTF8", field: userdata.String(),
		offset: firstInvalid(b), detail: "the bytes are not UTF-8",
	}
}

// checkUserdata is CheckUserdata for bytes known to be UTF-8 and within the size.
func checkUserdata(b []byte) fault {
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.reset(b, false)
	w.walk()
	return w.verdict()
}

// walkers keeps the working memory of checks: every turn makes one or two.
var walkers = sync.Pool{New: func() any { return new(walker) }}

// reset readies w for b. The stacks' first room stays as it is: walk cuts it.
func (w *walker) reset(b []byte, tolerant bool) {
	w.b, w.i, w.tolerant = b, 0, tolerant
	w.text, w.role, w.seen, w.object = nil, 0, [brief + 1]bool{}, false
	w.syntax, w.rule = fault{}, fault{}
}

// looksLikeUserdata reports whether b is a JSON object with members subject and fields, even if
// it is wrong otherwise: docs/spec/design.md §10 takes that shape as it is.
func looksLikeUserdata(b []byte) bool {
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return false // most submits are plain text
	}
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.reset(b, true)
	w.walk()
	return w.syntax.detail == "" && w.object && w.seen[subject] && w.seen[fields]
}

// member is the role of a name in the outer object.
type member uint8

const (
	other member = iota
	subject
	fields
	brief
)

// walker goes once over a JSON text. Containers and names live on two explicit
// stacks: frames, one per open container, and names, those of all open objects;
// an object's names start at its frame's base. Closing an object judges its names
// and pops them.
type walker struct {
	b        []byte
	i        int
	tolerant bool // note a broken rule and go on, to know whether the syntax holds

	frames []frame
	names  []name
	room   struct { // the stacks' first, so that one allocation does for most
		frames [MaxUserdataDepth]frame
		names  [32]name
	}
	text []byte // unescaped names; name.own points here

	role   member
	seen   [brief + 1]bool
	object bool  // the outermost value is an object
	syntax fault // not JSON
	rule   fault // JSON, but against a rule of §4; the first one
}

type frame struct {
	object bool
	base   int32 // into names
}

type name struct {
	lo, hi int32 // between the quotes in b, or in text
	at     int32 // of the opening quote in b
	own    bool
}

// verdict returns the first fault.
func (w *walker) verdict() fault {
	switch {
	case w.rule.detail != "":
		return w.rule
	case w.syntax.detail != "":
		return w.syntax
	case !w.seen[subject]:
		return w.schema(0, "subject", "is required")
	case !w.seen[fields]:
		return w.schema(0, "fields", "is required")
	}
	return fault{}
}

func (w *walker) schema(at int, field, detail string) fault {
	return fault{code: messages.ErrUserdataSchema, offset: at, field: field, detail: detail}
}

func (w *walker) bad(detail string) bool {
	w.syntax = w.schema(w.i, "", detail)
	return false
}

// broke notes a broken rule and reports whether to go on.
func (w *walker) broke(at int, field, detail string) bool {
	if w.rule.detail == "" {
		w.rule = w.schema(at, field, detail)
	}
	return w.tolerant
}

func (w *walker) space() {
	for w.i < len(w.b) {
		switch w.b[w.i] {
		case ' ', '\t', '\n', '\r':
			w.i++
		default:
			return
		}
	}
}

// peek returns the next byte other than white space, 0 at the end.
func (w *walker) peek() byte {
	w.space()
	if w.i < len(w.b) {
		return w.b[w.i]
	}
	return 0
}

func (w *walker) walk() {
	w.frames, w.names = w.room.frames[:0], w.room.names[:0]
	c := w.peek()
	w.object = c == '{'
	if !w.object && !w.broke(w.i, "", "USERDATA must be a JSON object") {
		return
	}
	for {
		opened, ok := w.value(c)
		if !ok {
			return
		}
		if opened {
			if c = w.peek(); c != closer(w.top()) {
				if c, ok = w.member(); !ok {
					return
				}
				continue
			}
		}
		// A value is complete: commas lead on, closers complete the next outer one.
		for {
			if !opened && len(w.frames) > 0 {
				if c = w.peek(); c == ',' {
					w.i++
					break
				}
			}
			if len(w.frames) == 0 {
				if w.space(); w.i < len(w.b) {
					w.bad("something follows the JSON text")
				}
				return
			}
			if c != closer(w.top()) {
				w.bad("expected a comma or the end of the " + w.what())
				return
			}
			opened = false
			w.i++
			if !w.pop() {
				return
			}
		}
		if c, ok = w.member(); !ok {
			return
		}
	}
}

func (w *walker) top() frame { return w.frames[len(w.frames)-1] }

func (w *walker) what() string {
	if w.top().object {
		return "object"
	}
	return "array"
}

func closer(f frame) byte {
	if f.object {
		return '}'
	}
	return ']'
}

// member reads up to the first byte of the next value in the open container: a
// name and its colon in an object, nothing in an array.
func (w *walker) member() (c byte, ok bool) {
	if !w.top().object {
		return w.peek(), true
	}
	if w.peek() != '"' {
		return 0, w.bad("expected a name in double quotes")
	}
	n := name{at: int32(w.i)}
	esc, ok := w.str()
	if !ok {
		return 0, false
	}
	n.lo, n.hi = n.at+1, int32(w.i-1)
	if esc {
		lo := len(w.text)
		w.text = appendUnescaped(w.text, w.b[n.lo:n.hi])
		n.lo, n.hi, n.own = int32(lo), int32(len(w.text)), true
	}
	w.names = append(w.names, n)
	if len(w.frames) == 1 && w.object {
		w.role = roleOf(w.nameOf(n))
		w.seen[w.role] = true
	}
	if w.peek() != ':' {
		return 0, w.bad("expected a colon")
	}
	w.i++
	return w.peek(), true
}

func (w *walker) nameOf(n name) []byte {
	if n.own {
		return w.text[n.lo:n.hi]
	}
	return w.b[n.lo:n.hi]
}

func roleOf(name []byte) member {
	switch string(name) {
	case "subject":
		return subject
	case "fields":
		return fields
	case "brief":
		return brief
	}
	return other
}

// value reads a scalar whole, or opens a container.
func (w *walker) value(c byte) (opened, ok bool) {
	switch w.role {
	case subject, brief:
		if c != '"' && !w.broke(w.i, [...]string{subject: "subject", brief: "brief"}[w.role], "must be a string") {
			return false, false
		}
	case fields:
		if c != '{' && !w.broke(w.i, "fields", "must be an object") {
			return false, false
		}
	case other:
	}
	w.role = other
	switch {
	case c == '{' || c == '[':
		if len(w.frames) == MaxUserdataDepth && !w.broke(w.i, "", fmt.Sprintf("nested deeper than %d", MaxUserdataDepth)) {
			return false, false
		}
		w.frames = append(w.frames, frame{object: c == '{', base: int32(len(w.names))})
		w.i++
		return true, true
	case c == '"':
		_, ok := w.str()
		return false, ok
	case c == 't':
		return false, w.word("true")
	case c == 'f':
		return false, w.word("false")
	case c == 'n':
		return false, w.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return false, w.number()
	}
	return false, w.bad("expected a value")
}

func (w *walker) word(s string) bool {
	if len(w.b)-w.i < len(s) || string(w.b[w.i:w.i+len(s)]) != s {
		return w.bad("expected " + s)
	}
	w.i += len(s)
	return true
}

// fewNames is how many names are compared pair by pair; more are sorted first, so
// that a wide object costs n·log n and needs no map.
const fewNames = 12

// pop closes the innermost container. An object's names must differ.
func (w *walker) pop() bool {
	f := w.top()
	w.frames = w.frames[:len(w.frames)-1]
	if !f.object {
		return true
	}
	ns := w.names[f.base:]
	w.names = w.names[:f.base]
	if len(ns) <= fewNames {
		for i := range ns {
			for j := range i {
				if bytes.Equal(w.nameOf(ns[i]), w.nameOf(ns[j])) {
					return w.twice(ns[i])
				}
			}
		}
		return true
	}
	b, text := w.b, w.text
	of := func(n name) []byte {
		if n.own {
			return text[n.lo:n.hi]
		}
		return b[n.lo:n.hi]
	}
	slices.SortFunc(ns, func(x, y name) int {
		if c := bytes.Compare(of(x), of(y)); c != 0 {
			return c
		}
		return int(x.at - y.at)
	})
	for i := 1; i < len(ns); i++ {
		if bytes.Equal(of(ns[i-1]), of(ns[i])) {
			return w.twice(ns[i])
		}
	}
	return true
}

func (w *walker) twice(n name) bool {
	return w.broke(int(n.at), "", fmt.Sprintf("the name %.60q stands twice in one object", w.nameOf(n)))
}
