package cluster

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// witness is outside of all hosts. It is their models and what their tools act on, and so it sees
// which of them has a turn in flight, and counts what they do.
type witness struct {
	begun time.Time

	mu       sync.Mutex
	rnd      *rand.Rand
	say      func(format string, args ...any) // into the log of what happens
	frozen   map[string]bool                  // lives that stand still, or have for as long as no host may believe them
	sessions map[string]*seat
	deeds    map[string]*deed // by session, turn and action
	problems []string
	overlaps []time.Duration // for how long two lives had a turn of one session in flight
	turns    int
	asked    map[string]int // of them, by life
	lost     []*lapse       // turns whose host was killed, and that no host has gone on with
	lapses   []time.Duration
}

// lapse is the time for which no host works on a turn.
type lapse struct {
	sid, life string
	since     time.Time
}

// seat is who has the turn of a session in flight.
type seat struct {
	open  map[string]int // models that are asked, by life
	turn  int64          // the latest
	epoch int64          // of the latest effect
	rises []rise
}

// rise is when a turn was the latest for the first time, or an epoch.
type rise struct {
	turn, epoch int64
	at          time.Time
}

// overtaken is when something later than a turn, or an epoch, was seen first; zero if nothing was.
func (s *seat) overtaken(turn, epoch int64) time.Time {
	for _, r := range s.rises {
		if r.turn > turn || r.epoch > epoch {
			return r.at
		}
	}
	return time.Time{}
}

// deed is what a tool did.
type deed struct {
	class string
	keys  []string // of each time
	lives []string
	turn  int64
	late  bool // see act
}

func newWitness(seed uint64, say func(format string, args ...any)) *witness {
	return &witness{
		say: say, begun: time.Now(), rnd: rand.New(rand.NewPCG(seed, 1)), frozen: map[string]bool{}, sessions: map[string]*seat{}, asked: map[string]int{}, deeds: map[string]*deed{},
	}
}

func (w *witness) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

// fault notes what must not be.
func (w *witness) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("%7.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

func (w *witness) seat(sid string) *seat {
	s := w.sessions[sid]
	if s == nil {
		s = &seat{open: map[string]int{}}
		w.sessions[sid] = s
	}
	return s
}

// ServeHTTP implements http.Handler.
func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/model":
		w.speak(rw, r)
	case "/deed":
		w.act(rw, r)
	}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// begins notes that a life asks the model about a turn.
func (w *witness) begins(sid, life string, turn int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seat(sid)
	w.turns++
	w.asked[life]++
	if turn < s.turn {
		w.problems = append(w.problems, fmt.Sprintf("%s asks about turn %d of %s, and turn %d was in flight already", life, turn, sid, s.turn))
	}
	if turn > s.turn {
		s.turn = turn
		s.rises = append(s.rises, rise{turn: turn, at: time.Now()})
	}
	s.open[life]++
	w.lost = slices.DeleteFunc(w.lost, func(l *lapse) bool {
		if l.sid == sid && l.life != life {
			w.lapses = append(w.lapses, time.Since(l.since))
			return true
		}
		return false
	})
	for other := range s.open {
		if other != life && !w.frozen[other] {
			go w.overlap(sid, life, other)
		}
	}
}

// overlapBound is for how long two lives may seem to have a turn in flight: the end of a connection
// takes its time on a busy machine. A host that does not stop goes on for seconds.
const overlapBound = 800 * time.Millisecond

// overlap watches until the life that was there before has gone.
func (w *witness) overlap(sid, life, before string) {
	since := time.Now()
	for {
		time.Sleep(2 * time.Millisecond)
		w.mu.Lock()
		s := w.seat(sid)
		if s.open[life] == 0 || s.open[before] == 0 || w.frozen[before] || time.Since(since) > overlapBound {
			took := time.Since(since)
			w.overlaps = append(w.overlaps, took)
			w.mu.Unlock()
			if took > overlapBound {
				w.fault("%s and %s have a turn of %s in flight for %s", before, life, sid, took)
			}
			return
		}
		w.mu.Unlock()
	}
}

func (w *witness) ends(sid, life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.seat(sid); s.open[life] > 1 {
		s.open[life]--
	} else {
		delete(s.open, life)
	}
}

// freeze notes that a life stands still.
func (w *witness) freeze(life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen[life] = true
}

