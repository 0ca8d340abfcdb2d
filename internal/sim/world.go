package sim

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// world is everything that one seed brings about.
type world struct {
	seed uint64
	rnd  *rand.Rand // what happens next
	// entropy is what the product draws: nonces and salts. jti is the minter's, which
	// has a fallback for none.
	entropy entropy
	jti     io.Reader
	now     time.Time
	groups  int // batches a commit takes
	weather weather
	calm    bool // nothing goes wrong any more
	over    bool // and no check follows

	cluster  *cluster      // of hosts with leases; nil without
	disk     *memory.Store // what is synced
	hosts    []*host
	clients  []*client
	outside  outside
	keys     *keyring.Set
	signer   signing
	programs *neuroscript.Cache

	stats Stats
	log   *trace
	sabotage
}

// sabotage breaks the world on purpose: tests see by it that every check can fail.
type sabotage struct {
	early    bool // an activation takes a record for durable that is on its way
	lies     bool // the disk says that it synced, and did not
	twice    bool // an attempt is made twice
	tampers  bool // a byte changes on its way to the disk
	deaf     bool // the ends of actions never come
	forges   bool // the verifier takes any token for a wish to go on
	forgets  bool // the stranger who reads along misses an end
	doubles  bool // the machine's flight is not seen
	amnesia  bool // a power failure empties the disk
	slips    bool // the fold takes a run's end for a remark
	reopens  bool // a session is opened again
	hastens  bool // an agent answers before its session has ended
	skimps   bool // a prompt goes without one of its feeds
	mumbles  bool // a prompt does not tell of turns that failed
	blurts   bool // any answer passes its schema
	misleads bool // a decoder is given other templates than the run has defined
	hushes   bool // nobody hears that a group is rolled back
	muddles  bool // the ends of members are read in another order
	presumes bool // actions whose end nobody knows are taken for ones to undo, or not
	repents  bool // a member is taken for undone when it has ended
	sulks    bool // a compensation is read as one of nothing
	slams    bool // a group is taken for closed when it has a member
	dithers  bool // a block is never taken for decided
	blends   bool // every block is taken to have no branch
	crowds   bool // a block is taken to have one place
	outlives bool // actions in blocks are taken to go on
	drips    bool // a piece of a result is overheard
	flatters bool // a provider says that it has nothing behind the reply
	presses  bool // any message is taken for the last reply
	believes bool // a host never doubts its lease
	abandons bool // what a dead host left is not taken up
	adopts   bool // who wakes a child does not ask whether anybody waits for it
}

// weather is how much trouble a world has, each in so many of a thousand steps of
// the world: some have none, so that runs get far, some little else.
type weather struct {
	crash, power, retire, disk, entropy, skew, repeat, jump int
	ask, cancel, takeover, hang, fault                      int
	freeze, cut, forget, drain, lose                        int // of a cluster
}

func (w *world) forecast() weather {
	pick := func(of ...int) int { return of[w.rnd.IntN(len(of))] }
	return weather{
		crash: pick(0, 0, 1, 4), power: pick(0, 0, 1, 2), retire: pick(0, 2, 8), disk: pick(0, 0, 2, 5), entropy: pick(0, 0, 1),
		skew: pick(0, 0, 1), repeat: pick(0, 20, 40), jump: pick(0, 2, 20),
		ask: pick(10, 40), cancel: pick(0, 30, 150), takeover: pick(0, 0, 10, 150), hang: pick(0, 5, 20), fault: pick(0, 20, 80),
	}
}

// entropy is a random source that can fail once.
type entropy struct {
	*rand.ChaCha8
	fails bool
}

// Read implements io.Reader.
func (e *entropy) Read(b []byte) (int, error) {
	if e.fails {
		e.fails = false
		return 0, io.ErrUnexpectedEOF
	}
	return e.ChaCha8.Read(b)
}

// Bounds of a world.
const (
	maxClients   = 3
	leastSteps   = 200
	mostSteps    = 1000
	mostDusk     = 600    // in which nobody asks anything any more
	maxRestSteps = 60_000 // within which a world comes to rest
)

