package cortex

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/seed14be6753/stile/messages"
)

// block is the action whose body is being read. The slices alias src; nil is absent.
type block struct {
	at                  int64
	ordinal             int // of the action blocks of the reply, from 1
	inThought           bool
	src                 []byte // the opener
	id, typ, mode, show []byte
	called              []byte // a name that the model wrote in the tag instead of the body
	template            []byte // that it uses; nil for none
	depends             []byte // trimmed; a list in brackets is JSON in normal form
	dependsBad          bool
}

// span is a string in the decoder's arena.
type span struct{ from, to int }

// beginAction keeps the opener until the body has come.
func (d *decoder) beginAction(p []byte, at int64) {
	d.actions++
	b := &d.action
	if b.src == nil {
		d.grow()
	}
	b.src = append(b.src[:0], p...)
	b.at, b.ordinal, b.inThought = at, d.actions, d.depth > 0
	d.readDepends(trim(d.readAttrs(b)))
	d.json.Reset()
	d.raw, d.white, d.bodyBytes, d.body = false, true, 0, body{}
	d.bodyTag, d.bodyLimit = tagAction, d.limits.BodyBytes
	d.state = inAction
	if d.tag.SelfClosing() {
		d.endAction(at + int64(len(p)))
	}
}

// readAttrs finds the attributes of an opener; of repeated ones the first counts.
func (d *decoder) readAttrs(b *block) (depends []byte) {
	b.id, b.typ, b.mode, b.show, b.called = nil, nil, nil, nil, nil
	b.template = nil
	for i := d.tag.Attrs() - 1; i >= 0; i-- {
		a := d.tag.Attr(i)
		v := b.src[a.Value:a.ValueEnd]
		switch string(b.src[a.Key:a.KeyEnd]) {
		case "id":
			b.id = v
		case "type":
			b.typ = v
		case "mode":
			b.mode = v
		case "show":
			b.show = v
		case "depends_on":
			depends = v
		case "template":
			if d.on(ExtTemplates) {
				b.template = v[:len(v):len(v)]
			}
		case "name", "tool", "function", "target":
			b.called = v
		}
	}
	return depends
}

// grow allocates the memory of usual actions at once.
func (d *decoder) grow() {
	room := new(struct {
		src   [256]byte
		arena [512]byte
		spans [8]span
	})
	d.action.src, d.arena, d.spans = room.src[:0], room.arena[:0], room.spans[:0]
}

// readDepends takes the attribute depends_on: nothing, ids between commas, or a
// JSON array.
func (d *decoder) readDepends(v []byte) {
	b := &d.action
	b.depends, b.dependsBad = v, false
	if len(v) > 0 && v[0] == '[' {
		d.json.Reset()
		b.dependsBad = d.json.Write(v) < len(v) || !d.json.End()
		b.depends = append(b.src, d.json.Bytes()...)[len(b.src):] // src stays as it is
	}
}

// forgotten reports whether an opener follows, known by the byte after its name, before the
// open action has its closer.
func (d *decoder) forgotten() bool {
	return d.state == inAction && d.tag.Known() && !d.tag.Closing()
}

// forgot rejects the open action, which has no closer.
func (d *decoder) forgot() {
	switch {
	case d.quiet():
		d.endQuiet()
		return
	case d.bodyTag == tagTemplate:
		d.forgotTemplate()
		return
	}
	d.reject(UnclosedAction, "")
}

// endAction checks the action at its closer, which ends before offset end, in the order of
// docs/spec/streaming.md §3.1. The first failure wins, and the action is rejected.
func (d *decoder) endAction(end int64) {
	b := &d.action
	switch {
	case d.quiet():
		d.endQuiet()
		return
	case d.bodyTag == tagTemplate:
		d.endTemplate()
		return
	}
	if d.think.open {
		d.reject(UnclosedThought, "")
		return
	}
	valid := !d.raw && d.json.End()
	text := d.json.Bytes()
	switch {
	case d.json.Blank() && d.white && b.template != nil:
		text = emptyObject
	case d.json.Blank() && d.white:
		d.reject(MissingBody, "")
		return
	case !valid:
		d.reject(InvalidJSON, "")
		return
	}
	if text[0] != '{' {
		d.reject(InvalidBody, "")
		return
	}
	if len(b.id) > 0 && !isID(b.id) {
		d.reject(BadID, "")
		return
	}
	a := &messages.Action{InThought: b.inThought}
	f := d.fields(text)
	if b.template != nil {
		if wrong := d.fill(&f, text, a); wrong != nil {
			d.reject(BadTemplate, wrong.Field)
			return
		}
	}
	var ok bool
	if a.Type, ok = typeOf(b.typ); !ok {
		d.reject(UnknownType, "")
		return
	}
	if a.Mode, ok = modeOf(b.mode); !ok {
		d.reject(UnknownMode, "")
		return
	}
	d.arena, d.spans = d.arena[:0], d.spans[:0]
	d.keepID()
	if !d.keepName(f.name) {
		d.reject(MissingName, "")
		return
	}
	if field := d.readFields(&f, a); field != "" {
		d.reject(BadField, field)
		return
	}
	d.intern(a)
	if d.taken(a.ID) || d.ext != nil && d.ext.variable(a.ID) {
		d.reject(DuplicateID, "")
		return
	}
	if d.ext != nil {
		d.placed(a)
	}
	d.state = d.enclosing()
	d.slipped()
	d.emit(messages.Event{Kind: messages.EventAction, Offset: b.at, Action: a, Complete: true})
	if d.cuts && (a.Mode == messages.ModeSync || a.Type == messages.TypeInternal) && !d.inBlock() { // else it is cut behind the block
		d.state = inCut
		d.emit(messages.Event{Kind: messages.EventCut, Offset: end})
	}
}

