package report

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/seed14be6753/stile/bench/growth"
	"github.com/seed14be6753/stile/bench/measure"
)

// HTML writes a result as one page that loads nothing.
func HTML(out io.Writer, r *measure.Result) error {
	about := fmt.Sprintf("%s. %s. %s/%s, %d processors. %s.", r.Workload.About, r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Tool)
	return page(out, r.Workload.Name+" against "+r.Target, about, func(out io.Writer) error { return Text(out, r) }, func(w *writer) {
		w.line("<h2>Times by percentile</h2><p>From when a submit was due. Both axes are logarithmic.</p>")
		w.line("%s", percentiles(r))
		if len(r.Rounds) == 0 {
			return
		}
		last := &r.Rounds[len(r.Rounds)-1]
		w.line("<h2>The last round, second by second</h2>")
		w.line("%s", series("submits and ends a second", last, []of{
			{"sent", func(s measure.Second) float64 { return float64(s.Sent) }},
			{"ended", func(s measure.Second) float64 { return float64(s.Ended) }},
			{"refused", func(s measure.Second) float64 { return float64(s.Refused) }},
			{"failed", func(s measure.Second) float64 { return float64(s.Failed) }},
		}))
		w.line("%s", series("in flight", last, []of{{"in flight", func(s measure.Second) float64 { return float64(s.InFlight) }}}))
		w.line("%s", series("end, in milliseconds", last, []of{
			{"p50", func(s measure.Second) float64 { return float64(s.P50) / 1000 }},
			{"p99", func(s measure.Second) float64 { return float64(s.P99) / 1000 }},
		}))
		if last.Usage.RSS >= 0 {
			w.line("%s", series("resident, in MB", last, []of{{"resident", func(s measure.Second) float64 { return float64(s.RSS) / 1e6 }}}))
		}
	})
}

// GrowthHTML writes how costs grow as one page that loads nothing.
func GrowthHTML(out io.Writer, name string, r growth.Report) error {
	return page(out, name+": how costs grow", "Of one session as it grows, and of sessions that are awake", func(out io.Writer) error { return Growth(out, name, r) }, func(w *writer) {
		var p50, cpu, allocated, heap [][2]float64
		for _, l := range r.Lengths {
			at := float64(max(l.Runs, 1))
			p50, cpu = append(p50, [2]float64{at, l.P50Micros}), append(cpu, [2]float64{at, l.CPUMicros})
			allocated = append(allocated, [2]float64{at, l.Allocated})
		}
		for _, c := range r.Counts {
			heap = append(heap, [2]float64{float64(c.Sessions), max(c.Heap, 1)})
		}
		w.line("<h2>A run, by the runs that its session had before</h2><p>Both axes are logarithmic.</p>")
		w.line("%s", curves(Micros, []curve{{"p50", p50}, {"processor", cpu}}))
		w.line("%s", curves(Bytes, []curve{{"allocated", allocated}}))
		if len(heap) > 1 {
			w.line("<h2>Heap of a session that is awake, by their number</h2>")
			w.line("%s", curves(Bytes, []curve{{"heap each", heap}}))
		}
	})
}

// page writes a page: a title, a line about it, a text, and plots.
func page(out io.Writer, title, about string, text func(io.Writer) error, plots func(*writer)) error {
	w := &writer{out: out}
	w.line(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`)
	w.line(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><title>%s</title>`, html.EscapeString(title))
	w.line(`<style>%s</style></head><body><h1>%s</h1>`, style, html.EscapeString(title))
	w.line(`<p>%s</p>`, html.EscapeString(about))
	var b bytes.Buffer
	if err := text(&b); err != nil {
		return err
	}
	w.line("<pre>%s</pre>", html.EscapeString(b.String()))
	plots(w)
	w.line("</body></html>")
	return w.err
}

const style = `body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}pre{overflow:auto;background:#8881;padding:1rem;border-radius:6px}
svg{width:100%;height:auto;max-width:56rem}svg text{font:12px system-ui,sans-serif;fill:currentColor}
.axis{stroke:currentColor;stroke-opacity:.25}.c0{stroke:#2563eb}.c1{stroke:#d97706}.c2{stroke:#059669}.c3{stroke:#dc2626}.c4{stroke:#7c3aed}
.f0{fill:#2563eb!important}.f1{fill:#d97706!important}.f2{fill:#059669!important}.f3{fill:#dc2626!important}.f4{fill:#7c3aed!important}
polyline{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}`

// The size of a plot, and of what is around its area.
const (
	plotWidth, plotHeight = 900, 280
	left, right, top, low = 70, 20, 26, 34
)

// plot is a chart under way.
type plot struct {
	b                      strings.Builder
	minX, maxX, minY, maxY float64
	logX, logY             bool
}

func (p *plot) x(v float64) float64 {
	return left + p.part(v, p.minX, p.maxX, p.logX)*(plotWidth-left-right)
}

func (p *plot) y(v float64) float64 {
	return plotHeight - low - p.part(v, p.minY, p.maxY, p.logY)*(plotHeight-low-top)
}

