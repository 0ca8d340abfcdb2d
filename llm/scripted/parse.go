package scripted

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// maxMistakes bounds the mistakes that Parse reports; a file of another kind has one in every
// line.
const maxMistakes = 100

// maxInteger is 2^53−1, the largest integer every JSON reader agrees on.
const maxInteger = 1<<53 - 1

// Parse parses a script. name is the file name in errors; the data is not kept.
//
// All mistakes are reported together (errors.Join), each a *messages.Error with
// ERR_CONFIG, File, Line, Col, Field and the byte offset in the file, in the
// order of the file; past 100 the rest is only counted. Unknown and repeated
// members, wrong types, bytes that are not UTF-8 and contradictions are mistakes.
// There is no partial result.
func Parse(name string, b []byte) (*Script, error) {
	p := parser{name: name}
	s := &Script{name: name}
	if len(b) > MaxScriptBytes {
		return nil, &messages.Error{
			Code: messages.ErrConfig, File: name,
			Detail: fmt.Sprintf("the script has %d bytes; the limit is %d", len(b), MaxScriptBytes),
		}
	}
	for off := 0; off < len(b); p.line++ {
		line := b[off:]
		n := len(line)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, n = line[:i], i+1
		}
		p.lineStart = int64(off)
		off += n
		trimmed := bytes.TrimLeft(line, " \t\r")
		if len(trimmed) == 0 || trimmed[0] == '#' || bytes.HasPrefix(trimmed, []byte("//")) {
			continue
		}
		r := p.reply(line)
		if r.match.kind != matchNone {
			s.matched = append(s.matched, r)
		} else {
			s.ordered = append(s.ordered, r)
		}
	}
	if len(p.mistakes) == 0 && len(s.matched)+len(s.ordered) == 0 {
		p.mistakes = append(p.mistakes, &messages.Error{Code: messages.ErrConfig, File: name, Detail: "the script holds no reply"})
	}
	if len(p.mistakes) == 0 {
		return s, nil
	}
	// Mistakes about several members are found last and sorted in.
	slices.SortStableFunc(p.mistakes, func(a, b *messages.Error) int { return cmp.Compare(a.Offset, b.Offset) })
	if more := p.count - len(p.mistakes); more > 0 {
		p.mistakes = append(p.mistakes, &messages.Error{Code: messages.ErrConfig, File: name, Detail: fmt.Sprintf("and %d more mistakes", more)})
	}
	all := make([]error, len(p.mistakes))
	for i, e := range p.mistakes {
		all[i] = e
	}
	return nil, errors.Join(all...)
}

// parser reads one line after the other and collects mistakes instead of stopping at the
// first. It descends only as deep as the format does; the tokenizer skips deeper values, and
// bounds its own depth.
type parser struct {
	name      string
	line      int   // 0-based
	lineStart int64 // offset of the line in the file
	src       []byte
	dec       *jsontext.Decoder
	mistakes  []*messages.Error
	count     int  // mistakes, also those over maxMistakes
	broken    bool // the line is not JSON; no further mistakes are reported
}

func (p *parser) mistake(off int64, field, format string, args ...any) {
	p.count++
	if len(p.mistakes) >= maxMistakes {
		return
	}
	p.mistakes = append(p.mistakes, &messages.Error{
		Code: messages.ErrConfig, File: p.name, Line: p.line + 1, Col: int(off) + 1,
		Field: field, Offset: p.lineStart + off, HasOffset: true, Detail: fmt.Sprintf(format, args...),
	})
}

// syntax reports once that the line is not JSON.
func (p *parser) syntax(err error) {
	if p.broken {
		return
	}
	p.broken = true
	var se *jsontext.SyntacticError
	switch {
	case errors.As(err, &se):
		cause := se.Err
		if cause == nil {
			cause = errors.New("not JSON")
		}
		p.mistake(se.ByteOffset, "", "not JSON: %v", cause)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		p.mistake(p.dec.InputOffset(), "", "the line ends inside its JSON value")
	default:
		p.mistake(p.dec.InputOffset(), "", "not JSON")
	}
}

// draft is a line while it is being read.
type draft struct {
	reply
	chunks    []piece
	hasText   bool // it has a member chunks
	cut       *uint64
	hasFinish bool
	finishAt  int64
	after     int64 // after_bytes, −1 absent
	afterAt   int64
}

func (p *parser) reply(line []byte) reply {
	before := p.count
	p.broken = false
	p.src = line
	// Repeated names are checked here and not by the decoder, for which they would end
	// the line.
	p.dec = jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	d := draft{after: -1}
	d.finish = messages.FinishComplete

	object := p.object("", func(key string, at int64) {
		switch key {
		case "match":
			p.match(&d)
		case "chunks":
			d.hasText = true
			p.chunks(&d)
		case "cut":
			if n, ok := p.integer(key, 0, maxInteger); ok {
				seed := uint64(n)
				d.cut = &seed
			}
		case "finish":
			d.finishAt = p.valueStart()
			if w, ok := p.word(key, string(messages.FinishComplete), string(messages.FinishStop), string(messages.FinishLength),
				string(messages.FinishCancelled), string(messages.FinishError)); ok {
				d.finish, d.hasFinish = messages.Finish(w), true
			}
		case "usage":
			p.usage(&d)
		case "error":
			p.failure(&d)
		case "on_cancel":
			if w, ok := p.word(key, "stop", "drain"); ok {
				d.drain = w == "drain"
			}
		default:
			p.unknown(key, at)
		}
	})
	if !p.broken {
		at := p.valueStart()
		if _, err := p.dec.ReadToken(); err == nil {
			p.mistake(at, "", "a line holds one JSON object; something follows it")
		} else if !errors.Is(err, io.EOF) {
			p.syntax(err)
		}
	}
	if p.broken || !object {
		return d.reply
	}
	if !d.hasText && d.failure == nil {
		p.mistake(0, "chunks", "a reply needs chunks or an error")
	}
	if d.failure != nil && d.hasFinish {
		p.mistake(d.finishAt, "finish", "a reply that ends with an error has no finish")
	}
	if p.count == before {
		p.settle(&d)
	}
	return d.reply
}

