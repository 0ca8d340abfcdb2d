// Command termsvg draws what a command printed as an SVG of a terminal, so that a
// picture in the documentation is real output and can be made again:
//
//	go run ./cmd/stile tour --dir "$(mktemp -d)" | go run ./docs/internal/termsvg \
//		-title "make run" -keep research=12+3,endless-loop -width 73 > docs/tour.svg
//
// The text is what it reads. Dimmed lines stand for lines that are left out, an
// ellipsis for the end of a line that is too long. Colours follow the label a line
// begins with, as the command itself colours them on a terminal.
//
// The lines appear one after the other, and what a model says word by word, as on a
// terminal. The times are even, not those of the run. A viewer without animations, or
// one whose user wants none, shows the whole text.
//
// It runs nothing and knows no escape sequences.
package main

import (
	"bufio"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

func main() {
	title := flag.String("title", "make run", "command line shown on top")
	keep := flag.String("keep", "", "paragraphs to show, by first word, comma-separated; word=n shows the first n lines, word=n+m the last m as well; all when empty")
	width := flag.Int("width", 116, "columns")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *title, *keep, *width); err != nil {
		fmt.Fprintln(os.Stderr, "termsvg:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, title, keep string, width int) error {
	paragraphs, err := read(in)
	if err != nil {
		return err
	}
	lines, err := pick(paragraphs, keep)
	if err != nil {
		return err
	}
	shown := []string{"$ " + title, ""}
	for _, line := range lines {
		shown = append(shown, fit(line, width)...)
	}
	w := bufio.NewWriter(out)
	draw(w, shown, width)
	return w.Flush()
}

// read returns the paragraphs: runs of lines between empty ones.
func read(in io.Reader) (all [][]string, err error) {
	var open []string
	sc := bufio.NewScanner(in)
	for sc.Scan() {
		if line := sc.Text(); line != "" {
			open = append(open, line)
			continue
		}
		if open != nil {
			all = append(all, open)
			open = nil
		}
	}
	if open != nil {
		all = append(all, open)
	}
	return all, sc.Err()
}

// omitted leads the lines that say what is left out.
const omitted = "  … "

// pick returns the lines to show.
func pick(paragraphs [][]string, keep string) ([]string, error) {
	limits := map[string]limit{}
	for word := range strings.SplitSeq(keep, ",") {
		name, n, cut := strings.Cut(word, "=")
		limits[name] = limit{}
		if cut {
			l, err := parseLimit(n)
			if err != nil {
				return nil, fmt.Errorf("-keep %s: want a number of lines, or two such as 12+3", word)
			}
			limits[name] = l
		}
	}
	var out []string
	for _, p := range paragraphs {
		l, ok := limits[strings.Fields(p[0])[0]]
		if keep != "" && !ok {
			continue
		}
		if len(out) > 0 {
			out = append(out, "")
		}
		if left := len(p) - l.first - l.last; l.first > 0 && left > 0 {
			out = append(out, p[:l.first]...)
			out = append(out, omitted+count(left, "line"))
			out = append(out, p[len(p)-l.last:]...)
			continue
		}
		out = append(out, p...)
	}
	return out, nil
}

// limit is how many lines of a paragraph are shown: of its beginning and of its end. A
// zero value shows all.
type limit struct{ first, last int }

func parseLimit(s string) (l limit, err error) {
	first, last, both := strings.Cut(s, "+")
	if l.first, err = strconv.Atoi(first); err == nil && both {
		l.last, err = strconv.Atoi(last)
	}
	if err == nil && (l.first < 1 || l.last < 0) {
		err = strconv.ErrRange
	}
	return l, err
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d more %s", n, what)
}

// Measures of the picture in pixels, and its colours.
const (
	charWidth  = 7.8
	lineHeight = 17
	margin     = 14

	background = "#1b1f24"
	text       = "#d7dde4"
	dim        = "#7d8794"
	red        = "#ff7b72"
	green      = "#7ee787"
	yellow     = "#e3b341"
	cyan       = "#79c0ff"
)

// labels are the colours by the label of a line.
var labels = map[string]string{
	"HALT": red, "DONE": green, "CONTINUE": yellow, "ABORT": yellow, "control": red, "call": cyan,
	"token": dim, "turn": dim, "run": dim, "whisper": dim, "audit": dim,
}

// Lines for people, which are wrapped where others are cut.
var prose = map[string]bool{"says": true, "thought": true, "HALT": true}

// indent is where the text of a line begins, behind its label.
const indent = "           "

// fit returns a line in the columns there are: a line of prose wrapped at its words, any
// other cut.
func fit(line string, width int) []string {
	label, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
	if !prose[label] || !strings.HasPrefix(line, " ") || width < 2*len(indent) {
		return []string{clip(line, width)}
	}
	var out []string
	for utf8.RuneCountInString(line) > width {
		cut := strings.LastIndex(string([]rune(line)[:width+1]), " ")
		if cut <= len(indent) {
			break // one word wider than the picture
		}
		out = append(out, line[:cut])
		line = indent + line[cut+1:]
	}
	return append(out, clip(line, width))
}

// What a model says: such lines appear word by word.
var spoken = map[string]bool{"says": true, "thought": true}

// Times of the animation, in milliseconds.
const (
	perLine = 250
	perWord = 60
)

// style hides a piece of text until its time. Only its animation does: without one the
// piece is there from the start.
const style = "<style>@keyframes show{from{fill-opacity:0}} @media (prefers-reduced-motion:no-preference){tspan{animation:show 1ms backwards}}</style>\n"

func draw(w *bufio.Writer, lines []string, width int) {
	px := int(float64(width)*charWidth) + 2*margin
	py := len(lines)*lineHeight + 2*margin
	fmt.Fprintf(w, "<!-- Made by docs/internal/termsvg from the output of a real run; see its package comment. -->\n")
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="A terminal running stile">`+"\n", px, py, px, py)
	w.WriteString(style)
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	fmt.Fprintf(w, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13" fill="%s" xml:space="preserve">`+"\n", text)
	at, speaks := 0, false // when the next piece appears, and whether a model says it
	for i, line := range lines {
		if line == "" {
			continue
		}
		fmt.Fprintf(w, `<text x="%d" y="%d">`, margin, margin+(i+1)*lineHeight-4)
		if label, _, _ := strings.Cut(strings.TrimLeft(line, " "), " "); !goesOn(lines, i) {
			speaks = spoken[label] && strings.HasPrefix(line, " ")
		}
		for _, s := range spans(line, i == 0) {
			pieces := []string{s.text}
			if speaks {
				pieces = strings.SplitAfter(s.text, " ")
			}
			for _, piece := range pieces {
				if piece == "" {
					continue
				}
				fmt.Fprintf(w, `<tspan style="animation-delay:%dms"`, at)
				if s.fill != "" {
					fmt.Fprintf(w, ` fill="%s"`, s.fill)
				}
				if s.weight != "" {
					fmt.Fprintf(w, ` font-weight="%s"`, s.weight)
				}
				w.WriteByte('>')
				escape(w, piece)
				w.WriteString("</tspan>")
				if len(pieces) > 1 && strings.TrimSpace(piece) != "" {
					at += perWord
				}
			}
		}
		w.WriteString("</text>\n")
		if !goesOn(lines, i+1) {
			at += perLine
		}
	}
	w.WriteString("</g>\n</svg>\n")
}

// goesOn reports whether line i is the rest of a wrapped one.
func goesOn(lines []string, i int) bool {
	if i == 0 || i >= len(lines) || !strings.HasPrefix(lines[i], indent) {
		return false
	}
	for i--; i > 0 && strings.HasPrefix(lines[i], indent); i-- {
	}
	label, _, _ := strings.Cut(strings.TrimLeft(lines[i], " "), " ")
	return prose[label]
}

// span is a piece of a line in one colour.
type span struct{ text, fill, weight string }

func spans(line string, prompt bool) []span {
	switch {
	case prompt:
		return []span{{line, green, "bold"}}
	case strings.HasPrefix(line, omitted):
		return []span{{line, dim, ""}}
	case strings.HasSuffix(line, " ok") && !strings.HasPrefix(line, " "):
		return []span{{text: strings.TrimSuffix(line, "ok")}, {"ok", green, ""}}
	case !strings.HasPrefix(line, " "): // the head of a paragraph
		name, rest, _ := strings.Cut(line, " ")
		return []span{{name, "", "bold"}, {text: " " + rest}}
	}
	body := strings.TrimLeft(line, " ")
	label, _, _ := strings.Cut(body, " ")
	fill, ok := labels[label]
	if !ok {
		return []span{{text: line}}
	}
	at := len(line) - len(body) + len(label)
	return []span{{line[:at], fill, ""}, {text: line[at:]}}
}

// clip cuts a line to a number of columns.
func clip(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:width-1]) + "…"
}

func escape(w *bufio.Writer, s string) {
	// A bufio.Writer keeps its error for Flush. Runs of blanks would collapse in
	// viewers that do not know xml:space.
	_ = xml.EscapeText(w, []byte(strings.ReplaceAll(s, " ", "\u00a0")))
}
