package crash

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// news is one thing a client was told; one of the fields is set.
type news struct {
	Seen  *seen  `json:"seen,omitempty"`
	Delta *delta `json:"delta,omitempty"`
	Run   *ran   `json:"run,omitempty"`
	End   *end   `json:"end,omitempty"`
	Word  *word  `json:"word,omitempty"`
}

// word is the answer to a question about a call, taken well.
type word struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// seen is a record that a subscriber was shown.
type seen struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	Kind string `json:"kind"`
}

// delta is growing text that a subscriber was shown.
type delta struct {
	Turn int64  `json:"turn"`
	Unit int    `json:"unit"`
	Off  int64  `json:"off"`
	Text string `json:"text"`
	// Action is the one whose result grows; "" for a unit. Seq is the record in front.
	Action string `json:"action,omitempty"`
	Seq    int64  `json:"seq,omitempty"`
}

// ran is the answer to a submit.
type ran struct {
	Submit int   `json:"submit"`
	Run    int64 `json:"run"`
	Joined bool  `json:"joined,omitempty"` // its key was known
}

// end is the decision of a run.
type end struct {
	Run      int64  `json:"run"`
	Decision string `json:"decision"`
}

func decisionOf(o stile.Outcome) string {
	if o.Reason != "" {
		return fmt.Sprintf("%s(%s)", o.Decision, o.Reason)
	}
	return string(o.Decision)
}

// witness remembers what clients of all lives were told.
type witness struct {
	mu       sync.Mutex
	life     int         // the present one: what a dead one would still say was never told
	lives    []time.Time // when each began: of one before it nothing is written any more
	heard    int
	records  map[int64]seen
	deltas   []delta
	runs     map[int]int64
	ends     map[int64]string
	words    map[string]string // question → answer
	problems []string          // two things that cannot both be true
}

func newWitness() *witness {
	return &witness{records: map[int64]seen{}, runs: map[int]int64{}, ends: map[int64]string{}, words: map[string]string{}}
}

// begin starts a life and gives the ear its client tells things to.
func (w *witness) begin() func(news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life++
	w.lives = append(w.lives, time.Now())
	life := w.life
	return func(n news) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if life == w.life {
			w.note(n)
		}
	}
}

// note takes a piece of news, under w.mu.
func (w *witness) note(n news) {
	w.heard++
	switch {
	case n.Seen != nil:
		if was, ok := w.records[n.Seen.Seq]; ok && was != *n.Seen {
			w.problems = append(w.problems, fmt.Sprintf("lost: record %d was shown as %s %.8s, and then as %s %.8s", n.Seen.Seq, was.Kind, was.Hash, n.Seen.Kind, n.Seen.Hash))
		}
		w.records[n.Seen.Seq] = *n.Seen
	case n.Delta != nil:
		w.deltas = append(w.deltas, *n.Delta)
	case n.Run != nil:
		if was, ok := w.runs[n.Run.Submit]; ok && was != n.Run.Run {
			w.problems = append(w.problems, fmt.Sprintf("doubled: submit %d was run %d, and then run %d", n.Run.Submit, was, n.Run.Run))
		} else if ok && !n.Run.Joined {
			w.problems = append(w.problems, fmt.Sprintf("lost: submit %d was answered as run %d, which then did not exist", n.Run.Submit, was))
		}
		w.runs[n.Run.Submit] = n.Run.Run
	case n.Word != nil:
		if was, ok := w.words[n.Word.Question]; ok {
			w.problems = append(w.problems, fmt.Sprintf("lost: question %s was answered with %s, and then with %s", n.Word.Question, was, n.Word.Answer))
		}
		w.words[n.Word.Question] = n.Word.Answer
	case n.End != nil:
		if was, ok := w.ends[n.End.Run]; ok && was != n.End.Decision {
			w.problems = append(w.problems, fmt.Sprintf("lost: run %d ended %s, and then %s", n.End.Run, was, n.End.Decision))
		}
		w.ends[n.End.Run] = n.End.Decision
	}
}

const session = "s"

// visit is one client: it submits what the scenario submits, again when it did not
// hear an answer in the life before, and watches until every run has ended.
func visit(ctx context.Context, rt *stile.Runtime, sc *scenario, agent *stile.Agent, tell func(news)) error {
	s, err := rt.Open(ctx, session, agent)
	if err != nil {
		return err
	}
	watched := make(chan error, 1)
	go func() { watched <- watch(ctx, s, sc, tell) }()
	var runs []*stile.Run
	for i := range sc.submits {
		r, err := s.Submit(ctx, fmt.Sprint("please ", i), stile.Policy(messages.Enqueue), stile.IdempotencyKey(fmt.Sprint("submit-", i)))
		if err != nil {
			return err
		}
		tell(news{Run: &ran{i, r.Ordinal(), r.Joined()}})
		runs = append(runs, r)
	}
	for _, r := range runs {
		o, err := r.Decision(ctx)
		if err != nil {
			return err
		}
		tell(news{End: &end{r.Ordinal(), decisionOf(o)}})
	}
	return <-watched
}

// watch follows a session from its first record until the scenario's runs have ended,
// and answers what it asks.
func watch(ctx context.Context, s *stile.Session, sc *scenario, tell func(news)) error {
	runs := sc.submits
	for u, err := range s.Events(ctx, 0) {
		if err != nil {
			return err
		}
		if u.Delta != nil {
			tell(news{Delta: &delta{Turn: u.Delta.Unit.Turn, Unit: u.Delta.Unit.N, Off: u.Delta.Off, Text: u.Delta.Text, Action: u.Delta.Action, Seq: u.Delta.Seq}})
			continue
		}
		kind := u.Record.Body.Kind()
		tell(news{Seen: &seen{u.Record.Seq, hex.EncodeToString(u.Record.Hash[:]), string(kind)}})
		switch kind {
		case messages.KindTurnSuspended: // also an old one: then nothing is asked any more
			if err := answer(ctx, s, sc, tell); err != nil {
				return err
			}
		case messages.KindRunEnd:
			if runs--; runs == 0 {
				return nil
			}
		}
	}
	return nil
}

// answer answers every open question of the session: calls are approved, or denied
// where the scenario says so.
func answer(ctx context.Context, s *stile.Session, sc *scenario, tell func(news)) error {
	list, err := s.Approvals(ctx)
	if err != nil {
		return err
	}
	for _, q := range list {
		said := messages.GateApprove
		if sc.denies {
			said = messages.GateDeny
			err = s.Deny(ctx, q, "ann", "not today")
		} else {
			err = s.Approve(ctx, q, "ann")
		}
		if messages.CodeOf(err) == messages.ErrApproval {
			continue // it was answered before, in a life that could not say so any more
		}
		if err != nil {
			return err
		}
		tell(news{Word: &word{q.ID, string(said)}})
	}
	return nil
}
