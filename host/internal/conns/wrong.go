package conns

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// WrongPause is the longest that the answer to a wrong token waits.
const WrongPause = 5 * time.Second

const (
	wrongSpan    = 10 * time.Second
	maxPaused    = 256             // answers that wait at once
	wrongPeers   = 4096            // addresses that are remembered; the one seen last stays longest
	tellWrong    = time.Minute     // between two lines of an address
	wrongLines   = 10              // lines at once, of all addresses
	wrongLineGap = 6 * time.Second // and one more each
)

// WrongTokens remembers which addresses showed wrong tokens, and slows the answers to those that show many.
// Its methods are safe for concurrent use.
type WrongTokens struct {
	most int // of an address, in wrongSpan

	mu     sync.Mutex
	peers  map[netip.Prefix]*list.Element // of *wrongPeer
	seen   *list.List                     // the same, the one seen last in front
	paused int
	lines  *rate.Limiter
	hidden int // refusals of addresses that were forgotten before they were told of
}

type wrongPeer struct {
	from   netip.Prefix
	may    *rate.Limiter
	told   time.Time
	untold int
}

// NewWrongTokens returns one for at most so many wrong tokens of an address in ten seconds without a pause.
func NewWrongTokens(most int) *WrongTokens {
	return &WrongTokens{most: most, peers: map[netip.Prefix]*list.Element{}, seen: list.New(), lines: rate.NewLimiter(rate.Every(wrongLineGap), wrongLines)}
}

// Show notes a wrong token; slow is false of one that is not slowed. The answer waits for pause, and Done must
// be called behind a pause. ok is false where it is refused at once. tell is how many refusals a line of the
// log is to speak of, 0 for no line.
func (w *WrongTokens) Show(from netip.Prefix, slow bool, now time.Time) (pause time.Duration, ok bool, tell int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.peers[from]
	if at == nil {
		at = w.seen.PushFront(&wrongPeer{from: from, may: rate.NewLimiter(rate.Limit(float64(w.most)/wrongSpan.Seconds()), w.most)})
		w.peers[from] = at
		if w.seen.Len() > wrongPeers {
			last := w.seen.Remove(w.seen.Back()).(*wrongPeer)
			w.hidden += last.untold
			delete(w.peers, last.from)
		}
	}
	w.seen.MoveToFront(at)
	p := at.Value.(*wrongPeer)
	p.untold++
	if (p.told.IsZero() || now.Sub(p.told) >= tellWrong) && w.lines.AllowN(now, 1) {
		tell, p.told, p.untold, w.hidden = p.untold+w.hidden, now, 0, 0
	}
	if !slow {
		return 0, true, tell
	}
	turn := p.may.ReserveN(now, 1)
	pause = turn.DelayFrom(now)
	if pause > WrongPause || pause > 0 && w.paused >= maxPaused {
		turn.CancelAt(now)
		return 0, false, tell
	}
	if pause > 0 {
		w.paused++
	}
	return pause, true, tell
}

// Done ends a pause.
func (w *WrongTokens) Done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused--
}
