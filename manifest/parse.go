package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of what Parse reads and says.
const (
	MaxFileBytes = 256 << 10
	maxMistakes  = 100
	maxAnyDepth  = 32    // nesting of a value without a shape
	maxAnyNodes  = 10000 // and its size, aliases counted each time
)

// aliases are keys that may be written elsewhere.
var aliases = map[string]string{
	"tools":              "import.tools",
	"iteration_cap":      "loop.max_turns",
	"loop.iteration_cap": "loop.max_turns",
}

// Parse reads a manifest. file is what errors call it. ${NAME} reads
// environment.variables alone; see ParseEnv for the process's own.
//
// All mistakes come together, joined, sorted by line: each a *messages.Error with
// ERR_CONFIG, one of the Reason constants, File, Line, Col and Field. The result
// is nil then. dialects are the names of further ones that the host was given.
func Parse(file string, data []byte, dialects ...string) (*Manifest, error) {
	return ParseEnv(file, data, func(string) (string, bool) { return "", false }, dialects...)
}

// ParseEnv reads a manifest whose texts may name variables of the process:
// ${NAME}, or ${NAME:-text} for when NAME is empty or undefined; $$ is one $, and
// any other $ itself. lookup is asked for nothing but what environment.allow
// names. Keys and environment.allow are not expanded.
func ParseEnv(file string, data []byte, lookup func(name string) (string, bool), dialects ...string) (*Manifest, error) {
	return ParseWith(file, data, lookup, nil, dialects...)
}

// ParseWith is ParseEnv for a caller that has more to say of a manifest. What wrong
// finds, *messages.Error values joined, each with its Field, is reported among the
// other mistakes and at its line.
func ParseWith(file string, data []byte, lookup func(name string) (string, bool), wrong func(*Manifest) error, dialects ...string) (*Manifest, error) {
	l := loader{file: file, places: map[string]place{}, lookup: lookup, dialects: dialects}
	m := l.load(data)
	if m != nil && wrong != nil {
		l.merge(flat(wrong(m), nil))
	}
	if err := l.mistakes(); err != nil {
		return nil, err
	}
	return m, nil
}

// flat takes joined errors apart.
func flat(err error, to []*messages.Error) []*messages.Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			to = flat(e, to)
		}
		return to
	}
	var e *messages.Error
	if errors.As(err, &e) {
		own := *e
		return append(to, &own)
	}
	return to
}