// simulate runs the world of a seed. With a trace it says every step.
func simulate(seed uint64, clustered bool, to io.Writer) (out *outcome) {
	return simulateBroken(seed, clustered, to, sabotage{})
}

func simulateBroken(seed uint64, clustered bool, to io.Writer, how sabotage) (out *outcome) {
	w := newWorld(seed, clustered, to)
	w.sabotage = how
	out = &outcome{}
	defer func() {
		if crash := recover(); crash != nil {
			f, ok := crash.(*Failure)
			if !ok {
				f = w.failure("step", fmt.Sprintf("panic: %v\n%s", crash, debug.Stack()))
			}
			w.log.say("FAILED: %s: %s", f.Invariant, f.Detail)
			out.err = f
		}
		w.bury()
		out.stats = w.stats
	}()
	w.live()
	w.rest()
	w.judge(&out.digest)
	return out
}

func newWorld(seed uint64, clustered bool, to io.Writer) *world {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	sub := func(n byte) *rand.ChaCha8 {
		key[31] = n
		return rand.NewChaCha8(key)
	}
	w := &world{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x7374696c65)), entropy: entropy{ChaCha8: sub(1)}, jti: sub(2),
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), disk: memory.New(), programs: neuroscript.NewCache(1 << 20), log: newTrace(to),
	}
	w.stats.Worlds = 1
	w.stats.Decisions, w.stats.Reasons = map[messages.Decision]int64{}, map[messages.Code]int64{}
	w.weather, w.groups = w.forecast(), 1+w.rnd.IntN(4)
	hosts := 2
	if clustered {
		w.cluster = w.clusterOf()
		w.weather.storm(w)
		hosts = 2 + w.rnd.IntN(3)
	}
	w.outside = newOutside()
	w.keys, w.signer = ring(sub(3), w.now)
	for n := range 1 + w.rnd.IntN(maxClients) {
		w.clients = append(w.clients, w.newClient(n))
	}
	for n := range hosts {
		w.hosts = append(w.hosts, w.newHost(n))
	}
	return w
}

func ring(r io.Reader, now time.Time) (*keyring.Set, signing) {
	one := func(kid string, abortOnly bool) *keyring.Key {
		secret := make([]byte, 32)
		if _, err := io.ReadFull(r, secret); err != nil {
			panic(err)
		}
		k, err := keyring.NewHS256(keyring.Attributes{KID: kid, Purpose: keyring.Token, AbortOnly: abortOnly, NotBefore: now.Add(-time.Hour).Unix()}, secret)
		if err != nil {
			panic(err)
		}
		return k
	}
	set, err := keyring.NewSet(one("tok", false), one("fbk", true))
	if err != nil {
		panic(err)
	}
	return set, signing{set.TokenSigner(now), set.TokenFallback(now)}
}

// signers are there, but for bad days.
func (w *world) signers() token.SignerSource {
	if w.happens(w.weather.fault / 4) {
		if w.rnd.IntN(2) == 0 {
			return signing{nil, w.signer.fallback}
		}
		return signing{}
	}
	return w.signer
}

// bury ends what runs.
func (w *world) bury() {
	w.over = true
	for _, h := range w.hosts {
		h.die()
	}
}

func (w *world) failure(invariant, detail string) *Failure {
	return &Failure{Seed: w.seed, Step: w.stats.Steps, Invariant: invariant, Detail: detail}
}

// violated ends the world.
func (w *world) violated(invariant, format string, args ...any) {
	panic(w.failure(invariant, fmt.Sprintf(format, args...)))
}

// live is the time of trouble.
func (w *world) live() {
	steps := int64(leastSteps + w.rnd.IntN(mostSteps-leastSteps))
	for w.stats.Steps < steps {
		w.next()
	}
	if w.cluster != nil { // what goes on then, hosts take up by themselves
		w.weather.ask, w.weather.drain = 0, 0
		for range w.rnd.IntN(mostDusk) {
			w.next()
		}
	}
}

