// Package textdiff says how two texts differ, line by line, in the unified form that people
// and tools know. Its functions are pure and take time and memory in proportion to the
// texts: lines that differ too much are given as one replacement, not as the shortest one.
package textdiff

import (
	"fmt"
	"slices"
	"strings"
)

// maxEdits bounds the search for a shortest difference, in lines taken out and put in; it
// holds maxEdits² ints at most.
const maxEdits = 512

// Op is what becomes of a line.
type Op byte

// The operations, as they begin a line of a unified difference.
const (
	Keep   Op = ' '
	Remove Op = '-'
	Insert Op = '+'
)

// Line is a line of either text, without its LF.
type Line struct {
	Op   Op
	Text string
}

// Lines returns all lines of both texts: those of a are kept or removed, those of b kept or
// inserted. Of a replacement the removed lines come first.
func Lines(a, b string) []Line {
	as, bs := split(a), split(b)
	head := 0
	for head < len(as) && head < len(bs) && as[head] == bs[head] {
		head++
	}
	tail := 0
	for tail < len(as)-head && tail < len(bs)-head && as[len(as)-1-tail] == bs[len(bs)-1-tail] {
		tail++
	}
	out := make([]Line, 0, len(as)+len(bs))
	keep := func(lines []string) {
		for _, l := range lines {
			out = append(out, Line{Keep, l})
		}
	}
	keep(as[:head])
	out = append(out, middle(as[head:len(as)-tail], bs[head:len(bs)-tail])...)
	keep(as[len(as)-tail:])
	return out
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// middle is the greedy search of Myers for a shortest edit script. trace has, for each number
// of edits, how far each diagonal had come.
func middle(a, b []string) []Line {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return replaced(a, b)
	}
	most := min(n+m, maxEdits)
	far := make([]int, 2*most+3)
	at := func(k int) int { return k + most + 1 }
	var trace [][]int
	for d := 0; d <= most; d++ {
		trace = append(trace, slices.Clone(far[at(-d)-1:at(d)+2]))
		for k := -d; k <= d; k += 2 {
			x := far[at(k-1)] + 1
			if k == -d || k != d && far[at(k-1)] < far[at(k+1)] {
				x = far[at(k+1)]
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			if far[at(k)] = x; x >= n && x-k >= m {
				return back(a, b, trace)
			}
		}
	}
	return replaced(a, b)
}

// back reads the script from its end.
func back(a, b []string, trace [][]int) []Line {
	var out []Line
	x, y := len(a), len(b)
	for d := len(trace) - 1; x > 0 || y > 0; d-- {
		far := func(k int) int { return trace[d][k+d+1] }
		k := x - y
		down := k == -d || k != d && far(k-1) < far(k+1)
		from := k - 1
		if down {
			from = k + 1
		}
		fx := 0
		if d > 0 {
			fx = far(from)
		}
		fy := fx - from
		for x > max(fx, 0) && y > max(fy, 0) && a[x-1] == b[y-1] {
			x, y = x-1, y-1
			out = append(out, Line{Keep, a[x]})
		}
		switch {
		case d == 0:
			x, y = 0, 0
		case down:
			y--
			out = append(out, Line{Insert, b[y]})
		default:
			x--
			out = append(out, Line{Remove, a[x]})
		}
	}
	slices.Reverse(out)
	return ordered(out)
}

// ordered puts the removed lines of a change in front of the inserted ones.
func ordered(lines []Line) []Line {
	for i := 0; i < len(lines); {
		j := i
		for j < len(lines) && lines[j].Op != Keep {
			j++
		}
		slices.SortStableFunc(lines[i:j], func(a, b Line) int { return int(b.Op) - int(a.Op) }) // '-' is above '+'
		i = j + 1
	}
	return lines
}

func replaced(a, b []string) (out []Line) {
	for _, l := range a {
		out = append(out, Line{Remove, l})
	}
	for _, l := range b {
		out = append(out, Line{Insert, l})
	}
	return out
}

// Unified returns the changes with so many lines around each, under headers of the form
// "@@ -first,count +first,count @@". It is "" for texts whose lines are equal. Every line
// ends with LF; the last line of a text is shown alike with and without one.
func Unified(a, b string, around int) string {
	lines := Lines(a, b)
	var out strings.Builder
	inA, inB := 1, 1 // of lines[i]
	for i := 0; i < len(lines); {
		next := i
		for next < len(lines) && lines[next].Op == Keep {
			next++
		}
		if next == len(lines) {
			break
		}
		from := max(next-around, i)
		inA, inB = inA+from-i, inB+from-i
		end, kept := next, 0
		for j := next; j < len(lines) && kept <= 2*around; j++ {
			if kept++; lines[j].Op != Keep {
				end, kept = j+1, 0
			}
		}
		end = min(end+around, len(lines))
		countA, countB := 0, 0
		for _, l := range lines[from:end] {
			if l.Op != Insert {
				countA++
			}
			if l.Op != Remove {
				countB++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(inA, countA), span(inB, countB))
		for _, l := range lines[from:end] {
			out.WriteByte(byte(l.Op))
			out.WriteString(l.Text)
			out.WriteByte('\n')
		}
		inA, inB, i = inA+countA, inB+countB, end
	}
	return out.String()
}

// span is a place in a header; one without lines is named by the line before it.
func span(first, count int) string {
	if count == 0 {
		first--
	}
	if count == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}