func (p *plot) part(v, least, most float64, logarithmic bool) float64 {
	if logarithmic {
		v, least, most = math.Log10(max(v, least)), math.Log10(least), math.Log10(most)
	}
	if most <= least {
		return 0
	}
	return min(max((v-least)/(most-least), 0), 1)
}

func (p *plot) begin(title string) {
	fmt.Fprintf(&p.b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><text x="%d" y="14">%s</text>`, plotWidth, plotHeight, html.EscapeString(title), left, html.EscapeString(title))
}

// tick draws a line across the plot, or down it, with a text.
func (p *plot) tickY(v float64, text string) {
	y := p.y(v)
	fmt.Fprintf(&p.b, `<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, plotWidth-right, y, y, left-6, y+4, html.EscapeString(text))
}

func (p *plot) tickX(v float64, text string) {
	x := p.x(v)
	fmt.Fprintf(&p.b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, x, top, plotHeight-low, x, plotHeight-low+16, html.EscapeString(text))
}

func (p *plot) curve(n int, name string, points [][2]float64) {
	fmt.Fprintf(&p.b, `<polyline class="c%d" points="`, n%5)
	for _, at := range points {
		fmt.Fprintf(&p.b, "%.1f,%.1f ", p.x(at[0]), p.y(at[1]))
	}
	fmt.Fprintf(&p.b, `"/><text class="f%d" x="%d" y="14" text-anchor="end">%s</text>`, n%5, plotWidth-right-110*n, html.EscapeString(name))
}

func (p *plot) end() string {
	p.b.WriteString("</svg>")
	return p.b.String()
}

// curve is a named line through points.
type curve struct {
	name   string
	points [][2]float64
}

// percentiles plots each time over 1/(1-q), so that each further nine has as much room.
func percentiles(r *measure.Result) string {
	var all []curve
	for _, name := range measure.Names {
		h := r.Histogram(name)
		if h == nil || h.TotalCount() == 0 {
			continue
		}
		c := curve{name: name}
		most := math.Min(float64(h.TotalCount()), 1e5)
		for x := 1.0; ; x *= math.Pow(10, 1.0/12) {
			x = min(x, most)
			c.points = append(c.points, [2]float64{x, float64(max(h.ValueAtPercentile(100*(1-1/x)), 1))})
			if x >= most {
				break
			}
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return "<p>Nothing was measured.</p>"
	}
	return logarithmic(Micros, func(decade int) string {
		return [...]string{"0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"}[min(decade, 5)]
	}, all)
}

// curves plots values over counts.
func curves(unit func(int64) string, all []curve) string {
	if len(all) == 0 || len(all[0].points) == 0 {
		return "<p>Nothing was measured.</p>"
	}
	return logarithmic(unit, func(decade int) string { return number(int64(math.Pow10(decade))) }, all)
}

// logarithmic plots curves on two logarithmic axes, of which the one across begins at 1.
func logarithmic(unit func(int64) string, across func(decade int) string, all []curve) string {
	p := &plot{minX: 1, maxX: 10, minY: math.Inf(1), maxY: 1, logX: true, logY: true}
	for _, c := range all {
		for _, at := range c.points {
			p.maxX, p.minY, p.maxY = max(p.maxX, at[0]), min(p.minY, max(at[1], 1)), max(p.maxY, at[1])
		}
	}
	p.minY = math.Pow(10, math.Floor(math.Log10(p.minY)))
	p.maxY = math.Pow(10, math.Ceil(math.Log10(p.maxY+1)))
	p.begin("")
	for v := p.minY; v <= p.maxY*1.01; v *= 10 {
		p.tickY(v, unit(int64(v)))
	}
	for decade := 0; math.Pow10(decade) <= p.maxX*1.01; decade++ {
		p.tickX(math.Pow10(decade), across(decade))
	}
	for i, c := range all {
		p.curve(i, c.name, c.points)
	}
	return p.end()
}

// of is one curve of a series.
type of struct {
	name  string
	value func(measure.Second) float64
}

// series plots values over the seconds of a round.
func series(title string, r *measure.Round, all []of) string {
	p := &plot{maxX: float64(max(len(r.Series)-1, 1)), maxY: 1}
	for _, s := range r.Series {
		for _, o := range all {
			p.maxY = max(p.maxY, o.value(s))
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(p.maxY)))
	if p.maxY/step < 3 {
		step /= 2
	}
	p.maxY = math.Ceil(p.maxY/step) * step
	p.begin(title)
	for v := 0.0; v <= p.maxY*1.001; v += step {
		p.tickY(v, fmt.Sprintf("%g", v))
	}
	every := max(math.Ceil(p.maxX/10), 1)
	for x := 0.0; x <= p.maxX; x += every {
		p.tickX(x, fmt.Sprintf("%g s", x))
	}
	for i, o := range all {
		points := make([][2]float64, len(r.Series))
		some := i == 0
		for x, s := range r.Series {
			points[x] = [2]float64{float64(x), o.value(s)}
			some = some || points[x][1] > 0
		}
		if some {
			p.curve(i, o.name, points)
		}
	}
	return p.end()
}
