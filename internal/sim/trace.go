package sim

import (
	"fmt"
	"io"
)

// trace says what a world does. A nil one says nothing.
type trace struct{ to io.Writer }

func newTrace(to io.Writer) *trace {
	if to == nil {
		return nil
	}
	return &trace{to}
}

func (t *trace) say(format string, args ...any) {
	if t != nil {
		fmt.Fprintf(t.to, format+"\n", args...)
	}
}
