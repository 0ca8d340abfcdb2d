package aeiou

import (
	"crypto/sha256"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Normal appends norm(stream) of docs/spec/aeiou.md §12 to dst: line ends are LF, one final
// one is dropped, candidate lines are left out by shape, trailing SP and HTAB are
// cut. It works line by line without a limit on their length, in linear time.
func Normal(dst, stream []byte) []byte { return parse.AppendNormal(dst, stream, IsCandidate) }

// ProgressDigest is SHA-256 of "OUT|" norm(out) LF "SCR|" norm(scr): equal for
// turns that made no progress (§12). It keeps no copy of the streams.
func ProgressDigest(out, scr []byte) messages.Digest {
	h := sha256.New()
	var room [1024]byte // lines are short; the hash likes them together
	stage := room[:0]
	put := func(p []byte) {
		if len(stage)+len(p) > cap(stage) {
			h.Write(stage)
			stage = stage[:0]
			if len(p) > cap(stage) {
				h.Write(p)
				return
			}
		}
		stage = append(stage, p...)
	}
	for _, s := range []struct {
		tag    string
		stream []byte
	}{{"OUT|", out}, {"\nSCR|", scr}} {
		put([]byte(s.tag))
		first := true
		for line := range parse.NormalLines(s.stream, IsCandidate) {
			if !first {
				put([]byte{'\n'})
			}
			first = false
			put(line)
		}
	}
	h.Write(stage)
	var d messages.Digest
	h.Sum(d[:0])
	return d
}