// mistakes joins what was found, in order of the file.
func (l *loader) mistakes() error {
	for _, e := range l.found {
		e.File = l.file
	}
	slices.SortStableFunc(l.found, func(a, b *messages.Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	var all []error
	for i, e := range l.found {
		if i == maxMistakes {
			all = append(all, &messages.Error{Code: messages.ErrConfig, File: l.file, Detail: fmt.Sprintf("and %d more mistakes", len(l.found)-i)})
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

type place struct{ line, col int }

// loader fills a Manifest from YAML nodes and collects mistakes. It descends only
// as deep as the manifest's shape, whatever the file does.
type loader struct {
	file     string
	found    []*messages.Error
	places   map[string]place // of every value read, by key path
	root     reflect.Value    // the manifest that is read: the file's, or an agent's in it
	base     string           // its path in the file, with a dot behind; "" for the file's
	depth    int              // of the agent
	agents   int              // in the file so far
	lookup   func(string) (string, bool)
	dialects []string // known beside the product's
	allow    []string
	vars     map[string]string
	// definition reports whether the file is one of a definition: no key has an alias.
	definition bool
	raw        bool // the value being read is not expanded
	nodes      int  // read into values without a shape
	grown      int  // bytes put in for variables
	// undefined: in the text that is read, a variable that is not set is empty.
	undefined bool
}

func (l *loader) add(p place, path, reason, format string, args ...any) {
	l.found = append(l.found, &messages.Error{
		Code: messages.ErrConfig, Reason: reason, Field: path,
		Line: p.line, Col: p.col, Detail: fmt.Sprintf(format, args...),
	})
}

func at(n *yaml.Node) place { return place{n.Line, n.Column} }

// begin returns the one mapping of the file.
func (l *loader) begin(data []byte) *yaml.Node {
	if len(data) > MaxFileBytes {
		l.add(place{}, "", ReasonBadValue, "the manifest has %d bytes; the limit is %d", len(data), MaxFileBytes)
		return nil
	}
	doc := l.document(data)
	if doc == nil {
		return nil
	}
	if doc.Kind != yaml.MappingNode {
		l.add(at(doc), "", ReasonWrongType, "a manifest is a mapping of keys, not %s", nodeName(doc))
		return nil
	}
	return doc
}

func (l *loader) load(data []byte) *Manifest {
	doc := l.begin(data)
	if doc == nil {
		return nil
	}
	m := defaultOf(doc)
	l.root = reflect.ValueOf(m).Elem()
	// Texts anywhere may use the environment, so it is read first, and again with
	// the rest for its mistakes.
	l.environment(doc)
	l.structure("", doc, l.root)
	if m.Loop.NoProgressN <= 0 {
		m.Loop.NoProgressN = DefaultNoProgressN
	}
	l.merge(check(m, l.dialects))
	return m
}

// merge adds what is wrong with values that could be read.
func (l *loader) merge(wrong []*messages.Error) {
	reported := map[string]bool{}
	unread := map[string]bool{}
	for _, e := range l.found {
		reported[e.Field] = true
		unread[e.Field] = e.Reason == ReasonWrongType
	}
	for _, e := range wrong {
		// What could not be read kept its default and has been reported.
		if reported[e.Field] || inside(unread, e.Field) {
			continue
		}
		p := l.near(e.Field)
		e.Line, e.Col = p.line, p.col
		l.found = append(l.found, e)
	}
}

// inside reports whether a path lies in one of a set.
func inside(set map[string]bool, path string) bool {
	for path != "" {
		if path = path[:max(strings.LastIndexAny(path, ".["), 0)]; set[path] {
			return true
		}
	}
	return false
}

// near is the place of a key, or of the innermost one around it, or the start.
func (l *loader) near(path string) place {
	for path != "" {
		if p, ok := l.places[path]; ok {
			return p
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return place{1, 1}
}

func (l *loader) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := next(dec, &doc); err != nil {
		if errors.Is(err, io.EOF) {
			l.add(place{1, 1}, "", ReasonMissing, "the manifest is empty")
		} else {
			l.syntax(err)
		}
		return nil
	}
	if err := next(dec, &more); err == nil {
		l.add(at(&more), "", ReasonSyntax, "a manifest is one document; another follows")
		return nil
	} else if !errors.Is(err, io.EOF) {
		l.syntax(err)
		return nil
	}
	if len(doc.Content) != 1 {
		l.add(place{1, 1}, "", ReasonMissing, "the manifest is empty")
		return nil
	}
	return doc.Content[0]
}

// next reads a document. The library reports what it foresees as errors; files
// come from people, so a panic in it is one mistake more and not a crash.
func next(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: not readable: %v", r)
		}
	}()
	return dec.Decode(n)
}

// syntax reports the library's complaint, which carries its line in the text: the
// line where the construct it was in began, as far as the library knows it.
func (l *loader) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var p place
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if num, tail, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(num); err == nil {
				p, text = place{n, 1}, tail
			}
		}
	}
	l.add(p, "", ReasonSyntax, "%s", text)
}

// peek is the text of a key of the document, if it has it.
// defaultOf is what a manifest has that says no more than its dialect and its extensions.
func defaultOf(doc *yaml.Node) *Manifest {
	m := Default(peek(doc, "dialect"))
	if list := child(doc, "extensions"); list != nil {
		for _, n := range list.Content {
			if n.Value == extForeach {
				m.Quotas.Actions = loopActions
			}
		}
	}
	return m
}

func peek(doc *yaml.Node, key string) string {
	if n := child(doc, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

// resolve follows an alias. Descent is bounded by the manifest's shape, so a
// document that contains itself ends too.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func (l *loader) environment(doc *yaml.Node) {
	env := child(doc, "environment")
	if allow := child(env, "allow"); allow != nil && allow.Kind == yaml.SequenceNode {
		for _, n := range allow.Content {
			l.allow = append(l.allow, resolve(n).Value)
		}
	}
	vars := child(env, "variables")
	if vars == nil || vars.Kind != yaml.MappingNode {
		return
	}
	// In order of the file: a variable may use those above it.
	known := map[string]string{}
	for i := 0; i+1 < len(vars.Content); i += 2 {
		l.vars = known
		if s, err := l.expand(resolve(vars.Content[i+1]).Value); err == nil {
			known[vars.Content[i].Value] = s
		}
	}
	l.vars = known
}

func (l *loader) structure(path string, n *yaml.Node, v reflect.Value) {
	if !l.kind(path, n, yaml.MappingNode, "a mapping of keys") {
		return
	}
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], resolve(n.Content[i+1])
		key, ok := l.keyOf(path, kn, seen)
		if !ok {
			continue
		}
		here := join(path, key)
		if target, ok := aliases[strings.TrimPrefix(here, l.base)]; ok && strings.HasPrefix(here, l.base) && !l.definition {
			l.aliased(here, target, kn, vn)
			continue
		}
		f := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		switch {
		case f >= 0:
			if fields[f].sized != "" && isSize(vn) {
				f = slices.IndexFunc(fields, func(of field) bool { return of.key == fields[f].sized })
				here = join(path, fields[f].key)
			}
			if fields[f].mapped != "" && vn.Kind == yaml.MappingNode {
				l.mapped(path, here, vn, fields, f, v)
				continue
			}
			l.value(here, kn, vn, &fields[f], v.Field(fields[f].index))
		case strings.HasPrefix(key, "x-"):
		case key == "<<":
			l.add(at(kn), here, ReasonUnknownKey, "merge keys are not read; write the keys out")
		default:
			l.add(at(kn), here, ReasonUnknownKey, "unknown key%s", suggest(key, fields))
		}
	}
}

