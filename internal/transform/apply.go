package transform

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// Why a step fails.
const (
	WhyType     = "type"
	WhyNotFound = "not_found"
	WhyNotJSON  = "not_json"
	WhyTooLarge = "too_large"
)

// Error is the failure of a step. The feed has no value then: it is recorded and shown as
// failed, and what the step was given never stands in for what it did not give.
type Error struct {
	Step   int // from 0
	Op     string
	Why    string
	Detail string
}

func (e *Error) Error() string {
	return "transform[" + strconv.Itoa(e.Step) + "] " + e.Op + ": " + e.Why + ": " + e.Detail
}

// Apply runs the chain over a JSON value and gives one, in normal form.
func (c *Chain) Apply(value string) (string, *Error) {
	if len(c.steps) == 0 {
		return value, nil
	}
	r := run{}
	v, ok := jsonvalue.Normal(value)
	if !ok {
		r.fail(WhyNotJSON, "the value is no JSON, or nests too deeply")
	}
	r.limit(v)
	for i := range c.steps {
		if r.why == "" {
			v = r.step(&c.steps[i], v)
			r.limit(v)
		}
		if r.why != "" {
			return "", &Error{i, c.steps[i].op, r.why, r.detail}
		}
	}
	return v, nil
}

// run is a chain at work. The first failure stays.
type run struct{ why, detail string }

func (r *run) fail(why, detail string) {
	if r.why == "" {
		r.why, r.detail = why, detail
	}
}

// limit refuses a value that is too large: of a text its own bytes count.
func (r *run) limit(v string) {
	if len(v) <= MaxBytes || jsonvalue.Kind(v) == jsonvalue.String && len(jsonvalue.Meant(v)) <= MaxBytes {
		return
	}
	r.tooLarge()
}

func (r *run) tooLarge() {
	r.fail(WhyTooLarge, "the value has more than "+strconv.Itoa(MaxBytes)+" bytes")
}

func (r *run) wrong(v, wanted string) string {
	r.fail(WhyType, wanted+", and the value is of type "+jsonvalue.Word(v))
	return v
}

// output is a text that a step writes, up to the bound of a value.
type output struct {
	strings.Builder
	run *run
}

func (o *output) add(texts ...string) {
	for _, s := range texts {
		if o.run.why != "" {
			return
		}
		if o.Len()+len(s) > MaxBytes {
			o.run.tooLarge()
			return
		}
		o.WriteString(s)
	}
}

func (o *output) value() string { return jsonvalue.Quote(o.String()) }

func (r *run) step(s *step, v string) string {
	switch s.op {
	case OpSelect:
		return r.selected(s, v)
	case OpHead, OpTail:
		return r.cut(s, v)
	case OpMatch:
		return r.match(s, v)
	case OpDrop:
		return r.filter(v, func(text string) bool { return !s.pattern.MatchString(text) })
	case OpReplace:
		return r.deep(v, func(text string) string { return r.replaced(s, text) }, nil)
	case OpRedact:
		hide := func(text string) string { return r.redacted(s, text) }
		return r.deep(v, hide, s.pattern.MatchString)
	case OpSort:
		return r.sorted(v)
	case OpUnique:
		return r.unique(v)
	case OpJSON:
		return r.parsed(v)
	case OpText:
		return r.text(v)
	case OpMarkdown:
		return r.markdown(v)
	case OpYAML:
		return r.yaml(v)
	}
	return r.filled(s, v)
}

func (r *run) selected(s *step, v string) string {
	if jsonvalue.Scalar(v) {
		return r.wrong(v, "select takes an array or an object")
	}
	for _, segment := range s.path {
		name := strconv.Quote(clip.Quoted(segment))
		if jsonvalue.Scalar(v) {
			return r.wrong(v, name+" is looked for in an array or an object")
		}
		part, ok := jsonvalue.Child(v, segment)
		if !ok {
			r.fail(WhyNotFound, map[byte]string{jsonvalue.Array: "no item ", jsonvalue.Object: "no member "}[jsonvalue.Kind(v)]+name)
			return v
		}
		v = part
	}
	return v
}

// lines splits a text at line ends; the last one ends no further line.
func lines(text string) []string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range all {
		if i < len(all)-1 || strings.HasSuffix(text, "\n") {
			all[i] = strings.TrimSuffix(line, "\r")
		}
	}
	return all
}

func joined(all []string) string { return jsonvalue.Quote(strings.Join(all, "\n")) }

