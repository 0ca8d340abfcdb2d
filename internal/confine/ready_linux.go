package confine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readyFor is how long a jail waits for its program. Then nothing is left of it.
	readyFor = 30 * time.Second
	// maxReady bounds the jails of a Ready that wait, maxWaiting those of all.
	maxReady   = 8
	maxWaiting = 32
)

// waiting counts the jails of this process that wait.
var waiting atomic.Int32

// Ready makes jails before their programs come: when one has ended, the jail for the next one
// like it is made. No program runs in a jail that another one has had. It holds a
// thread, some descriptors and a temporary folder for each that waits, for half a minute at
// most. What the rules of a jail rest on is looked at again when its program comes; where that
// has changed, and where none waits, the jail is made then. The zero value can be used; a nil
// Ready makes no jail before its program. It is safe for concurrent use.
type Ready struct {
	mu    sync.Mutex
	jails map[string]*readyJail // by all that makes two jails alike; nil while it is made
	turn  int64
	over  bool
	ended sync.WaitGroup
}

// readyJail is a jail that waits for its program.
type readyJail struct {
	jail  *Jail
	seat  *seat
	temp  string
	clean func()
	keeps bool // what foreign said
	turn  int64
	timer *time.Timer
}

// Place gives a jail a temporary folder of its own (a guard needs none), and its program the
// thread that waits for it. clean must be called when the program has ended, or will not run.
func (r *Ready) Place(j *Jail) (temp string, clean func(), err error) {
	if r == nil || j.Bubblewrap != "" || j.User != nil {
		return j.own()
	}
	like := *j
	var remove func()
	if is := r.take(&like); is != nil {
		*j = *is.jail
		j.seat, temp, remove = is.seat, is.temp, is.clean
	} else if temp, remove, err = j.own(); err != nil {
		return "", nil, err
	}
	return temp, func() {
		if s := j.seat; s != nil {
			s.close()
		}
		// Not before the program's end, from which it would take processor time.
		if !j.begun || !r.beside(func() { remove(); r.fill(&like) }) {
			remove()
		}
	}, nil
}

// beside does something beside the caller, which Close waits for; false once it has closed.
func (r *Ready) beside(do func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.ended.Go(do)
	}
	return !r.over
}

// own gives a jail its temporary folder.
func (j *Jail) own() (temp string, clean func(), err error) {
	if j.Guard {
		return "", func() {}, nil
	}
	if temp, clean, err = Temp(); err == nil {
		j.Write = append([]string{temp}, j.Write...)
	}
	return temp, clean, err
}

// takeSeat returns the thread that waits for the program of a jail, once; nil without one, and
// if the program needs a mount namespace.
func (j *Jail) takeSeat() *seat {
	if len(j.ReadOnly) > 0 || len(j.Hidden) > 0 {
		return nil
	}
	s := j.seat
	j.seat = nil
	return s
}

// key names all that makes two jails alike.
func (j *Jail) key() string {
	var b strings.Builder
	for _, is := range []bool{j.Guard, j.Network, j.Loopback, j.peers.own} {
		b.WriteString(strconv.FormatBool(is))
	}
	for _, paths := range [][]string{j.Read, j.Write, j.Apart, j.Kept} {
		b.WriteByte(0)
		for _, p := range paths {
			b.WriteByte(0)
			b.WriteString(p)
		}
	}
	return b.String()
}

// take returns the jail that waits for a program of such a jail, if its rules still hold.
func (r *Ready) take(like *Jail) *readyJail {
	key := like.key()
	r.mu.Lock()
	is := r.jails[key]
	if is != nil {
		delete(r.jails, key)
		is.timer.Stop()
		waiting.Add(-1)
	}
	r.mu.Unlock()
	if is != nil && !is.holds(like) {
		is.drop()
		return nil
	}
	return is
}

// fill makes a jail for the next program, if none waits for it.
func (r *Ready) fill(like *Jail) {
	key := like.key()
	if !r.begin(key) {
		return
	}
	is := like.ready()
	r.mu.Lock()
	if is == nil || r.over {
		delete(r.jails, key)
		waiting.Add(-1)
		r.mu.Unlock()
		is.drop()
		return
	}
	r.turn++
	is.turn = r.turn
	r.jails[key] = is
	is.timer = time.AfterFunc(readyFor, func() { r.forget(key, is) })
	old := r.tooMany()
	r.mu.Unlock()
	old.drop()
}

// begin takes the place of a jail that is to be made, if there is one.
func (r *Ready) begin(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.jails[key]; there || r.over {
		return false
	}
	if waiting.Add(1) > maxWaiting {
		waiting.Add(-1)
		return false
	}
	if r.jails == nil {
		r.jails = map[string]*readyJail{}
	}
	r.jails[key] = nil
	return true
}

// tooMany takes out the oldest jail, if there are too many. The lock is held.
func (r *Ready) tooMany() *readyJail {
	if len(r.jails) <= maxReady {
		return nil
	}
	oldest := ""
	for key, is := range r.jails {
		if is != nil && (oldest == "" || is.turn < r.jails[oldest].turn) {
			oldest = key
		}
	}
	old := r.jails[oldest]
	delete(r.jails, oldest)
	old.timer.Stop()
	waiting.Add(-1)
	return old
}

// forget drops a jail that waits.
func (r *Ready) forget(key string, is *readyJail) {
	r.mu.Lock()
	there := r.jails[key] == is
	if there {
		delete(r.jails, key)
		waiting.Add(-1)
	}
	r.mu.Unlock()
	if there {
		is.drop()
	}
}

// Close ends all that waits, and makes no more. It implements io.Closer.
func (r *Ready) Close() error {
	r.mu.Lock()
	r.over = true
	var all []*readyJail
	for key, is := range r.jails {
		if is != nil {
			delete(r.jails, key)
			is.timer.Stop()
			waiting.Add(-1)
			all = append(all, is)
		}
	}
	r.mu.Unlock()
	for _, is := range all {
		is.drop()
	}
	r.ended.Wait()
	return nil
}

// ready returns such a jail with a thread that waits in it, or nil where it cannot be seen
// later whether its rules still hold.
func (j *Jail) ready() *readyJail {
	made := *j
	made.Write = slices.Clone(j.Write)
	is := &readyJail{jail: &made, keeps: foreign(j.Read) || foreign(j.Write)}
	var err error
	if is.temp, is.clean, err = made.own(); err != nil {
		return nil
	}
	if is.seat, err = waitIn(&made); err != nil {
		is.clean()
		return nil
	}
	if made.Guard && made.kept == nil || made.piecewise {
		is.drop()
		return nil
	}
	return is
}

func (is *readyJail) drop() {
	if is == nil {
		return
	}
	is.seat.close()
	is.clean()
}

// holds reports whether a jail that is made now would be the same.
func (is *readyJail) holds(like *Jail) bool {
	if is.jail.Guard {
		guards.Lock()
		defer guards.Unlock()
		mountsTurn()
		k := guards.sets[like.guardKey()]
		return k != nil && k == is.jail.kept && k.holds()
	}
	for _, o := range is.jail.opened {
		var st unix.Stat_t
		if unix.Stat(o.path, &st) != nil || (inode{uint64(st.Dev), st.Ino}) != o.id {
			return false
		}
	}
	return (foreign(like.Read) || foreign(like.Write)) == is.keeps && maps.Equal(newParts(like), is.jail.parts)
}

// opened is a file or folder that the rules of a jail open, beside those of the system.
type opened struct {
	path string
	id   inode
}
