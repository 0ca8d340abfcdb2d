package sqlite

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/journal"
)

// Several processes may share a journal: the fence keeps them apart, session by
// session. The fence does not show whether any host runs a session at all. For that
// every host attends: it holds a shared lock on a file beside the journal for as long
// as it lives, and the first host writes the time there.

// Attend registers a host that runs sessions of this journal, until leave is called; leave
// is never nil. alone reports whether no other host attends at this moment: then no host
// runs the sessions that are open in the journal. On a system without such locks every host
// is alone.
func (s *store) Attend(now time.Time) (alone bool, leave func() error, err error) {
	leave = func() error { return nil }
	f, alone, err := attend(s.path + hostSuffix)
	if err != nil || f == nil {
		return alone, leave, err
	}
	if alone {
		err := f.Truncate(0)
		if err == nil {
			_, err = f.WriteAt([]byte(now.UTC().Format(time.RFC3339Nano)+"\n"), 0)
		}
		if err != nil {
			f.Close()
			return false, leave, journal.Fail(journal.ReasonIO, bare(err), "the host file beside the journal")
		}
	}
	s.here.mu.Lock()
	defer s.here.mu.Unlock()
	s.here.file = f
	return alone, sync.OnceValue(func() error {
		s.here.mu.Lock()
		defer s.here.mu.Unlock()
		if s.here.file == f {
			s.here.file = nil
		}
		return f.Close()
	}), nil
}

// here is the file that the host of this store has locked.
type here struct {
	mu   sync.Mutex
	file *os.File // nil: no host attends with this store
}

// Alone reports whether no other host attends now. A host that starts at the same moment
// may believe itself alone as well; the fence keeps the two apart.
func (s *store) Alone() (bool, error) {
	s.here.mu.Lock()
	defer s.here.mu.Unlock()
	if s.here.file == nil {
		return false, nil
	}
	return stillAlone(s.here.file)
}

// Attended reports whether a host of any process attends to the journal, and since when
// the first of them.
func (s *store) Attended() (since time.Time, attended bool, err error) {
	if attended, err = isAttended(s.path + hostSuffix); err != nil || !attended {
		return time.Time{}, false, err
	}
	b, err := os.ReadFile(s.path + hostSuffix)
	if err != nil {
		return time.Time{}, true, journal.Fail(journal.ReasonIO, bare(err), "the host file beside the journal")
	}
	since, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(string(b)))
	if err != nil {
		since = time.Time{} // it is being written
	}
	return since, true, nil
}

const hostSuffix = ".host"
