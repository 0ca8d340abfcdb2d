package conform

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// shownBytes bounds what the report shows of one result.
const shownBytes = 1500

// A testCase is one case of a file. judge runs it; its error says why the case
// is malformed, with the member in Field.
type testCase struct {
	name  string
	judge func() (verdict, error)
}

// A verdict is what one case came to.
type verdict struct {
	pass     bool
	expected []fmt.Stringer // every answer that passes, the specification's first
	got      fmt.Stringer
	leftOut  string // why the case is not counted
}

// compare passes when one of the wanted answers matches.
func compare[W fmt.Stringer](got fmt.Stringer, matches func(W) bool, wants []W) verdict {
	v := verdict{got: got}
	for _, want := range wants {
		v.pass = v.pass || matches(want)
		v.expected = append(v.expected, want)
	}
	return v
}

// text is a result that is just its text.
type text string

func (t text) String() string { return string(t) }

// cases judges all cases of a file in one format and closes with the file's line.
// A file that ctx ends in has neither line nor counts.
func (r *run) cases(ctx context.Context, path string, f int, all []testCase) {
	var n Count
	reasons := []string{}
	for _, c := range all {
		if ctx.Err() != nil {
			return
		}
		v, err := r.guarded(c)
		switch {
		case err != nil:
			n.Failed++
			r.failure(path, c.name, []fmt.Stringer{text("a case of format " + formats[f].name)}, text("malformed: "+err.Error()))
		case v.leftOut != "":
			if n.LeftOut++; len(reasons) == 0 || reasons[len(reasons)-1] != v.leftOut {
				reasons = append(reasons, v.leftOut)
			}
		case v.pass:
			n.Passed++
		default:
			n.Failed++
			r.failure(path, c.name, v.expected, v.got)
		}
	}
	r.fileLine(path, f, n, reasons)
	total := &r.counts[f]
	total.Format = formats[f].name
	total.Files++
	total.Passed += n.Passed
	total.Failed += n.Failed
	total.LeftOut += n.LeftOut
	r.sum.Passed += n.Passed
	r.sum.Failed += n.Failed
	r.sum.LeftOut += n.LeftOut
}

// guarded turns a panic of the code under test into the result of its case.
func (r *run) guarded(c testCase) (v verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.panics++
			v, err = verdict{expected: []fmt.Stringer{text("an answer")}, got: text(fmt.Sprint("panic: ", p))}, nil
		}
	}()
	return c.judge()
}

func (r *run) failure(path, name string, expected []fmt.Stringer, got fmt.Stringer) {
	fmt.Fprintf(r.out, "FAIL  %s: %s\n", visible(path), visible(name))
	word := "expected"
	for _, e := range expected {
		fmt.Fprintf(r.out, "      %-8s %s\n", word, visible(e.String()))
		word = "or"
	}
	fmt.Fprintf(r.out, "      got      %s\n", visible(got.String()))
}

func (r *run) fileLine(path string, f int, n Count, reasons []string) {
	if r.progress != nil {
		r.progress(r.sum.Passed + r.sum.Failed)
	}
	word := "ok   "
	switch {
	case n.Failed > 0:
		word = "FAIL "
	case r.quiet:
		return
	}
	fmt.Fprintf(r.out, "%s %s: %s: %d passed, %d failed", word, visible(path), formats[f].name, n.Passed, n.Failed)
	if n.LeftOut > 0 {
		fmt.Fprintf(r.out, ", %d not counted (%s)", n.LeftOut, visible(strings.Join(reasons, "; ")))
	}
	r.out.WriteByte('\n')
}

// cutBytes bounds the work of cutting one input in two at many places, which would
// otherwise grow with the square of its length.
const cutBytes = 1 << 20

// cuts returns the places to cut an input of n bytes in two: all of them, or as many
// as cutBytes allows, spread evenly, with the ends.
func cuts(n int) []int {
	step := max(n*n/cutBytes, 1) // n is at most DefaultFileBytes
	var all []int
	for i := 0; i < n-1; i += step {
		all = append(all, i)
	}
	if n > 0 {
		all = append(all, n-1)
	}
	return append(all, n)
}

// malformed names the member of a case that keeps it from being judged.
func malformed(field, format string, args ...any) error {
	return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// visible makes text from a vector file fit for one line of a terminal: what is
// not printable is escaped, what is long is cut.
func visible(s string) string {
	n := len(s)
	s = clip.Start(s, shownBytes)
	for _, c := range s {
		if !strconv.IsPrint(c) || c == utf8.RuneError {
			q := strconv.Quote(s)
			s = strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
			break
		}
	}
	if n > shownBytes {
		s += fmt.Sprintf("… (%d bytes)", n)
	}
	return s
}

// quoted shows bytes as text.
func quoted(b []byte) string {
	if len(b) > shownBytes {
		return strconv.Quote(clip.Start(string(b[:min(len(b), shownBytes+utf8.UTFMax)]), shownBytes)) + fmt.Sprintf("… (%d bytes)", len(b))
	}
	return strconv.Quote(string(b))
}
