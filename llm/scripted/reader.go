package scripted

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// object reads an object and calls member at each value. It reports whether there
// was an object.
func (p *parser) object(field string, member func(key string, at int64)) bool {
	if !p.open('{', field, "an object") {
		return false
	}
	var seen []string
	for !p.broken && p.dec.PeekKind() != '}' {
		at := p.valueStart()
		tok, err := p.dec.ReadToken()
		if err != nil {
			p.syntax(err)
			return false
		}
		key := tok.String()
		dup := false
		for _, k := range seen {
			dup = dup || k == key
		}
		if dup {
			p.mistake(at, join(field, key), "given twice")
			p.skip()
			continue
		}
		if len(seen) <= maxMistakes {
			seen = append(seen, key)
		}
		member(key, at)
	}
	return p.close()
}

// array reads an array and calls element at each value.
func (p *parser) array(field string, element func()) {
	if !p.open('[', field, "an array") {
		return
	}
	for !p.broken && p.dec.PeekKind() != ']' {
		element()
	}
	p.close()
}

func (p *parser) open(kind jsontext.Kind, field, want string) bool {
	if !p.want(kind, field, want) {
		return false
	}
	if _, err := p.dec.ReadToken(); err != nil {
		p.syntax(err)
		return false
	}
	return true
}

func (p *parser) close() bool {
	if p.broken {
		return false
	}
	if _, err := p.dec.ReadToken(); err != nil {
		p.syntax(err)
		return false
	}
	return true
}

// want reports whether the next value is of the kind. It skips a value of another kind, and
// adds a mistake.
func (p *parser) want(kind jsontext.Kind, field, want string) bool {
	if p.broken {
		return false
	}
	got := p.dec.PeekKind()
	if got == kind {
		return true
	}
	at := p.valueStart()
	p.skip()
	if !p.broken {
		p.mistake(at, field, "want %s, not %s", want, kindName(got))
	}
	return false
}

func (p *parser) skip() {
	if p.broken {
		return
	}
	if err := p.dec.SkipValue(); err != nil {
		p.syntax(err)
	}
}

func (p *parser) unknown(field string, at int64) {
	p.skip()
	if !p.broken {
		p.mistake(at, field, "unknown member")
	}
}

func (p *parser) text(field string) (string, bool) {
	if !p.want('"', field, "a string") {
		return "", false
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		p.syntax(err)
		return "", false
	}
	return tok.String(), true
}

func (p *parser) word(field string, words ...string) (string, bool) {
	at := p.valueStart()
	s, ok := p.text(field)
	if !ok {
		return "", false
	}
	for _, w := range words {
		if s == w {
			return s, true
		}
	}
	p.mistake(at, field, "%q is not one of %s", s, strings.Join(words, ", "))
	return "", false
}

func (p *parser) integer(field string, min, max int64) (int64, bool) {
	at := p.valueStart()
	if !p.want('0', field, "an integer") {
		return 0, false
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		p.syntax(err)
		return 0, false
	}
	n, err := strconv.ParseInt(tok.String(), 10, 64)
	if err != nil || n < min || n > max {
		p.mistake(at, field, "want an integer from %d to %d", min, max)
		return 0, false
	}
	return n, true
}

// valueStart returns the offset of the next name or value in the line.
func (p *parser) valueStart() int64 {
	i := p.dec.InputOffset()
	for i < int64(len(p.src)) && strings.IndexByte(" \t\r:,", p.src[i]) >= 0 {
		i++
	}
	return i
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

func kindName(k jsontext.Kind) string {
	return cmp.Or(jsonstring.KindName(byte(k)), "the end of the line")
}
