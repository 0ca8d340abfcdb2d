package main

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"github.com/seed14be6753/stile/bench/report"
)

// The layout of a plot, in its units: a column of names, and two panels.
const (
	plotWidth  = 900
	nameWidth  = 220
	panelWidth = 290
	panelGap   = 70
	lineHeight = 22
	plotTop    = 44
)

// plot draws the rows of a workload: processor time a run, and time to the end of a run. A point is
// the median, a line through it goes from the least to the most. Both axes are logarithmic.
func (r *record) plot(workload string) []byte {
	var b bytes.Buffer
	all := rows("")
	height := plotTop + lineHeight*(len(all)+len(groups)) + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", plotWidth, height, html.EscapeString(titles[workload]))
	b.WriteString(`<style>text{font:12px system-ui,sans-serif;fill:#444}.h{font-weight:600}.axis{stroke:#8884}.peer{stroke:#6b7280;fill:#6b7280}.ours{stroke:#2563eb;fill:#2563eb}
text.ours{stroke:none;font-weight:600}line.peer,line.ours{stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#bbb}.peer{stroke:#9ca3af;fill:#9ca3af}.ours{stroke:#60a5fa;fill:#60a5fa}}</style>` + "\n")
	panels := []struct {
		title string
		of    func(figures) int64
	}{
		{"processor time a run", func(f figures) int64 { return f.CPU }},
		{"end of a run, p50", func(f figures) int64 { return f.P50 }},
	}
	for i, p := range panels {
		left := float64(nameWidth + i*(panelWidth+panelGap))
		at := r.axis(&b, workload, p.title, left, float64(height), p.of)
		y := float64(plotTop)
		for _, g := range groups {
			y += lineHeight
			if i == 0 {
				fmt.Fprintf(&b, `<text class="h" x="0" y="%.0f">%s</text>`+"\n", y-6, g)
			}
			for k := range all {
				if all[k].group() != g {
					continue
				}
				y += lineHeight
				class := "peer"
				if all[k].about.ours {
					class = "ours"
				}
				if i == 0 {
					fmt.Fprintf(&b, `<text class="%s" style="stroke:none" x="8" y="%.0f">%s</text>`+"\n", class, y-6, html.EscapeString(all[k].name))
				}
				if m := r.of(all[k].name, workload); m != nil && len(m.Rounds) > 0 {
					s := m.spread(p.of)
					fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><circle class="%s" cx="%.1f" cy="%.0f" r="4"/>`+"\n",
						class, at(s.least), at(s.most), y-10, y-10, class, at(s.middle), y-10)
				}
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axis draws a panel's axis, and returns where a value is on it.
func (r *record) axis(b *bytes.Buffer, workload, title string, left, height float64, of func(figures) int64) func(float64) float64 {
	least, most := math.Inf(1), 1.0
	for _, m := range r.Rows {
		if m.Workload == workload && len(m.Rounds) > 0 {
			s := m.spread(of)
			least, most = min(least, max(s.least, 1)), max(most, s.most)
		}
	}
	if math.IsInf(least, 1) {
		least = 1
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	high = max(high, low+1)
	at := func(v float64) float64 {
		return left + (math.Log10(max(v, 1))-low)/(high-low)*panelWidth
	}
	fmt.Fprintf(b, `<text class="h" x="%.0f" y="14">%s</text>`+"\n", left, title)
	for decade := low; decade <= high; decade++ {
		v := math.Pow(10, decade)
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%.0f"/><text x="%.1f" y="34" text-anchor="middle">%s</text>`+"\n",
			at(v), at(v), plotTop, height-20, at(v), report.Micros(int64(v)))
	}
	return at
}