// thaw lets a life that has stood still notice it, and then expects that it has.
func (w *witness) thaw(life string) {
	time.Sleep(300 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.frozen, life)
	for sid, s := range w.sessions {
		if s.open[life] == 0 {
			continue
		}
		for other := range s.open {
			if other != life {
				go w.overlap(sid, other, life)
			}
		}
	}
}

// died notes the turns that a life has in flight, and leaves behind.
func (w *witness) died(life string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sid, s := range w.sessions {
		if s.open[life] > 0 {
			w.lost = append(w.lost, &lapse{sid, life, time.Now()})
		}
	}
}

// speak is a model.
func (w *witness) speak(rw http.ResponseWriter, r *http.Request) {
	sid, life := r.FormValue("session"), r.FormValue("host")
	w.say("%s asks about turn %s of %s", life, r.FormValue("turn"), sid)
	w.begins(sid, life, number(r.FormValue("turn")))
	defer w.ends(sid, life)
	pause := func(most int) bool {
		select {
		case <-time.After(time.Duration(w.draw(most)) * time.Millisecond):
			return true
		case <-r.Context().Done():
			return false
		}
	}
	say := func(text string) {
		_, _ = io.WriteString(rw, text)
		_ = http.NewResponseController(rw).Flush()
	}
	rw.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(rw).Flush()
	if r.FormValue("agent") == "talker" {
		for i := range 3 + w.draw(6) {
			if !pause(300) {
				return
			}
			say(fmt.Sprintf("word %d of %d, ", i, w.draw(1000)))
		}
		return
	}
	most := 60
	if w.draw(3) == 0 {
		most = 2000
	}
	if !pause(most) {
		return
	}
	var b strings.Builder
	b.WriteString("command\nwhisper self, turn_index\non error as e do\nclear_error\nendon\n")
	for range w.draw(3) {
		fmt.Fprintf(&b, "call tool.fleet.%s(turn_index)\n", []string{"effectful", "effectful", "keyed", "asked"}[w.draw(4)])
	}
	b.WriteString(`emit userdata["fields"]["text"]` + "\n")
	action := "done"
	if w.draw(5) == 0 {
		action = "continue"
	}
	fmt.Fprintf(&b, "emit tool.aeiou.magic(\"LOOP\", {\"action\": %q})\nendcommand\n", action)
	say(b.String())
}

// act is what tools act on. A call that was begun in time and whose last bytes come late is none that
// a host had to refrain from: it stood still in the middle of it. Its record has to say that the
// outcome is not known. A call that was begun late is a fault.
func (w *witness) act(rw http.ResponseWriter, r *http.Request) {
	sid, life, turn, epoch := r.FormValue("session"), r.FormValue("host"), number(r.FormValue("turn")), number(r.FormValue("epoch"))
	called := time.Unix(0, number(r.FormValue("called")))
	w.say("%s does %s %s in turn %d, epoch %d of %s, called %s ago", life, r.FormValue("class"), r.FormValue("id"), turn, epoch, sid, time.Since(called))
	func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s := w.seat(sid)
		over := s.overtaken(turn, epoch)
		late := !over.IsZero()
		if late && !called.Before(over) {
			w.problems = append(w.problems, fmt.Sprintf("%7.3f %s does something in turn %d, epoch %d of %s %s after turn %d, epoch %d had begun", time.Since(w.begun).Seconds(), life, turn, epoch, sid, called.Sub(over), s.turn, s.epoch))
		}
		if epoch > s.epoch {
			s.epoch = epoch
			s.rises = append(s.rises, rise{epoch: epoch, at: time.Now()})
		}
		id := deedID(sid, turn, r.FormValue("id"))
		d := w.deeds[id]
		if d == nil {
			d = &deed{class: r.FormValue("class"), turn: turn}
			w.deeds[id] = d
		}
		d.keys, d.lives, d.late = append(d.keys, r.FormValue("key")), append(d.lives, life), d.late || late
	}()
	select {
	case <-time.After(time.Duration(w.draw(30)) * time.Millisecond):
	case <-r.Context().Done():
	}
	rw.WriteHeader(http.StatusNoContent)
}

func deedID(sid string, turn int64, id string) string { return fmt.Sprint(sid, " ", turn, " ", id) }

// tell asks the witness something, as a tool.
func tell(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
