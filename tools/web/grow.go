package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// How the answer of an endpoint is a result that is shown as it grows
// (docs/spec/extensions.md §5).
const (
	StreamEvents    = "events"     // the list of the data of text/event-stream
	StreamLines     = "lines"      // the text
	StreamJSONLines = "json_lines" // the list of the values of its lines
)

// accepted is the header Accept for an endpoint.
func accepted(stream string) string {
	switch stream {
	case StreamEvents:
		return eventStream
	case StreamJSONLines:
		return "application/x-ndjson, application/jsonl, application/json;q=0.5, text/*;q=0.5"
	}
	return "application/json, text/*;q=0.5"
}

const eventStream = "text/event-stream"

// growing makes a result of an answer, and shows it as it comes.
type growing struct {
	form  string
	key   string // is not shown
	call  *tools.Call
	rest  []byte // of the answer: a line that is not whole
	lines int
	out   strings.Builder // the text, or the items of the list
	event
}

type event struct {
	name string
	data []byte // its lines, each with an end
	some bool   // it has data
}

var errTooLong = errors.New("too long")

// read reads an answer to its end. The error is errTooLong for one over most bytes, that of
// the body, or that of the result.
func (g *growing) read(ctx context.Context, resp *http.Response, most int64) (result string, broken, err error) {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); g.form == StreamEvents && kind != eventStream && resp.StatusCode != http.StatusNoContent {
		return "", nil, neuroscript.Errorf(neuroscript.CodeToolFailed, "status %d, and the answer is %s, not %s", resp.StatusCode, clip.Quoted(kind), eventStream)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if most -= int64(n); most < 0 {
			return "", errTooLong, nil
		}
		g.rest = append(g.rest, buf[:n]...)
		if end := errors.Is(err, io.EOF); end || err == nil {
			if err := g.take(ctx, end); err != nil {
				return "", nil, err
			}
			if end {
				result, err = g.result()
				return result, nil, err
			}
			continue
		}
		return "", err, nil
	}
}

// take takes the lines that are whole, and at the end the last one too.
func (g *growing) take(ctx context.Context, end bool) error {
	rest := g.rest
	for len(rest) > 0 {
		line, more, ok := g.line(rest, end)
		if !ok {
			break
		}
		rest = more
		if err := g.next(ctx, line); err != nil {
			return err
		}
	}
	g.rest = append(g.rest[:0], rest...)
	return nil
}

// line splits the next line off, with its end.
func (g *growing) line(text []byte, end bool) (line, more []byte, ok bool) {
	i := bytes.IndexByte(text, '\n')
	if g.form == StreamEvents { // whose lines may end with CR alone
		if j := bytes.IndexByte(text, '\r'); j >= 0 && (i < 0 || j < i) && j+1 < len(text) && text[j+1] != '\n' {
			i = j
		}
	}
	switch {
	case i >= 0:
		return text[:i+1], text[i+1:], true
	case end:
		return text, nil, true
	}
	return nil, text, false
}

func (g *growing) next(ctx context.Context, line []byte) error {
	g.lines++
	switch g.form {
	case StreamLines: // a key has no end of a line
		text := redact(strings.ToValidUTF8(string(line), "\ufffd"), g.key)
		g.out.WriteString(text)
		return g.call.Emit(ctx, text)
	case StreamEvents:
		return g.field(ctx, strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\ufffd"))
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	item, ok := compact(line)
	if !ok {
		return neuroscript.Errorf(neuroscript.CodeToolFailed, "line %d of the answer is no JSON", g.lines)
	}
	return g.item(ctx, item)
}

// field takes a line of an event stream (WHATWG HTML, server-sent events).
func (g *growing) field(ctx context.Context, line string) error {
	if g.lines == 1 {
		line = strings.TrimPrefix(line, "\ufeff")
	}
	if line == "" {
		e := g.event
		g.event = event{}
		if !e.some {
			return nil
		}
		item, err := e.value()
		if err != nil {
			return err
		}
		return g.item(ctx, item)
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "data":
		g.some = true
		g.data = append(append(g.data, value...), '\n')
	case "event":
		g.name = value
	}
	return nil
}

// value returns an event as an item: its data, which is JSON or a text, and for one with a name
// of its own an object with both.
func (e *event) value() (jsontext.Value, error) {
	data := bytes.TrimSuffix(e.data, []byte("\n"))
	item, ok := compact(data)
	var err error
	if !ok {
		item, err = jsontext.AppendQuote(nil, data)
	}
	if err != nil || e.name == "" || e.name == "message" {
		return item, err
	}
	name, err := jsontext.AppendQuote(nil, e.name)
	return jsontext.Value(fmt.Sprintf(`{"data":%s,"event":%s}`, item, name)), err
}

// compact returns JSON without blanks, each string in one spelling, so that a key is found in it.
func compact(text []byte) (jsontext.Value, bool) {
	v := jsontext.Value(bytes.Clone(text))
	if !v.IsValid() { // also with a name twice
		return nil, false
	}
	err := v.Compact(jsontext.AllowInvalidUTF8(false), jsontext.EscapeForHTML(false), jsontext.PreserveRawStrings(false))
	return v, err == nil && len(v) > 0
}

func (g *growing) item(ctx context.Context, item jsontext.Value) error {
	text := redact(string(item), g.key)
	if g.out.Len() > 0 {
		g.out.WriteByte(',')
	}
	g.out.WriteString(text)
	return g.call.Emit(ctx, text+"\n")
}

func (g *growing) result() (string, error) {
	if g.form != StreamLines {
		return "[" + g.out.String() + "]", nil
	}
	out, err := jsontext.AppendQuote(nil, g.out.String())
	return string(out), err
}
