package measure

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func round(ends ...time.Duration) Round {
	r := NewRecorder(len(ends) + 1)
	for i, d := range ends {
		r.Sent(time.Duration(i)*time.Second, time.Millisecond)
		r.Accepted(time.Duration(i)*time.Second, 2*time.Millisecond)
		r.Texts(1, 10, true, d/2)
		r.Texts(2, 20, false, time.Millisecond)
		r.Done(time.Duration(i)*time.Second, d, "job", Outcome{Ended, "DONE"})
	}
	r.Unsent(Outcome{Dropped, "too many in flight"}, 1)
	return r.Round(time.Duration(len(ends))*time.Second, Usage{CPUMicros: 1000 * int64(len(ends)), RSS: 5e6, PeakRSS: 6e6, Commits: 2 * int64(len(ends)), Records: -1, Fsyncs: -1})
}

func TestRecorder(t *testing.T) {
	r := round(10*time.Millisecond, 20*time.Millisecond, 30*time.Millisecond, 2*time.Hour)
	if r.Planned != 5 || r.Sent != 4 || r.Accepted != 4 || r.Fates[Ended] != 4 || r.Fates[Dropped] != 1 || r.Texts != 12 || r.Bytes != 120 || r.Peak != 1 {
		t.Errorf("%+v", r)
	}
	end := r.Times[End]
	if end.Count != 4 || end.Min != 10000 || math.Abs(float64(end.P50)-20000) > 20 || end.Max < highest*99/100 {
		t.Errorf("%+v", end)
	}
	if h := end.Histogram(); h == nil || h.TotalCount() != 4 || h.ValueAtPercentile(50) != end.P50 {
		t.Error("the histogram does not come back")
	}
	if len(r.Series) != 4 || r.Series[1].Ended != 1 || r.Series[1].InFlight != 0 || r.Series[2].P50 < 29000 {
		t.Errorf("%+v", r.Series)
	}
	if r.Jobs["job"].Count != 4 {
		t.Errorf("%+v", r.Jobs)
	}
}

func TestReasonsAreBounded(t *testing.T) {
	r := NewRecorder(100)
	for i := range 100 {
		r.Sent(0, 0)
		r.Done(0, 0, "job", Outcome{Refused, strings.Repeat("x", i)})
	}
	got := r.Round(time.Second, Unknown())
	if n := len(got.Why[Refused]); n > maxReasons+1 {
		t.Errorf("%d reasons", n)
	}
	var sum int64
	for _, n := range got.Why[Refused] {
		sum += n
	}
	if sum != 99 || got.Fates[Refused] != 100 { // the first has no reason
		t.Errorf("%d reasons of %d", sum, got.Fates[Refused])
	}
}

func TestUsageSince(t *testing.T) {
	a := Usage{CPUMicros: 10, Commits: 5, Records: -1, Fsyncs: 3, RSS: 7}
	b := Usage{CPUMicros: 15, Commits: 9, Records: 4, Fsyncs: -1, RSS: 8}
	a.Parts = []Part{{"b", 1, 2}, {"a", 10, -1}}
	b.Parts = []Part{{"a", 15, 3}, {"b", 4, 2}, {"c", 7, 7}}
	want := Usage{CPUMicros: 5, Commits: 4, Records: -1, Fsyncs: -1, RSS: 8, Parts: []Part{{"a", 5, -1}, {"b", 3, 0}, {"c", -1, -1}}}
	if got := b.Since(a); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if b.Parts[0].CPUMicros != 15 {
		t.Error("what was taken until then has changed")
	}
}

