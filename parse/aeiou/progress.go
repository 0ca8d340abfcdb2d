package aeiou

import "github.com/seed14be6753/stile/parse"

// Normal appends norm(stream) of docs/spec/aeiou.md §12 to dst: line ends are LF, one final
// one is dropped, candidate lines are left out by shape, trailing SP and HTAB are
// cut. It works line by line without a limit on their length, in linear time.
func Normal(dst, stream []byte) []byte { return parse.AppendNormal(dst, stream, IsCandidate) }