func array(items []string) string { return "[" + strings.Join(items, ",") + "]" }

// cut returns the first or the last lines, items or characters.
func (r *run) cut(s *step, v string) string {
	text := jsonvalue.Kind(v) == jsonvalue.String
	part := func(all []string) []string {
		if s.op == OpHead {
			return all[:min(s.n, len(all))]
		}
		return all[max(0, len(all)-s.n):]
	}
	switch {
	case s.unit == "items" && jsonvalue.Kind(v) == jsonvalue.Array:
		return array(part(slices.Collect(jsonvalue.Items(v))))
	case s.unit == "lines" && text:
		return joined(part(lines(jsonvalue.Meant(v))))
	case s.unit == "chars" && text:
		return jsonvalue.Quote(characters(jsonvalue.Meant(v), s.n, s.op == OpHead))
	}
	return r.wrong(v, s.op+" takes a text for lines and chars, and an array for items")
}

// characters returns the first or the last n of a text.
func characters(text string, n int, head bool) string {
	at := 0
	if !head {
		at = len(text)
	}
	for range n {
		switch {
		case head && at < len(text):
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
		case !head && at > 0:
			_, size := utf8.DecodeLastRuneInString(text[:at])
			at -= size
		}
	}
	if head {
		return text[:at]
	}
	return text[at:]
}

func (r *run) match(s *step, v string) string {
	if jsonvalue.Kind(v) != jsonvalue.String {
		if jsonvalue.Kind(v) != jsonvalue.Array {
			return r.wrong(v, "match takes a text or an array")
		}
		return r.filter(v, s.pattern.MatchString)
	}
	text := jsonvalue.Meant(v)
	o := output{run: r}
	for i, at := range s.pattern.FindAllStringSubmatchIndex(text, s.n) {
		if i > 0 {
			o.add("\n")
		}
		if from, to := at[2*s.group], at[2*s.group+1]; from >= 0 {
			o.add(text[from:to])
		}
	}
	return o.value()
}

// filter keeps the lines of a text, or the items of an array, of which keep holds.
func (r *run) filter(v string, keep func(text string) bool) string {
	var kept []string
	switch jsonvalue.Kind(v) {
	case jsonvalue.String:
		for _, line := range lines(jsonvalue.Meant(v)) {
			if keep(line) {
				kept = append(kept, line)
			}
		}
		return joined(kept)
	case jsonvalue.Array:
		for item := range jsonvalue.Items(v) {
			if keep(jsonvalue.Text(item)) {
				kept = append(kept, item)
			}
		}
		return array(kept)
	}
	return r.wrong(v, "drop takes a text or an array")
}

// deep changes the strings at any depth. Where hides is given, numbers and members whose
// text it holds of are hidden too.
func (r *run) deep(v string, change func(text string) string, hides func(text string) bool) string {
	o := output{run: r}
	if jsonvalue.Kind(v) == jsonvalue.String {
		o.add(change(jsonvalue.Meant(v)))
		return o.value()
	}
	var walk func(v string)
	walk = func(v string) {
		switch kind := jsonvalue.Kind(v); {
		case r.why != "":
		case kind == jsonvalue.String:
			o.add(jsonvalue.Quote(change(jsonvalue.Meant(v))))
		case kind == jsonvalue.Number && hides != nil && (hides(jsonvalue.Canonical(v)) || hides(v)):
			o.add(jsonvalue.Quote(hidden))
		case kind == jsonvalue.Array:
			between := "["
			for item := range jsonvalue.Items(v) {
				o.add(between)
				walk(item)
				between = ","
			}
			if between == "[" {
				o.add("[")
			}
			o.add("]")
		case kind == jsonvalue.Object:
			between := "{"
			for name, value := range jsonvalue.Members(v) {
				if hides != nil && hides(jsonvalue.Meant(name)) {
					continue
				}
				o.add(between, name, ":")
				walk(value)
				between = ","
			}
			if between == "{" {
				o.add("{")
			}
			o.add("}")
		default:
			o.add(v)
		}
	}
	walk(v)
	return o.String()
}

// hidden stands for what was redacted.
const hidden = "[redacted]"

