package feeds

import (
	"path"
	"strings"
)

// globOK reports whether a pattern can be used.
func globOK(pattern string) bool {
	if strings.HasPrefix(pattern, "/") {
		return false
	}
	pattern = strings.TrimSuffix(pattern, "/")
	for seg := range strings.SplitSeq(pattern, "/") {
		if seg == "" {
			return false
		}
		if _, err := path.Match(seg, ""); err != nil {
			return false
		}
	}
	return true
}

// glob reports whether a slash-separated name fits a pattern. A pattern without a slash
// but at its end is matched against the last segment, wherever that is; in others every segment is a
// pattern of package path, and ** stands for any number of segments. It takes time in
// the product of both lengths at most.
func glob(pattern, name string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") && pattern != "**" {
		ok, _ := path.Match(pattern, path.Base(name))
		return ok
	}
	segs, names := strings.Split(pattern, "/"), strings.Split(name, "/")
	// The last ** seen takes one segment more whenever what follows it does not fit:
	// an earlier one never has to be asked again.
	p, n, star, from := 0, 0, -1, 0
	for n < len(names) {
		if p < len(segs) {
			if segs[p] == "**" {
				star, from = p, n
				p++
				continue
			}
			if ok, _ := path.Match(segs[p], names[n]); ok {
				p++
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(segs) && segs[p] == "**" {
		p++
	}
	return p == len(segs)
}

func globAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if glob(p, name) {
			return true
		}
	}
	return false
}
