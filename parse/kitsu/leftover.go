package kitsu

import "bytes"

// leftover judges what is shown of a reply: whether it is, whole, what models put around a
// token and says nothing (emphasis, backticks, a closing tag, a template's own token), and
// whether it may still become that.
func leftover(p []byte) (whole, may bool) {
	for len(p) > 0 {
		if bytes.IndexByte([]byte(" \t\r\n*_`~"), p[0]) >= 0 {
			p = p[1:]
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
