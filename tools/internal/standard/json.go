package standard

import (
	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/internal/neuroscript"
)

// strToJSON writes the JSON that the language defines for values
// (docs/spec/neuroscript.md §4), members ascending by key: without blanks, or indented by two spaces.
func strToJSON(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	if a[0].Depth() > neuroscript.MaxValueDepth {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeEvaluation, "the value nests more than %d deep", neuroscript.MaxValueDepth)
	}
	pretty, _ := a[1].AsBool()
	count := jsonWriter{pretty: pretty, counting: true}
	if err := count.value(a[0], 0); err != nil {
		return neuroscript.Value{}, err
	}
	if err := m.CheckValue(sum(neuroscript.StringBase, count.n)); err != nil {
		return neuroscript.Value{}, err
	}
	w := jsonWriter{pretty: pretty, b: make([]byte, 0, count.n)}
	if err := w.value(a[0], 0); err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.String(string(w.b)), nil
}

// strParseJSON reads RFC 8259 strictly; of members with the same name the last
// wins. No JSON, or a number out of range, is code 41; too deep nesting is 17.
func strParseJSON(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return m.ParseJSON(str(a[0]))
}

// jsonWriter writes a value twice: once to count the bytes, once to make them.
type jsonWriter struct {
	pretty   bool
	counting bool
	n        int64  // bytes, while counting
	b        []byte // otherwise
}

func (w *jsonWriter) put(s string) {
	if w.counting {
		w.n = sum(w.n, int64(len(s)))
		return
	}
	w.b = append(w.b, s...)
}

// scalar writes what has no members.
func (w *jsonWriter) scalar(v neuroscript.Value) error {
	if !w.counting {
		var err error
		w.b, err = neuroscript.AppendJSON(w.b, v)
		return err
	}
	if s, ok := v.AsString(); ok {
		w.n = sum(w.n, jsonstring.Len(s))
		return nil
	}
	var room [64]byte
	b, err := neuroscript.AppendJSON(room[:0], v)
	w.n = sum(w.n, int64(len(b)))
	return err
}

const jsonIndent = "  "

// line begins a new line at a depth, in pretty form.
func (w *jsonWriter) line(depth int) {
	if !w.pretty {
		return
	}
	w.put("\n")
	for range depth {
		w.put(jsonIndent)
	}
}

func (w *jsonWriter) value(v neuroscript.Value, depth int) error {
	switch v.Kind() {
	case neuroscript.KindList:
		l := elems(v)
		w.put("[")
		for i := range l {
			if i > 0 {
				w.put(",")
			}
			w.line(depth + 1)
			if err := w.value(l[i], depth+1); err != nil {
				return err
			}
		}
		if len(l) > 0 {
			w.line(depth)
		}
		w.put("]")
		return nil
	case neuroscript.KindMap:
		return w.object(entries(v), depth)
	case neuroscript.KindError:
		code, message, details, _ := v.AsError()
		members := []neuroscript.Entry{
			{Key: "code", Value: neuroscript.Number(float64(code))},
			{Key: "details", Value: details},
			{Key: "message", Value: neuroscript.String(message)},
		}
		if details.IsNil() {
			members = append(members[:1], members[2])
		}
		return w.object(members, depth)
	}
	return w.scalar(v)
}

func (w *jsonWriter) object(members []neuroscript.Entry, depth int) error {
	w.put("{")
	for i := range members {
		if i > 0 {
			w.put(",")
		}
		w.line(depth + 1)
		if err := w.scalar(neuroscript.String(members[i].Key)); err != nil {
			return err
		}
		w.put(":")
		if w.pretty {
			w.put(" ")
		}
		if err := w.value(members[i].Value, depth+1); err != nil {
			return err
		}
	}
	if len(members) > 0 {
		w.line(depth)
	}
	w.put("}")
	return nil
}
