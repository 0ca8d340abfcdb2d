package kitsu

import "bytes"

// MaxHeldBytes bounds how much of a line is held back because it may still belong to the machine
// (docs/spec/kitsu.md §7). The rest of a line that would need more is discarded.
const MaxHeldBytes = 4096

// stripper emits the text that a user may see. It gets whole characters, in pieces of any size;
// what it emits aliases the piece or the stripper.
//
// A line begins in atStart: white space, spaces that replaced tokens, and the
// beginning of a prefix are in held. It goes on in inside, which holds nothing but
// the beginning of a prefix, or is dropped. From a prefix to its token end it is in
// token, and a token at the start of a line in behind, until it is known whether
// something follows it on its line.
//
//	0 ≤ mark ≤ len(held) ≤ MaxHeldBytes;  held[mark:] is the prefix or token
type stripper struct {
	state    stripState
	loose    bool // of version 2: any case begins a token
	held     []byte
	heldAt   int64 // offset of the first byte held
	mark     int
	prefix   string // that held[mark:] begins, in atStart and inside; "" for none
	replaced bool   // a token of this line became a space
	starts   bool   // in token: nothing of the line was shown
	quoted   bool
	cr       bool // the last byte held, or discarded in mute, is a CR that may end the line
	inlines  bool // a token became a space; the first is at
	inlineAt int64
	emit     func(text []byte, at int64)
	scratch  []byte
}

type stripState uint8

const (
	atStart stripState = iota
	inside
	token
	behind
	drop // to the end of the line, which goes too
	mute // to the end of the line, which stays
)

// push takes characters that stand at offset at. Offsets of what is held back and
// then shown are those of its first byte.
func (s *stripper) push(p []byte, at int64) {
	from := 0                            // p[from:i] is to be shown and was not yet
	newline, open, bracket := -1, -1, -1 // the next of each, -1 while unknown
	for i := 0; i < len(p); {
		if newline < i {
			newline = ahead(p, i, '\n')
		}
		if s.state == inside && s.prefix == "" || s.state == atStart && len(s.held) == 0 {
			// Lines without "<" and "[" are shown, if there is no room for more white
			// space than may be held: all of them at once.
			if open < i {
				open = ahead(p, i, '<')
			}
			if bracket < i {
				bracket = ahead(p, i, '[')
			}
			if n := min(open, bracket, i+MaxHeldBytes) - i; n >= wholeLines && newline < i+n {
				i += bytes.LastIndexByte(p[i:i+n], '\n') + 1
				s.state, s.replaced = atStart, false
				continue
			}
		}
		switch {
		case s.state == inside && s.prefix == "":
			if open >= newline {
				if i = newline; i < len(p) {
					i++
					s.state, s.replaced = atStart, false
				}
				continue
			}
			if i = open; !s.mayBegin(p[i:], tokenPrefix) {
				i++ // an ordinary "<"
				continue
			}
			s.show(p[from:i], at+int64(from))
			s.begin(tokenPrefix, at+int64(i))
			i++
			from = i
			continue
		case s.state == atStart && len(s.held) == 0 && !s.replaced && !s.cr:
			// Most lines begin with a letter. Of white space a piece shows as much as
			// it shows with the character behind it.
			j := i
			for j < len(p) && (p[j] == ' ' || p[j] == '\t') && j-i <= MaxHeldBytes {
				j++
			}
			if j < len(p) && j-i <= MaxHeldBytes {
				switch c := p[j]; {
				case c == '\n':
					i = j + 1
					continue
				case c == '\r':
				// What only looks like a prefix is held as well, and there may be no room.
				case c == '<' && (s.mayBegin(p[j:], tokenPrefix) || j-i+len(tokenPrefix) > MaxHeldBytes):
				case c == '[' && (s.mayBegin(p[j:], internalPrefix) || j-i+len(internalPrefix) > MaxHeldBytes):
				default:
					s.state, i = inside, j
					continue
				}
			}
		case s.state == token && p[i] != '\n':
			// Of a token only quotes and ">" matter; from == i, for it was held.
			n := 0
			for room := min(newline-i, MaxHeldBytes-len(s.held)); n < room && p[i+n] != '"' && p[i+n] != '>'; {
				n++
			}
			if n > 0 {
				s.held = append(s.held, p[i:i+n]...)
				i += n
				from = i
				continue
			}
		case s.state == drop || s.state == mute && !s.cr:
			// Nothing of the line is shown but, in mute, its end, which a CR may be
			// part of.
			s.show(p[from:i], at+int64(from))
			i = newline
			from = i
			if s.state == mute && i > 0 && p[i-1] == '\r' {
				s.cr, s.heldAt = true, at+int64(i-1)
			}
			if i == len(p) {
				return
			}
		}
		s.show(p[from:i], at+int64(from))
		from = i
		if s.step(p[i], at+int64(i)) {
			i++
			from = i
		}
	}
	s.show(p[from:], at+int64(from))
}

// wholeLines is how much text is looked at as a whole at least.
const wholeLines = 64

