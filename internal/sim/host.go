package sim

import (
	"context"
	"io"
	"time"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
)

// host is a process: a writer of its own on the shared disk, a clock of its own,
// and the sessions it has awake.
//
//	out > 0 and the writer has a commit open  ⇔  busy
//
// holds whenever the world looks: the writer runs on its own goroutine, but only
// between handing it something and hearing from it, so that what it groups follows
// from the seed.
type host struct {
	w      *world
	n      int
	skew   time.Duration // of its clock
	store  *port
	writer *groupcommit.Writer
	out    int  // batches without an answer
	busy   bool // the writer has a commit open
	failed bool // its disk gave an error: it must be reopened
	acks   []ack
	shells []*shell // by session; nil where asleep
	// errands are what shells have left to be done.
	errands []func()
	pots    map[pot]potted // values of feeds

	// In a cluster.
	member *seat
	life   int                   // of the process
	drift  float64               // how fast its clock goes that only goes forward
	down   bool                  // the process has ended
	frozen bool                  // it does nothing, and does not know it
	cut    bool                  // it does not reach the database, nor that it
	thaw   time.Time             // when that is over
	waking map[int][]func(error) // sessions that are being claimed
}

// ack is the writer's answer on its way to a shell.
type ack struct {
	to  *shell
	at  driver.Position
	err error
}

// signal is the writer's goroutine saying where it is.
type signal struct {
	entered bool // it is in Commit and waits
	ack     ack
}

// port is the store as one host's writer sees it: Commit waits until the world
// says what became of it.
type port struct {
	*memory.Store
	batches []journal.Batch
	signals chan signal
	release chan []error
	gone    bool // its process is dead
}

// Commit implements journal.Store.
func (p *port) Commit(batches []journal.Batch) []error {
	if p.gone {
		return failures(len(batches), errGone())
	}
	p.batches = batches
	p.signals <- signal{entered: true}
	return <-p.release
}

// Immediate implements journal.Store.
func (p *port) Immediate() bool { return false }

// Reopen implements journal.Store: what is on the disk was decided when it failed.
func (p *port) Reopen() error { return nil }

// Close implements journal.Store; the disk is the world's.
func (p *port) Close() error { return nil }

func errGone() error { return journal.Fail(journal.ReasonClosed, nil, "the process is dead") }

