// Package report is the host's own and no part of the public API: it may change in any release.
//
// It shows results of loads to people: as text, and as one page of HTML that needs
// nothing beside it.
//
// It is pure. It uses no templates: those call methods by name, for which the linker would keep
// every exported method of every type.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/bench/growth"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/recovery"
)

// Text writes a result as a table for a terminal.
func Text(out io.Writer, r *measure.Result) error {
	w := &writer{out: out}
	total := summed(r)
	w.line("%s: %s submits in %s, seed %d, against %s", r.Workload.Name, number(total.planned), rounds(r), r.Workload.Seed, r.Target)
	if r.Partial {
		w.line("stopped before the end: %s of %s submits were sent", number(total.sent), number(total.planned))
	}
	w.line("")
	w.line("%-12s %9s %9s %9s %9s %9s %9s", "", "count", "p50", "p90", "p99", "p99.9", "max")
	for _, name := range measure.Names {
		t := r.Merged(name)
		if t.Count == 0 {
			continue
		}
		w.line("%-12s %9s %9s %9s %9s %9s %9s", name, number(t.Count), Micros(t.P50), Micros(t.P90), Micros(t.P99), Micros(t.P999), Micros(t.Max))
	}
	if len(r.Workload.Jobs) > 1 {
		w.line("")
		w.line("end, by job")
		for _, j := range r.Workload.Jobs {
			if t := jobTimes(r, j.Name); t.Count > 0 {
				w.line("%-12s %9s %9s %9s %9s %9s %9s", j.Name, number(t.Count), Micros(t.P50), Micros(t.P90), Micros(t.P99), Micros(t.P999), Micros(t.Max))
			}
		}
	}
	w.line("")
	w.line("%-12s %s", "runs", fmt.Sprintf("%.1f a second, at most %s in flight", float64(total.ended)/max(total.seconds, 1e-9), number(total.peak)))
	for _, f := range []struct {
		name string
		fate measure.Fate
	}{{"decisions", measure.Ended}, {"refused", measure.Refused}, {"failed", measure.Failed}, {"timed out", measure.TimedOut}, {"not sent", measure.Dropped}, {"left", measure.Left}} {
		if n := r.Fate(f.fate); n > 0 {
			w.line("%-12s %s", f.name, counts(r.Reasons(f.fate), n))
		}
	}
	if s := total.streams; s.Same+s.Different > 0 {
		w.line("%-12s %s cut %s times: %s the same byte for byte, %s different", "streams", number(s.Same+s.Different), number(s.Cuts), number(s.Same), number(s.Different))
	}
	for _, line := range usage(r) {
		w.line("%-12s %s", "target", line)
	}
	if r.Own != nil {
		w.line("%-12s %.1f µs processor time a submit, measured with %s against a target that answers at once", "bench", r.Own.CPUMicrosEach, number(r.Own.Submits))
	}
	for _, v := range r.Thresholds {
		state := "holds"
		if !v.Holds {
			state = "DOES NOT HOLD"
		}
		w.line("%-12s %s: %s", "threshold", v.Threshold, state+found(v))
	}
	for _, g := range r.Soak {
		state := "steady"
		if g.Grows {
			state = "GROWS"
		}
		w.line("%-12s %s: %s, from %s to %s (p %.3f)", "over time", g.Name, state, value(g.From, g.Unit), value(g.To, g.Unit), g.P)
	}
	for _, n := range r.Notes {
		w.line("%-12s %s", "note", n)
	}
	return w.err
}

// sums are over all rounds.
type sums struct {
	planned, sent, ended, peak int64
	seconds                    float64
	streams                    measure.Streams
}

func summed(r *measure.Result) (s sums) {
	for i := range r.Rounds {
		round := &r.Rounds[i]
		s.planned += round.Planned
		s.sent += round.Sent
		s.ended += round.Fates[measure.Ended]
		s.seconds += round.Seconds
		s.peak = max(s.peak, round.Peak)
		s.streams.Cuts += round.Streams.Cuts
		s.streams.Same += round.Streams.Same
		s.streams.Different += round.Streams.Different
	}
	return s
}

