package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tests/history"
)

// What a campaign does. make hosts has more of it than a plain run of the tests.
var (
	campaignSeed  = flag.Uint64("seed", 0, "of the campaign; 0 draws one")
	campaignKills = flag.Int("kills", 1, "hosts to kill")
	campaignFroze = flag.Int("freezes", 1, "hosts to freeze for longer than their lease")
	campaignOther = flag.Bool("other", false, "also stop hosts in order, cut and slow links, and restart the database")
	campaignNet   = flag.Bool("namespaces", false, "in network namespaces, which are root's to make, and not by relays on loopback")
	campaignFor   = flag.Duration("for", 20*time.Second, "ends the faults at last")
	campaignPace  = flag.Duration("pace", 900*time.Millisecond, "between faults, about")
	campaignLease = flag.Duration("lease", 2*time.Second, "of the hosts")
	campaignLogs  = flag.String("logs", "", "folder for the logs of hosts, which stay there")
)

// campaign is clients of a fleet, and what happens to it.
type campaign struct {
	*fleet
	seed     uint64
	ticks    atomic.Int64
	over     atomic.Bool // clients begin nothing new
	mu       sync.Mutex
	sessions []*testSession
	made     int
	open     int // sessions that clients ask at a time
	counts   map[string]int
	faults   map[string]int
}

// testSession is a session of the campaign, with all that clients have asked of it.
type testSession struct {
	id, agent string
	mu        sync.Mutex
	ops       []history.Operation
	texts     int
	runs      int64
	asks      int // begun
	words     map[string]bool
}

func (l *testSession) sid() string { return "local:local:" + l.id }

// sessionLength is after how many requests a session is done: what one order of them explains is
// searched for.
const sessionLength = 30

func (c *campaign) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// TestCampaign has hosts die, freeze, stop and lose each other and their database, under clients
// that submit, cancel, approve and follow. Nothing is lost or done twice, and every run ends.
func TestCampaign(t *testing.T) {
	seed := *campaignSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	var n *network
	if *campaignNet {
		if n = inNetwork(t); n == nil {
			return
		}
	}
	f := launchIn(t, n, seed, *campaignLease, 3, *campaignLogs)
	if f == nil {
		return
	}
	t.Logf("seed %d", seed)
	c := newCampaign(f, seed)
	c.under(6, c.trouble)
}

func newCampaign(f *fleet, seed uint64) *campaign {
	return &campaign{fleet: f, seed: seed, counts: map[string]int{}, faults: map[string]int{}}
}

// under has so many clients ask while things go wrong, and judges what came of it.
func (c *campaign) under(n int, trouble func()) {
	c.open = n - 1
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() { c.client(i) })
	}
	trouble()
	c.over.Store(true)
	clients.Wait()
	c.say("clients have ended")
	c.settle()
	// A request that its client gave up may still be at a host, and begin a run while the journal
	// is judged: it does not outlive the host.
	var stops sync.WaitGroup
	for _, b := range c.berths {
		stops.Go(func() { b.stopped(nil) })
	}
	stops.Wait()
	c.say("all hosts have started again")
	c.settle()
	c.say("all sessions are at rest")
	c.judge()
	c.tell(c.t)
	if len(c.witness.problems) > 0 && *campaignLogs == "" {
		c.logTails(c.t)
	}
}

func (c *campaign) rand(n uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, n)) }

