package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed14be6753/stile/bench/workload"
	"github.com/seed14be6753/stile/messages"
)

// Format names the form of a result. A reader refuses another.
const Format = "stile-bench/1"

// Result is what a load found, over one or more rounds.
type Result struct {
	Format   string            `json:"format"`
	Tool     string            `json:"tool"`   // what measured, and its version
	Target   string            `json:"target"` // what was measured
	Machine  Machine           `json:"machine"`
	Workload workload.Workload `json:"workload"`
	Started  time.Time         `json:"started"`
	Rounds   []Round           `json:"rounds"`
	// Partial says that the load was stopped before its end.
	Partial bool `json:"partial,omitempty"`
	// Own is the bench's own share, measured against a target that answers at once.
	Own        *Own      `json:"own,omitempty"`
	Thresholds []Verdict `json:"thresholds,omitempty"`
	// Soak is what grew over a long load, and what did not.
	Soak  []Slope  `json:"soak,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Machine is where the bench ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
}

// Own is what the bench itself took.
type Own struct {
	Submits       int64   `json:"submits"`
	CPUMicrosEach float64 `json:"cpu_us_per_submit"`
}

// Round is one run of the workload.
type Round struct {
	Seconds  float64                   `json:"seconds"` // from the first arrival's due time to the last end
	Planned  int64                     `json:"planned"`
	Sent     int64                     `json:"sent"`
	Accepted int64                     `json:"accepted"`
	Fates    map[Fate]int64            `json:"fates"`
	Why      map[Fate]map[string]int64 `json:"why,omitempty"`
	Peak     int64                     `json:"peak_in_flight"`
	Texts    int64                     `json:"texts"`
	Bytes    int64                     `json:"text_bytes"`
	Streams  Streams                   `json:"streams"`
	Times    map[string]Times          `json:"times"`
	Jobs     map[string]Times          `json:"jobs"` // the end, by job
	Series   []Second                  `json:"series"`
	Usage    Usage                     `json:"usage"`
}

// Streams are the streams that were cut and resumed.
type Streams struct {
	Cuts      int64 `json:"cuts"`
	Same      int64 `json:"same"`      // streams whose parts make the answer, byte for byte
	Different int64 `json:"different"` // those whose parts do not
}

// Times sum up one measured time. All but Count are in microseconds.
type Times struct {
	Count int64   `json:"count"`
	Min   int64   `json:"min_us"`
	Mean  float64 `json:"mean_us"`
	P50   int64   `json:"p50_us"`
	P90   int64   `json:"p90_us"`
	P99   int64   `json:"p99_us"`
	P999  int64   `json:"p999_us"`
	Max   int64   `json:"max_us"`
	// HDR is the whole histogram, in the text form that HdrHistogram's tools read.
	HDR string `json:"hdr,omitempty"`
}

// Second is one second of the load.
type Second struct {
	Sent     int64 `json:"sent"`
	Accepted int64 `json:"accepted"`
	Ended    int64 `json:"ended"`
	Refused  int64 `json:"refused,omitempty"`
	Failed   int64 `json:"failed,omitempty"`
	InFlight int64 `json:"in_flight"`
	P50      int64 `json:"p50_us"` // of the ends in it
	P99      int64 `json:"p99_us"`
	// Of the target, at the end of the second; 0 is what it does not tell.
	RSS         int64 `json:"rss,omitempty"`
	Goroutines  int64 `json:"goroutines,omitempty"`
	Descriptors int64 `json:"descriptors,omitempty"`
	Disk        int64 `json:"disk_bytes,omitempty"`
	Live        int64 `json:"live_bytes,omitempty"`
}

// Usage is what the target took for a round. A member that the target does not tell is -1.
type Usage struct {
	CPUMicros   int64 `json:"cpu_us"`
	RSS         int64 `json:"rss_bytes"`      // at the end
	PeakRSS     int64 `json:"peak_rss_bytes"` // of the looks at it, once a second
	Commits     int64 `json:"commits"`
	Records     int64 `json:"records"`
	Fsyncs      int64 `json:"fsyncs"`
	Goroutines  int64 `json:"goroutines"`  // at the end, as the next two
	Descriptors int64 `json:"descriptors"` // files and sockets that are open
	Disk        int64 `json:"disk_bytes"`
	Live        int64 `json:"live_bytes"` // of the heap, after a collection
	// Shared says that target and bench are one process, so that the times of both are in CPUMicros.
	Shared bool `json:"shared,omitempty"`
	// Parts are what processes took: each host of several, whose sum the members above are, and
	// the database, which is no part of that sum. Nil of a target that is one process.
	Parts []Part `json:"parts,omitempty"`
}

// Part is what one process of a target took. A member that it does not tell is -1.
type Part struct {
	Name      string `json:"name"` // a host's address, or Database
	CPUMicros int64  `json:"cpu_us"`
	Commits   int64  `json:"commits"`
}

// Database is the name of the Part that is the database of the hosts.
const Database = "database"

// Unknown is a usage of which nothing is known.
func Unknown() Usage {
	return Usage{CPUMicros: -1, RSS: -1, PeakRSS: -1, Commits: -1, Records: -1, Fsyncs: -1, Goroutines: -1, Descriptors: -1, Disk: -1, Live: -1}
}

// Since is what was taken after an earlier usage.
func (u Usage) Since(before Usage) Usage {
	sub := func(to *int64, from int64) {
		if *to >= 0 && from >= 0 {
			*to -= from
		} else {
			*to = -1
		}
	}
	sub(&u.CPUMicros, before.CPUMicros)
	sub(&u.Commits, before.Commits)
	sub(&u.Records, before.Records)
	sub(&u.Fsyncs, before.Fsyncs)
	u.Parts = slices.Clone(u.Parts)
	for i := range u.Parts {
		part := &u.Parts[i]
		was := Part{CPUMicros: -1, Commits: -1}
		if n := slices.IndexFunc(before.Parts, func(p Part) bool { return p.Name == part.Name }); n >= 0 {
			was = before.Parts[n]
		}
		sub(&part.CPUMicros, was.CPUMicros)
		sub(&part.Commits, was.Commits)
	}
	if u.Fsyncs == 0 && u.Commits > 0 {
		u.Fsyncs = -1 // a host whose journal is no file of its own says 0
	}
	return u
}

// Round returns what was recorded, of a load that took so long.
func (r *Recorder) Round(took time.Duration, u Usage) Round {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Round{
		Seconds: took.Seconds(), Planned: r.planned, Sent: r.sent, Accepted: r.accepted, Peak: r.peak,
		Fates: maps.Clone(r.counts), Why: map[Fate]map[string]int64{}, Texts: r.texts, Bytes: r.bytes, Streams: r.streams,
		Times: map[string]Times{}, Jobs: map[string]Times{}, Usage: u,
	}
	for f, m := range r.why {
		out.Why[f] = maps.Clone(m)
	}
	for n, h := range r.hists {
		out.Times[n] = timesOf(h)
	}
	for n, h := range r.jobs {
		out.Jobs[n] = timesOf(h)
	}
	for _, s := range r.slices {
		sec := Second{Sent: s.sent, Accepted: s.accepted, Ended: s.ended, Refused: s.refused, Failed: s.failed, InFlight: s.inFlight}
		if s.end != nil {
			sec.P50, sec.P99 = s.end.ValueAtPercentile(50), s.end.ValueAtPercentile(99)
		}
		out.Series = append(out.Series, sec)
	}
	return out
}

func timesOf(h *hdr.Histogram) Times {
	if h.TotalCount() == 0 {
		return Times{}
	}
	t := Times{
		Count: h.TotalCount(), Min: h.Min(), Mean: h.Mean(), P50: h.ValueAtPercentile(50), P90: h.ValueAtPercentile(90),
		P99: h.ValueAtPercentile(99), P999: h.ValueAtPercentile(99.9), Max: h.Max(),
	}
	if b, err := h.EncodeV2(); err == nil {
		t.HDR = string(b)
	}
	return t
}

// Histogram decodes the whole of a time; nil without one.
func (t Times) Histogram() *hdr.Histogram {
	if t.HDR == "" {
		return nil
	}
	h, err := hdr.Decode([]byte(t.HDR))
	if err != nil {
		return nil
	}
	return h
}

// Histogram is a time over all rounds.
func (r *Result) Histogram(name string) *hdr.Histogram {
	all := newHistogram()
	for i := range r.Rounds {
		if h := r.Rounds[i].Times[name].Histogram(); h != nil {
			all.Merge(h)
		}
	}
	return all
}

// Merged sums up a time over all rounds.
func (r *Result) Merged(name string) Times {
	t := timesOf(r.Histogram(name))
	t.HDR = ""
	return t
}

// Fate counts the submits of a fate over all rounds.
func (r *Result) Fate(f Fate) (n int64) {
	for i := range r.Rounds {
		n += r.Rounds[i].Fates[f]
	}
	return n
}

// Reasons sums up why submits had a fate, the most frequent first.
func (r *Result) Reasons(f Fate) []Count {
	sums := map[string]int64{}
	for i := range r.Rounds {
		for why, n := range r.Rounds[i].Why[f] {
			sums[why] += n
		}
	}
	var all []Count
	for why, n := range sums {
		all = append(all, Count{why, n})
	}
	slices.SortFunc(all, func(a, b Count) int {
		if a.N != b.N {
			return int(b.N - a.N)
		}
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	return all
}

// Count is a name and how often it came.
type Count struct {
	Name string
	N    int64
}

// MaxResultBytes bounds a result that is read.
const MaxResultBytes = 256 << 20

// Write writes the result as JSON.
func (r *Result) Write(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// Read reads a result; file is what errors call it. Errors: ERR_INVALID, with the file, and the
// line of a mistake in the JSON.
func Read(file string, b []byte) (*Result, error) {
	bad := func(line int, format string, args ...any) error {
		return &messages.Error{Code: messages.ErrInvalid, File: file, Line: line, Detail: fmt.Sprintf(format, args...)}
	}
	if len(b) > MaxResultBytes {
		return nil, bad(0, "the result has %d bytes; the limit is %d", len(b), MaxResultBytes)
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		line := 0
		var s *json.SyntaxError
		if errors.As(err, &s) {
			line = 1 + bytes.Count(b[:min(int(s.Offset), len(b))], []byte{'\n'})
		}
		return nil, bad(line, "is no result: %v", err)
	}
	if r.Format != Format {
		return nil, bad(1, "has the format %q; want %q", r.Format, Format)
	}
	if len(r.Rounds) == 0 {
		return nil, bad(1, "has no rounds")
	}
	return &r, nil
}
