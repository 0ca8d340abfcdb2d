//go:build linux && (amd64 || arm64)

package confine

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peers of sockets. A program with the network reaches neither this machine, by whichever
// of its addresses, nor what is link-local, where clouds keep credentials. What listens
// there takes its caller for one of the machine's own people.

// The bounds of a message that a program sends.
const (
	maxAddress  = 128      // struct sockaddr_storage
	maxControl  = 1 << 10  // bytes of ancillary data
	maxVectors  = 1024     // UIO_MAXIOV
	maxDatagram = 64 << 10 // bytes of a datagram; of a stream they are sent piece by piece
	maxSent     = 16 << 20 // bytes of one call; a program is told that fewer were sent
	maxMessages = 64       // of one sendmmsg; a program is told that fewer were sent
	mmsghdr     = 56 + 8   // struct mmsghdr
	nameservers = "/etc/resolv.conf"
)

// allows reports whether a peer may be spoken to.
func (p peers) allows(to netip.AddrPort) bool {
	a := to.Addr().Unmap().WithZone("")
	switch {
	case p.own:
		return true
	case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast(), a.IsInterfaceLocalMulticast():
	case a.IsLoopback(), a.IsUnspecified(), here.Contains(a), compatible.Contains(a):
	case !isOwn(a):
		return true
	}
	return to.Port() == 53 && isNameserver(a)
}

var (
	here       = netip.MustParsePrefix("0.0.0.0/8") // this network: this machine, to Linux
	compatible = netip.MustParsePrefix("::/96")     // IPv4 in an old spelling
)

// isOwn asks the kernel whether an address is this machine's: to oneself one speaks from
// the same address. No packet is sent. Where the kernel knows no way, the program's call
// finds none either.
func isOwn(a netip.Addr) bool {
	family := unix.AF_INET6
	if a.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: 9, Addr: a.As16()}
	if a.Is4() {
		to = &unix.SockaddrInet4{Port: 9, Addr: a.As4()}
	}
	if err := unix.Connect(fd, to); err != nil {
		return errors.Is(err, unix.EACCES) // broadcast: judged by whom it reaches
	}
	from, err := unix.Getsockname(fd)
	if err != nil {
		return true
	}
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		own := netip.AddrFrom4(from.Addr)
		return own == a || own.IsLoopback()
	case *unix.SockaddrInet6:
		own := netip.AddrFrom16(from.Addr).Unmap()
		return own == a || own.IsLoopback()
	}
	return true
}

// isNameserver reports whether the machine asks this address for names: programs must be
// able to, also where the resolver runs on the machine itself.
func isNameserver(a netip.Addr) bool {
	b, err := os.ReadFile(nameservers)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		word := strings.Fields(line)
		if len(word) < 2 || word[0] != "nameserver" {
			continue
		}
		if at, err := netip.ParseAddr(word[1]); err == nil && at.Unmap().WithZone("") == a {
			return true
		}
	}
	return false
}

// peer reads an address. Another family than those of the internet is none. Of a message
// an address without a family is one of IPv4.
func peer(sa []byte, message bool) (netip.AddrPort, bool) {
	if len(sa) < 2 {
		return netip.AddrPort{}, false
	}
	family := binary.NativeEndian.Uint16(sa)
	switch {
	case len(sa) >= 8 && (family == unix.AF_INET || family == unix.AF_UNSPEC && message):
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), binary.BigEndian.Uint16(sa[2:])), true
	case family == unix.AF_INET6 && len(sa) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sa[8:24])), binary.BigEndian.Uint16(sa[2:])), true
	}
	return netip.AddrPort{}, false
}

// ofNetwork does a call that names a peer.
func (l *listener) ofNetwork(q *question) (int64, syscall.Errno) {
	s, errno := l.socket(q)
	if errno != 0 {
		return 0, errno
	}
	defer s.close()
	switch q.nr {
	case unix.SYS_CONNECT:
		return 0, l.connect(q, s)
	case unix.SYS_SENDTO:
		m := message{name: q.args[4], nameLen: int(uint32(q.args[5])), vectors: []vector{{q.args[1], q.args[2]}}, flags: int(int32(q.args[3]))}
		return l.send(q, s, &m)
	case unix.SYS_SENDMSG:
		m, errno := q.header(q.args[1], int(int32(q.args[2])))
		if errno != 0 {
			return 0, errno
		}
		return l.send(q, s, m)
	case unix.SYS_SENDMMSG:
		return l.sendSeveral(q, s)
	}
	return 0, unix.ENOSYS
}

