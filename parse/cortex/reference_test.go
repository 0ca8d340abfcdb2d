package cortex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference is docs/spec/streaming.md §§1–3 written a second time, as plainly as it goes: on
// the whole reply, with regular expressions and the standard library's JSON. It
// shares nothing with the decoder but the names of tags and the bounds.
type reference struct {
	in     string
	events []map[string]any
	seg    strings.Builder // of a thought, or between blocks
	depth  int
	blocks int
	ids    map[string]bool
}

var (
	refName  = `(?:thought|action_result|action_template|action|response|context_feed|if|foreach|parallel|rollback)`
	refStart = regexp.MustCompile(`^<(?:(` + refName + `)[ \t\r\n>/]|/(` + refName + `)[ \t\r\n>])`)
	refValue = `(?:"[^"<\r\n]*"|'[^'<\r\n]*'|\[[^\]<]*\]|[^ \t\r\n"'=<>` + "`" + `/\[\]]+)`
	refAttr  = `([A-Za-z_][A-Za-z0-9_.-]*)(?:[ \t\r\n]*=[ \t\r\n]*(` + refValue + `))?`
	refOpen  = regexp.MustCompile(`^<` + refName + `((?:[ \t\r\n]+` + refAttr + `)*)[ \t\r\n]*(/?)>`)
	refClose = regexp.MustCompile(`^</` + refName + `[ \t\r\n]*>`)
	refEach  = regexp.MustCompile(`[ \t\r\n]+` + refAttr)
	// What a longer reply could still make a tag.
	refHalfOpen  = regexp.MustCompile(`^<` + refName + `(?:[ \t\r\n]+` + refAttr + `)*(?:/|[ \t\r\n]+(?:/|[A-Za-z_][A-Za-z0-9_.-]*[ \t\r\n]*(?:/|=[ \t\r\n]*(?:"[^"<\r\n]*|'[^'<\r\n]*|\[[^\]<]*)?)?)?)?$`)
	refHalfClose = regexp.MustCompile(`^</` + refName + `[ \t\r\n]*$`)
	refID        = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	refKey       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// refTag is what begins at a "<".
type refTag struct {
	name    string
	closing bool
	known   bool // name and the byte behind it are there
	whole   bool
	bad     bool // it never becomes one; neither whole nor bad is cut by the end
	end     int
	attrs   [][2]string
	empty   bool // ends with "/>"
}

func (t *refTag) attr(key string) (string, bool) {
	for _, a := range t.attrs {
		if a[0] == key {
			return a[1], true
		}
	}
	return "", false
}

func (r *reference) tag(at int) refTag {
	s := r.in[at:]
	var t refTag
	m := refStart.FindStringSubmatch(s)
	if m == nil {
		return t
	}
	t.known, t.name, t.closing = true, m[1]+m[2], m[2] != ""
	if t.closing {
		if loc := refClose.FindStringIndex(s); loc != nil && loc[1] <= 4096 {
			t.whole, t.end = true, at+loc[1]
			return t
		}
		t.bad = len(s) > 4096 || !refHalfClose.MatchString(s)
		return t
	}
	m = refOpen.FindStringSubmatch(s)
	if m == nil {
		t.bad = len(s) > 4096 || !refHalfOpen.MatchString(s) || len(refEach.FindAllString(s, -1)) > 32
		return t
	}
	t.end, t.empty = at+len(m[0]), m[len(m)-1] == "/"
	for _, a := range refEach.FindAllStringSubmatch(m[1], -1) {
		v := a[2]
		if v != "" && (v[0] == '"' || v[0] == '\'') {
			v = v[1 : len(v)-1]
		}
		t.attrs = append(t.attrs, [2]string{a[1], v})
	}
	t.whole = len(m[0]) <= 4096 && len(t.attrs) <= 32
	t.bad = !t.whole
	return t
}

func (r *reference) event(ev string, kv ...any) {
	m := map[string]any{"ev": ev}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	r.events = append(r.events, m)
}

func (r *reference) fail(code string, kv ...any) {
	r.event("error", append([]any{"code", code}, kv...)...)
}

const refWS = " \t\r\n"

// flush ends the segment of a thought or between blocks.
func (r *reference) flush() {
	text := r.seg.String()
	r.seg.Reset()
	if r.depth == 0 {
		text = strings.Trim(text, refWS)
	}
	if text != "" {
		r.event(map[bool]string{true: "thought", false: "text"}[r.depth > 0], "text", text)
	}
}

// refer gives the canonical events of a reply.
func refer(reply []byte) []map[string]any {
	r := &reference{in: string(bytes.ToValidUTF8(reply, nil)), ids: map[string]bool{}}
	if !utf8.Valid(reply) {
		r.in = string([]rune(string(reply)))
	}
	r.run()
	return r.events
}

func (r *reference) run() {
	for i := 0; i < len(r.in); {
		if r.in[i] != '<' {
			r.seg.WriteByte(r.in[i])
			i++
			continue
		}
		t := r.tag(i)
		if !t.known || !r.means(t, i) {
			rest := r.in[i:]
			if r.depth > 0 && strings.HasPrefix("</thought", rest) {
				break // the thought's own closer, cut
			}
			r.seg.WriteByte('<')
			i++
			continue
		}
		switch {
		case t.bad:
			r.flush()
			r.fail("bad_tag", "tag", t.name)
			r.seg.WriteByte('<')
			i++
		case !t.whole:
			if r.depth == 0 || !t.closing {
				r.flush()
				r.fail("unclosed_tag", "tag", t.name)
			}
			i = len(r.in)
		default:
			r.flush()
			var final bool
			if i, final = r.block(t); final {
				if strings.Trim(r.in[i:], refWS) != "" {
					r.fail("after_final")
				}
				return
			}
		}
	}
	r.flush()
	if r.depth > 0 {
		r.fail("unclosed_thought")
	}
}

// means reports whether a tag means something between blocks or in a thought.
func (r *reference) means(t refTag, at int) bool {
	if r.depth == 0 {
		return true
	}
	switch t.name {
	case "thought":
		return true
	case "response":
		line := r.in[strings.LastIndexByte(r.in[:at], '\n')+1 : at]
		return !t.closing && strings.Trim(line, " \t") == ""
	case "context_feed":
		return false
	}
	return !t.closing
}

// block acts on a whole tag and gives where to go on.
func (r *reference) block(t refTag) (next int, final bool) {
	if t.closing {
		if r.depth == 0 {
			r.fail("stray_close", "tag", t.name)
		} else {
			r.depth--
		}
		return t.end, false
	}
	if t.name == "response" && r.depth > 0 {
		r.fail("unclosed_thought")
		r.depth = 0
	}
	seen := map[string]int{}
	for _, a := range t.attrs {
		if seen[a[0]]++; seen[a[0]] == 2 {
			r.fail("duplicate_attribute", "name", a[0])
		}
	}
	switch t.name {
	case "thought":
		if !t.empty {
			switch r.depth++; {
			case r.depth > 8:
				r.fail("too_deep")
			case r.depth > 1:
				r.fail("nested_thought")
			}
		}
		return t.end, false
	case "response":
		return r.response(t)
	case "context_feed":
		id, _ := t.attr("id")
		if id == "" {
			r.fail("missing_id", "tag", "context_feed")
		}
		body, next, closed := r.opaque(t, "context_feed")
		switch {
		case !closed && id != "":
			r.fail("unclosed_feed", "id", id)
		case !closed:
			r.fail("unclosed_feed")
		case id != "":
			r.event("feed", "id", id, "text", strings.Trim(body, refWS))
		}
		return next, false
	case "action":
		return r.action(t), false
	}
	code := "unsupported_tag"
	if t.name == "action_result" {
		code = "reserved_tag"
	}
	r.fail(code, "tag", t.name)
	return r.skip(t), false
}

// opaque gives what is before the first whole closer.
func (r *reference) opaque(t refTag, name string) (body string, next int, closed bool) {
	if t.empty {
		return "", t.end, true
	}
	for i := t.end; i < len(r.in); i++ {
		if c := r.tagIf(i); c.whole && c.closing && c.name == name {
			return r.in[t.end:i], c.end, true
		}
	}
	return r.in[t.end:], len(r.in), false
}

func (r *reference) tagIf(i int) refTag {
	if r.in[i] != '<' {
		return refTag{}
	}
	return r.tag(i)
}

func (r *reference) response(t refTag) (int, bool) {
	v, given := t.attr("final")
	low := strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 32
		}
		return c
	}, v)
	final := !given || low == "true"
	if given && low != "true" && low != "false" {
		r.fail("bad_attribute", "name", "final")
	}
	body, next, closed := r.opaque(t, "response")
	if !closed {
		if i := strings.LastIndexByte(body, '<'); i >= 0 && regexp.MustCompile(`^(?:</response[ \t\r\n]*)$`).MatchString(body[i:]) && len(body[i:]) <= 4096 ||
			i >= 0 && strings.HasPrefix("</response", body[i:]) {
			body = body[:i]
		}
		r.event("response", "text", body, "final", false, "complete", false)
		r.fail("unclosed_response")
		return next, false
	}
	r.event("response", "text", body, "final", final, "complete", true)
	return next, final
}

