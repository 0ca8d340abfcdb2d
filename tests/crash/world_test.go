package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// outside is the world the tools act on: a file that is only appended to, synced
// after every line, and never told of a crash.
type outside struct{ path string }

// deed is one line of it: something a tool did.
type deed struct {
	SID     string         `json:"sid"`
	Tool    string         `json:"tool"`
	Class   messages.Class `json:"class"`
	What    string         `json:"what"`
	Turn    int64          `json:"turn"`
	ID      string         `json:"id"`
	Key     string         `json:"key"`
	Attempt int64          `json:"attempt"`
	Epoch   int64          `json:"epoch"`
}

func (o outside) do(d deed) error {
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

func (o outside) deeds(t testing.TB) []deed {
	t.Helper()
	b, err := os.ReadFile(o.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []deed
	for line := range strings.Lines(string(b)) {
		var d deed
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("the outside world: %v in %q", err, line)
		}
		all = append(all, d)
	}
	return all
}

// deedsOf are those of one session.
func deedsOf(sid string, all []deed) []deed {
	return slices.DeleteFunc(slices.Clone(all), func(d deed) bool { return d.SID != sid })
}

// point is a place where a life can end. A commit is met by every record it holds,
// an effect or a reply by its ordinal in the life.
type point struct {
	where where
	n     int64
}

type where string

// The places.
const (
	beforeCommit  where = "before the commit of record"
	afterCommit   where = "after the commit of record" // on disk, not acknowledged
	beforeEffect  where = "before the effect"          // the tool was called
	afterEffect   where = "after the effect"           // it happened, its end is no record
	beforeConnect where = "before the connection"
	beforeReply   where = "before the first word of reply"
	midReply      where = "in the middle of reply"
	afterReply    where = "after the last word of reply"
	anyPlace      where = "at the place" // the n-th that the life passes
	nowhere       where = "nowhere"
)

func (p point) String() string { return fmt.Sprintf("%s %d", p.where, p.n) }

// gate ends a life: everything through which it could still change the world passes the gate.
// Once it is closed, callers wait until thaw and then get errDead; so the code of the life that
// ended runs no visible clean-up, exactly as after a kill.
type gate struct {
	target point
	onEnd  func() // takes the picture of what a kill would leave

	// world is held while the journal changes: a commit that is under way when the life
	// ends is in the picture, or it did not happen and is never read.
	world sync.RWMutex

	mu     sync.Mutex
	passed []point
	count  map[where]int64
	await  []chan struct{} // closed at the next effect
	dead   chan struct{}
	thaw   chan struct{}
}

func newGate(target point, onEnd func()) *gate {
	return &gate{target: target, onEnd: onEnd, count: map[where]int64{}, dead: make(chan struct{}), thaw: make(chan struct{})}
}

var errDead = journal.Fail(journal.ReasonClosed, nil, "the process is dead")

// at passes a place that has an ordinal.
func (g *gate) at(w where) error {
	if g == nil { // this life is not killed from inside
		return nil
	}
	g.mu.Lock()
	g.count[w]++
	n := g.count[w]
	if w == beforeEffect {
		for _, c := range g.await {
			close(c)
		}
		g.await = nil
	}
	g.mu.Unlock()
	return g.pass(w, n, n)
}

// effect returns what is closed when the next effect is about to happen, or the life ends.
func (g *gate) effect() (next, dead <-chan struct{}) {
	if g == nil {
		return nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c := make(chan struct{})
	g.await = append(g.await, c)
	return c, g.dead
}

// pass passes a place that stands for the points from..to. It returns errDead when
// the life has ended here, or had ended before.
func (g *gate) pass(w where, from, to int64) error {
	g.mu.Lock()
	select {
	case <-g.dead:
	default:
		if w != nowhere {
			g.passed = append(g.passed, point{w, from})
		}
		here := g.target.where == w && from <= g.target.n && g.target.n <= to
		if !here && (g.target.where != anyPlace || g.target.n != int64(len(g.passed))) {
			g.mu.Unlock()
			return nil
		}
		g.world.Lock()
		if g.onEnd != nil {
			g.onEnd()
		}
		close(g.dead)
		g.world.Unlock()
	}
	g.mu.Unlock()
	<-g.thaw
	return errDead
}

// alive waits like pass, at a place where no life ends.
func (g *gate) alive() error { return g.pass(nowhere, 1, 1) }

// points are the places the life has passed, the repeated ones once.
func (g *gate) points() []point {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []point
	for _, p := range g.passed {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// mortal is a store behind a gate.
type mortal struct {
	journal.Store
	gate *gate
	// single commits every record by itself, so that a life can end between any
	// two. No store of ours does that: recovery must stand it all the same, because
	// a fork or a cut log ends between any two records.
	single bool
	quiet  bool // has the writer of its own that durable stores have
}

// Immediate implements journal.Store.
func (m *mortal) Immediate() bool { return !m.quiet && m.Store.Immediate() }

// Commit implements journal.Store.
func (m *mortal) Commit(batches []journal.Batch) []error {
	errs := make([]error, len(batches))
	for i := range batches {
		// The batches of one session alone come here, so one by one changes nothing.
		for _, b := range m.cut(batches[i]) {
			if errs[i] == nil {
				errs[i] = m.commit(b)
			}
		}
	}
	return errs
}

func (m *mortal) cut(b journal.Batch) []journal.Batch {
	if !m.single {
		return []journal.Batch{b}
	}
	var all []journal.Batch
	for i := range b.Records {
		one := b
		one.ExpectSeq, one.Records, one.Snapshot = b.ExpectSeq+int64(i), b.Records[i:i+1], nil
		if i > 0 {
			one.Blobs = nil
		}
		all = append(all, one)
	}
	return all
}

func (m *mortal) commit(b journal.Batch) error {
	from, to := b.ExpectSeq+1, b.ExpectSeq+int64(len(b.Records))
	if b.SID != mainSID {
		from, to = from+childRecords, to+childRecords
	}
	if err := m.gate.pass(beforeCommit, from, to); err != nil {
		return err
	}
	m.gate.world.RLock()
	select {
	case <-m.gate.dead:
		m.gate.world.RUnlock()
		return m.gate.alive()
	default:
	}
	err := m.Store.Commit([]journal.Batch{b})[0]
	m.gate.world.RUnlock()
	if dead := m.gate.pass(afterCommit, from, to); dead != nil {
		return dead
	}
	return err
}

// Create implements journal.Store.
func (m *mortal) Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (journal.Head, error) {
	if err := m.gate.alive(); err != nil {
		return journal.Head{}, err
	}
	return m.Store.Create(ctx, key, inc)
}

// PutSnapshot implements journal.Store.
func (m *mortal) PutSnapshot(ctx context.Context, inc messages.Incarnation, s journal.Snapshot) error {
	if err := m.gate.alive(); err != nil {
		return err
	}
	return m.Store.PutSnapshot(ctx, inc, s)
}

// PutMeta implements journal.Store.
func (m *mortal) PutMeta(ctx context.Context, key string, value []byte) error {
	if err := m.gate.alive(); err != nil {
		return err
	}
	return m.Store.PutMeta(ctx, key, value)
}

// act makes a tool of a class that does its deed in the outside world.
func act(o outside, g *gate, class messages.Class) tools.Tool {
	name := "world." + string(class)
	t := tools.Tool{
		Name: name, Class: class, Params: []neuroscript.Param{{Name: "what", Type: "string"}},
	}
	if class == messages.Pure { // inside the interpreter: there is nothing outside to do
		t.Pure = func(_ *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			what, _ := args[0].AsString()
			return neuroscript.String("did " + what), nil
		}
		return t
	}
	t.Run = func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		what, _ := c.Args[0].AsString()
		if err := c.Emit(ctx, "did "); err != nil {
			return neuroscript.Value{}, err
		}
		if err := g.at(beforeEffect); err != nil {
			return neuroscript.Value{}, err
		}
		if err := o.do(deed{SID: c.SID, Tool: name, Class: class, What: what, Turn: c.Turn, ID: c.ID, Key: c.Key, Attempt: c.Attempt, Epoch: c.Epoch}); err != nil {
			return neuroscript.Value{}, err
		}
		if err := c.Emit(ctx, what); err != nil {
			return neuroscript.Value{}, err
		}
		if err := g.at(afterEffect); err != nil {
			return neuroscript.Value{}, err
		}
		return neuroscript.String("did " + what), nil
	}
	return t
}

// picture copies what a kill would leave of a SQLite journal: the file, and the log
// as far as it was written.
func picture(t testing.TB, from, to string) {
	for _, name := range []string{fileName, fileName + "-wal"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
}