// socket is the caller's, by a descriptor of this process.
type socket struct {
	fd       int
	file     *os.File // the same, once it was waited for
	blocking bool     // as the program has it
	datagram bool
	domain   int // AF_UNIX is one of a pair, AF_NETLINK asks the kernel: both have no peer elsewhere
}

// socket takes a second descriptor of the caller's socket.
func (l *listener) socket(q *question) (*socket, syscall.Errno) {
	fd, errno := q.take(descriptor(q.args[0]))
	if errno != 0 {
		return nil, errno
	}
	s := &socket{fd: fd}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || !l.still(q) {
		s.close()
		return nil, unix.ENOTSOCK
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	flags, bad := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err := errors.Join(err, bad); err != nil {
		s.close()
		return nil, unix.ENOTSOCK
	}
	s.blocking, s.datagram, s.domain = flags&unix.O_NONBLOCK == 0, kind != unix.SOCK_STREAM, domain
	return s, 0
}

// take takes a second descriptor of something of the caller's.
func (q *question) take(theirs int) (int, syscall.Errno) {
	pid, errno := q.process()
	if errno != 0 {
		return -1, errno
	}
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, unix.EPERM
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, theirs, 0)
	return fd, errnoOf(err)
}

func (s *socket) close() {
	if s.file != nil {
		_ = s.file.Close()
		return
	}
	_ = unix.Close(s.fd)
}

// retry does something that does not block. Where that gives EAGAIN and wait is set it
// does it again when the socket can be written to, until the end of the jail.
func (l *listener) retry(s *socket, wait bool, try func() syscall.Errno) syscall.Errno {
	errno := try()
	if errno != unix.EAGAIN || !wait {
		return errno
	}
	if s.file == nil {
		// The runtime waits only for descriptors that do not block. It looks here, once; the
		// flag is the program's own as well, and is given back at once.
		_ = unix.SetNonblock(s.fd, true)
		s.file = os.NewFile(uintptr(s.fd), "socket")
		_ = unix.SetNonblock(s.fd, false)
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return unix.EPERM
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-l.done:
			_ = s.file.SetWriteDeadline(time.Unix(1, 0))
		case <-over:
		}
	}()
	if err := raw.Write(func(uintptr) bool {
		errno = try()
		return errno != unix.EAGAIN
	}); err != nil {
		return unix.EINTR
	}
	return errno
}

// judge reports whether a socket may speak to an address.
func (l *listener) judge(s *socket, sa []byte, message bool) syscall.Errno {
	to, ok := peer(sa, message)
	switch {
	case s.domain == unix.AF_NETLINK && binary.NativeEndian.Uint16(sa) == unix.AF_NETLINK:
		return 0
	case !ok:
		return unix.EAFNOSUPPORT
	case !l.network.allows(to):
		return unix.EPERM
	}
	return 0
}

func (l *listener) connect(q *question, s *socket) syscall.Errno {
	size := int(int32(q.args[2]))
	if size < 2 || size > maxAddress {
		return unix.EINVAL
	}
	sa, errno := q.memory(q.args[1], size)
	if errno != 0 {
		return errno
	}
	if binary.NativeEndian.Uint16(sa) != unix.AF_UNSPEC { // which ends a connection
		if errno := l.judge(s, sa, false); errno != 0 {
			return errno
		}
	}
	begun := false
	return l.retry(s, s.blocking, func() syscall.Errno {
		if begun {
			if !ready(s.fd, unix.POLLOUT) {
				return unix.EAGAIN
			}
			n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				return errnoOf(err)
			}
			return syscall.Errno(n)
		}
		if s.blocking {
			_ = unix.SetNonblock(s.fd, true)
			defer func() { _ = unix.SetNonblock(s.fd, false) }()
		}
		_, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&sa[0])), uintptr(len(sa)))
		if errno == unix.EINPROGRESS && s.blocking {
			begun = true
			return unix.EAGAIN
		}
		return errno
	})
}