// ahead returns the place of the first c of p[i:], len(p) for none. Who keeps it, until
// it is behind i, looks at each byte once.
func ahead(p []byte, i int, c byte) int {
	if n := bytes.IndexByte(p[i:], c); n >= 0 {
		return i + n
	}
	return len(p)
}

// mayBegin reports whether p begins with a prefix, or is the beginning of one.
func (s *stripper) mayBegin(p []byte, prefix string) bool {
	n := min(len(p), len(prefix))
	return string(p[:n]) == prefix[:n] || s.loose && prefix == tokenPrefix && folds(p[:n])
}

// folds reports whether p is the beginning of a token in any case.
func folds(p []byte) bool {
	for i := range p {
		if p[i] != tokenPrefix[i] && !sameLetter(p[i], tokenPrefix[i]) {
			return false
		}
	}
	return true
}

// begins returns the place of the first token prefix in a line, -1 for none.
func (s *stripper) begins(line []byte) int {
	if !s.loose {
		return bytes.Index(line, []byte(tokenPrefix))
	}
	for i := 0; ; i++ {
		n := bytes.IndexByte(line[i:], tokenPrefix[0])
		if n < 0 || len(line)-i-n < len(tokenPrefix) {
			return -1
		}
		if i += n; folds(line[i : i+len(tokenPrefix)]) {
			return i
		}
	}
}

func (s *stripper) show(text []byte, at int64) {
	if len(text) > 0 {
		s.emit(text, at)
	}
}

func (s *stripper) flush() {
	s.show(s.held, s.heldAt)
	s.held, s.mark, s.prefix, s.cr = s.held[:0], 0, "", false
}

func (s *stripper) forget() { s.held, s.mark, s.prefix, s.cr = s.held[:0], 0, "", false }

// begin holds the first byte of a prefix.
func (s *stripper) begin(prefix string, at int64) {
	s.mark, s.prefix = len(s.held), prefix
	s.hold(prefix[0], at)
}

// hold keeps a byte, or discards the line when there is too much of it.
func (s *stripper) hold(c byte, at int64) {
	if len(s.held) == 0 {
		s.heldAt = at
	}
	if len(s.held) < MaxHeldBytes {
		s.held = append(s.held, c)
		return
	}
	shown := s.state == inside || s.state == token && !s.starts
	s.forget()
	s.state, s.cr = drop, c == '\r'
	if shown {
		s.state = mute
		s.heldAt = at
	}
}

// newLine is behind a line end.
func (s *stripper) newLine() {
	s.forget()
	s.state, s.replaced = atStart, false
}

// lineEnd shows an LF, with the CR before it if that was not shown yet.
func (s *stripper) lineEnd(cr bool, at int64) {
	if cr {
		s.emit(crlf, at-1)
	} else {
		s.emit(lf, at)
	}
}

var (
	crlf = []byte("\r\n")
	lf   = crlf[1:]
)

// step takes one byte and reports whether it has; if not, it is for the next state.
func (s *stripper) step(c byte, at int64) bool {
	switch s.state {
	case atStart, inside:
		return s.text(c, at)
	case token:
		s.inToken(c, at)
		return true
	case behind:
		return s.behindToken(c, at)
	case drop:
		if c == '\n' {
			s.newLine()
		}
	case mute:
		if c == '\n' {
			s.lineEnd(s.cr, at)
			s.newLine()
			return true
		}
		s.cr = c == '\r'
	}
	return true
}

// text is atStart, or inside with the beginning of a prefix.
func (s *stripper) text(c byte, at int64) bool {
	if s.prefix != "" {
		n := len(s.held) - s.mark
		if c != s.prefix[n] && !(s.loose && s.prefix == tokenPrefix && sameLetter(c, s.prefix[n])) {
			s.plain()
			return false
		}
		internal := s.prefix == internalPrefix
		last := n+1 == len(s.prefix)
		starts := s.state == atStart
		if s.hold(c, at); !last || s.state != atStart && s.state != inside {
			return true
		}
		s.prefix = ""
		if internal {
			s.forget()
			s.state = drop
			return true
		}
		s.state, s.starts, s.quoted = token, starts, false
		return true
	}
	switch {
	case s.cr && c == '\n':
		s.flush()
		s.lineEnd(false, at)
		s.newLine()
	case s.cr:
		s.plain()
		return false
	case c == ' ' || c == '\t':
		s.hold(c, at)
	case c == '\r':
		s.hold(c, at)
		s.cr = s.state == atStart
	case c == '\n':
		s.flush()
		s.lineEnd(false, at)
		s.newLine()
	case c == '<':
		s.begin(tokenPrefix, at)
	case c == '[':
		s.begin(internalPrefix, at)
	default:
		s.plain()
		return false
	}
	return true
}

// plain shows what is held: the line is text from here on.
func (s *stripper) plain() {
	s.flush()
	s.state = inside
}

// inToken is between a prefix and its token end.
func (s *stripper) inToken(c byte, at int64) {
	if c == '\n' {
		s.unended(true, at)
		return
	}
	s.hold(c, at)
	switch {
	case s.state != token:
	case c == '"':
		s.quoted = !s.quoted
	case c == '>' && !s.quoted:
		if s.starts && !s.replaced {
			s.state, s.cr = behind, false
			return
		}
		s.replace(nil)
	}
}

