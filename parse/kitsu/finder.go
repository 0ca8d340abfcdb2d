package kitsu

import "bytes"

// Prefixes of what is the machine's.
const (
	tokenPrefix    = "<action:"
	internalPrefix = "[INTERNAL"
)

// finder looks for candidates: lines that are one token and nothing else but space
// and tab (docs/spec/kitsu.md §2). It keeps the first one, up to limit bytes, and counts the
// rest. It gets whole characters, in pieces of any size.
//
// In a line that begins with <action: it needs no more than the places of the first
// ">" outside quotes, of the first ">", and of the last character that is neither
// space nor tab: the token end is one of the first two, and the line is a candidate
// if it is the third.
type finder struct {
	limit int
	loose bool // of version 2: any case begins a token, and one that does not end counts
	count int
	first []byte // the first candidate without outer space and tab
	at    int64  // its offset
	over  bool   // it is longer than limit

	lines   int // line ends so far
	line    int // 1-based, of the first candidate
	state   findState
	matched int // bytes of tokenPrefix
	start   int64
	quoted  bool
	n       int // bytes of the line from tokenPrefix on
	outside int // the first ">" outside quotes, -1 for none
	any     int // the first ">"
	last    int // the last that is neither space nor tab
	before  int // what last was before a CR
	cr      bool

	// Of version 2:
	cut    bool // the first candidate does not end
	cased  bool // it begins in another case
	odd    bool // and so does this one
	beside bool // a token at the start of a line has text behind it; the first is at
	aside  spot
}

// spot is a place in a reply.
type spot struct {
	at   int64
	line int
}

type findState uint8

const (
	findStart  findState = iota // only space and tab so far
	findPrefix                  // in tokenPrefix
	findToken                   // behind it, and it may be a candidate
	findSkip                    // no candidate: to the end of the line
)

func (f *finder) push(p []byte, at int64) {
	newline, open := -1, -1 // the next of each, -1 while unknown
	for i := 0; i < len(p); {
		switch f.state {
		case findStart, findSkip:
			if open < i {
				open = ahead(p, i, '<')
			}
			if f.state == findSkip && open < len(p) {
				if newline < i {
					newline = ahead(p, i, '\n')
				}
				if open < newline {
					i = newline // whatever else stands in this line
					if i < len(p) {
						f.lines++
						f.state = findStart
						i++
					}
					continue
				}
			}
			f.plain(p[i:open])
			if i = open; i < len(p) && f.state == findStart {
				f.state, f.matched, f.start, f.odd = findPrefix, 1, at+int64(i), false
				i++
			}
		case findPrefix:
			if p[i] != tokenPrefix[f.matched] && !(f.loose && sameLetter(p[i], tokenPrefix[f.matched])) {
				f.state = findSkip
				continue // it may be the end of the line
			}
			f.odd = f.odd || p[i] != tokenPrefix[f.matched]
			if f.matched++; f.matched == len(tokenPrefix) {
				f.state, f.n, f.quoted, f.cr = findToken, len(tokenPrefix), false, false
				f.outside, f.any, f.last, f.before = -1, -1, len(tokenPrefix)-1, len(tokenPrefix)-1
				if f.count == 0 {
					f.first, f.over, f.at, f.line = append(f.first[:0], tokenPrefix...), false, f.start, f.lines+1
				}
			}
			i++
		case findToken:
			f.token(p[i])
			i++
		}
	}
}

// plain takes text without a "<" outside of candidates: all it can do is end lines.
func (f *finder) plain(p []byte) {
	if f.state == findSkip && bytes.IndexByte(p, '\n') < 0 {
		return
	}
	if n := bytes.LastIndexByte(p, '\n'); n >= 0 {
		f.lines += bytes.Count(p[:n+1], lf)
		f.state = findStart
		p = p[n+1:]
	}
	for i := 0; i < len(p) && f.state == findStart; i++ {
		if p[i] != ' ' && p[i] != '\t' {
			f.state = findSkip
		}
	}
}

func (f *finder) token(c byte) {
	switch c {
	case '\n':
		if f.cr {
			f.last = f.before // the CR belongs to the line end
		}
		f.judge()
		f.lines++
		f.state = findStart
		return
	case '"':
		f.quoted = !f.quoted
	case '>':
		if f.any < 0 {
			f.any = f.n
		}
		if f.outside < 0 && !f.quoted {
			f.outside = f.n
		}
	}
	f.cr = c == '\r'
	if c != ' ' && c != '\t' {
		f.before, f.last = f.last, f.n
		// Behind the token end only a CR can still belong to the line end.
		if f.outside >= 0 && f.n > f.outside && c != '\r' {
			f.state = findSkip
			if f.loose && !f.beside {
				f.beside, f.aside = true, spot{f.start, f.lines + 1}
			}
			return
		}
	}
	f.n++
	if f.count == 0 {
		if len(f.first) < f.limit {
			f.first = append(f.first, c)
		} else {
			f.over = true
		}
	}
}

// sameLetter reports whether a byte is a letter of a prefix in the other case.
func sameLetter(c, of byte) bool { return of >= 'a' && of <= 'z' && c|0x20 == of }

// judge ends a line.
func (f *finder) judge() {
	end := f.outside
	if end < 0 {
		end = f.any
	}
	if f.loose && f.outside < 0 && end != f.last { // the stripper drops it
		if f.count++; f.count == 1 {
			f.cut, f.cased = true, f.odd
		}
		return
	}
	if end < 0 || end != f.last {
		return
	}
	if f.count++; f.count == 1 {
		f.over, f.cased = f.over && end >= f.limit, f.odd
		f.first = f.first[:min(end+1, len(f.first))]
	}
}

// end is the end of the text, which ends a line.
func (f *finder) end() {
	if f.state == findToken {
		f.judge()
	}
	f.state = findSkip
}
