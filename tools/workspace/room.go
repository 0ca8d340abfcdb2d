package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/seed14be6753/stile/tools/catalog"
)

// A folder with a bound (Bound) is measured when a call begins that may add to it, and the
// result is kept for a while: a walk over many files costs more than the call. Programs write
// past any count, so a folder is measured again and again while one runs, and the program is
// ended when there is too much.

const (
	// entryBytes is what a file, folder or link counts at least: a name takes room too.
	entryBytes = 1 << 10
	// maxMeasureDepth bounds the folders below each other: each holds a descriptor.
	maxMeasureDepth = 128
	// measured is how long a measurement counts.
	measured = 10 * time.Second
	// watchRoom is how often it is measured while a program runs in it.
	watchRoom = time.Second
)

// room is how much a folder may hold. Its zero value is no bound.
type room struct {
	most  int64
	every time.Duration // of a test; 0 is watchRoom

	mu   sync.Mutex
	used int64 // when it was measured, and what was written since
	at   time.Time
}

// Bound bounds the bytes that the folder's files take on the disc; 0 is no bound. Tools that
// would add more fail. A program begins with what is left as the bound of each file that it
// writes, and is ended when all of them take more. Not for AccessSystem, which reaches other
// folders. Call it before the first use and before Below, whose folders have the same bound
// each.
func (w *Workspace) Bound(bytes int64) { w.room.most = bytes }

// left returns how many bytes the folder has room for; below 0 it holds too many. fresh
// measures it in any case.
func (w *Workspace) left(ctx context.Context, fresh bool) (int64, error) {
	r := &w.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if fresh || r.at.IsZero() || time.Since(r.at) > measured {
		used, err := w.measure(ctx)
		if err != nil {
			r.at = time.Time{}
			return 0, err
		}
		r.used, r.at = used, time.Now()
	}
	return r.most - r.used, nil
}

// need takes room for bytes that a tool is about to add. Less than nothing always has room.
func (w *Workspace) need(ctx context.Context, bytes int64) error {
	if w.room.most == 0 {
		return nil
	}
	for _, fresh := range []bool{false, true} { // what others removed meanwhile makes room
		left, err := w.left(ctx, fresh)
		if err != nil {
			return err
		}
		if bytes <= 0 || bytes <= left {
			w.room.mu.Lock()
			w.room.used += bytes
			w.room.mu.Unlock()
			return nil
		}
	}
	return catalog.Failed("%s", w.full())
}

// programRoom returns the bound of a file that a program writes.
func (w *Workspace) programRoom(ctx context.Context) (int64, error) {
	if w.room.most == 0 {
		return shellFileBytes, nil
	}
	left, err := w.left(ctx, true)
	return min(max(left, 0), shellFileBytes), err
}

// watch measures the folder while a program runs, and calls end once if it holds too much: more
// than its bound, and more than when the program began, which may be there to remove files.
// stop ends that, and reports whether it was called.
func (w *Workspace) watch(ctx context.Context, end func()) (stop func() bool) {
	w.room.mu.Lock()
	most := max(w.room.most, w.room.used)
	w.room.mu.Unlock()
	if w.room.most == 0 || most > w.room.enough() {
		return func() bool { return false }
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan bool, 1)
	go func() {
		tick := time.NewTicker(cmp.Or(w.room.every, watchRoom))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				over <- false
				return
			case <-tick.C:
			}
			if left, err := w.left(ctx, true); err == nil && w.room.most-left > most {
				end()
				over <- true
				return
			}
		}
	}()
	return func() bool {
		cancel()
		ended := <-over
		w.room.mu.Lock()
		w.room.at = time.Time{} // the program has changed it
		w.room.mu.Unlock()
		return ended
	}
}

// full says that the folder has no room, for the model.
func (w *Workspace) full() string {
	return fmt.Sprintf("the folder is full: its files may take %d bytes (workspace.max_bytes); remove some first", w.room.most)
}

// errDeep ends the measurement of a folder that no tool would walk to its end.
var errDeep = fmt.Errorf("folders are more than %d levels deep", maxMeasureDepth)

// enough is where a measurement ends: a folder that holds more is not walked through.
func (r *room) enough() int64 { return 4 * r.most }

// measure returns what the files of the folder take, or some more than enough.
func (w *Workspace) measure(ctx context.Context) (int64, error) {
	m := measurement{ctx: ctx, enough: w.room.enough()}
	err := m.folder(w.root, 0)
	switch {
	case err == nil, errors.Is(err, errEnough):
		return m.sum, nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	return 0, catalog.Failed("the folder cannot be measured for workspace.max_bytes: %s", pathless(err))
}

var errEnough = errors.New("it holds too much")

type measurement struct {
	ctx         context.Context
	sum, enough int64
}

// folder adds what is below a folder. Files with several names count once each.
func (m *measurement) folder(dir *os.Root, depth int) error {
	if depth > maxMeasureDepth {
		return errDeep
	}
	list, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(512)
		for _, e := range entries {
			if depth == 0 && e.Name() == UsersDir {
				continue // other folders, with bounds of their own
			}
			if err := m.entry(dir, e.Name(), depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if len(entries) == 0 || err != nil || m.ctx.Err() != nil { // the end
			return m.ctx.Err()
		}
	}
}

func (m *measurement) entry(dir *os.Root, name string, depth int) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	if m.sum += max(onDisc(info), entryBytes); m.sum > m.enough {
		return errEnough
	}
	if !info.IsDir() {
		return nil
	}
	below, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer below.Close()
	if is, err := below.Stat("."); err != nil || !os.SameFile(info, is) {
		return err // it was replaced: what is there now counts the next time
	}
	return m.folder(below, depth+1)
}
