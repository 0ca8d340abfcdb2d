package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/bench/growth"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/workload"
)

func result() *measure.Result {
	rec := measure.NewRecorder(1003)
	for i := range 1000 {
		at := time.Duration(i) * 5 * time.Millisecond
		rec.Sent(at, 100*time.Microsecond)
		rec.Accepted(at, time.Millisecond)
		rec.Texts(1, 4, true, 2*time.Millisecond)
		rec.Texts(1, 4, false, time.Duration(i)*time.Microsecond)
		why := "DONE"
		if i%100 == 0 {
			why = "HALT/ERR_QUOTA"
		}
		rec.Done(at, time.Duration(3+i%7)*time.Millisecond, []string{"one", "two"}[i%2], measure.Outcome{Fate: measure.Ended, Why: why})
	}
	rec.Sent(0, 0)
	rec.Done(0, 0, "one", measure.Outcome{Fate: measure.Refused, Why: "429 <b>RATE</b>"})
	rec.Unsent(measure.Outcome{Fate: measure.Left, Why: "not sent"}, 2)
	rec.Resumed(3, true)
	rec.Resumed(2, false)
	return &measure.Result{
		Format: measure.Format, Tool: "stile test", Target: "http://x/?<script>alert(1)</script>", Partial: true,
		Workload: workload.Workload{Name: "w", About: "a & b", Seed: 7, Jobs: []workload.Job{{Name: "one"}, {Name: "two"}}},
		Rounds:   []measure.Round{rec.Round(5*time.Second, measure.Usage{CPUMicros: 2e6, RSS: 8e7, PeakRSS: 9e7, Commits: 2500, Records: 8000, Fsyncs: -1, Shared: true, Parts: []measure.Part{{Name: "http://a", CPUMicros: 15e5, Commits: 2000}, {Name: measure.Database, CPUMicros: 5e5, Commits: -1}}})},
		Own:      &measure.Own{Submits: 5000, CPUMicrosEach: 7.25},
		Thresholds: []measure.Verdict{
			{Threshold: "p99(end) < 5ms", Found: 9000}, {Threshold: "errors <= 0", Holds: true}, {Threshold: "rss < 1GB", Found: 9e7, Holds: true}, {Threshold: "cpu_us < 1", Unknown: true},
		},
		Notes: []string{"a note"},
	}
}

const want = `w: 1,003 submits in 5.0 s, seed 7, against http://x/?<script>alert(1)</script>
stopped before the end: 1,001 of 1,003 submits were sent

                 count       p50       p90       p99     p99.9       max
late             1,001     100µs     100µs     100µs     100µs     100µs
accepted         1,000    1.00ms    1.00ms    1.00ms    1.00ms    1.00ms
first            1,000    2.00ms    2.00ms    2.00ms    2.00ms    2.00ms
gap              1,000     499µs     899µs     989µs     998µs     999µs
end              1,000    6.00ms    9.01ms    9.01ms    9.01ms    9.01ms

end, by job
one                500    6.00ms    9.01ms    9.01ms    9.01ms    9.01ms
two                500    6.00ms    9.01ms    9.01ms    9.01ms    9.01ms

runs         200.0 a second, at most 1 in flight
decisions    990 DONE, 10 HALT/ERR_QUOTA
refused      1 429 <b>RATE</b>
left         2 not sent
streams      2 cut 5 times: 1 the same byte for byte, 1 different
target       2000 µs processor time a run, the bench's own included: they are one process
target       http://a: 1500 µs processor time a run, 2.00 commits
target       database: 500 µs processor time a run
target       8.00 records, 2.50 commits a run
target       90.0 MB resident at most
bench        7.2 µs processor time a submit, measured with 5,000 against a target that answers at once
threshold    p99(end) < 5ms: DOES NOT HOLD (9.00ms)
threshold    errors <= 0: holds (0)
threshold    rss < 1GB: holds (90.0 MB)
threshold    cpu_us < 1: DOES NOT HOLD (not measured)
note         a note
`

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := Text(&b, result()); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("it says\n%s", b.String())
	}
}

// What targets and workloads say is text in the page, and the page loads nothing.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, result()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, never := range []string{"<script", "<b>", "http-equiv=\"refresh\"", "url(", "src=", "href=", "NaN", "Inf"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, part := range []string{"default-src 'none'", "&lt;script&gt;", "a &amp; b", "p99", "resident, in MB"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if n := strings.Count(page, "<svg"); n != 5 || n != strings.Count(page, "</svg>") {
		t.Errorf("%d plots", n)
	}
}

func TestGrowth(t *testing.T) {
	r := growth.Report{
		Lengths:  []growth.Length{{Runs: 0, P50Micros: 90, CPUMicros: 100, Journal: 3200, Allocated: 28000}, {Runs: 1000, P50Micros: 400, CPUMicros: 500, Journal: 3200, Allocated: 500000}},
		Exponent: 0.25, Counts: []growth.Count{{Sessions: 100, P50Micros: 50, Heap: 9000, Journal: 3700}, {Sessions: 1000, P50Micros: 60, Heap: 9100, Journal: 3700}},
	}
	var b bytes.Buffer
	if err := GrowthHTML(&b, "w<i>", r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{"w&lt;i&gt;: how costs grow", "to the power of 0.25", "1,000      400µs", "9.1 KB"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q:\n%s", part, page)
		}
	}
	if n := strings.Count(page, "<svg"); n != 3 || strings.Contains(page, "NaN") || strings.Contains(page, "w<i>") {
		t.Errorf("%d plots", n)
	}
	b.Reset()
	if err := GrowthHTML(&b, "w", growth.Report{}); err != nil || !strings.Contains(b.String(), "Nothing was measured.") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNothingMeasured(t *testing.T) {
	r := &measure.Result{Rounds: []measure.Round{measure.NewRecorder(0).Round(0, measure.Unknown())}}
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "NaN") || !strings.Contains(b.String(), "Nothing was measured.") {
		t.Errorf("%s", b.String())
	}
}

func TestCompare(t *testing.T) {
	var b bytes.Buffer
	err := Compare(&b, "a.json", "b.json", []measure.Row{
		{Name: "p50(end)", Unit: "us", A: 1000, B: 1500, Change: 0.5, P: 0.0286},
		{Name: "throughput", Unit: "runs/s", A: 200, B: 199.5, Change: -0.0025, P: 0.7},
		{Name: "peak rss", Unit: "bytes", A: 5e6, B: 5e6, P: 1},
	})
	const want = `A: a.json
B: b.json

median of rounds            A            B    B to A        p
p50(end)               1.00ms       1.50ms    +50.0%    0.029  significant
throughput           200.00/s     199.50/s     -0.2%    0.700
peak rss               5.0 MB       5.0 MB     +0.0%    1.000
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestUnits(t *testing.T) {
	for us, want := range map[int64]string{0: "0µs", 999: "999µs", 1000: "1.00ms", 12345: "12.3ms", 123456: "123ms", 1234567: "1.23s", 123456789: "2m3s"} {
		if got := Micros(us); got != want {
			t.Errorf("%d µs is %s, want %s", us, got, want)
		}
	}
	for n, want := range map[int64]string{1: "1", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := number(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