// replace makes the token at mark, which tail follows, a space.
func (s *stripper) replace(tail []byte) {
	s.mention(s.mark)
	s.held = append(append(s.held[:s.mark], ' '), tail...)
	s.replaced, s.cr = true, false
	if s.starts {
		s.state, s.mark = atStart, 0
		return
	}
	s.plain()
}

// mention notes that the token at held[n] became a space: the first one of the reply.
func (s *stripper) mention(n int) {
	if !s.inlines {
		s.inlines, s.inlineAt = true, s.heldAt+int64(n)
	}
}

// behindToken is behind a token at the start of a line, where only white space may
// follow if it is to be an action.
func (s *stripper) behindToken(c byte, at int64) bool {
	switch {
	case c == '\n':
		s.newLine() // the line is the token's
		return true
	case c == ' ' || c == '\t':
		if !s.cr {
			s.hold(c, at)
			return true
		}
	case c == '\r' && !s.cr:
		s.hold(c, at)
		s.cr = s.state == behind
		return true
	}
	s.inlined()
	return false
}

// inlined makes the token behind which the line goes on a space.
func (s *stripper) inlined() {
	cr := s.cr
	end := s.mark
	for quoted := false; s.held[end] != '>' || quoted; end++ {
		if s.held[end] == '"' {
			quoted = !quoted
		}
	}
	s.scratch = append(s.scratch[:0], s.held[end+1:]...)
	s.replace(s.scratch)
	if cr {
		s.plain() // a CR that ends no line is no white space
	}
}

// unended is a line end, or the end of the text, before the token end.
func (s *stripper) unended(lf bool, at int64) {
	line := s.held
	cr := lf && len(line) > 0 && line[len(line)-1] == '\r'
	if cr {
		line = line[:len(line)-1]
	}
	if s.starts && !s.replaced {
		s.newLine() // a cut token
		return
	}
	s.scratch = append(s.scratch[:0], line[:s.mark]...)
	var more bool
	if s.scratch, more = s.inline(s.scratch, line[s.mark:]); more {
		s.mention(s.mark)
	}
	if s.starts && (more || s.replaced) && s.machine(s.scratch) {
		s.newLine()
		return
	}
	s.show(s.scratch, s.heldAt)
	if lf {
		s.lineEnd(cr, at)
	}
	s.newLine()
}

// machine reports whether a line begins like the machine's.
func (s *stripper) machine(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return bytes.HasPrefix(line, []byte(internalPrefix)) || len(line) >= len(tokenPrefix) && s.mayBegin(line, tokenPrefix)
}

// end is the end of the text: what is held is judged as a line without line end.
func (s *stripper) end() {
	switch s.state {
	case atStart, inside:
		s.flush()
	case token:
		s.unended(false, 0)
	case behind:
		if s.cr {
			s.inlined()
			s.flush()
		}
	}
	s.newLine()
}

// inline appends the rest of a line with every token in it replaced by a space, and
// reports whether there was one. It looks at each byte a fixed number of times,
// however many tokens begin in it.
func (s *stripper) inline(dst, line []byte) (_ []byte, replaced bool) {
	// A ">" is outside the quotes of a token if as many quotes, modulo 2, come before
	// it as before the token.
	ends := [2]cursor{}
	here := cursor{}
	for i := 0; ; {
		n := s.begins(line[i:])
		if n < 0 {
			return append(dst, line[i:]...), replaced
		}
		dst = append(dst, line[i:i+n]...)
		i += n
		here.to(line, i)
		end := ends[here.parity].next(line, i, here.parity)
		if end < 0 {
			if end = ends[1-here.parity].next(line, i, 1-here.parity); end < 0 {
				return append(dst, line[i:]...), replaced
			}
		}
		dst = append(dst, ' ')
		i, replaced = end+1, true
	}
}

// cursor counts quotes up to a place in a line; it only goes forward.
type cursor struct{ i, parity int }

func (c *cursor) to(line []byte, i int) {
	for ; c.i < i; c.i++ {
		if line[c.i] == '"' {
			c.parity ^= 1
		}
	}
}

// next returns the first ">" at or behind i with a parity of quotes before it.
func (c *cursor) next(line []byte, i, parity int) int {
	for ; c.i < len(line); c.i++ {
		switch line[c.i] {
		case '"':
			c.parity ^= 1
		case '>':
			if c.i >= i && c.parity == parity {
				return c.i
			}
		}
	}
	return -1
}

// Visible returns the part of a text that a user may see (docs/spec/kitsu.md §7): the same bytes
// as for a reply that is stripped while it streams.
func Visible(text string) string { return visible(text, false) }

func visible(text string, loose bool) string {
	var out []byte
	s := stripper{loose: loose, emit: func(p []byte, _ int64) { out = append(out, p...) }}
	mend([]byte(text), s.push)
	s.end()
	return string(out)
}