// happens draws one of the troubles.
func (w *world) happens(perMille int) bool { return !w.calm && w.rnd.IntN(1000) < perMille }

// next does one thing that may happen now.
func (w *world) next() {
	if w.cluster != nil {
		w.cluster.next()
		return
	}
	h := w.hosts[0]
	if w.happens(w.weather.takeover) {
		h = w.hosts[1]
	}
	n := w.rnd.IntN(1000)
	for _, may := range []struct {
		weight int
		do     func()
	}{
		{w.weather.ask, func() {
			if c := w.clients[w.rnd.IntN(len(w.clients))]; c.parent == nil {
				c.ask(h)
			} else {
				c.meddle(h)
			}
		}},
		{w.weather.repeat, w.repeat},
		{w.weather.crash, h.crash},
		{w.weather.power, w.powerFailure},
		{w.weather.retire, h.sleepIdle},
		{w.weather.entropy, func() { w.entropy.fails = true }},
		{w.weather.skew, h.drifts},
		{250, func() { w.write(w.hosts[w.rnd.IntN(2)]) }},
		{80, w.pass},
	} {
		if n -= may.weight; n < 0 {
			may.do()
			return
		}
	}
	w.deliver()
}

// drift sets the clock of a host wrong.
func (h *host) drifts() {
	h.skew = time.Duration(h.w.rnd.Int64N(int64(20*time.Minute))) - 10*time.Minute
	h.w.log.say("host %d: its clock is off by %s", h.n, h.skew)
}

// crash ends a process and starts it again.
func (h *host) crash() {
	h.w.stats.Crashes++
	h.w.log.say("host %d dies", h.n)
	h.die()
	if h.w.cluster == nil {
		h.boot()
	} else {
		h.thaw = h.w.now.Add(h.while())
	}
	h.w.remembered()
}

// powerFailure ends everything at once.
func (w *world) powerFailure() {
	w.stats.PowerFailures++
	w.log.say("the power fails")
	for _, h := range w.hosts {
		h.die()
	}
	if w.amnesia {
		w.disk = memory.New()
	}
	if w.cluster != nil {
		w.cluster.crash()
	}
	for _, h := range w.hosts {
		h.boot()
	}
	w.remembered()
}

// write lets a writer's commit come to its end, or hands over an answer of it.
func (w *world) write(h *host) {
	if h.away() {
		return
	}
	if len(h.acks) > 0 && w.rnd.IntN(2) == 0 {
		h.acknowledge()
		return
	}
	if !h.busy {
		if len(h.acks) > 0 {
			h.acknowledge()
		}
		return
	}
	if h.cut {
		return
	}
	if w.happens(w.weather.disk) {
		w.log.say("host %d: the disk fails", h.n)
		h.fail()
		return
	}
	w.log.say("host %d: commit of %d batches", h.n, len(h.store.batches))
	h.commit()
	if w.happens(3 * w.weather.crash) { // what is on the disk is not known to anyone yet
		h.crash()
	}
}

// acknowledge hands the first answer to its shell.
func (h *host) acknowledge() {
	a := h.acks[0]
	h.acks = h.acks[1:]
	a.to.acknowledged(a.at, a.err)
}

// pass lets time pass and rings what is due.
func (w *world) pass() {
	d := time.Duration(w.rnd.IntN(300)) * time.Millisecond
	switch {
	case w.cluster != nil && !w.happens(w.weather.jump/2):
		d = time.Duration(w.rnd.Int64N(int64(w.cluster.length / 8)))
	case w.calm:
		d *= 10
	case w.happens(w.weather.jump):
		d = time.Duration(w.rnd.Int64N(int64(3 * time.Hour)))
	case w.happens(4 * w.weather.jump):
		d *= 40
	}
	w.now = w.now.Add(d)
	w.log.say("%s pass", d)
	for _, h := range w.hosts {
		h.attend()
		if h.away() {
			continue
		}
		for _, s := range h.shells {
			if s != nil && (w.calm || w.rnd.IntN(4) > 0) { // else its alarm is late
				s.ring()
			}
		}
	}
}

