package sqlite

import (
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A file system under SQLite in memory, for tests that open as many files as a journal
// has bits. A path is used by one store at a time, whose connections take turns, so
// there is but one rule for locks: no handle gets an exclusive one beside another handle.

const ramName = "stile-test-ram"

var ram struct {
	once  sync.Once
	err   error
	base  *sqlite3.Tsqlite3_vfs
	plan  uintptr // our sqlite3_io_methods
	mu    sync.RWMutex
	files map[string]*ramFile
	open  map[uintptr]*ramFile // by sqlite3_file
}

// ramFile is a file, and the index that a log's readers and writer share.
type ramFile struct {
	data    []byte
	handles int
	shared  []uintptr
}

// newRAM returns the name of the file system.
func newRAM(t testing.TB) (vfs string) {
	t.Helper()
	ram.once.Do(func() {
		tls := libc.NewTLS() // of the process, for good, as all that is allocated here
		ram.files, ram.open = map[string]*ramFile{}, map[uintptr]*ramFile{}
		ram.base = at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
		p := alloc(tls, unsafe.Sizeof(*ram.base))
		vfs := at[sqlite3.Tsqlite3_vfs](p)
		*vfs = *ram.base
		vfs.FpNext = 0
		if vfs.FzName, ram.err = libc.CString(ramName); ram.err != nil {
			return
		}
		vfs.FxOpen, vfs.FxDelete, vfs.FxAccess, vfs.FxFullPathname = number(ramOpen), number(ramDelete), number(ramAccess), number(ramPathname)
		ram.plan = alloc(tls, unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{}))
		*at[sqlite3.Tsqlite3_io_methods](ram.plan) = sqlite3.Tsqlite3_io_methods{
			FiVersion: 2, FxClose: number(ramClose), FxRead: number(ramRead), FxWrite: number(ramWrite),
			FxTruncate: number(ramTruncate), FxSync: number(ramSync), FxFileSize: number(ramFileSize),
			FxLock: number(ramLock), FxUnlock: number(ramUnlock), FxCheckReservedLock: number(ramReserved),
			FxFileControl: number(ramControl), FxSectorSize: number(ramSectorSize), FxDeviceCharacteristics: number(ramCharacteristics),
			FxShmMap: number(ramShmMap), FxShmLock: number(ramShmLock), FxShmBarrier: number(ramShmBarrier), FxShmUnmap: number(ramShmUnmap),
		}
		if rc := sqlite3.Xsqlite3_vfs_register(tls, p, 0); rc != sqlite3.SQLITE_OK {
			panic(rc)
		}
	})
	if ram.err != nil {
		t.Fatal(ram.err)
	}
	return ramName
}

// putRAM makes the file at path what a test wants it to be; nil is no file.
func putRAM(path string, data []byte) {
	ram.mu.Lock()
	defer ram.mu.Unlock()
	if data == nil {
		delete(ram.files, path)
		return
	}
	ram.files[path] = &ramFile{data: data}
}

// getRAM is what is in the file at path.
func getRAM(path string) []byte {
	ram.mu.RLock()
	defer ram.mu.RUnlock()
	if f := ram.files[path]; f != nil {
		return append([]byte{}, f.data...)
	}
	return nil
}

func ramFileOf(file uintptr) *ramFile {
	ram.mu.RLock()
	defer ram.mu.RUnlock()
	return ram.open[file]
}

func ramOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	if name == 0 { // temporary
		return function[openFunc](ram.base.FxOpen)(tls, vfs, name, file, flags, out)
	}
	ram.mu.Lock()
	defer ram.mu.Unlock()
	path := libc.GoString(name)
	f := ram.files[path]
	if f == nil && flags&sqlite3.SQLITE_OPEN_CREATE == 0 {
		at[sqlite3.Tsqlite3_file](file).FpMethods = 0
		return sqlite3.SQLITE_CANTOPEN
	}
	if f == nil {
		f = &ramFile{}
		ram.files[path] = f
	}
	f.handles++
	ram.open[file] = f
	at[sqlite3.Tsqlite3_file](file).FpMethods = ram.plan
	if out != 0 {
		*at[int32](out) = flags
	}
	return sqlite3.SQLITE_OK
}

