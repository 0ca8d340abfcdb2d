package web

import (
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// leastMain is how many bytes the main part of a page must have to be taken for the page.
const leastMain = 200

// leftOut are elements without text for readers: code, forms, navigation and the like.
var leftOut = []atom.Atom{
	atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Canvas, atom.Video, atom.Audio,
	atom.Nav, atom.Footer, atom.Aside, atom.Form, atom.Button, atom.Select, atom.Textarea, atom.Dialog, atom.Menu,
}

// blocks begin and end a line.
var blocks = []atom.Atom{
	atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Blockquote, atom.Ul, atom.Ol, atom.Dl, atom.Dt, atom.Dd,
	atom.Table, atom.Tr, atom.Figure, atom.Figcaption, atom.Address, atom.Details, atom.Summary, atom.Hr, atom.Pre,
}

var headings = []atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}

// readable returns the text of a page as a person would read it: title, headings marked by #,
// lists by -, no navigation and nothing hidden. It makes one pass over the tokens, without a
// tree or recursion, so that deep nesting costs nothing.
func readable(page string) string {
	r := pageText{main: -1}
	z := html.NewTokenizer(strings.NewReader(page))
	z.SetMaxBuf(MaxScrapeBytes)
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				r.block()
			}
			return r.result()
		case html.TextToken:
			r.text(string(z.Text()))
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			r.start(&t)
		case html.EndTagToken:
			t := z.Token()
			r.end(&t)
		}
	}
}

// pageText makes text of tokens.
type pageText struct {
	title, out strings.Builder
	inTitle    bool
	skipped    atom.Atom // the element that is being left out, and how deep it nests in itself
	depth      int
	pre        int
	main       int // offset of the text of the first main part; -1 for none
	mainEnd    int
	mainDepth  int
	gap        int // line ends to write before the next text
	space      bool
}

func (r *pageText) start(t *html.Token) {
	if r.skipped != 0 {
		if t.DataAtom == r.skipped && t.Type == html.StartTagToken {
			r.depth++
		}
		return
	}
	switch a := t.DataAtom; {
	case a == atom.Title:
		r.inTitle = t.Type == html.StartTagToken && r.title.Len() == 0
	case slices.Contains(leftOut, a) || hidden(t):
		if t.Type == html.StartTagToken && !void(a) {
			r.skipped, r.depth = a, 1
		}
	case a == atom.Br:
		r.gap = max(r.gap, 1)
	case slices.Contains(headings, a):
		r.paragraph()
		r.mark(strings.Repeat("#", slices.Index(headings, a)+1) + " ")
	case a == atom.Li:
		r.block()
		r.mark("- ")
	case a == atom.Td || a == atom.Th:
		r.space = true
	case slices.Contains(blocks, a):
		r.paragraphs(a)
		if a == atom.Pre {
			r.pre++
		}
		if a == atom.Main || a == atom.Article {
			if r.main < 0 && r.mainDepth == 0 {
				r.main = r.out.Len()
			}
			r.mainDepth++
		}
	}
}

func (r *pageText) end(t *html.Token) {
	if r.skipped != 0 {
		if t.DataAtom == r.skipped {
			if r.depth--; r.depth == 0 {
				r.skipped = 0
			}
		}
		return
	}
	switch a := t.DataAtom; {
	case a == atom.Title:
		r.inTitle = false
	case slices.Contains(headings, a):
		r.paragraph()
	case a == atom.Li:
		r.block()
	case slices.Contains(blocks, a):
		if a == atom.Pre {
			r.pre = max(r.pre-1, 0)
		}
		if (a == atom.Main || a == atom.Article) && r.mainDepth > 0 {
			if r.mainDepth--; r.mainDepth == 0 {
				r.mainEnd = r.out.Len()
			}
		}
		r.paragraphs(a)
	}
}

// paragraphs ends the line, and adds a blank one after a paragraph.
func (r *pageText) paragraphs(a atom.Atom) {
	switch a {
	case atom.P, atom.Blockquote, atom.Ul, atom.Ol, atom.Dl, atom.Table, atom.Pre, atom.Figure, atom.Hr:
		r.paragraph()
	default:
		r.block()
	}
}

func (r *pageText) block()     { r.gap = max(r.gap, 1) }
func (r *pageText) paragraph() { r.gap = 2 }

// mark writes a sign before the text that follows.
func (r *pageText) mark(sign string) {
	r.flush()
	r.out.WriteString(sign)
	r.space = false
}

func (r *pageText) flush() {
	if r.out.Len() > 0 && r.gap > 0 {
		r.out.WriteString("\n\n"[:r.gap])
		r.space = false
	}
	r.gap = 0
}

func (r *pageText) text(s string) {
	if r.skipped != 0 {
		return
	}
	if r.inTitle {
		r.title.WriteString(s)
		return
	}
	if r.pre > 0 {
		if strings.TrimSpace(s) != "" {
			r.flush()
			r.out.WriteString(s)
		}
		return
	}
	words := strings.Fields(s)
	if len(words) == 0 {
		r.space = r.space || s != ""
		return
	}
	r.flush()
	if r.out.Len() > 0 && (r.space || startsBlank(s)) && !endsBlank(r.out.String()) {
		r.out.WriteByte(' ')
	}
	r.out.WriteString(strings.Join(words, " "))
	r.space = strings.TrimRight(s, " \t\r\n") != s
}

func startsBlank(s string) bool { return strings.TrimLeft(s, " \t\r\n") != s }

func endsBlank(s string) bool { return strings.HasSuffix(s, " ") || strings.HasSuffix(s, "\n") }

// result returns the title and the main part, or all text if the main part is too short.
func (r *pageText) result() string {
	text := r.out.String()
	if r.main >= 0 {
		end := r.mainEnd
		if end <= r.main {
			end = len(text)
		}
		if part := strings.TrimSpace(text[r.main:end]); len(part) >= leastMain {
			text = part
		}
	}
	text = strings.TrimSpace(text)
	title := strings.Join(strings.Fields(r.title.String()), " ")
	if title == "" || strings.HasPrefix(text, "# "+title) {
		return text
	}
	return strings.TrimSpace(title + "\n\n" + text)
}

// hidden reports whether a reader of the page does not see an element.
func hidden(t *html.Token) bool {
	for _, a := range t.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") {
				return true
			}
		case "style":
			style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// void reports whether an element has no end tag.
func void(a atom.Atom) bool {
	return slices.Contains([]atom.Atom{atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Source, atom.Track, atom.Wbr}, a)
}
