package sqlite

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// disk is a file system under SQLite that tells the two things apart which a process
// cannot see: what was written, and what a failing power supply would leave of it. It
// passes everything on to the real one, and fails what a test wants to fail.
//
// The model: writes and truncations of a file are pending until the file is synced;
// when the power fails, any part of what is pending may be on disk, in any order, the
// last write torn. Files that were deleted are gone at once. The index in shared
// memory is no file to it: a crash loses it, and SQLite makes it anew.
type disk struct {
	// fault is asked before a write, truncation, sync or deletion; anything but
	// SQLITE_OK is what SQLite gets instead of it. May be nil.
	fault func(op, file string) int32
	// passed is told after each of them, under the disk's lock. May be nil.
	passed func(op, file string)

	mu    sync.Mutex
	files map[string]*content
	ops   map[string]int // by kind, also the failed ones
}

// content is what the disk knows of a file.
type content struct {
	durable []byte
	pending []change
}

// change is a write, or a truncation to off when data is nil.
type change struct {
	off  int64
	data []byte
}

func (c change) to(b []byte) []byte {
	if c.data == nil {
		return append([]byte(nil), b[:min(int64(len(b)), c.off)]...)
	}
	if need := c.off + int64(len(c.data)) - int64(len(b)); need > 0 {
		b = append(b, make([]byte, need)...)
	}
	copy(b[c.off:], c.data)
	return b
}

// newDisk makes the disk that stores opened with vfs see. Tests that use one do not
// run beside each other.
func newDisk(t testing.TB) (d *disk, vfs string) {
	t.Helper()
	d = &disk{files: map[string]*content{}, ops: map[string]int{}}
	if err := register(); err != nil {
		t.Fatal(err)
	}
	current.Store(d)
	t.Cleanup(func() { current.Store(nil) })
	return d, vfsName
}

// cut is what a power failure would leave: the directory's files by name. With rnd
// it keeps a part of what was not synced, without none of it. Under d.mu.
func (d *disk) cut(rnd *rand.Rand) map[string][]byte {
	left := map[string][]byte{}
	for name, c := range d.files {
		b := bytes.Clone(c.durable)
		for _, w := range c.pending {
			if rnd == nil || rnd.IntN(2) == 0 {
				continue
			}
			if n := len(w.data); n > 0 && rnd.IntN(4) == 0 {
				w.data = w.data[:rnd.IntN(n)+1] // torn
			}
			b = w.to(b)
		}
		left[name] = b
	}
	return left
}

// count returns how often something was done.
func (d *disk) count(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops[op]
}

