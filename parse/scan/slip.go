package scan

// Slipped reports which mistakes the text has that Commas and Controls allow.
func (j *JSON) Slipped() (commas, controls bool) { return j.commas, j.controls }

// Closed reports whether Write stopped because a string ran into Closer, which it has taken.
func (j *JSON) Closed() bool { return j.closed }

// trailing closes the innermost array or object after a comma, and removes the comma.
func (j *JSON) trailing() bool {
	end := len(j.buf) - 1
	if !j.Commas || end < 0 || j.buf[end] != ',' {
		return false
	}
	j.buf = j.buf[:end]
	j.commas = true
	if j.stack[len(j.stack)-1].object {
		j.shut('}')
	} else {
		j.shut(']')
	}
	return true
}

// control takes a control character as its escape.
func (j *JSON) control(c byte) bool {
	if !j.Controls || j.inKey || !isWhite(c) {
		return false
	}
	j.alone()
	j.buf = appendRune(j.buf, rune(c))
	j.controls = true
	if c != '\t' && j.Closer != "" {
		j.wrapped, j.closer = true, 0
	}
	return true
}

// wrappedByte takes a byte of a string with an unescaped line end. Its closing quote may be
// missing, so that the string runs into the tag after the text: see Closer.
func (j *JSON) wrappedByte(c byte) bool {
	switch {
	case j.closer == len(j.Closer) && (c == '>' || isWhite(c)):
		j.closed = true
		return false
	case j.closer < len(j.Closer) && c == j.Closer[j.closer]:
		j.closer++
	case c == j.Closer[0]:
		j.closer = 1
	default:
		j.closer = 0
	}
	switch {
	case c == '"':
		j.unquote()
	case c == '\\':
		j.state = jsonEscape
	case c < ' ':
		return j.control(c)
	default:
		j.alone()
		j.buf = append(j.buf, c)
	}
	return true
}