func rounds(r *measure.Result) string {
	s := summed(r)
	text := fmt.Sprintf("%.1f s", s.seconds)
	if n := len(r.Rounds); n > 1 {
		text += fmt.Sprintf(", %d rounds", n)
	}
	return text
}

// jobTimes are those of the round in the middle by its p50: histograms of jobs are not merged for a
// line of a table.
func jobTimes(r *measure.Result, job string) measure.Times {
	var all []measure.Times
	for i := range r.Rounds {
		if t := r.Rounds[i].Jobs[job]; t.Count > 0 {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return measure.Times{}
	}
	slices.SortFunc(all, func(a, b measure.Times) int { return int(a.P50 - b.P50) })
	return all[len(all)/2]
}

// usage says what the target took a run, as far as it tells.
func usage(r *measure.Result) (lines []string) {
	var u measure.Usage
	var ended int64
	var parts []measure.Part
	u.PeakRSS = -1
	for i := range r.Rounds {
		of := r.Rounds[i].Usage
		ended += r.Rounds[i].Fates[measure.Ended]
		add := func(to *int64, v int64) {
			if v < 0 || *to < 0 {
				*to = -1
				return
			}
			*to += v
		}
		add(&u.CPUMicros, of.CPUMicros)
		add(&u.Commits, of.Commits)
		add(&u.Records, of.Records)
		add(&u.Fsyncs, of.Fsyncs)
		u.PeakRSS = max(u.PeakRSS, of.PeakRSS)
		u.Shared = u.Shared || of.Shared
		for _, one := range of.Parts {
			at := slices.IndexFunc(parts, func(p measure.Part) bool { return p.Name == one.Name })
			if at < 0 {
				parts = append(parts, one)
				continue
			}
			add(&parts[at].CPUMicros, one.CPUMicros)
			add(&parts[at].Commits, one.Commits)
		}
	}
	if ended == 0 {
		return nil
	}
	each := func(v int64) float64 { return float64(v) / float64(ended) }
	if u.CPUMicros >= 0 {
		text := fmt.Sprintf("%.0f µs processor time a run", each(u.CPUMicros))
		if u.Shared {
			text += ", the bench's own included: they are one process"
		}
		lines = append(lines, text)
	}
	for _, p := range parts {
		if p.CPUMicros < 0 {
			continue
		}
		text := fmt.Sprintf("%s: %.0f µs processor time a run", p.Name, each(p.CPUMicros))
		if p.Commits >= 0 {
			text += fmt.Sprintf(", %.2f commits", each(p.Commits))
		}
		lines = append(lines, text)
	}
	var disk []string
	for _, d := range []struct {
		name string
		v    int64
	}{{"records", u.Records}, {"commits", u.Commits}, {"fsyncs", u.Fsyncs}} {
		if d.v >= 0 {
			disk = append(disk, fmt.Sprintf("%.2f %s", each(d.v), d.name))
		}
	}
	if len(disk) > 0 {
		lines = append(lines, strings.Join(disk, ", ")+" a run")
	}
	if u.PeakRSS >= 0 {
		lines = append(lines, Bytes(u.PeakRSS)+" resident at most")
	}
	return lines
}

func found(v measure.Verdict) string {
	switch {
	case v.Unknown:
		return " (not measured)"
	case strings.Contains(v.Threshold, "("):
		return " (" + Micros(int64(v.Found)) + ")"
	case strings.HasPrefix(v.Threshold, "rss"):
		return " (" + Bytes(int64(v.Found)) + ")"
	}
	return " (" + strconv.FormatFloat(v.Found, 'g', 4, 64) + ")"
}

func counts(all []measure.Count, n int64) string {
	if len(all) == 0 {
		return number(n)
	}
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = number(c.N) + " " + c.Name
	}
	return strings.Join(parts, ", ")
}

