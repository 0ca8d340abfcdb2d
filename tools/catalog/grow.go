package catalog

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// How the standard output of a command is its result where Command.Stream says so
// (docs/spec/extensions.md §5).
const (
	StreamLines     = "lines"      // the result is the text
	StreamJSONLines = "json_lines" // each line is JSON, and the result is the list of them
)

// growing makes a result of the lines of an output, and shows them as they come.
type growing struct {
	form  string
	call  *tools.Call
	taken int // bytes of the output
	lines int // of StreamJSONLines that were taken, blank ones too
	text  strings.Builder
	items []neuroscript.Value
}

// take takes the lines of the output that are whole, and at the end the last one too. The error
// is the one to give in place of the result.
func (g *growing) take(ctx context.Context, output []byte, end bool) error {
	fresh := output[g.taken:]
	if !end {
		fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
	}
	g.taken += len(fresh)
	if len(fresh) == 0 {
		return nil
	}
	if g.form == StreamLines {
		text := strings.ToValidUTF8(string(fresh), "\ufffd") // no invalid sequence goes over the end of a line
		g.text.WriteString(text)
		return g.call.Emit(ctx, text)
	}
	for line := range bytes.Lines(fresh) {
		g.lines++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		v, err := neuroscript.FromJSON(line)
		if err != nil {
			return neuroscript.Errorf(neuroscript.CodeToolFailed, "line %d of the result is no JSON: %s", g.lines, err)
		}
		piece, err := neuroscript.AppendJSON(nil, v)
		if err != nil {
			return neuroscript.Errorf(neuroscript.CodeToolFailed, "line %d of the result has no JSON form: %s", g.lines, err)
		}
		g.items = append(g.items, v)
		if err := g.call.Emit(ctx, string(append(piece, '\n'))); err != nil {
			return err
		}
	}
	return nil
}

// value is the whole result.
func (g *growing) value() neuroscript.Value {
	if g.form == StreamLines {
		return neuroscript.String(g.text.String())
	}
	return neuroscript.List(g.items)
}

// follow shows the lines of an output while a program writes it. A program that has ended does
// not wait for those who read its lines: what it wrote is kept, within its bound, and wait
// shows the rest.
func (g *growing) follow(ctx context.Context, out *bounded, stop func(error)) (w *followed, wait func() error) {
	w = &followed{out: out, more: make(chan struct{}, 1)}
	shown := make(chan error, 1)
	go func() {
		for range w.more {
			if err := g.take(ctx, w.written(), false); err != nil {
				stop(err)
				shown <- err
				return
			}
		}
		shown <- nil
	}()
	return w, func() error {
		close(w.more) // after the last Write
		if err := <-shown; err != nil {
			return err
		}
		return g.take(ctx, out.b, true)
	}
}

// followed is a bounded output that is read while it is written.
type followed struct {
	mu   sync.Mutex
	out  *bounded
	more chan struct{} // full: there is more
}

// Write implements io.Writer.
func (w *followed) Write(p []byte) (int, error) {
	w.mu.Lock()
	n, err := w.out.Write(p)
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return n, err
}

// written returns what was written so far. A later Write does not change it.
func (w *followed) written() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.out.b)
}