func failures(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (w *world) newHost(n int) *host {
	h := &host{w: w, n: n, shells: make([]*shell, len(w.clients)), pots: map[pot]potted{}, drift: 1}
	if w.cluster != nil {
		h.drift += []float64{0, 0.04, -0.04}[w.rnd.IntN(3)]
	}
	h.boot()
	return h
}

// boot starts the process.
func (h *host) boot() {
	h.store = &port{Store: h.w.disk, signals: make(chan signal), release: make(chan []error)}
	h.writer = groupcommit.New(h.store, groupcommit.Options{GroupBatches: h.w.groups})
	if h.w.cluster != nil {
		h.down, h.frozen, h.cut, h.waking = false, false, false, map[int][]func(error){}
		h.member = newSeat(h)
	}
}

// now is the host's clock.
func (h *host) now() time.Time { return h.w.now.Add(h.skew) }

// rand is the world's randomness; now and then there is none.
func (h *host) rand() io.Reader { return &h.w.entropy }

// append hands a batch to the writer.
func (h *host) append(b journal.Batch, to *shell) {
	last := b.Records[len(b.Records)-1]
	at := driver.Position{Seq: last.Seq, Hash: last.Hash}
	h.out++
	signals := h.store.signals
	h.writer.Append(b, func(err error) { signals <- signal{ack: ack{to, at, err}} })
	h.listen()
}

// listen waits until the writer waits.
func (h *host) listen() {
	for !h.busy && h.out > 0 {
		s := <-h.store.signals
		if s.entered {
			h.busy = true
			continue
		}
		h.out--
		h.acks = append(h.acks, s.ack)
	}
}

// commit ends the open commit well: Judge decides every batch.
func (h *host) commit() {
	if h.w.lies && h.w.rnd.IntN(20) == 0 {
		h.tell(make([]error, len(h.store.batches)))
		return
	}
	if h.w.tampers {
		raw := h.store.batches[0].Records[0].Raw
		raw[h.w.rnd.IntN(len(raw))] ^= 1
	}
	var errs []error
	for i := range h.store.batches {
		errs = append(errs, h.judge(&h.store.batches[i]))
	}
	h.tell(errs)
}

// judge has the disk decide a batch, and decides it once more by docs/spec/design.md §7: it is
// accepted if it continues the head under an epoch that is not lower.
func (h *host) judge(b *journal.Batch) error {
	w := h.w
	head, err := w.disk.Head(bg, b.SID)
	if err != nil {
		head = journal.NewHead(b.SID, b.Inc)
	}
	continues := head.Inc == b.Inc && head.Seq == b.ExpectSeq && head.Hash == b.Records[0].Prev
	err = w.disk.Commit([]journal.Batch{*b})[0]
	switch {
	case err == nil && head.Epoch > b.Epoch:
		w.violated("fence", "epoch %d of session %s writes after epoch %d", b.Epoch, b.SID, head.Epoch)
	case err == nil && !continues:
		w.violated("fence", "record %d of session %s does not continue the head at %d", b.ExpectSeq+1, b.SID, head.Seq)
	case err == nil:
		w.stats.Commits++
		w.written(b)
	case continues && head.Epoch <= b.Epoch:
		w.violated("fence", "a batch that continues the head is refused: %v", err)
	case head.Inc == b.Inc && head.Epoch > b.Epoch && !journal.IsFenced(err):
		w.violated("fence", "epoch %d after epoch %d is refused as %v", b.Epoch, head.Epoch, err)
	default:
		w.stats.Refused++
	}
	return err
}

// tell answers the open commit.
func (h *host) tell(errs []error) {
	h.busy = false
	h.store.release <- errs
	h.listen()
}

// lose ends the open commit badly: of what was written and not synced, any part
// may be there at the next read, in any order. What is torn has a wrong
// checksum, and what does not continue the head is dropped.
func (h *host) lose() {
	w := h.w
	var left []journal.Batch
	for _, b := range h.store.batches {
		if w.rnd.IntN(2) == 0 {
			left = append(left, b)
		}
	}
	w.rnd.Shuffle(len(left), func(i, j int) {
		if w.rnd.IntN(3) == 0 {
			left[i], left[j] = left[j], left[i]
		}
	})
	for i := range left {
		if w.disk.Commit(left[i : i+1])[0] == nil {
			w.written(&left[i])
		}
	}
}

// fail is an I/O error of the open commit.
func (h *host) fail() {
	n := len(h.store.batches)
	h.lose()
	h.failed = true
	h.tell(failures(n, journal.Fail(journal.ReasonIO, nil, "the disk does not answer")))
}

// die ends the process. Its commit may have got through or not.
func (h *host) die() {
	if h.down {
		return
	}
	h.store.gone = true
	h.down, h.life = h.w.cluster != nil, h.life+1
	if h.busy {
		n := len(h.store.batches)
		if !h.w.over {
			h.lose()
		}
		h.busy = false
		h.store.release <- failures(n, errGone())
	}
	for ; h.out > 0; h.out-- {
		<-h.store.signals
	}
	h.writer.Close()
	h.acks, h.errands = nil, nil
	clear(h.pots)
	for i, s := range h.shells {
		if s != nil {
			s.stop()
			h.shells[i] = nil
		}
	}
	h.failed = false
}

// drain is the barrier of an activation: what was handed over before is decided.
func (h *host) drain() {
	for h.busy {
		h.commit()
	}
}

// wake gives the activation of a session on this host, loading it if need be.
func (h *host) wake(c *client) *shell {
	if s := h.shells[c.n]; s != nil {
		return s
	}
	h.drain()
	if h.failed {
		if err := h.writer.Reopen(context.Background()); err != nil {
			h.w.violated("step", "the journal does not open again: %v", err)
		}
		h.failed = false
	}
	s := h.load(c)
	h.shells[c.n] = s
	s.begin()
	return s
}