// Compare writes a comparison as a table for a terminal.
func Compare(out io.Writer, a, b string, rows []measure.Row) error {
	w := &writer{out: out}
	w.line("A: %s", a)
	w.line("B: %s", b)
	w.line("")
	w.line("%-16s %12s %12s %9s %8s", "median of rounds", "A", "B", "B to A", "p")
	for _, r := range rows {
		mark := ""
		if r.Significant() {
			mark = "  significant"
		}
		w.line("%-16s %12s %12s %+8.1f%% %8.3f%s", r.Name, value(r.A, r.Unit), value(r.B, r.Unit), 100*r.Change, r.P, mark)
	}
	return w.err
}

func value(v float64, unit string) string {
	switch unit {
	case "us":
		return Micros(int64(v))
	case "bytes":
		return Bytes(int64(v))
	case "":
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + strings.TrimPrefix(unit, "runs")
}

// Micros is a time of so many microseconds, in three digits.
func Micros(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(us, 10) + "µs"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", d.Seconds()*1000)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", d.Seconds()*1000)
	case d < 100*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Bytes is a size, in decimal units.
func Bytes(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f KB", float64(n)/1e3)
}

// Recovery writes what came of a host that was killed.
func Recovery(out io.Writer, name string, r recovery.Report) error {
	w := &writer{out: out}
	w.line("%s: %d kills", name, len(r.Kills))
	w.line("")
	w.line("%-6s %9s %10s %6s %10s %12s %10s", "kill", "accepted", "in flight", "lost", "ready", "first ended", "all ended")
	var ready, first, all []float64
	for i, k := range r.Kills {
		w.line("%-6d %9d %10d %6d %10s %12s %10s", i+1, k.Accepted, k.InFlight, k.Lost, ms(k.Ready), ms(k.First), ms(k.All))
		ready = append(ready, k.Ready)
		if k.InFlight > 0 {
			first, all = append(first, k.First), append(all, k.All)
		}
	}
	w.line("%-6s %9s %10s %6s %10s %12s %10s", "median", "", "", "", ms(middle(ready)), ms(middle(first)), ms(middle(all)))
	w.line("")
	var decisions []string
	for _, d := range slices.Sorted(maps.Keys(r.Decisions)) {
		decisions = append(decisions, number(r.Decisions[d])+" "+d)
	}
	w.line("%-12s %s", "decisions", strings.Join(decisions, ", "))
	w.line("%-12s %s, %d of them twice", "effects", number(int64(r.Effects)), r.Doubled)
	w.line("%-12s %d", "lost runs", r.Lost())
	return w.err
}

// Growth writes how costs grow.
func Growth(out io.Writer, name string, r growth.Report) error {
	w := &writer{out: out}
	w.line("%s: a run, by the runs that its session had before", name)
	w.line("")
	w.line("%10s %10s %12s %12s %12s", "runs", "p50", "processor", "journal", "allocated")
	for _, l := range r.Lengths {
		w.line("%10s %10s %12s %12s %12s", number(int64(l.Runs)), Micros(int64(l.P50Micros)), Micros(int64(l.CPUMicros)), Bytes(int64(l.Journal)), Bytes(int64(l.Allocated)))
	}
	w.line("")
	w.line("processor time grows with the length to the power of %.2f (0: not at all, 1: in proportion)", r.Exponent)
	if len(r.Counts) > 0 {
		w.line("")
		w.line("sessions that are awake, after one run each")
		w.line("")
		w.line("%10s %10s %14s %14s", "sessions", "p50", "heap each", "journal each")
		for _, c := range r.Counts {
			w.line("%10s %10s %14s %14s", number(int64(c.Sessions)), Micros(int64(c.P50Micros)), Bytes(int64(c.Heap)), Bytes(int64(c.Journal)))
		}
	}
	if r.Partial {
		w.line("")
		w.line("stopped before the end")
	}
	return w.err
}

func ms(v float64) string { return Micros(int64(v * 1000)) }

func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// number is a number with commas.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writer keeps the first error.
type writer struct {
	out io.Writer
	err error
}

func (w *writer) line(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", args...)
	}
}