func (r *reference) skip(t refTag) int {
	if t.empty {
		return t.end
	}
	depth := 1
	for i := t.end; i < len(r.in); {
		c := r.tagIf(i)
		if !c.whole || c.name != t.name {
			i++
			continue
		}
		if c.closing {
			depth--
		} else if !c.empty {
			depth++
		}
		if i = c.end; depth == 0 {
			return i
		}
	}
	r.fail("unclosed_tag", "tag", t.name)
	return len(r.in)
}

// prefixOfJSON gives how many bytes of s continue a JSON text no deeper than 64.
func prefixOfJSON(s string) int {
	n := len(s)
	var v any
	err := json.Unmarshal([]byte(s), &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && !strings.Contains(err.Error(), "unexpected end") {
		n = int(syntax.Offset) - 1
	}
	depth, inString := 0, false
	for i := 0; i < n; i++ {
		switch c := s[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > 64 {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return n
}

// quotedAt tells for each byte of a JSON prefix whether it stands in a string.
func quotedAt(s string) []bool {
	in := make([]bool, len(s)+1)
	open := false
	for i := 0; i < len(s); i++ {
		in[i] = open
		switch {
		case open && s[i] == '\\':
			in[i] = true
			if i++; i < len(s) {
				in[i] = true
			}
		case s[i] == '"':
			open = !open
		}
	}
	in[len(s)] = open
	return in
}

func (r *reference) action(t refTag) int {
	r.blocks++
	id, _ := t.attr("id")
	shown := id
	if id == "" {
		shown = "#" + strconv.Itoa(r.blocks)
	}
	taken := r.ids[id]
	defer func() {
		if id != "" {
			r.ids[id] = true
		}
	}()
	body, next := "", t.end
	if !t.empty {
		rest := r.in[t.end:]
		cut := min(prefixOfJSON(rest), 256<<10)
		quoted := quotedAt(rest[:cut])
		closed := false
		for i := 0; i < len(rest) && !closed; i++ {
			if rest[i] != '<' || i < cut && quoted[i] {
				continue
			}
			c := r.tag(t.end + i)
			switch {
			case c.known && !c.closing, c.whole && c.closing && c.name != "action":
				r.fail("unclosed_action", "id", shown)
				return t.end + i
			case c.whole:
				body, next, closed = rest[:i], c.end, true
			}
		}
		if !closed {
			r.fail("unclosed_action", "id", shown)
			return len(r.in)
		}
	}
	switch code, field := r.judge(t, body, id); {
	case code == "" && taken:
		r.events = r.events[:len(r.events)-1]
		r.fail("duplicate_id", "id", shown)
	case field != "":
		r.fail(code, "id", shown, "field", field)
	case code != "":
		r.fail(code, "id", shown)
	default:
		r.events[len(r.events)-1]["id"] = shown
		r.events[len(r.events)-1]["in_thought"] = r.depth > 0
	}
	return next
}

// judge checks an action and adds its event, or gives what is wrong with it.
func (r *reference) judge(t refTag, body, id string) (code, field string) {
	if strings.Trim(body, refWS) == "" {
		return "missing_body", ""
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	if !json.Valid([]byte(body)) || dec.Decode(&v) != nil || prefixOfJSON(body) < len(body) || len(body) > 256<<10 || loneSurrogate(body) {
		return "invalid_json", ""
	}
	m, ok := v.(map[string]any)
	if !ok {
		return "invalid_body", ""
	}
	if id != "" && !refID.MatchString(id) {
		return "bad_id", ""
	}
	typ, given := t.attr("type")
	switch {
	case !given:
		typ = "tool"
	case typ == "context_feed":
		typ = "internal"
	case !regexp.MustCompile(`^(tool|agent|relic|workflow|llm|internal)$`).MatchString(typ):
		return "unknown_type", ""
	}
	mode, given := t.attr("mode")
	if !given {
		mode = "sync"
	} else if mode != "sync" && mode != "async" && mode != "fire_and_forget" {
		return "unknown_mode", ""
	}
	name, ok := m["name"].(string)
	if !ok || strings.TrimSpace(name) == "" {
		return "missing_name", ""
	}
	if m["parameters"] == nil {
		m["parameters"] = map[string]any{}
	}
	if _, ok := m["parameters"].(map[string]any); !ok {
		return "bad_field", "parameters"
	}
	key := m["output_key"]
	if s, ok := key.(string); key != nil && (!ok || !refKey.MatchString(s)) {
		return "bad_field", "output_key"
	}
	deps, ok := refDepends(t, m["depends_on"])
	if !ok {
		return "bad_field", "depends_on"
	}
	onError := "fail"
	switch v, skip := m["on_error"], m["skip_on_error"]; {
	case v != nil:
		if onError, ok = v.(string); !ok || onError != "fail" && onError != "skip" && onError != "retry" {
			return "bad_field", "on_error"
		}
	case skip == true:
		onError = "skip"
	case skip != nil && skip != false:
		return "bad_field", "on_error"
	}
	retry := 0
	if onError == "retry" {
		retry = 3
	}
	again := m["retry"]
	if again == nil {
		again = m["retry_count"]
	}
	if again != nil {
		n, ok := again.(json.Number)
		if !ok {
			return "bad_field", "retry"
		}
		rat, ok := new(big.Rat).SetString(string(n))
		switch {
		case !ok: // an exponent beyond big.Rat's: the tests give none that is an integer
			return "bad_field", "retry"
		case !rat.IsInt() || rat.Sign() < 0:
			return "bad_field", "retry"
		case rat.Cmp(big.NewRat(5, 1)) > 0:
			retry = 5
		default:
			retry = int(rat.Num().Int64())
		}
	}
	timeout := 300.0
	if v := m["timeout"]; v != nil {
		n, ok := v.(json.Number)
		if !ok {
			return "bad_field", "timeout"
		}
		f, _ := strconv.ParseFloat(string(n), 64)
		if f <= 0 && !regexp.MustCompile(`^[0.]*[1-9]`).MatchString(string(n)) {
			return "bad_field", "timeout"
		}
		timeout = math.Max(1e-9, math.Round(math.Min(f, 3600)*1e9)/1e9)
	}
	r.event("action", "type", typ, "mode", mode, "name", name, "parameters", m["parameters"], "output_key", key, "depends_on", deps,
		"timeout", timeout, "retry", retry, "on_error", onError)
	return "", ""
}

func refDepends(t refTag, body any) (ids []string, ok bool) {
	ids = []string{}
	attr, _ := t.attr("depends_on")
	attr = strings.Trim(attr, refWS)
	var all []any
	switch {
	case attr == "":
	case attr[0] == '[':
		if json.Unmarshal([]byte(attr), &all) != nil || prefixOfJSON(attr) < len(attr) {
			return nil, false
		}
	default:
		for s := range strings.SplitSeq(attr, ",") {
			all = append(all, strings.Trim(s, refWS))
		}
	}
	switch v := body.(type) {
	case nil:
	case []any:
		all = append(all, v...)
	default:
		all = append(all, v)
	}
	seen := map[string]bool{}
	for _, v := range all {
		s, isString := v.(string)
		if !isString || !refID.MatchString(s) {
			return nil, false
		}
		if !seen[s] {
			seen[s] = true
			ids = append(ids, s)
		}
	}
	return ids, true
}

// loneSurrogate looks for one in a valid JSON text.
func loneSurrogate(s string) bool {
	high := false
	for i := 0; i < len(s); i++ {
		unit := uint64(0)
		if s[i] == '\\' {
			if i++; s[i] == 'u' {
				unit, _ = strconv.ParseUint(s[i+1:i+5], 16, 32)
				i += 4
			}
		}
		low := unit >= 0xdc00 && unit < 0xe000
		if high != low {
			return true
		}
		high = unit >= 0xd800 && unit < 0xdc00
	}
	return high
}

// sameAsReference compares the decoder with the reference.
func sameAsReference(got []map[string]any, reply []byte) error {
	want := refer(reply)
	a, b := refLines(got), refLines(want)
	if a != b {
		return fmt.Errorf("%q\ngot\n%swant\n%s", reply, a, b)
	}
	return nil
}

func refLines(events []map[string]any) string {
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			line = []byte(err.Error())
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}
