package parse

import (
	"bytes"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// NormalLines yields the lines of s as the progress guard compares them (docs/spec/aeiou.md
// §12): CRLF and CR end a line like LF, one final line end is dropped, lines for which drop
// returns true are left out, and trailing SP and HTAB are cut. The lines alias s. Joined with LF
// they are norm(s). The work is linear in s. drop may be nil.
func NormalLines(s []byte, drop func(line []byte) bool) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := s
		switch {
		case bytes.HasSuffix(s, []byte("\r\n")):
			s = s[:len(s)-2]
		case len(s) > 0 && (s[len(s)-1] == '\n' || s[len(s)-1] == '\r'):
			s = s[:len(s)-1]
		}
		for more := true; more; {
			// One piece up to LF, then the CRs in it: each byte is looked at once for
			// each kind of line end.
			var stretch []byte
			stretch, s, more = bytes.Cut(s, []byte{'\n'})
			if more && len(stretch) > 0 && stretch[len(stretch)-1] == '\r' {
				stretch = stretch[:len(stretch)-1]
			}
			for cr := true; cr; {
				var line []byte
				line, stretch, cr = bytes.Cut(stretch, []byte{'\r'})
				if drop != nil && drop(line) {
					continue
				}
				n := len(line)
				for n > 0 && (line[n-1] == ' ' || line[n-1] == '\t') {
					n--
				}
				if !yield(line[:n]) {
					return
				}
			}
		}
	}
}

// AppendNormal appends norm(s) to dst; see NormalLines.
func AppendNormal(dst, s []byte, drop func(line []byte) bool) []byte {
	first := true
	for line := range NormalLines(s, drop) {
		if !first {
			dst = append(dst, '\n')
		}
		first = false
		dst = append(dst, line...)
	}
	return dst
}

// Digest returns the texts that the progress guard hashes, for all dialects but aeiou
// (docs/spec/design.md §5): out is the visible text, normalised, and a line "name
// canonical-args" for each call; scr is a line "status canonical-value" for each result, in the
// order of the facts. Thoughts and text between blocks, which users do not see, do not count as
// progress.
func Digest(f messages.Facts) (out, scr []byte) {
	for _, u := range f.Units {
		if u.Kind != messages.ResponseUnit {
			continue
		}
		out = AppendNormal(out, []byte(u.Text), nil)
		out = append(out, '\n')
	}
	for _, c := range f.Calls {
		out = appendPair(out, c.Name, c.Args)
		scr = appendPair(scr, string(c.State), c.Value)
	}
	return bytes.TrimSuffix(out, []byte{'\n'}), bytes.TrimSuffix(scr, []byte{'\n'})
}

func appendPair(dst []byte, word, canonical string) []byte {
	dst = append(dst, word...)
	dst = append(dst, ' ')
	dst = append(dst, canonical...)
	return append(dst, '\n')
}