func lay(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// before counts an operation and asks for its fault.
func (d *disk) before(op, file string) int32 {
	d.mu.Lock()
	d.ops[op]++
	fault := d.fault
	d.mu.Unlock()
	if fault == nil {
		return sqlite3.SQLITE_OK
	}
	return fault(op, file)
}

// after applies the operation to the model and calls the test's watcher.
func (d *disk) after(op, file string, f func(*content)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.files[file]
	if c == nil {
		c = &content{}
		d.files[file] = c
	}
	f(c)
	if d.passed != nil {
		d.passed(op, file)
	}
}

// What follows is the glue to SQLite, which is translated from C: structs and
// function pointers are numbers there.

const vfsName = "stile-test-disk"

var current atomic.Pointer[disk]

var glue struct {
	once  sync.Once
	err   error
	base  *sqlite3.Tsqlite3_vfs
	mu    sync.Mutex
	open  map[uintptr]*handle // by sqlite3_file
	plans map[uintptr]uintptr // our sqlite3_io_methods, by the real ones
}

// handle is an open file.
type handle struct {
	name string
	disk *disk
	real *sqlite3.Tsqlite3_io_methods
}

func register() error {
	glue.once.Do(func() {
		tls := libc.NewTLS() // of the process, for good, as all that is allocated here
		glue.open, glue.plans = map[uintptr]*handle{}, map[uintptr]uintptr{}
		glue.base = at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
		p := alloc(tls, unsafe.Sizeof(*glue.base))
		vfs := at[sqlite3.Tsqlite3_vfs](p)
		*vfs = *glue.base
		vfs.FpNext = 0
		if vfs.FzName, glue.err = libc.CString(vfsName); glue.err != nil {
			return
		}
		vfs.FxOpen, vfs.FxDelete = number(diskOpen), number(diskDelete)
		if rc := sqlite3.Xsqlite3_vfs_register(tls, p, 0); rc != sqlite3.SQLITE_OK {
			panic(rc)
		}
	})
	return glue.err
}

// alloc returns memory that is not Go's, as C wants it.
func alloc(tls *libc.TLS, n uintptr) uintptr {
	p := sqlite3.Xsqlite3_malloc64(tls, sqlite3.Tsqlite3_uint64(n))
	if p == 0 {
		panic("out of memory")
	}
	return p
}

// at is the struct behind a number.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// number is a function as SQLite keeps it. It must be one of the package's.
func number[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function is the function behind a number.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

type (
	openFunc     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteFunc   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
	transferFunc = func(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	sizeFunc     = func(tls *libc.TLS, file, size uintptr) int32
)

func diskOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	rc := function[openFunc](glue.base.FxOpen)(tls, vfs, name, file, flags, out)
	d := current.Load()
	if rc != sqlite3.SQLITE_OK || name == 0 || d == nil {
		return rc
	}
	f := at[sqlite3.Tsqlite3_file](file)
	realMethods := f.FpMethods
	glue.mu.Lock()
	ours := glue.plans[realMethods]
	if ours == 0 {
		ours = alloc(tls, unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))
		m := at[sqlite3.Tsqlite3_io_methods](ours)
		*m = *at[sqlite3.Tsqlite3_io_methods](realMethods)
		m.FxClose, m.FxWrite, m.FxTruncate, m.FxSync = number(diskClose), number(diskWrite), number(diskTruncate), number(diskSync)
		glue.plans[realMethods] = ours
	}
	h := &handle{name: filepath.Base(libc.GoString(name)), disk: d, real: at[sqlite3.Tsqlite3_io_methods](realMethods)}
	glue.open[file] = h
	glue.mu.Unlock()
	f.FpMethods = ours
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[h.name] == nil { // it was there before, and then on disk; or it is new
		d.files[h.name] = &content{durable: h.whole(tls, file)}
	}
	return rc
}

// whole reads a file through its own handle: to open it once more and to close that
// again would drop SQLite's locks.
func (h *handle) whole(tls *libc.TLS, file uintptr) []byte {
	p := alloc(tls, 8)
	defer sqlite3.Xsqlite3_free(tls, p)
	if rc := function[sizeFunc](h.real.FxFileSize)(tls, file, p); rc != sqlite3.SQLITE_OK {
		panic(rc)
	}
	n := *at[int64](p)
	if n == 0 {
		return nil
	}
	buf := alloc(tls, uintptr(n))
	defer sqlite3.Xsqlite3_free(tls, buf)
	if rc := function[transferFunc](h.real.FxRead)(tls, file, buf, int32(n), 0); rc != sqlite3.SQLITE_OK {
		panic(rc)
	}
	return bytes.Clone(unsafe.Slice(at[byte](buf), n))
}

func handleOf(file uintptr) *handle {
	glue.mu.Lock()
	defer glue.mu.Unlock()
	return glue.open[file]
}

func diskClose(tls *libc.TLS, file uintptr) int32 {
	glue.mu.Lock()
	h := glue.open[file]
	delete(glue.open, file)
	glue.mu.Unlock()
	return function[closeFunc](h.real.FxClose)(tls, file)
}

func diskWrite(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	h := handleOf(file)
	if rc := h.disk.before("write", h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := function[transferFunc](h.real.FxWrite)(tls, file, buf, n, off)
	if rc == sqlite3.SQLITE_OK {
		data := bytes.Clone(unsafe.Slice(at[byte](buf), n))
		h.disk.after("write", h.name, func(c *content) { c.pending = append(c.pending, change{off, data}) })
	}
	return rc
}

func diskTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	h := handleOf(file)
	if rc := h.disk.before("truncate", h.name); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := function[truncateFunc](h.real.FxTruncate)(tls, file, size)
	if rc == sqlite3.SQLITE_OK {
		h.disk.after("truncate", h.name, func(c *content) { c.pending = append(c.pending, change{off: size}) })
	}
	return rc
}

// diskSync syncs in the model alone: the real disk has nothing to lose here.
func diskSync(_ *libc.TLS, file uintptr, _ int32) int32 {
	h := handleOf(file)
	if rc := h.disk.before("sync", h.name); rc != sqlite3.SQLITE_OK {
		// What could not be synced is gone for the disk, although a read shows it: the
		// next sync will not mention it.
		h.disk.after("sync", h.name, func(c *content) { c.pending = nil })
		return rc
	}
	h.disk.after("sync", h.name, func(c *content) {
		for _, w := range c.pending {
			c.durable = w.to(c.durable)
		}
		c.pending = nil
	})
	return sqlite3.SQLITE_OK
}

func diskDelete(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32 {
	d := current.Load()
	if d == nil {
		return function[deleteFunc](glue.base.FxDelete)(tls, vfs, name, syncDir)
	}
	file := filepath.Base(libc.GoString(name))
	if rc := d.before("delete", file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	rc := function[deleteFunc](glue.base.FxDelete)(tls, vfs, name, syncDir)
	if rc == sqlite3.SQLITE_OK {
		d.after("delete", file, func(*content) {})
		d.mu.Lock()
		delete(d.files, file)
		d.mu.Unlock()
	}
	return rc
}