// mapped reads a switch that is written as a mapping: it is on, and the one key below it is
// the one beside it.
func (l *loader) mapped(path, here string, n *yaml.Node, fields []field, on int, v reflect.Value) {
	l.places[here] = at(n)
	v.Field(fields[on].index).SetBool(true)
	beside := slices.IndexFunc(fields, func(f field) bool { return f.key == fields[on].mapped })
	f, seen := &fields[beside], map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], resolve(n.Content[i+1])
		switch key, ok := l.keyOf(here, kn, seen); {
		case !ok:
		case key == f.key:
			l.value(join(path, f.key), kn, vn, f, v.Field(f.index))
		default:
			l.add(at(kn), join(here, key), ReasonUnknownKey, "unknown key%s", suggest(key, fields[beside:beside+1]))
		}
	}
}

// keyOf reads a key and refuses a repeated one.
func (l *loader) keyOf(path string, kn *yaml.Node, seen map[string]bool) (string, bool) {
	if kn.Kind != yaml.ScalarNode {
		l.add(at(kn), path, ReasonWrongType, "a key is text, not %s", nodeName(kn))
		return "", false
	}
	if seen[kn.Value] {
		l.add(at(kn), join(path, kn.Value), ReasonDuplicate, "given twice")
		return "", false
	}
	seen[kn.Value] = true
	return kn.Value, true
}

// aliased reads a key that stands for another.
func (l *loader) aliased(here, target string, kn, vn *yaml.Node) {
	v := l.root
	var f field
	for _, key := range strings.Split(target, ".") {
		fields := fieldsOf(v.Type())
		f = fields[slices.IndexFunc(fields, func(f field) bool { return f.key == key })]
		v = v.Field(f.index)
	}
	if _, ok := l.places[l.base+target]; ok {
		l.add(at(kn), here, ReasonDuplicate, "%s has been given already", target)
		return
	}
	l.value(l.base+target, kn, vn, &f, v)
}