// settle makes the pieces of a line without mistakes.
func (p *parser) settle(d *draft) {
	var total int64
	for _, c := range d.chunks {
		total += int64(len(c.text))
	}
	if d.after > total {
		p.mistake(d.afterAt, "error.after_bytes", "%d is more than the %d bytes of text", d.after, total)
		return
	}
	if d.failure != nil {
		d.finish = ""
		if d.after >= 0 {
			d.chunks = head(d.chunks, d.after)
		}
	}
	d.pieces = d.chunks
	if d.cut != nil {
		d.pieces = recut(d.chunks, *d.cut)
	}
}

// head keeps the first n bytes, and the pauses up to there.
func head(chunks []piece, n int64) []piece {
	for i := range chunks {
		size := int64(len(chunks[i].text))
		if size <= n {
			n -= size
			continue
		}
		if n == 0 {
			return chunks[:i]
		}
		chunks[i].text = chunks[i].text[:n]
		return chunks[:i+1]
	}
	return chunks
}

func (p *parser) match(d *draft) {
	at := p.valueStart()
	n := 0
	ok := p.object("match", func(key string, keyAt int64) {
		switch key {
		case "equals", "contains", "re2":
		default:
			p.unknown("match."+key, keyAt)
			return
		}
		n++
		valueAt := p.valueStart()
		s, ok := p.text("match." + key)
		if !ok {
			return
		}
		switch key {
		case "equals":
			d.match = matcher{kind: matchEquals, text: s}
		case "contains":
			if s == "" {
				p.mistake(valueAt, "match.contains", "an empty text is contained in everything; leave match out instead")
			}
			d.match = matcher{kind: matchContains, text: s}
		case "re2":
			re, err := regexp.Compile(s)
			if err != nil {
				p.mistake(valueAt, "match.re2", "%v", err)
				return
			}
			d.match = matcher{kind: matchRE2, text: s, re: re}
		}
	})
	if ok && n != 1 {
		p.mistake(at, "match", "want exactly one of equals, contains and re2")
	}
}

func (p *parser) chunks(d *draft) {
	var last int64
	i := 0
	p.array("chunks", func() {
		field := "chunks[" + strconv.Itoa(i) + "]"
		i++
		c := piece{atMS: last}
		at := p.valueStart()
		hasText := false
		ok := p.object(field, func(key string, keyAt int64) {
			valueAt := p.valueStart()
			switch key {
			case "at_ms":
				n, ok := p.integer(field+".at_ms", 0, MaxDelayMS)
				if ok && n < last {
					p.mistake(valueAt, field+".at_ms", "%d is earlier than the chunk before, at %d", n, last)
				} else if ok {
					c.atMS = n
				}
			case "text":
				hasText = true
				s, _ := p.text(field + ".text")
				c.text = []byte(s)
			default:
				p.unknown(field+"."+key, keyAt)
			}
		})
		if ok && !hasText {
			p.mistake(at, field+".text", "missing")
		}
		last = c.atMS
		d.chunks = append(d.chunks, c)
	})
}

func (p *parser) usage(d *draft) {
	p.object("usage", func(key string, at int64) {
		var to *int64
		switch key {
		case "input":
			to = &d.usage.Input
		case "output":
			to = &d.usage.Output
		case "cost_micro_usd":
			to = &d.cost
		default:
			p.unknown("usage."+key, at)
			return
		}
		*to, _ = p.integer("usage."+key, 0, maxInteger)
	})
}

func (p *parser) failure(d *draft) {
	at := p.valueStart()
	f := &llm.Failure{}
	ok := p.object("error", func(key string, keyAt int64) {
		field := "error." + key
		switch key {
		case "status":
			n, _ := p.integer(field, 100, 599)
			f.Status = int(n)
		case "code":
			codeAt := p.valueStart()
			s, ok := p.text(field)
			if ok && !isWord(s) {
				p.mistake(codeAt, field, "want 1 to 64 letters, digits, '_', '-' or '.'")
			}
			f.Code = s
		case "retry_after_ms":
			n, _ := p.integer(field, 0, MaxDelayMS)
			f.RetryAfter = time.Duration(n) * time.Millisecond
		case "after_bytes":
			d.afterAt = p.valueStart()
			d.after, _ = p.integer(field, 0, maxInteger)
		default:
			p.unknown(field, keyAt)
		}
	})
	if ok && f.Status == 0 && f.Code == "" {
		p.mistake(at, "error", "want a status, a code, or both")
	}
	// A failure without a status is one of the transport, which passes.
	f.Retryable = f.Status == 0 || llm.RetryableStatus(f.Status)
	d.failure = f
}

func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}