// replaced puts the replacement in the place of each match. Its size is known before it is
// written: a short text with many matches and a long replacement would be gigabytes.
func (r *run) replaced(s *step, text string) string {
	matches, matched := 0, 0
	s.pattern.ReplaceAllStringFunc(text, func(m string) string {
		matches++
		matched += len(m)
		return ""
	})
	rest := len(text) - matched
	size := rest
	var lengths [10]int // of a group, over all matches; 0 not yet known
	for _, p := range s.parts {
		if p.group < 0 {
			size += matches * len(p.text)
			continue
		}
		if lengths[p.group] == 0 {
			lengths[p.group] = len(s.pattern.ReplaceAllString(text, expansion(p))) - rest
		}
		size += lengths[p.group]
	}
	if size > MaxBytes {
		r.tooLarge()
		return text
	}
	var with strings.Builder
	for _, p := range s.parts {
		with.WriteString(expansion(p))
	}
	return s.pattern.ReplaceAllString(text, with.String())
}

// expansion is a part of a replacement as package regexp writes it.
func expansion(p part) string {
	if p.group < 0 {
		return strings.ReplaceAll(p.text, "$", "$$")
	}
	return "${" + strconv.Itoa(p.group) + "}"
}

func (r *run) redacted(s *step, text string) string {
	size := len(text)
	text = s.pattern.ReplaceAllStringFunc(text, func(m string) string {
		if size += len(hidden) - len(m); size > MaxBytes {
			return ""
		}
		return hidden
	})
	if size > MaxBytes {
		r.tooLarge()
	}
	return text
}

func (r *run) sorted(v string) string {
	switch jsonvalue.Kind(v) {
	case jsonvalue.String:
		all := lines(jsonvalue.Meant(v))
		slices.Sort(all)
		return joined(all)
	case jsonvalue.Array:
	default:
		return r.wrong(v, "sort takes a text or an array")
	}
	type ranked struct {
		item, text string
		number     jsonvalue.Decimal
	}
	var all []ranked
	var kind byte
	for item := range jsonvalue.Items(v) {
		k := jsonvalue.Kind(item)
		if len(all) > 0 && k != kind || k != jsonvalue.String && k != jsonvalue.Number {
			r.fail(WhyType, "the items to sort must be all texts or all numbers")
			return v
		}
		kind = k
		one := ranked{item: item}
		if k == jsonvalue.Number {
			one.number = jsonvalue.DecimalOf(item)
		} else {
			one.text = jsonvalue.Meant(item)
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		if kind == jsonvalue.Number {
			return a.number.Compare(b.number)
		}
		return strings.Compare(a.text, b.text)
	})
	items := make([]string, len(all))
	for i := range all {
		items[i] = all[i].item
	}
	return array(items)
}

func (r *run) unique(v string) string {
	seen := map[string]bool{}
	first := func(key string) bool {
		was := seen[key]
		seen[key] = true
		return !was
	}
	var kept []string
	switch jsonvalue.Kind(v) {
	case jsonvalue.String:
		for _, line := range lines(jsonvalue.Meant(v)) {
			if first(line) {
				kept = append(kept, line)
			}
		}
		return joined(kept)
	case jsonvalue.Array:
		for item := range jsonvalue.Items(v) {
			if first(jsonvalue.Key(item)) {
				kept = append(kept, item)
			}
		}
		return array(kept)
	}
	return r.wrong(v, "unique takes a text or an array")
}

func (r *run) parsed(v string) string {
	if jsonvalue.Kind(v) != jsonvalue.String {
		return v
	}
	value, ok := jsonvalue.Normal(jsonvalue.Meant(v))
	if !ok {
		r.fail(WhyNotJSON, "the text is no JSON, or nests too deeply")
	}
	return value
}

func (r *run) text(v string) string {
	o := output{run: r}
	if jsonvalue.Kind(v) != jsonvalue.Array {
		o.add(jsonvalue.Text(v))
		return o.value()
	}
	between := ""
	for item := range jsonvalue.Items(v) {
		o.add(between, jsonvalue.Text(item))
		between = "\n"
	}
	return o.value()
}

// filled writes the text of a template.
func (r *run) filled(s *step, v string) string {
	o := output{run: r}
	for _, p := range s.parts {
		if !p.value {
			o.add(p.text)
			continue
		}
		part := v
		for _, segment := range p.path {
			var ok bool
			if part, ok = jsonvalue.Child(part, segment); !ok {
				r.fail(WhyNotFound, "the value has no "+clip.Quoted(strings.Join(p.path, ".")))
				return v
			}
		}
		o.add(jsonvalue.Text(part))
	}
	return o.value()
}
