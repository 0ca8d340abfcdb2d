package kitsu

import (
	"bytes"
	"strings"
)

// around are the characters that models put around a token: emphasis, backticks, marks of a
// list or a quotation, brackets, a full stop.
const around = " \t\r\n*_`~->.\"'()[]"

// label is what models write in front of a token, in any case.
const label = "action:"

// leftover judges what is shown of a reply: whether it is, whole, what models put around a
// token and says nothing (the characters of around, label, a closing tag, a template's own
// token), and whether it may still become that.
func leftover(p []byte) (whole, may bool) {
	for len(p) > 0 {
		if strings.IndexByte(around, p[0]) >= 0 {
			p = p[1:]
			continue
		}
		if k := min(len(p), len(label)); strings.EqualFold(string(p[:k]), label[:k]) {
			if k < len(label) {
				return false, true
			}
			p = p[k:]
			continue
		}
		n, may := leftoverTag(p)
		if n == 0 {
			return false, may
		}
		p = p[n:]
	}
	return true, true
}

// maxLeftoverTag bounds a tag that says nothing.
const maxLeftoverTag = 40

// leftoverTag returns the length of a tag that says nothing, 0 for none; may says that p ends
// within one.
func leftoverTag(p []byte) (n int, may bool) {
	for _, form := range []struct{ open, shut string }{{"</action", ">"}, {"<|", "|>"}, {"</s", ">"}} {
		k := min(len(p), len(form.open))
		if !bytes.EqualFold(p[:k], []byte(form.open[:k])) {
			continue
		}
		if k < len(form.open) {
			return 0, true
		}
		for i := k; i < len(p) && i < maxLeftoverTag; i++ {
			if bytes.HasSuffix(p[k:i+1], []byte(form.shut)) {
				return i + 1, true
			}
			if c := p[i]; !kindByte(c) && c != ':' && c != '|' {
				return 0, false
			}
		}
		return 0, len(p) < maxLeftoverTag
	}
	return 0, false
}