// vector is struct iovec of the caller.
type vector struct{ at, size uint64 }

// message is what a call sends.
type message struct {
	name    uint64 // address of the peer; 0 is that of the connection
	nameLen int
	vectors []vector
	control []byte
	flags   int
}

// header reads struct msghdr and what it leads to, but for the bytes that are sent.
func (q *question) header(at uint64, flags int) (*message, syscall.Errno) {
	b, errno := q.memory(at, 56)
	if errno != 0 {
		return nil, errno
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	m := &message{name: word(0), nameLen: int(uint32(word(1))), flags: flags}
	count := word(3)
	if count > maxVectors {
		return nil, unix.EMSGSIZE
	}
	list, errno := q.memory(word(2), int(16*count))
	if errno != 0 {
		return nil, errno
	}
	for ; len(list) > 0; list = list[16:] {
		m.vectors = append(m.vectors, vector{binary.NativeEndian.Uint64(list), binary.NativeEndian.Uint64(list[8:])})
	}
	if word(4) != 0 && word(5) != 0 {
		if word(5) > maxControl {
			return nil, unix.ENOBUFS
		}
		if m.control, errno = q.memory(word(4), int(word(5))); errno != 0 {
			return nil, errno
		}
	}
	return m, 0
}

// passed returns ancillary data as this process sends it to a socket of a pair: descriptors
// of the caller's are taken, and let go by the function.
func (q *question) passed(control []byte) ([]byte, func(), syscall.Errno) {
	var mine []int
	release := func() {
		for _, fd := range mine {
			_ = unix.Close(fd)
		}
	}
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, release, unix.EINVAL
	}
	for _, m := range all {
		theirs, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, release, unix.EPERM
		}
		for _, n := range theirs {
			fd, errno := q.take(n)
			if errno != 0 {
				return nil, release, errno
			}
			mine = append(mine, fd)
		}
	}
	if len(mine) == 0 {
		return nil, release, 0
	}
	return unix.UnixRights(mine...), release, 0
}

// harmless reports whether ancillary data chooses source, class, lifetime or pieces of
// datagrams, and nothing else: options of IP can lead a packet by way of another address.
func harmless(control []byte) bool {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range all {
		switch [2]int32{m.Header.Level, m.Header.Type} {
		case [2]int32{unix.SOL_IP, unix.IP_PKTINFO}, [2]int32{unix.SOL_IP, unix.IP_TOS}, [2]int32{unix.SOL_IP, unix.IP_TTL},
			[2]int32{unix.SOL_IPV6, unix.IPV6_PKTINFO}, [2]int32{unix.SOL_IPV6, unix.IPV6_TCLASS}, [2]int32{unix.SOL_IPV6, unix.IPV6_HOPLIMIT},
			[2]int32{unix.SOL_UDP, unix.UDP_SEGMENT}:
		default:
			return false
		}
	}
	return true
}

// sendFlags are those of a message that may be sent from here. One that has the kernel send
// from memory later (MSG_ZEROCOPY) would send what this process has there by then.
const sendFlags = unix.MSG_CONFIRM | unix.MSG_DONTROUTE | unix.MSG_DONTWAIT | unix.MSG_EOR | unix.MSG_FASTOPEN | unix.MSG_MORE | unix.MSG_NOSIGNAL | unix.MSG_OOB