func ramDelete(_ *libc.TLS, _, name uintptr, _ int32) int32 {
	ram.mu.Lock()
	defer ram.mu.Unlock()
	path := libc.GoString(name)
	if ram.files[path] == nil {
		return sqlite3.SQLITE_IOERR_DELETE_NOENT
	}
	delete(ram.files, path)
	return sqlite3.SQLITE_OK
}

func ramAccess(_ *libc.TLS, _, name uintptr, _ int32, out uintptr) int32 {
	ram.mu.RLock()
	defer ram.mu.RUnlock()
	*at[int32](out) = 0
	if ram.files[libc.GoString(name)] != nil {
		*at[int32](out) = 1
	}
	return sqlite3.SQLITE_OK
}

func ramPathname(_ *libc.TLS, _, name uintptr, n int32, out uintptr) int32 {
	path := libc.GoString(name)
	if len(path) >= int(n) {
		return sqlite3.SQLITE_CANTOPEN
	}
	to := unsafe.Slice(at[byte](out), n)
	to[copy(to, path)] = 0
	return sqlite3.SQLITE_OK
}

func ramClose(_ *libc.TLS, file uintptr) int32 {
	ram.mu.Lock()
	defer ram.mu.Unlock()
	ram.open[file].handles--
	delete(ram.open, file)
	return sqlite3.SQLITE_OK
}

func ramRead(_ *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f := ramFileOf(file)
	to := unsafe.Slice(at[byte](buf), n)
	have := 0
	if off < int64(len(f.data)) {
		have = copy(to, f.data[off:])
	}
	if have < len(to) {
		clear(to[have:])
		return sqlite3.SQLITE_IOERR_SHORT_READ
	}
	return sqlite3.SQLITE_OK
}

func ramWrite(_ *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f := ramFileOf(file)
	f.data = change{off, unsafe.Slice(at[byte](buf), n)}.to(f.data)
	return sqlite3.SQLITE_OK
}

func ramTruncate(_ *libc.TLS, file uintptr, size int64) int32 {
	f := ramFileOf(file)
	f.data = change{off: size}.to(f.data)
	return sqlite3.SQLITE_OK
}

func ramSync(*libc.TLS, uintptr, int32) int32 { return sqlite3.SQLITE_OK }

func ramFileSize(_ *libc.TLS, file, size uintptr) int32 {
	*at[int64](size) = int64(len(ramFileOf(file).data))
	return sqlite3.SQLITE_OK
}

func ramLock(_ *libc.TLS, file uintptr, level int32) int32 {
	ram.mu.RLock()
	defer ram.mu.RUnlock()
	if level >= sqlite3.SQLITE_LOCK_EXCLUSIVE && ram.open[file].handles > 1 {
		return sqlite3.SQLITE_BUSY
	}
	return sqlite3.SQLITE_OK
}

func ramUnlock(*libc.TLS, uintptr, int32) int32 { return sqlite3.SQLITE_OK }

func ramReserved(_ *libc.TLS, _, out uintptr) int32 {
	*at[int32](out) = 0
	return sqlite3.SQLITE_OK
}

func ramControl(*libc.TLS, uintptr, int32, uintptr) int32 { return sqlite3.SQLITE_NOTFOUND }
func ramSectorSize(*libc.TLS, uintptr) int32              { return 512 }
func ramCharacteristics(*libc.TLS, uintptr) int32         { return 0 }

func ramShmMap(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32 {
	f := ramFileOf(file)
	*at[uintptr](out) = 0
	for int(region) >= len(f.shared) {
		if extend == 0 {
			return sqlite3.SQLITE_OK
		}
		p := alloc(tls, uintptr(size))
		clear(unsafe.Slice(at[byte](p), size))
		f.shared = append(f.shared, p)
	}
	*at[uintptr](out) = f.shared[region]
	return sqlite3.SQLITE_OK
}

func ramShmLock(*libc.TLS, uintptr, int32, int32, int32) int32 { return sqlite3.SQLITE_OK }
func ramShmBarrier(*libc.TLS, uintptr)                         {}

// ramShmUnmap drops the index with the last handle, as a process that ends does.
func ramShmUnmap(tls *libc.TLS, file uintptr, _ int32) int32 {
	f := ramFileOf(file)
	if f.handles > 1 {
		return sqlite3.SQLITE_OK
	}
	for _, p := range f.shared {
		sqlite3.Xsqlite3_free(tls, p)
	}
	f.shared = nil
	return sqlite3.SQLITE_OK
}