// reject ends the action with an error. Its id stays in use.
func (d *decoder) reject(reason, field string) {
	b := &d.action
	limit := ""
	if reason == InvalidJSON || reason == UnclosedAction {
		limit = d.overrun()
	}
	if d.second && reason == InvalidJSON && limit != "" {
		reason = overLimit[limit]
	}
	f := fault(reason, b.at)
	f.Field, f.Limit = field, limit
	switch {
	case d.second:
		f.Detail = reason + ": " + d.explain(reason, field)
	case field != "":
		f.Detail += ": " + field
	}
	f.ID = "#" + strconv.Itoa(b.ordinal)
	if len(b.id) > 0 {
		f.ID = string(b.id)
		d.taken(f.ID)
	}
	d.state = d.enclosing()
	d.fault(f)
}

// overrun returns the limit that the body of the action exceeded; "" for none.
func (d *decoder) overrun() string {
	switch {
	case !d.raw:
		return ""
	case d.json.Deep():
		return messages.LimitJSONDepth
	case d.bodyBytes >= d.bodyLimit:
		return messages.LimitBody
	}
	return ""
}

// taken adds an id to those in use and reports whether it was in use before. Ids of the form
// #N are unique anyway.
func (d *decoder) taken(id string) bool {
	return id[0] != '#' && d.ids.take(id)
}

// ids is a set of ids: the first few are searched, more are hashed.
type ids struct {
	few  [8]string
	n    int
	many map[string]struct{}
}

// has reports whether an id is there.
func (s *ids) has(id string) bool {
	_, ok := s.many[id]
	return ok || slices.Contains(s.few[:s.n], id)
}

// take adds an id and reports whether it was there before.
func (s *ids) take(id string) bool {
	if slices.Contains(s.few[:s.n], id) {
		return true
	}
	if s.n < len(s.few) {
		s.few[s.n] = id
		s.n++
		return false
	}
	if _, ok := s.many[id]; ok {
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{})
	}
	s.many[id] = struct{}{}
	return false
}

// The strings of an action (id, name, output key, arguments, dependencies) are collected in
// arena, one after the other, and become one allocation. mark ends one of them.
func (d *decoder) mark() {
	from := 0
	if n := len(d.spans); n > 0 {
		from = d.spans[n-1].to
	}
	d.spans = append(d.spans, span{from, len(d.arena)})
}

func (d *decoder) keepID() {
	if b := &d.action; len(b.id) > 0 {
		d.arena = append(d.arena, b.id...)
	} else {
		d.arena = strconv.AppendInt(append(d.arena, '#'), int64(b.ordinal), 10)
	}
	d.mark()
}

// intern makes the strings of the action out of arena.
func (d *decoder) intern(a *messages.Action) {
	all := string(d.arena)
	at := func(i int) string { return all[d.spans[i].from:d.spans[i].to] }
	a.ID, a.Name, a.OutputKey, a.Args = at(0), at(1), at(2), at(3)
	if n := len(d.spans) - 4; n > 0 {
		a.DependsOn = make([]string, n)
		for i := range a.DependsOn {
			a.DependsOn[i] = at(4 + i)
		}
		a.DependsOn = distinct(a.DependsOn)
	}
}

// distinct drops repeated ids and keeps the order.
func distinct(all []string) []string {
	if len(all) < 2 {
		return all
	}
	var seen ids
	kept := all[:0]
	for _, id := range all {
		if !seen.take(id) {
			kept = append(kept, id)
		}
	}
	return kept
}

var emptyObject = []byte("{}")

// typeOf reads the attribute type.
func typeOf(v []byte) (messages.ActionType, bool) {
	if v == nil {
		return messages.TypeTool, true
	}
	if string(v) == names[tagFeed] { // the spelling of older drafts
		return messages.TypeInternal, true
	}
	for _, t := range [...]messages.ActionType{
		messages.TypeTool, messages.TypeAgent, messages.TypeRelic, messages.TypeWorkflow, messages.TypeLLM, messages.TypeInternal,
	} {
		if string(v) == string(t) {
			return t, true
		}
	}
	return "", false
}

// modeOf reads the attribute mode.
func modeOf(v []byte) (string, bool) {
	if v == nil {
		return messages.ModeSync, true
	}
	for _, m := range [...]string{messages.ModeSync, messages.ModeAsync, messages.ModeFireAndForget} {
		if string(v) == m {
			return m, true
		}
	}
	return "", false
}

// showOf reads show: the attribute before the body, anything unknown as default.
func showOf(attr, field []byte) string {
	v := attr
	if v == nil && len(field) > 2 && field[0] == '"' {
		v = field[1 : len(field)-1]
	}
	for _, s := range [...]string{messages.ShowOperator, messages.ShowNone} {
		if string(v) == s {
			return s
		}
	}
	return messages.ShowUser
}

// isID reports whether p is an action id: [A-Za-z_][A-Za-z0-9_.-]{0,63}.
func isID(p []byte) bool { return isName(p, ".-") }

// isKey reports whether p is an output key: [A-Za-z_][A-Za-z0-9_]{0,63}.
func isKey(p []byte) bool { return isName(p, "") }

// maxNameBytes bounds ids and output keys.
const maxNameBytes = 64

func isName(p []byte, also string) bool {
	if len(p) == 0 || len(p) > maxNameBytes {
		return false
	}
	for i, c := range p {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && !bytes.ContainsRune([]byte(also), rune(c))) {
			return false
		}
	}
	return true
}