// deliver lets some child of some session say its next word.
func (w *world) deliver() bool {
	for _, h := range w.hosts {
		if len(h.errands) > 0 && !h.away() && w.rnd.IntN(4) == 0 {
			do := h.errands[0]
			h.errands = h.errands[1:]
			do()
			return true
		}
	}
	var busy []*shell
	for _, h := range w.hosts {
		for _, s := range h.shells {
			if s != nil && !h.away() && s.stirs() {
				busy = append(busy, s)
			}
		}
	}
	if len(busy) == 0 {
		return false
	}
	busy[w.rnd.IntN(len(busy))].stir()
	return true
}

// repeat delivers something that was said before.
func (w *world) repeat() {
	var all []*shell
	for _, h := range w.hosts {
		for _, s := range h.shells {
			if s != nil && !h.away() && len(s.past) > 0 {
				all = append(all, s)
			}
		}
	}
	if len(all) > 0 {
		s := all[w.rnd.IntN(len(all))]
		in := s.past[w.rnd.IntN(len(s.past))]
		s.again(in)
	}
}

// rest lets everything come to its end: nothing fails any more, and who is owed an
// end is woken as a boot scan would.
func (w *world) rest() {
	w.calm = true
	w.log.say("calm")
	w.entropy.fails = false
	if w.cluster != nil {
		w.cluster.heal()
	}
	for n := 0; ; n++ {
		if n > maxRestSteps {
			w.violated("rest", "the world does not come to rest")
		}
		w.deliver()
		if w.cluster != nil {
			w.cluster.serve()
			w.cluster.carry()
		}
		for _, h := range w.hosts {
			w.write(h)
		}
		if n%8 == 7 {
			w.pass()
		}
		if n%16 == 15 {
			w.attend()
		}
		if n%40 == 39 && w.resting() && !w.scan() {
			return
		}
	}
}

// attend has users answer what they are asked, or lets the time for it run out.
func (w *world) attend() {
	if w.cluster != nil {
		w.cluster.attend()
		return
	}
	for _, c := range w.clients {
		for _, h := range w.hosts {
			s := h.shells[c.n]
			if s == nil || s.machine.Phase() != turn.Suspended {
				continue
			}
			if w.rnd.IntN(4) == 0 {
				w.now = w.now.Add(25 * time.Hour)
				s.ring()
				continue
			}
			c.last++
			c.approve(s, &asked{}, c.last)
		}
	}
}

// resting reports whether nothing is left to do for those who are awake.
func (w *world) resting() bool {
	if w.cluster != nil && !w.cluster.resting() {
		return false
	}
	for _, h := range w.hosts {
		if h.busy || h.out > 0 || len(h.acks) > 0 || len(h.errands) > 0 {
			return false
		}
		for _, s := range h.shells {
			if s != nil && (s.stirs() || s.drive.Busy() || s.machine.Phase() != turn.Idle) {
				return false
			}
		}
	}
	return true
}

// scan wakes the sessions that the disk says have work or an answer waiting, on the first
// host.
// Who is awake and idle there although the journal has work is an owner that does
// not know that it is none any more: it is put to sleep.
func (w *world) scan() (found bool) {
	if w.cluster != nil {
		return w.cluster.scan()
	}
	for _, c := range w.clients {
		head, err := w.disk.Head(bg, c.sid)
		if journal.IsNotFound(err) {
			continue
		}
		if err != nil {
			w.violated("chain", "%v", err)
		}
		if head.Pending() || head.Suspended() || len(c.history.left) > 0 && w.hosts[0].shells[c.n] == nil {
			found = true
			for _, h := range w.hosts {
				if s := h.shells[c.n]; s != nil {
					s.stop()
					h.shells[c.n] = nil
				}
			}
			w.hosts[0].wake(c)
		}
	}
	return found
}

// judge looks at the world at rest.
func (w *world) judge(digest *[sha256.Size]byte) {
	sum := sha256.New()
	for _, c := range w.clients {
		c.judge(sum)
	}
	w.outside.judge(w)
	sum.Sum(digest[:0])
}
