package conform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

// maxInputBytes bounds an input that is put together from parts: sixteen times
// the largest envelope.
const maxInputBytes = 16 * aeiou.MaxEnvelopeBytes

// anyError is the code of an expectation that any typed error meets.
const anyError = "any"

type envelopeCase struct {
	Input *[]byte        `json:"input"`
	Parts []envelopePart `json:"input_parts"`

	Expect *envelopeWant  `json:"expect"`
	Accept []envelopeWant `json:"accept"`
}

type envelopePart struct {
	B64   []byte `json:"b64"`
	Times int64  `json:"times"`
}

// envelopeWant is a wanted result. Sections that are absent are not checked;
// lints that are absent are none.
type envelopeWant struct {
	OK       *bool                  `json:"ok"`
	Error    string                 `json:"error"`
	Sections map[string]sectionBody `json:"sections"`
	Lints    []messages.Code        `json:"lints"`
}

// sectionBody is a wanted body: its bytes, or the length and hash of a long one.
type sectionBody struct {
	body   []byte
	length int64
	sum    string // hex; "" when body holds the bytes
}

func (s *sectionBody) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		return json.Unmarshal(b, &s.body)
	}
	var long struct {
		Len    *int64  `json:"len"`
		SHA256 *string `json:"sha256"`
	}
	if err := json.Unmarshal(b, &long); err != nil {
		return err
	}
	if long.Len == nil || long.SHA256 == nil || len(*long.SHA256) != 2*sha256.Size {
		return malformed("", "a long body is {len, sha256}")
	}
	s.length, s.sum = *long.Len, strings.ToLower(*long.SHA256)
	return nil
}

func (s sectionBody) equals(body []byte) bool {
	if s.sum == "" {
		return bytes.Equal(s.body, body)
	}
	sum := sha256.Sum256(body)
	return s.length == int64(len(body)) && s.sum == hex.EncodeToString(sum[:])
}

func (s sectionBody) String() string {
	if s.sum == "" {
		return quoted(s.body)
	}
	return fmt.Sprintf("%d bytes of SHA-256 %s", s.length, s.sum)
}

func envelopeCases(d *document) ([]testCase, error) {
	return each(d.listed, "name", "", judgeEnvelope), nil
}

func judgeEnvelope(raw jsontext.Value) (verdict, error) {
	var c envelopeCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	input, err := c.input()
	if err != nil {
		return verdict{}, err
	}
	if c.Expect == nil {
		return verdict{}, malformed("expect", "missing")
	}
	wants := append([]envelopeWant{*c.Expect}, c.Accept...)
	for _, w := range wants {
		if w.OK == nil || !*w.OK && w.Error == "" {
			return verdict{}, malformed("expect", "a result is ok, or not ok with an error")
		}
	}
	got := envelopeGot{}
	got.envelope, got.lints, got.err = parseEnvelope(input)
	return compare(got, got.matches, wants), nil
}

func (c envelopeCase) input() ([]byte, error) {
	switch {
	case c.Input != nil && c.Parts != nil:
		return nil, malformed("input", "beside input_parts")
	case c.Input != nil:
		return *c.Input, nil
	case c.Parts == nil:
		return nil, malformed("input", "missing")
	}
	var b []byte
	for i, p := range c.Parts {
		if p.Times < 0 || int64(len(p.B64)) > 0 && p.Times > (maxInputBytes-int64(len(b)))/int64(len(p.B64)) {
			return nil, malformed(fmt.Sprintf("input_parts.%d", i), "an input is at most %d bytes", int64(maxInputBytes))
		}
		b = append(b, bytes.Repeat(p.B64, int(p.Times))...)
	}
	return b, nil
}

// parseEnvelope is the check of the format: the envelope, then USERDATA against
// its schema, which is one call here (docs/spec/aeiou.md §3.3).
func parseEnvelope(input []byte) (aeiou.Envelope, []messages.Code, error) {
	e, lints, err := aeiou.Parse(input, aeiou.Options{})
	codes := make([]messages.Code, len(lints))
	for i, l := range lints {
		codes[i] = l.Code
	}
	return e, codes, err
}

type envelopeGot struct {
	envelope aeiou.Envelope
	lints    []messages.Code
	err      error
}

func (g envelopeGot) sections() map[string][]byte {
	all := map[string][]byte{
		"USERDATA": g.envelope.Userdata, "SCRATCHPAD": g.envelope.Scratchpad,
		"OUTPUT": g.envelope.Output, "ACTIONS": g.envelope.Actions,
	}
	for name, body := range all {
		if body == nil { // absent; a present section without a body is empty
			delete(all, name)
		}
	}
	return all
}

func (g envelopeGot) matches(w envelopeWant) bool {
	if g.err != nil {
		code := string(messages.CodeOf(g.err))
		return !*w.OK && code != "" && (w.Error == anyError || w.Error == code)
	}
	if !*w.OK || !sameSet(w.Lints, g.lints) {
		return false
	}
	if w.Sections == nil {
		return true
	}
	got := g.sections()
	if len(got) != len(w.Sections) {
		return false
	}
	for name, want := range w.Sections {
		if body, ok := got[name]; !ok || !want.equals(body) {
			return false
		}
	}
	return true
}

// sectionOrder is the order in which sections are shown.
var sectionOrder = []string{"USERDATA", "SCRATCHPAD", "OUTPUT", "ACTIONS"}

func (w envelopeWant) String() string {
	if !*w.OK {
		return "error " + w.Error
	}
	var b strings.Builder
	b.WriteString("ok")
	if w.Sections == nil {
		b.WriteString(", any sections")
	}
	names := make([]string, 0, len(w.Sections))
	for name := range w.Sections {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		if i, j := slices.Index(sectionOrder, x), slices.Index(sectionOrder, y); i != j {
			return i - j
		}
		return strings.Compare(x, y)
	})
	for _, name := range names {
		fmt.Fprintf(&b, ", %s %v", name, w.Sections[name])
	}
	fmt.Fprintf(&b, ", lints %v", w.Lints)
	return b.String()
}

func (g envelopeGot) String() string {
	if g.err != nil {
		return "error " + g.err.Error()
	}
	ok, w := true, envelopeWant{Sections: map[string]sectionBody{}, Lints: g.lints}
	w.OK = &ok
	for name, body := range g.sections() {
		w.Sections[name] = sectionBody{body: body}
		if len(body) > 4096 { // as the format writes it
			sum := sha256.Sum256(body)
			w.Sections[name] = sectionBody{length: int64(len(body)), sum: hex.EncodeToString(sum[:])}
		}
	}
	return w.String()
}

// sameSet compares without order and repetition.
func sameSet(a, b []messages.Code) bool {
	within := func(a, b []messages.Code) bool {
		for _, c := range a {
			if !slices.Contains(b, c) {
				return false
			}
		}
		return true
	}
	return within(a, b) && within(b, a)
}
