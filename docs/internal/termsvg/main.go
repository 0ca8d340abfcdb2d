// Command termsvg draws what a command printed as an SVG of a terminal, so that a
// picture in the documentation is real output and can be made again:
//
//	go run ./cmd/stile tour --dir "$(mktemp -d)" | go run ./docs/internal/termsvg \
//		-title "make run" -keep ledger=12,research=24,companion=14,coder=16,forged-token,endless-loop,SESSION -width 126 > docs/tour.svg
//
// The text is what it reads, but for two things that are shown by a dimmed line or
// an ellipsis: paragraphs and lines left out, and the ends of lines that are too
// long. Colours follow the label a line begins with, as the command itself colours
// them on a terminal.
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
	keep := flag.String("keep", "", "paragraphs to show, by first word, comma-separated; word=n shows the first n lines; all when empty")
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
	w := bufio.NewWriter(out)
	draw(w, append([]string{"$ " + title}, lines...), width)
	return w.Flush()
}

// read gives the paragraphs: runs of lines between empty ones.
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

// pick gives the lines to show.
func pick(paragraphs [][]string, keep string) ([]string, error) {
	limits := map[string]int{}
	for word := range strings.SplitSeq(keep, ",") {
		name, n, cut := strings.Cut(word, "=")
		limits[name] = 0
		if cut {
			var err error
			if limits[name], err = strconv.Atoi(n); err != nil || limits[name] < 1 {
				return nil, fmt.Errorf("-keep %s: want a number of lines", word)
			}
		}
	}
	var out []string
	skipped := 0
	gap := func() {
		if skipped > 0 {
			out = append(out, "", omitted+count(skipped, "session"))
			skipped = 0
		}
	}
	for _, p := range paragraphs {
		limit, ok := limits[strings.Fields(p[0])[0]]
		if keep != "" && !ok {
			skipped++
			continue
		}
		gap()
		out = append(out, "")
		if limit > 0 && len(p) > limit {
			out = append(out, p[:limit]...)
			out = append(out, omitted+count(len(p)-limit, "line"))
			continue
		}
		out = append(out, p...)
	}
	return out, nil
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

func draw(w *bufio.Writer, lines []string, width int) {
	px := int(float64(width)*charWidth) + 2*margin
	py := len(lines)*lineHeight + 2*margin
	fmt.Fprintf(w, "<!-- Made by docs/internal/termsvg from the output of a real run; see its package comment. -->\n")
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="A terminal running stile">`+"\n", px, py, px, py)
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	fmt.Fprintf(w, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13" fill="%s" xml:space="preserve">`+"\n", text)
	for i, line := range lines {
		if line == "" {
			continue
		}
		fmt.Fprintf(w, `<text x="%d" y="%d">`, margin, margin+(i+1)*lineHeight-4)
		for _, s := range spans(clip(line, width), i == 0) {
			if s.fill == "" && s.weight == "" {
				escape(w, s.text)
				continue
			}
			w.WriteString("<tspan")
			if s.fill != "" {
				fmt.Fprintf(w, ` fill="%s"`, s.fill)
			}
			if s.weight != "" {
				fmt.Fprintf(w, ` font-weight="%s"`, s.weight)
			}
			w.WriteByte('>')
			escape(w, s.text)
			w.WriteString("</tspan>")
		}
		w.WriteString("</text>\n")
	}
	w.WriteString("</g>\n</svg>\n")
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
