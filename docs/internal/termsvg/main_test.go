package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

const printed = "\nplain  A chat.\n  turn     1\n  DONE     (1 ms)\n\nledger  A <book>.\n  HALT     ERR_QUOTA\n\n\nSESSION  RESULT\nplain    ok\n"

func TestPick(t *testing.T) {
	paragraphs, err := read(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ keep, want string }{
		{"", "plain  A chat.|  turn     1|  DONE     (1 ms)||ledger  A <book>.|  HALT     ERR_QUOTA||SESSION  RESULT|plain    ok"},
		{"plain=2,SESSION", "plain  A chat.|  turn     1|  … 1 more line||SESSION  RESULT|plain    ok"},
		{"plain=1+1", "plain  A chat.|  … 1 more line|  DONE     (1 ms)"},
		{"plain=2+1", "plain  A chat.|  turn     1|  DONE     (1 ms)"},
	} {
		lines, err := pick(paragraphs, c.keep)
		if got := strings.Join(lines, "|"); err != nil || got != c.want {
			t.Errorf("-keep %q: %q, %v, want %q", c.keep, got, err, c.want)
		}
	}
	for _, bad := range []string{"plain=x", "plain=0", "plain=1+x", "plain=1+-1"} {
		if _, err := pick(paragraphs, bad); err == nil {
			t.Errorf("-keep %s was taken", bad)
		}
	}
}

// The picture is XML, and its text is what was read.
func TestPicture(t *testing.T) {
	var out bytes.Buffer
	if err := run(strings.NewReader(printed), &out, "make run", "", 14); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	style := false // what the animation says is no text
	dec := xml.NewDecoder(&out)
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.CharData:
			if !style {
				text.Write(tok)
			}
		case xml.StartElement:
			style = tok.Name.Local == "style"
		case xml.EndElement:
			style = false
			if tok.Name.Local == "text" {
				text.WriteByte('|')
			}
		}
	}
	got := strings.ReplaceAll(strings.ReplaceAll(text.String(), "\n", ""), "\u00a0", " ")
	want := "$ make run|plain  A chat.|  turn     1|  DONE     (1…|ledger  A <bo…|  HALT     ER…|SESSION  RESU…|plain    ok|"
	if got != want {
		t.Errorf("the picture says\n%q, want\n%q", got, want)
	}
}

// Lines of prose are wrapped at their words, others are cut; a word that is too wide is
// cut in either.
func TestFit(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"  says     one two three four five", "  says     one two three|           four five"},
		{"  call     one two three four five", "  call     one two three…"},
		{"  says     abcdefghijklmnopqrstuvwxyz", "  says     abcdefghijklm…"},
		{"  says     one two three", "  says     one two three"},
		{"says a paragraph's head that is long", "says a paragraph's head …"},
	} {
		if got := strings.Join(fit(c.line, 25), "|"); got != c.want {
			t.Errorf("%q gives %q, want %q", c.line, got, c.want)
		}
	}
}
