package measure

import (
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// The times that are measured, all but Gap and Late from when the submit was due.
const (
	Late     = "late"     // from due to sent: of the bench itself
	Accepted = "accepted" // the target has taken the submit
	First    = "first"    // the first text of the answer came
	Gap      = "gap"      // between two texts of one answer
	End      = "end"      // the run has ended
)

// Names are the times in the order of tables.
var Names = []string{Late, Accepted, First, Gap, End}

// Bounds of a histogram, in microseconds, and its significant digits.
const (
	lowest  = 1
	highest = int64(time.Hour / time.Microsecond)
	digits  = 3
)

func newHistogram() *hdr.Histogram { return hdr.New(lowest, highest, digits) }

// Fate is what became of a submit.
type Fate string

// The fates.
const (
	Ended    Fate = "ended"   // its run ended, with a decision
	Refused  Fate = "refused" // the target did not take it, and said why
	Failed   Fate = "failed"  // no answer, or an invalid one
	TimedOut Fate = "timeout" // no end in time
	Dropped  Fate = "dropped" // not sent: too many were in flight
	Left     Fate = "left"    // in flight or not due yet when the load was stopped
)

// Outcome is how a submit ended.
type Outcome struct {
	Fate Fate
	// Why is the decision of an ended run, as DONE or HALT/ERR_CODE, the status and reason of a
	// refusal, or the kind of a failure.
	Why string
}

// slice is one second of the load.
type slice struct {
	sent, accepted, ended, refused, failed int64
	inFlight                               int64 // at its end
	end                                    *hdr.Histogram
}

// Recorder takes what happens while a load runs. Make one with NewRecorder.
type Recorder struct {
	mu       sync.Mutex
	hists    map[string]*hdr.Histogram
	jobs     map[string]*hdr.Histogram // the end, by job
	counts   map[Fate]int64
	why      map[Fate]map[string]int64
	planned  int64
	sent     int64
	accepted int64
	inFlight int64
	peak     int64
	streams  Streams
	bytes    int64
	texts    int64
	slices   []slice
}

// NewRecorder returns a recorder of a load with so many submits.
func NewRecorder(planned int) *Recorder {
	r := &Recorder{
		hists: map[string]*hdr.Histogram{}, jobs: map[string]*hdr.Histogram{},
		counts: map[Fate]int64{}, why: map[Fate]map[string]int64{}, planned: int64(planned),
	}
	for _, n := range Names {
		r.hists[n] = newHistogram()
	}
	return r
}

// at is the second of the load that a time lies in. The caller holds the lock.
func (r *Recorder) at(t time.Duration) *slice {
	n := max(int(t/time.Second), 0)
	for len(r.slices) <= n {
		r.slices = append(r.slices, slice{inFlight: r.inFlight})
	}
	return &r.slices[n]
}

func record(h *hdr.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d/time.Microsecond), lowest), highest)) // in its bounds
}

// Sent counts a submit that is sent at a time that it was due late before.
func (r *Recorder) Sent(now, late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	r.inFlight++
	r.peak = max(r.peak, r.inFlight)
	record(r.hists[Late], late)
	s := r.at(now)
	s.sent++
	s.inFlight = r.inFlight
}

// Accepted counts a submit that the target took, so long after it was due.
func (r *Recorder) Accepted(now, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted++
	record(r.hists[Accepted], took)
	r.at(now).accepted++
}

// Texts counts texts of an answer that came together: bytes of them, so long after the submit was
// due if they are the first, else so long after those before.
func (r *Recorder) Texts(n int, size int, first bool, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts += int64(n)
	r.bytes += int64(size)
	if first {
		record(r.hists[First], took)
	} else {
		record(r.hists[Gap], took)
	}
}

// Resumed counts a stream that was cut so often and read to its end, and whether the text that its
// parts make is the answer's.
func (r *Recorder) Resumed(cuts int, same bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams.Cuts += int64(cuts)
	if same {
		r.streams.Same++
	} else {
		r.streams.Different++
	}
}

// Done counts the end of a submit that was sent, so long after it was due.
func (r *Recorder) Done(now, took time.Duration, job string, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	r.count(o, 1)
	s := r.at(now)
	s.inFlight = r.inFlight
	switch o.Fate {
	case Ended:
		record(r.hists[End], took)
		if r.jobs[job] == nil {
			r.jobs[job] = newHistogram()
		}
		record(r.jobs[job], took)
		if s.end == nil {
			// A second needs no three digits: 10,000 of them are kept in a day's load.
			s.end = hdr.New(lowest, highest, 2)
		}
		record(s.end, took)
		s.ended++
	case Refused:
		s.refused++
	case Failed, TimedOut:
		s.failed++
	case Dropped, Left:
	}
}

// Unsent counts submits that were not sent.
func (r *Recorder) Unsent(o Outcome, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(o, int64(n))
}

func (r *Recorder) count(o Outcome, n int64) {
	if n == 0 {
		return
	}
	r.counts[o.Fate] += n
	if o.Why == "" {
		return
	}
	if r.why[o.Fate] == nil {
		r.why[o.Fate] = map[string]int64{}
	}
	if len(r.why[o.Fate]) >= maxReasons && r.why[o.Fate][o.Why] == 0 {
		o.Why = "other"
	}
	r.why[o.Fate][o.Why] += n
}

// maxReasons bounds the reasons of one fate that are told apart.
const maxReasons = 64

// Glimpse is how the load stands, for a line on a terminal.
type Glimpse struct {
	Planned, Sent, Ended, Refused, Failed, InFlight int64
	// P50 and P99 are of the ends so far.
	P50, P99 time.Duration
}

// Glimpse returns how the load stands.
func (r *Recorder) Glimpse() Glimpse {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Glimpse{
		Planned: r.planned, Sent: r.sent, Ended: r.counts[Ended], Refused: r.counts[Refused],
		Failed: r.counts[Failed] + r.counts[TimedOut] + r.counts[Dropped], InFlight: r.inFlight,
		P50: micros(r.hists[End].ValueAtPercentile(50)), P99: micros(r.hists[End].ValueAtPercentile(99)),
	}
}

func micros(v int64) time.Duration { return time.Duration(v) * time.Microsecond }
