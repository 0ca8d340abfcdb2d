package parse

import (
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed14be6753/stile/messages"
)

// letters is a decoder that makes a text of each byte and a lint of its end.
type letters struct{ ended []messages.Finish }

func (d *letters) Push(p []byte, emit func(messages.Event)) {
	for i := range p {
		emit(messages.Event{Kind: messages.EventUnitText, Text: p[i : i+1]})
	}
}

func (d *letters) End(f messages.Finish, emit func(messages.Event)) {
	d.ended = append(d.ended, f)
	emit(messages.Event{Kind: messages.EventLint, Text: []byte("." + string(f))})
}

func chunks(failure error, texts ...string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, s := range texts {
			if !yield([]byte(s), nil) {
				return
			}
		}
		if failure != nil {
			yield(nil, failure)
		}
	}
}

func TestEvents(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		failure error
		stop    int // after so many events
		want    string
		ended   []messages.Finish
	}{
		{nil, 99, "abc.complete", []messages.Finish{messages.FinishComplete}},
		{broken, 99, "abc.error broken", []messages.Finish{messages.FinishError}},
		{nil, 1, "a", nil},
		{nil, 3, "abc", nil},
		{nil, 4, "abc.complete", []messages.Finish{messages.FinishComplete}},
		{broken, 4, "abc.error", []messages.Finish{messages.FinishError}},
	} {
		d := &letters{}
		got, n := "", 0
		for ev, err := range Events(d, chunks(c.failure, "ab", "", "c")) {
			if err != nil {
				got += " " + err.Error()
				continue
			}
			got += string(ev.Text)
			if n++; n == c.stop {
				break
			}
		}
		if got != c.want || !slices.Equal(d.ended, c.ended) {
			t.Errorf("stop %d: %q, ended %v", c.stop, got, d.ended)
		}
	}
}

// silent is a reader that never reads anything.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestChunks(t *testing.T) {
	text := strings.Repeat("0123456789", 10000)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		r    io.Reader
		want string
		err  error
	}{
		"whole":         {strings.NewReader(text), text, nil},
		"bytes":         {iotest.OneByteReader(strings.NewReader(text)), text, nil},
		"data with end": {iotest.DataErrReader(strings.NewReader(text)), text, nil},
		"empty":         {strings.NewReader(""), "", nil},
		"broken":        {io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), "abc", broken},
		"silent":        {silent{}, "", io.ErrNoProgress},
	} {
		var got []byte
		var failed error
		for p, err := range Chunks(c.r) {
			got = append(got, p...)
			if err != nil {
				failed = err
			}
		}
		if string(got) != c.want || !errors.Is(failed, c.err) {
			t.Errorf("%s: %d bytes, %v", name, len(got), failed)
		}
	}
	for range Chunks(strings.NewReader(text)) {
		break
	}
}