// send sends a message, of a stream piece by piece. Its value is the number of bytes.
func (l *listener) send(q *question, s *socket, m *message) (int64, syscall.Errno) {
	if m.flags&^sendFlags != 0 {
		return 0, unix.EOPNOTSUPP
	}
	var sa []byte
	if m.name != 0 && m.nameLen != 0 {
		if m.nameLen < 2 || m.nameLen > maxAddress {
			return 0, unix.EINVAL
		}
		errno := syscall.Errno(0)
		if sa, errno = q.memory(m.name, m.nameLen); errno != 0 {
			return 0, errno
		}
		if errno = l.judge(s, sa, true); errno != 0 {
			return 0, errno
		}
	}
	switch {
	case len(m.control) == 0:
	case s.domain == unix.AF_UNIX:
		control, release, errno := q.passed(m.control)
		defer release()
		if errno != 0 {
			return 0, errno
		}
		m.control = control
	case !harmless(m.control):
		return 0, unix.EPERM
	}
	total := uint64(0)
	for _, v := range m.vectors {
		if total += v.size; v.size > maxSent || total > maxSent {
			total = maxSent
			break
		}
	}
	if s.datagram && total > maxDatagram {
		return 0, unix.EMSGSIZE
	}
	sent := int64(0)
	for {
		piece, errno := q.gather(m.vectors, uint64(sent), min(total-uint64(sent), maxDatagram))
		n := 0
		if errno == 0 {
			n, errno = l.sendPiece(s, piece, sa, m)
		}
		if errno != 0 {
			if sent > 0 {
				return sent, 0
			}
			return 0, errno
		}
		m.control = nil // it goes with the first piece
		if sent += int64(n); uint64(sent) >= total || s.datagram || !s.blocking && n < len(piece) {
			return sent, 0
		}
	}
}

func (l *listener) sendPiece(s *socket, piece, sa []byte, m *message) (n int, errno syscall.Errno) {
	h := unix.Msghdr{}
	if len(sa) > 0 {
		h.Name, h.Namelen = &sa[0], uint32(len(sa))
	}
	if len(piece) > 0 {
		v := unix.Iovec{Base: &piece[0], Len: uint64(len(piece))}
		h.Iov, h.Iovlen = &v, 1
	}
	if len(m.control) > 0 {
		h.Control, h.Controllen = &m.control[0], uint64(len(m.control))
	}
	errno = l.retry(s, s.blocking && m.flags&unix.MSG_DONTWAIT == 0, func() syscall.Errno {
		// No signal: a broken pipe would be this process's.
		r, _, errno := syscall.Syscall(unix.SYS_SENDMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&h)), uintptr(m.flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
		n = int(r)
		return errno
	})
	return n, errno
}

// gather reads size bytes of what vectors hold, from offset on.
func (q *question) gather(vectors []vector, offset, size uint64) ([]byte, syscall.Errno) {
	b := make([]byte, 0, size)
	for _, v := range vectors {
		if offset >= v.size {
			offset -= v.size
			continue
		}
		n := min(v.size-offset, size-uint64(len(b)))
		b = b[:uint64(len(b))+n]
		if errno := q.read(v.at+offset, b[uint64(len(b))-n:]); errno != 0 {
			return nil, errno
		}
		offset = 0
		if uint64(len(b)) == size {
			break
		}
	}
	return b, 0
}

// sendSeveral sends messages one after the other, and writes into each how much of it was
// sent. Its value is their number.
func (l *listener) sendSeveral(q *question, s *socket) (int64, syscall.Errno) {
	count := min(uint32(q.args[2]), maxMessages)
	for i := range count {
		at := q.args[1] + uint64(i)*mmsghdr
		m, errno := q.header(at, int(int32(q.args[3])))
		n := int64(0)
		if errno == 0 {
			n, errno = l.send(q, s, m)
		}
		if errno == 0 {
			errno = q.write(at+56, uint32(n))
		}
		if errno != 0 {
			if i > 0 {
				return int64(i), 0
			}
			return 0, errno
		}
	}
	return int64(count), 0
}

// write puts a number into the caller's memory.
func (q *question) write(at uint64, n uint32) syscall.Errno {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], n)
	local := []unix.Iovec{{Base: &b[0], Len: 4}}
	_, _, errno := syscall.Syscall6(unix.SYS_PROCESS_VM_WRITEV, uintptr(q.tid), uintptr(unsafe.Pointer(&local[0])), 1,
		uintptr(unsafe.Pointer(&unix.RemoteIovec{Base: uintptr(at), Len: 4})), 1, 0)
	return errno
}