// pick gives a session to do something with, an open one or a new one.
func (c *campaign) pick(r *rand.Rand) *testSession {
	c.mu.Lock()
	var open []*testSession
	for _, l := range c.sessions {
		if l.asks < sessionLength {
			open = append(open, l)
		}
	}
	if len(open) >= c.open {
		l := open[r.IntN(len(open))]
		l.asks++
		c.mu.Unlock()
		return l
	}
	c.made++
	l := &testSession{id: fmt.Sprint("s", c.made), agent: "worker", words: map[string]bool{}}
	if c.made%3 == 0 {
		l.agent = "talker"
	}
	c.mu.Unlock()
	for c.ctx.Err() == nil {
		a := c.request(http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":%q,"id":%q}`, l.agent, l.id), "")
		if a.plain() && (a.status < 300 || a.status == http.StatusConflict) {
			break
		}
		c.count("create: " + outcomeOf(a))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = append(c.sessions, l)
	return l
}

// outcomeOf is an answer in a word or two.
func outcomeOf(a *outcome) string {
	switch r := a.refusal(); {
	case a.err != nil:
		return "no answer"
	case r.Code != "":
		return strings.TrimSpace(fmt.Sprint(a.status, " ", r.Code, " ", r.Reason))
	}
	return fmt.Sprint(a.status)
}

// client does things at random.
func (c *campaign) client(n int) {
	r := c.rand(uint64(100 + n))
	for !c.over.Load() && c.ctx.Err() == nil {
		l := c.pick(r)
		if l.agent == "talker" {
			c.listen(l, r)
			continue
		}
		switch k := r.IntN(12); {
		case k < 6:
			c.submit(l, n, r)
		case k < 8:
			c.cancel(l, n, r)
		case k < 10:
			c.approve(l, r)
		default:
			c.glance(l)
		}
		time.Sleep(time.Duration(r.IntN(120)) * time.Millisecond)
	}
}

func (l *testSession) record(op history.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
}

// askFor is how long a client goes on asking. Two hosts of three may be away for a few seconds.
const askFor = 90 * time.Second

// insist asks until there is an answer of the session.
func (c *campaign) insist(what, method, path, body, key string) *outcome {
	var a *outcome
	for until, again := time.Now().Add(askFor), false; c.ctx.Err() == nil; again = true {
		a = c.request(method, path, body, key)
		a.again = again
		c.count(what + ": " + outcomeOf(a))
		if a.plain() {
			return a
		}
		if time.Now().After(until) {
			c.witness.fault("no answer to %s %s: %v", method, path, a)
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// submit submits a message, again with the same key until it is answered, and waits for its run
// now and then.
func (c *campaign) submit(l *testSession, client int, r *rand.Rand) {
	policies := []messages.Policy{messages.Enqueue, messages.Enqueue, messages.Enqueue, messages.Reject, messages.Interrupt, messages.Merge}
	l.mu.Lock()
	l.texts++
	in := history.Submit{Text: fmt.Sprint("t", l.texts), Key: fmt.Sprint("k", l.texts), Policy: policies[r.IntN(len(policies))]}
	l.mu.Unlock()
	body := fmt.Sprintf(`{"input":%q,"policy":%q}`, in.Text, in.Policy)
	path := "/v1/sessions/" + l.id + "/runs"
	asked := c.ticks.Add(1)
	a := c.insist("submit", http.MethodPost, path, body, in.Key)
	if a == nil {
		l.record(history.Operation{Client: client, Asked: asked, Submit: &in})
		return
	}
	var view struct {
		Run    int64
		Joined bool
	}
	if a.status < 300 {
		if err := json.Unmarshal(a.body, &view); err != nil || view.Run == 0 {
			c.witness.fault("submit: %v", a)
			return
		}
		in.Run = view.Run // it may have been accepted before: no other client has this key
		l.mu.Lock()
		l.runs = max(l.runs, view.Run)
		l.mu.Unlock()
	} else {
		in.Code = messages.Code(a.refusal().Code)
		if in.Code != messages.ErrBusy {
			c.witness.fault("submit to %s: %v", l.id, a)
		}
		if a.again { // an attempt before, without an answer, may get to its host late, and be accepted there
			l.record(history.Operation{Client: client, Asked: asked, Submit: &history.Submit{Text: in.Text, Key: in.Key, Policy: in.Policy}})
		}
	}
	l.record(history.Operation{Client: client, Asked: asked, Answered: c.ticks.Add(1), Submit: &in})
	if in.Code == "" && r.IntN(3) == 0 {
		c.wait(l, client, in.Run, true, 4*time.Second)
	}
	if in.Code == "" && r.IntN(6) == 0 { // once more: it is the same run
		again := in
		asked := c.ticks.Add(1)
		a := c.insist("submit again", http.MethodPost, path, body, in.Key)
		if a == nil || a.status >= 300 || json.Unmarshal(a.body, &view) != nil {
			c.witness.fault("submit of %s to %s again: %v", in.Text, l.id, a)
			return
		}
		again.Run, again.Joined = view.Run, view.Joined
		l.record(history.Operation{Client: client, Asked: asked, Answered: c.ticks.Add(1), Submit: &again})
	}
}

type look struct {
	Run            int64
	Ended          bool
	State          string
	Decision, Code string
}

// wait waits for the end of a run, and reports it.
func (c *campaign) wait(l *testSession, client int, run int64, told bool, most time.Duration) bool {
	asked := c.ticks.Add(1)
	a := c.request(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/runs/%d?wait=%s", l.id, run, most), "", "")
	c.count("wait: " + outcomeOf(a))
	var v look
	if !a.plain() || a.status != http.StatusOK || json.Unmarshal(a.body, &v) != nil || !v.Ended {
		return false
	}
	how := v.Decision
	if v.Code != "" {
		how += "(" + v.Code + ")"
	}
	c.count("ends " + how)
	if told {
		l.record(history.Operation{Client: client, Asked: asked, Answered: c.ticks.Add(1), Wait: &history.Wait{Run: run, How: how}})
	}
	return true
}

// cancel cancels a run. It is not asked twice as one: who had no answer does not know.
func (c *campaign) cancel(l *testSession, client int, r *rand.Rand) {
	l.mu.Lock()
	known := l.runs
	l.mu.Unlock()
	if known == 0 {
		return
	}
	in := history.Cancel{Run: max(1, known-r.Int64N(3))}
	asked := c.ticks.Add(1)
	a := c.request(http.MethodPost, fmt.Sprintf("/v1/sessions/%s/runs/%d/cancel", l.id, in.Run), "", "")
	c.count("cancel: " + outcomeOf(a))
	op := history.Operation{Client: client, Asked: asked, Cancel: &in}
	if a.plain() {
		op.Answered = c.ticks.Add(1)
		if a.status >= 300 {
			in.Code = messages.Code(a.refusal().Code)
		}
		if in.Code != "" && in.Code != messages.ErrDenied {
			c.witness.fault("cancel of run %d of %s: %v", in.Run, l.id, a)
			return
		}
	}
	l.record(op)
}

// approve answers what a session asks.
func (c *campaign) approve(l *testSession, r *rand.Rand) {
	a := c.request(http.MethodGet, "/v1/sessions/"+l.id+"/approvals", "", "")
	c.count("approvals: " + outcomeOf(a))
	var list struct {
		Approvals []struct{ ID, Digest string }
	}
	if !a.plain() || json.Unmarshal(a.body, &list) != nil {
		return
	}
	for _, q := range list.Approvals {
		allow := r.IntN(4) > 0
		a := c.request(http.MethodPost, "/v1/sessions/"+l.id+"/approvals/"+q.ID, fmt.Sprintf(`{"allow":%v,"digest":%q}`, allow, q.Digest), "")
		c.count("approve: " + outcomeOf(a))
		if a.plain() && a.status < 300 {
			l.mu.Lock()
			if was, ok := l.words[q.ID]; ok {
				c.witness.problems = append(c.witness.problems, fmt.Sprintf("%s: question %s was answered %v, and then %v", l.id, q.ID, was, allow))
			}
			l.words[q.ID] = allow
			l.mu.Unlock()
		}
	}
}

// glance reads what there is, at any host.
func (c *campaign) glance(l *testSession) {
	a := c.request(http.MethodGet, "/v1/sessions/"+l.id, "", "")
	c.count("session: " + outcomeOf(a))
	if a.plain() && a.status != http.StatusOK {
		c.witness.fault("%s: %v", l.id, a)
	}
}

// listen submits to a talker, and follows what it says to its end, through all that happens.
func (c *campaign) listen(l *testSession, r *rand.Rand) {
	l.mu.Lock()
	l.texts++
	key, body := fmt.Sprint("k", l.texts), fmt.Sprintf(`{"input":"say %d","policy":"enqueue"}`, l.texts)
	l.mu.Unlock()
	a := c.insist("submit", http.MethodPost, "/v1/sessions/"+l.id+"/runs", body, key)
	if a == nil {
		return
	}
	var v struct {
		Run      int64
		Position string
	}
	if a.status >= 300 || json.Unmarshal(a.body, &v) != nil {
		if a.refusal().Code != string(messages.ErrBusy) {
			c.witness.fault("submit to %s: %v", l.id, a)
		}
		return
	}
	l.mu.Lock()
	l.runs = max(l.runs, v.Run)
	l.mu.Unlock()
	e := &ear{l: l, run: v.Run, last: v.Position, units: map[string]string{}}
	for until := time.Now().Add(askFor); !e.ended && c.ctx.Err() == nil; {
		if time.Now().After(until) {
			c.witness.fault("the stream of run %d of %s has no end: its last event is %s; %v", v.Run, l.id, e.last, e.hurt)
			return
		}
		c.hear(e, r)
	}
}

// trouble has things go wrong.
func (c *campaign) trouble() {
	r := c.rand(1)
	kills, freezes := *campaignKills, *campaignFroze
	var work sync.WaitGroup
	defer work.Wait()
	do := func(b *berth, what string, f func(r *rand.Rand)) {
		c.faults[what]++
		b.mu.Lock()
		b.disturbed = true
		b.mu.Unlock()
		mine := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		c.say("%s: %s", b.lifeName(), what)
		work.Go(func() {
			f(mine)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.disturbed = false
		})
	}
	all := []string{"stopped in order", "cut from the database", "cut from hosts", "slow", "the database is restarted", "the database crashes"}
	others, rounds := slices.Clone(all), 0
	time.Sleep(*campaignPace)
	for until := time.Now().Add(*campaignFor); time.Now().Before(until); {
		if kills == 0 && freezes == 0 && (rounds > 0 || !*campaignOther) {
			break
		}
		calm := c.undisturbed()
		if len(calm) < 2 {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		b := calm[r.IntN(len(calm))]
		n := r.IntN(kills + freezes + 1 + (kills+freezes)/4)
		switch {
		case n < kills:
			kills--
			do(b, "killed", b.killed)
		case n < kills+freezes:
			freezes--
			do(b, "frozen", b.frozen)
		case !*campaignOther:
		default:
			if len(others) == 0 {
				others = slices.Clone(all)
			}
			i := r.IntN(len(others))
			what := others[i]
			if others = slices.Delete(others, i, i+1); len(others) == 0 {
				rounds++
			}
			switch what {
			case "stopped in order":
				do(b, what, b.stopped)
			case "cut from the database":
				do(b, what, b.cutOff)
			case "cut from hosts":
				do(b, what, b.parted)
			case "slow":
				do(b, what, b.slowed)
			default:
				c.databaseRestarts(what)
			}
		}
		time.Sleep(*campaignPace/2 + time.Duration(r.Int64N(int64(*campaignPace))))
	}
}

func (c *campaign) undisturbed() (calm []*berth) {
	for _, b := range c.berths {
		b.mu.Lock()
		if !b.disturbed && b.process != nil && b.healthy {
			calm = append(calm, b)
		}
		b.mu.Unlock()
	}
	return calm
}

func (b *berth) comesBack() {
	for until := time.Now().Add(patience); b.f.ctx.Err() == nil; { // it gives up where the database does not answer
		err := b.start()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			b.f.witness.fault("%v", err)
			return
		}
	}
}

// killed is a death without a word.
func (b *berth) killed(r *rand.Rand) {
	p := b.running()
	b.f.witness.died(p.name)
	p.kill()
	b.gone()
	time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	b.comesBack()
}

// frozen stands still for longer than the lease, and then goes on as if nothing had been.
func (b *berth) frozen(r *rand.Rand) {
	p := b.running()
	b.f.witness.freeze(p.name)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(*campaignLease + time.Duration(r.Int64N(int64(*campaignLease))))
	b.f.say("%s: goes on", p.name)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	b.f.witness.thaw(p.name)
}

// stopped is a restart in order.
func (b *berth) stopped(*rand.Rand) {
	p := b.running()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		b.f.witness.fault("%s does not stop", p.name)
		p.kill()
	}
	b.gone()
	b.comesBack()
}

// cutOff has no database for a while, longer or shorter than its lease.
func (b *berth) cutOff(r *rand.Rand) {
	if n := b.f.network; n != nil {
		b.troubled(r, func() (func() error, error) { return n.part(b.name, database) })
		return
	}
	b.database.cut()
	time.Sleep(time.Duration(r.Int64N(int64(2 * *campaignLease))))
	b.database.join(r.IntN(2) == 0)
}

// troubled has something wrong in the network for a while.
func (b *berth) troubled(r *rand.Rand, begin func() (end func() error, err error)) {
	end, err := begin()
	if err == nil {
		time.Sleep(time.Duration(r.Int64N(int64(2 * *campaignLease))))
		err = end()
	}
	if err != nil {
		b.f.witness.fault("%v", err)
	}
}

// parted is not heard by the other hosts for a while.
func (b *berth) parted(r *rand.Rand) {
	if n := b.f.network; n != nil {
		i := slices.Index(netHosts, b.name)
		b.troubled(r, func() (func() error, error) { return n.part(b.name, netHosts[(i+1+r.IntN(2))%3]) })
		return
	}
	b.door.cut()
	time.Sleep(time.Duration(r.Int64N(int64(2 * *campaignLease))))
	b.door.join(r.IntN(2) == 0)
}

// slowed has slow links.
func (b *berth) slowed(r *rand.Rand) {
	if n := b.f.network; n != nil {
		b.troubled(r, func() (func() error, error) { return n.slow(b.name, 256) })
		return
	}
	b.door.delay(60 * time.Millisecond)
	b.database.delay(30 * time.Millisecond)
	time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
	b.door.delay(0)
	b.database.delay(0)
}

// databaseRestarts restarts the server, in order or as a crash would.
func (c *campaign) databaseRestarts(what string) {
	c.faults[what]++
	c.say("%s", what)
	if what == "the database crashes" {
		c.server.Kill()
	} else {
		c.server.Quit()
	}
	if err := c.restartDatabase(); err != nil {
		c.t.Error(err)
	}
}

// settle lets every run come to its end.
func (c *campaign) settle() {
	for _, b := range c.berths {
		if b.running() == nil {
			b.comesBack()
		}
	}
	c.goOn()
	r := c.rand(2)
	until := time.Now().Add(patience)
	for open := true; open; time.Sleep(50 * time.Millisecond) {
		open = false
		heads := c.heads()
		for _, l := range c.sessions {
			if h := heads[l.sid()]; h.Pending() || h.Suspended() {
				open = true
				c.approve(l, r)
			}
		}
		if open && time.Now().After(until) {
			c.witness.fault("runs do not end: %+v", heads)
			break
		}
	}
	for _, l := range c.sessions {
		for run := int64(1); run <= l.runs; run++ {
			if !c.wait(l, 99, run, false, time.Second) {
				c.witness.fault("no host tells the end of run %d of %s", run, l.id)
			}
		}
	}
}

// goOnFor is how long open sessions may take to end when no client asks for them.
const goOnFor = 30 * time.Second

// goOn waits until every session is at rest, or waits for a person: without that anybody asked for it.
func (f *fleet) goOn() {
	var open []string
	for until := time.Now().Add(goOnFor); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		open = nil
		for sid, h := range f.heads() {
			if h.Pending() && !h.Suspended() {
				open = append(open, sid)
			}
		}
		if len(open) == 0 {
			return
		}
	}
	slices.Sort(open)
	f.witness.fault("no host goes on with %v", open)
}

// heads reads where all sessions are.
func (f *fleet) heads() map[string]journal.Head {
	f.t.Helper()
	heads := map[string]journal.Head{}
	for h, err := range f.archive().Sessions(f.t.Context(), "") {
		if err != nil {
			f.t.Fatal(err)
		}
		heads[h.SID] = h
	}
	return heads
}

// archive is the journal, past all links.
func (f *fleet) archive() *stile.Archive {
	f.t.Helper()
	if f.reader == nil {
		store, err := postgres.Open(f.t.Context(), postgres.Options{URL: f.server.URL(), Schema: f.job.Schema, ReadOnly: true})
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = store.Close() }) // it was for reading alone
		f.reader = stile.NewArchive(store)
	}
	return f.reader
}

// judge holds what clients and the witness have seen against the journal.
func (c *campaign) judge() {
	ar, heads := c.archive(), c.heads()
	seen := map[string]bool{}
	for _, l := range c.sessions {
		h, ok := heads[l.sid()]
		if !ok {
			c.witness.fault("%s is lost", l.id)
			continue
		}
		if rep, err := ar.Verify(c.t.Context(), h.Inc, stile.VerifyOptions{}); err != nil || !rep.OK() {
			c.witness.fault("%s: %+v, %v", l.id, rep, err)
		}
		var records []*stile.Record
		for r, err := range ar.Records(c.t.Context(), h.Inc) {
			if err != nil {
				c.t.Fatal(err)
			}
			records = append(records, r)
		}
		c.keep(l, records)
		c.ends(l, records)
		c.effects(l, records, seen)
		if l.agent != "worker" {
			continue
		}
		why, err := history.Refused(ar.Records(c.t.Context(), h.Inc), l.ops)
		if err != nil {
			c.t.Fatal(err)
		}
		if why != "" {
			c.witness.fault("%s: %s", l.id, why)
		}
		c.counts["operations judged"] += len(l.ops)
	}
	for id, d := range c.witness.deeds {
		if !seen[id] {
			c.witness.fault("lost: %s (%s) was done, and no record tells", id, d.class)
		}
	}
}

// keep leaves a session's records beside the logs.
func (c *campaign) keep(l *testSession, records []*stile.Record) {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %d epoch %d run %d turn %d %s %s\n", r.TS.Format(time.RFC3339Nano), r.Seq, r.Epoch, r.Run, r.Turn, r.Body.Kind(), r.Raw)
	}
	if err := os.WriteFile(filepath.Join(c.logs, l.id+".records"), []byte(b.String()), 0o600); err != nil {
		c.t.Error(err)
	}
}

// ends checks that every run and turn has one end.
func (c *campaign) ends(l *testSession, records []*stile.Record) {
	ends := map[string]int{}
	for _, r := range records {
		switch b := r.Body.(type) {
		case *messages.Input:
			ends[fmt.Sprint("run ", r.Run)] += 0
		case *messages.RunEnd:
			ends[fmt.Sprint("run ", r.Run)]++
			c.counts["runs"]++
			if b.Reason != "" && b.Reason != messages.ErrCancelled && b.Reason != messages.ErrCrash {
				c.witness.fault("run %d of %s ends %s %s %s", r.Run, l.id, b.Decision, b.Reason, b.Detail)
			}
		case *messages.TurnBegin:
			ends[fmt.Sprint("turn ", r.Turn)] += 0
		case *messages.TurnDecided:
			ends[fmt.Sprint("turn ", r.Turn)]++
			c.counts["turns"]++
			if b.Resumed {
				c.counts["turns that another host settled"]++
			}
		}
	}
	for what, n := range ends {
		if n != 1 {
			c.witness.fault("%s of %s has %d ends", what, l.id, n)
		}
	}
}

// effects checks what was done outside.
func (c *campaign) effects(l *testSession, records []*stile.Record, seen map[string]bool) {
	said := map[string]bool{} // by question
	for _, r := range records {
		switch b := r.Body.(type) {
		case *messages.ActionApproval:
			if b.Approval != "" && b.State != messages.GateConfirm {
				said[b.Approval] = b.State == messages.GateApprove
			}
		case *messages.ActionStarted:
			seen[deedID(l.sid(), r.Turn, b.ID)] = true
		case *messages.ActionEnded:
			d := c.witness.deeds[deedID(l.sid(), r.Turn, b.ID)]
			switch {
			case b.State == messages.ActionOK && d == nil:
				c.witness.fault("lost: action %s of turn %d of %s is ok, and was not done", b.ID, r.Turn, l.id)
			case d != nil && d.late && d.class == string(messages.Effectful):
				c.counts["effects whose last bytes came late"]++
				if b.State != messages.ActionUnknown {
					c.witness.fault("action %s of turn %d of %s was done late, and ends %s", b.ID, r.Turn, l.id, b.State)
				}
			case b.State == messages.ActionCancelled && d != nil && d.class == string(messages.Effectful):
				c.witness.fault("action %s of turn %d of %s is cancelled, and was done", b.ID, r.Turn, l.id)
			}
			if b.State == messages.ActionUnknown {
				c.counts["actions that ended unknown"]++
			}
		}
	}
	for id, d := range c.witness.deeds {
		if !strings.HasPrefix(id, l.sid()+" ") {
			continue
		}
		c.counts["effects"]++
		slices.Sort(d.keys)
		if keys := slices.Compact(slices.Clone(d.keys)); len(keys) != 1 || d.class == string(messages.Effectful) && len(d.keys) != 1 {
			c.witness.fault("doubled: %s (%s) was done %d times, by %v", id, d.class, len(d.keys), d.lives)
		}
	}
	for q, allow := range l.words {
		if was, ok := said[q]; !ok || was != allow {
			c.witness.fault("lost: question %s of %s was answered %v", q, l.id, allow)
		}
	}
}

// tell says how it was.
func (c *campaign) tell(t *testing.T) {
	w := c.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.faults)) {
		t.Logf("%6d %s", c.faults[what], what)
	}
	c.counts["sessions"] = len(c.sessions)
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%6d %s", c.counts[what], what)
	}
	quantiles := func(all []time.Duration) string {
		if len(all) == 0 {
			return "none"
		}
		slices.Sort(all)
		at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(time.Millisecond) }
		return fmt.Sprintf("%d, p50 %s, p99 %s, most %s", len(all), at(.5), at(.99), all[len(all)-1].Round(time.Millisecond))
	}
	t.Logf("turns of killed hosts until another one goes on: %s", quantiles(w.lapses))
	t.Logf("for how long two hosts seemed to have one turn in flight: %s", quantiles(w.overlaps))
	for _, p := range w.problems {
		t.Error(p)
	}
}

func (c *campaign) logTails(t *testing.T) {
	for _, name := range []string{"campaign", "a", "b", "c"} {
		b, err := os.ReadFile(filepath.Join(c.logs, name+".log"))
		if err != nil {
			continue
		}
		lines := strings.Split(string(b), "\n")
		t.Logf("---- %s\n%s", name, strings.Join(lines[max(0, len(lines)-80):], "\n"))
	}
}