func TestThresholds(t *testing.T) {
	r := &Result{Rounds: []Round{round(10*time.Millisecond, 20*time.Millisecond, 30*time.Millisecond, 40*time.Millisecond)}}
	r.Rounds[0].Why[Ended]["HALT/ERR_QUOTA"] = 1
	for _, c := range []struct {
		text  string
		holds bool
		found float64
	}{
		{"p50(end) < 21ms", true, 20000},
		{"p50(end) < 19ms", false, 20000},
		{"p99.9(end)<=41ms", true, 40000},
		{"max(end) >= 41ms", false, 40000},
		{"mean(end) < 0.026s", true, 25000},
		{"p50(first) < 11ms", true, 10000},
		{"throughput >= 1", true, 1},
		{"throughput > 1", false, 1},
		{"errors <= 20%", true, 0.2},
		{"errors < 0.2", false, 0.2},
		{"refused <= 0", true, 0},
		{"halts <= 0", false, 0.2},
		{"different <= 0", true, 0},
		{"cpu_us <= 1000", true, 1000},
		{"commits < 2", false, 2},
		{"rss < 7MB", true, 6e6},
	} {
		th, err := ParseThreshold(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		v := r.Judge([]Threshold{th})[0]
		if v.Holds != c.holds || math.Abs(v.Found-c.found) > 0.002*c.found || v.Unknown {
			t.Errorf("%s: %+v", c.text, v)
		}
	}
	for _, text := range []string{"", "p50 < 1ms", "p50(ends) < 1ms", "p50(end) < 1", "p50(end) < 1KB", "p50(end) = 1ms", "speed < 1", "rss < 1ms", "errors < 1.2.3", "p999(end) < 1ms"} {
		if _, err := ParseThreshold(text); messages.CodeOf(err) != messages.ErrInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	none := &Result{Rounds: []Round{NewRecorder(0).Round(0, Unknown())}}
	for _, text := range []string{"p50(end) < 1ms", "throughput > 0", "cpu_us < 1", "rss < 1MB", "errors <= 1"} {
		th, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		if v := none.Judge([]Threshold{th})[0]; v.Holds || !v.Unknown {
			t.Errorf("nothing was measured: %+v", v)
		}
	}
}

func FuzzThreshold(f *testing.F) {
	f.Add("p99.9(end) <= 1.5ms")
	f.Add("rss < 200MB")
	r := &Result{Rounds: []Round{round(time.Millisecond)}}
	f.Fuzz(func(t *testing.T, text string) {
		if th, err := ParseThreshold(text); err == nil {
			r.Judge([]Threshold{th})
		}
	})
}

// The exact probabilities are those of R's wilcox.test for values without ties, and of all choices
// counted by hand for values with some.
func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		x, y []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		{[]float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2.0 / 70},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, 0.6857142857},
		{[]float64{1, 1, 1}, []float64{1, 1, 1}, 1},
		{[]float64{1, 1}, []float64{1, 2}, 1}, // the sums of the four choices are as far as this one, or as near
		{nil, []float64{1}, 1},
	} {
		if got := mannWhitney(c.x, c.y); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v and %v: %v, want %v", c.x, c.y, got, c.want)
		}
	}
	var x, y []float64
	for i := range 30 {
		x, y = append(x, float64(i)), append(y, float64(i)+15)
	}
	if p := mannWhitney(x, y); p > 0.001 {
		t.Errorf("30 values of each, half apart: %v", p)
	}
}

func TestCompare(t *testing.T) {
	result := func(shift time.Duration) *Result {
		r := &Result{Format: Format}
		for i := range 5 {
			r.Rounds = append(r.Rounds, round(time.Duration(10+i)*time.Millisecond+shift))
		}
		return r
	}
	rows := map[string]Row{}
	for _, row := range Compare(result(0), result(20*time.Millisecond)) {
		rows[row.Name] = row
	}
	if row := rows["p50(end)"]; !row.Significant() || math.Abs(row.Change-20.0/12) > 0.01 {
		t.Errorf("%+v", row)
	}
	if row := rows["commits"]; row.Significant() || row.Change != 0 || row.A != 2 {
		t.Errorf("%+v", row)
	}
	if _, there := rows["fsyncs"]; there {
		t.Error("fsyncs are compared, and were not measured")
	}
}

func TestRead(t *testing.T) {
	var b bytes.Buffer
	r := &Result{Format: Format, Target: "x", Rounds: []Round{round(time.Millisecond)}}
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := Read("r.json", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(r)
	two, _ := json.Marshal(again)
	if !bytes.Equal(one, two) {
		t.Errorf("%s\n%s", one, two)
	}
	for doc, want := range map[string]string{
		"{\n\n]":                               "r.json:3: ERR_INVALID: is no result",
		`{"format": "x"}`:                      "has the format \"x\"",
		`{"format": "` + Format + `"}`:         "has no rounds",
		`{"format": 1}`:                        "is no result",
		`{"format": "` + Format + `","rounds"`: "is no result",
	} {
		if _, err := Read("r.json", []byte(doc)); messages.CodeOf(err) != messages.ErrInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}
}
