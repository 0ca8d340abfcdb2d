package cortex

import "bytes"

// fences finds the code fences in text between blocks, line by line: a line of three or more
// backticks or tildes opens one, another of at least as many closes it. Tags in a fence are
// text at first (unwrap). A fence that holds the opener of a block stays open until the block
// is closed, because blocks may hold fences of their own.
type fences struct {
	open  bool
	mark  byte // of the fence that is open
	size  int
	line  fenceLine
	begin int // of the line
	char  byte
	count int

	all     []codeFence
	scanned int    // of the open fence's content: looked through for blocks
	inside  string // the block whose closer is awaited
}

// codeFence is a fence in the text: its first line begins at begin, its content is from:to, and
// the text after its last line begins at end.
type codeFence struct{ begin, from, to, end int }

type fenceLine uint8

const (
	lineBegin  fenceLine = iota // only blanks so far
	lineMarks                   // in the marks
	lineBehind                  // after them
	lineOther                   // not a line of a fence
)

// step takes the byte of text at index i.
func (f *fences) step(text []byte, i int) {
	c := text[i]
	if c == '\n' {
		f.lineEnd(text, i)
		return
	}
	switch f.line {
	case lineBegin:
		switch {
		case c == '`' || c == '~':
			f.line, f.char, f.count = lineMarks, c, 1
		case !isWhite(c):
			f.line = lineOther
		}
	case lineMarks:
		switch {
		case c == f.char:
			f.count++
		case f.open && !isWhite(c):
			f.line = lineOther
		default:
			f.line = lineBehind
		}
	case lineBehind:
		if f.open && !isWhite(c) || c == f.char {
			f.line = lineOther
		}
	case lineOther:
	}
}

// lineEnd decides about the line that ends before index i.
func (f *fences) lineEnd(text []byte, i int) {
	marked := (f.line == lineMarks || f.line == lineBehind) && f.count >= 3
	begin, after := f.begin, min(i+1, len(text))
	f.line, f.begin = lineBegin, after
	switch {
	case !marked:
	case !f.open:
		f.open, f.mark, f.size = true, f.char, f.count
		f.all = append(f.all, codeFence{begin: begin, from: after, to: -1})
		f.scanned, f.inside = after, ""
	case f.char == f.mark && f.count >= f.size && f.closable(text[:begin]):
		f.open = false
		last := &f.all[len(f.all)-1]
		last.to, last.end = begin, after
	}
}

// closable reports whether no block is open in the fence. It scans the content once in all.
func (f *fences) closable(text []byte) bool {
	for {
		k := bytes.IndexByte(text[f.scanned:], '<')
		if k < 0 {
			f.scanned = len(text)
			return f.inside == ""
		}
		f.scanned += k
		rest := text[f.scanned+1:]
		f.scanned++
		for _, name := range [...]string{names[tagResponse], names[tagAction], names[tagThought]} {
			switch {
			case f.inside == "" && bytes.HasPrefix(rest, []byte(name)):
				f.inside = name
			case f.inside == name && bytes.HasPrefix(rest, []byte("/"+name)):
				f.inside = ""
			}
		}
	}
}

// finish decides about the last line, which has no line end, and ends an open fence.
func (f *fences) finish(text []byte) {
	f.lineEnd(text, len(text))
	if !f.open {
		return
	}
	f.open = false
	last := &f.all[len(f.all)-1]
	last.to, last.end = len(text), len(text)
	if tail := bytes.TrimRight(text[last.from:], " \t\r\n"); f.inside != "" && len(tail) > 0 && tail[len(tail)-1] == f.mark {
		// The block in it has no closer, so the last line of the fence was not recognised.
		last.to = last.from + len(bytes.TrimRight(tail, string(f.mark)))
	}
}

// prose reports whether there is text outside the fences.
func (f *fences) prose(text []byte) bool {
	at := 0
	for _, one := range f.all {
		if len(trim(text[at:one.begin])) > 0 {
			return true
		}
		at = one.end
	}
	return len(trim(text[at:])) > 0
}

// holds reports whether a text contains the beginning of a block.
func holds(text []byte, name int) bool { return bytes.Contains(text, []byte("<"+names[name])) }
