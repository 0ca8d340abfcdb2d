package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Messages come through as they are, a line each, and nothing else does, however the
// stream is cut.
func TestLines(t *testing.T) {
	long := `{"id":1,"params":"` + strings.Repeat("x", 200_000) + `","jsonrpc":"2.0"}`
	for _, c := range []struct{ name, in, want, stray string }{
		{"message", `{"jsonrpc":"2.0"}` + "\n", `{"jsonrpc":"2.0"}` + "\n", ""},
		{"end of line", " {\"jsonrpc\":\"2.0\"}\t\r\n\r\n", `{"jsonrpc":"2.0"}` + "\n", ""},
		{"last line", "bye\n" + `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0"}` + "\n", "bye|"},
		{"last stray line", `{"jsonrpc":"2.0"}` + "\nbye", `{"jsonrpc":"2.0"}` + "\n", "bye|"},
		{"late key", `{"id":1,"a":{"b":[]},"jsonrpc":"2.0"}` + "\n", `{"id":1,"a":{"b":[]},"jsonrpc":"2.0"}` + "\n", ""},
		{"long", long + "\n", long + "\n", ""},
		{"batch", `[ {"jsonrpc":"2.0"} ]` + "\n", `[ {"jsonrpc":"2.0"} ]` + "\n", ""},
		{"damaged", `{"id":1,"jsonrpc` + "\n" + `{"id":[},"jsonrpc":1}` + "\n", `{"id":[},"jsonrpc":1}` + "\n", `{"id":1,"jsonrpc|`},
		{"stray", "a\n[INFO] b\n[{}]\n{\n{}\n{\"a\":{\"jsonrpc\":\"2.0\"}}\n7\n\"jsonrpc\"\n\xff\n", "", "a|[INFO] b|[{}]|{|{}|{\"a\":{\"jsonrpc\":\"2.0\"}}|7|\"jsonrpc\"|\xff|"},
	} {
		for cut, of := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with its end": iotest.DataErrReader} {
			var stray strings.Builder
			got, err := io.ReadAll(newLines(io.NopCloser(of(strings.NewReader(c.in))), func(line []byte) { stray.Write(line); stray.WriteByte('|') }))
			if err != nil || string(got) != c.want || stray.String() != c.stray {
				t.Errorf("%s, %s: got %.100q, beside it %q, %v; want %.100q, %q", c.name, cut, got, stray.String(), err, c.want, c.stray)
			}
		}
	}
}

// A line has a bound, whatever it is.
func TestLongLines(t *testing.T) {
	for _, begin := range []string{"", `{"jsonrpc":"2.0","params":"`} {
		in := io.MultiReader(strings.NewReader(begin), endless{})
		n, err := io.Copy(io.Discard, newLines(io.NopCloser(in), func([]byte) { t.Error("a part of a line") }))
		if n != 0 || !errors.Is(err, errLongLine) {
			t.Errorf("%q: %d bytes, %v", begin, n, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
