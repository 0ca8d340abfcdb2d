package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const runsInFlight = 500

// BenchmarkHost_500Runs50TokensASecond is how long a token is on its way from the model,
// in the host, to the client of its run: 500 runs at once, each 50 tokens a second. With
// dead subscribers so many sessions are followed as well by a client that never reads. Host
// and clients share the processors, so what each takes of them is told as well.
//
// The runs are begun all at once: p99-begun-ms is of the tokens that the model said after
// the first second alone, when all are under way.
func BenchmarkHost_500Runs50TokensASecond(b *testing.B) {
	for _, dead := range []int{0, runsInFlight / 10, runsInFlight} {
		b.Run(fmt.Sprintf("dead=%d", dead), func(b *testing.B) {
			for range b.N {
				tokens(b, dead)
			}
		})
	}
}

func tokens(b *testing.B, dead int) {
	h := startHost(b)
	h.sessions(runsInFlight, "stamps")
	each(dead, 64, func(i int) { h.ignore(i) })
	readers := make([]*reader, runsInFlight)
	each(runsInFlight, 64, func(i int) { readers[i] = &reader{fd: h.dial()} })
	if b.Failed() {
		b.FailNow()
	}
	host, clients := h.cpu()
	for i, r := range readers {
		h.ask(r.fd, fmt.Sprintf("POST /v1/sessions/s%d/runs?stream=token", i), `{"input":"go"}`)
	}
	if err := follow(readers); err != nil {
		b.Fatal(err)
	}
	var all []token
	missing := 0
	for _, r := range readers {
		if r.size != tokensEach*stampSize {
			missing++
		}
		all = append(all, r.tokens...)
	}
	if missing > 0 {
		b.Fatalf("%d of %d streams were not whole", missing, runsInFlight)
	}
	began := slices.MinFunc(all, func(a, b token) int { return int(a.said - b.said) }).said
	var took, later []time.Duration
	for _, t := range all {
		took = append(took, time.Duration(t.read-t.said))
		if t.said-began >= time.Second.Nanoseconds() {
			later = append(later, time.Duration(t.read-t.said))
		}
	}
	report(b, took)
	slices.Sort(later)
	b.ReportMetric(milliseconds(later[len(later)*99/100]), "p99-begun-ms")
	b.ReportMetric(float64(len(all)), "tokens")
	hostEnd, clientsEnd := h.cpu()
	b.ReportMetric(float64((hostEnd-host).Microseconds())/float64(len(all)), "host-us/token")
	b.ReportMetric(float64((clientsEnd-clients).Microseconds())/float64(len(all)), "client-us/token")
}

// dial opens a connection that the runtime's poller knows nothing of: a goroutine that
// waits for each would cost the clients more of the processors, which they share with the
// host, than to read does, and count its own lateness as the host's.
func (h *hostOf) dial() int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		h.b.Error(err)
		return -1
	}
	h.b.Cleanup(func() { _ = syscall.Close(fd) })
	addr, err := netip.ParseAddrPort(h.addr)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
	}
	if err != nil {
		h.b.Error(err)
	}
	return fd
}

// ask sends a request with a body of JSON, or none.
func (h *hostOf) ask(fd int, line, body string) {
	req := fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", line, len(body), body)
	if _, err := syscall.Write(fd, []byte(req)); err != nil {
		h.b.Error(err)
	}
}

// ignore opens a stream of a session, and reads nothing more when it is open.
func (h *hostOf) ignore(i int) {
	fd := h.dial()
	h.ask(fd, fmt.Sprintf("GET /v1/sessions/s%d/events", i), "")
	head := make([]byte, 4096)
	if n, err := syscall.Read(fd, head); err != nil || !bytes.HasPrefix(head[:n], []byte("HTTP/1.1 200 ")) {
		h.b.Errorf("%s, %v", head[:max(n, 0)], err)
	}
}

// stampSize is what a time in nanoseconds has of digits, until the year 2286.
const stampSize = 19

// token is when the model said it and when its client read it, in nanoseconds.
type token struct{ said, read int64 }

// reader is the client of one run. It takes the answer apart as it comes.
type reader struct {
	fd     int
	begun  bool   // the head of the answer is over
	over   bool   // the last chunk was there
	left   int    // bytes of the chunk that are still to come
	line   []byte // of the answer's head or of a chunk's, as far as it is there
	event  []byte // a line of the stream, as far as it is there
	delta  bool   // the event is one
	size   int    // of the text
	tokens []token
}

// follow reads the answers until all have ended.
func follow(readers []*reader) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(poll) }()
	for i, r := range readers {
		r.tokens = make([]token, 0, tokensEach)
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, r.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}); err != nil {
			return err
		}
	}
	ready, buf := make([]syscall.EpollEvent, 64), make([]byte, 64<<10)
	for left := len(readers); left > 0; {
		n, err := syscall.EpollWait(poll, ready, -1)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		for _, ev := range ready[:max(n, 0)] {
			r := readers[ev.Fd]
			n, err := syscall.Read(r.fd, buf)
			if err != nil || n == 0 {
				return fmt.Errorf("stream %d ended with %v behind %d bytes of text", ev.Fd, err, r.size)
			}
			if err := r.take(buf[:n], time.Now().UnixNano()); err != nil {
				return err
			}
			if r.over {
				left--
				if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_DEL, r.fd, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// take takes what was read at a time: the head, and chunks with their sizes.
func (r *reader) take(p []byte, now int64) error {
	for len(p) > 0 && !r.over {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.text(p[:n], now)
			r.left -= n
			p = p[n:]
			continue
		}
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		r.line, p = append(r.line, line...), rest
		if !whole {
			break
		}
		switch line := bytes.TrimSpace(r.line); {
		case !r.begun && bytes.HasPrefix(line, []byte("HTTP/")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("the answer is %s", line)
		case !r.begun:
			r.begun = len(line) == 0
		case len(line) > 0: // else it is the end of a chunk
			size, err := strconv.ParseInt(string(line), 16, 32)
			if err != nil {
				return err
			}
			r.left, r.over = int(size), size == 0
		}
		r.line = r.line[:0]
	}
	return nil
}

// text takes a piece of the stream.
func (r *reader) text(p []byte, now int64) {
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		r.event, p = append(r.event, line...), rest
		if !whole {
			return
		}
		switch {
		case bytes.HasPrefix(r.event, []byte("event: ")):
			r.delta = string(r.event) == "event: delta"
		case r.delta && bytes.HasPrefix(r.event, []byte("data: ")):
			_, text, _ := bytes.Cut(r.event, []byte(`"text":"`))
			text, _, _ = bytes.Cut(text, []byte(`"`))
			// A reader that was slow gets several tokens at once; each counts.
			r.size += len(text)
			for ; len(text) >= stampSize; text = text[stampSize:] {
				if said, err := strconv.ParseInt(string(text[:stampSize]), 10, 64); err == nil {
					r.tokens = append(r.tokens, token{said, now})
				}
			}
		}
		r.event = r.event[:0]
	}
}
