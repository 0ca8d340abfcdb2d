package conns

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// A request with both Content-Length and Transfer-Encoding has two ends. A proxy that goes
// by the first, in front of a host that goes by the second, takes what lies between for a
// part of it, and the host for the next request: one that its sender put into the
// connection of others. The HTTP server goes by the second and drops the first, so that no
// handler sees it. Two things keep the host from harm:
//   - Behind a request that is chunked the connection is closed: what follows is no request.
//   - A connection without TLS is read along, and one with such a request is refused. With
//     TLS the server needs the connection for itself, and there is the first alone.

// framing follows the heads of the requests on a connection. see is for one goroutine at a
// time; the rest is safe for concurrent use.
type framing struct {
	bad   atomic.Bool // a head has two ends, or hides where it ends
	blind atomic.Bool // what follows is not looked at

	left    int64  // of a body
	line    []byte // of a head, as far as it is kept
	cut     bool   // the line has more
	begun   bool   // the head has its first line
	length  int64  // -1: none
	chunked bool
}

// maxHeadLine is how much of a line of a head is looked at.
const maxHeadLine = 256

func newFraming() *framing { return &framing{length: -1} }

// see takes what was read.
func (f *framing) see(b []byte) {
	for len(b) > 0 && !f.blind.Load() {
		if f.left > 0 {
			n := min(f.left, int64(len(b)))
			f.left -= n
			b = b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		piece := b
		if end >= 0 {
			piece = b[:end]
		}
		if room := maxHeadLine - len(f.line); len(piece) > room {
			piece, f.cut = piece[:room], true
		}
		f.line = append(f.line, piece...)
		if end < 0 {
			return
		}
		b = b[end+1:]
		f.over(strings.TrimSuffix(string(f.line), "\r"))
		f.line, f.cut = f.line[:0], false
	}
}

// over takes a line of a head.
func (f *framing) over(line string) {
	switch {
	case line == "" && !f.begun: // lines without words may stand in front
	case line == "":
		f.decide()
	case !f.begun:
		f.begun = true
	case line[0] == ' ' || line[0] == '\t': // what belongs to the line before (obs-fold): no client of today writes it
		f.refuse()
	default:
		name, value, _ := strings.Cut(line, ":")
		switch strings.ToLower(name) {
		case "transfer-encoding":
			f.chunked = true
		case "content-length":
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil || f.cut || f.length >= 0 && f.length != n {
				f.refuse()
				return
			}
			f.length = n
		}
	}
}

// decide is the end of a head.
func (f *framing) decide() {
	switch {
	case f.chunked && f.length >= 0:
		f.refuse()
	case f.chunked: // the connection ends with it
		f.blind.Store(true)
	}
	f.left = max(0, f.length)
	f.begun, f.chunked, f.length = false, false, -1
}

func (f *framing) refuse() {
	f.bad.Store(true)
	f.blind.Store(true)
}

// Framed reports whether it is certain where a request ends; the connection of one that is
// chunked is closed behind the answer.
func Framed(h http.Header, r *http.Request) bool {
	if r.ProtoMajor > 1 {
		return true
	}
	if len(r.TransferEncoding) > 0 {
		h.Set("Connection", "close")
	}
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || c.heads == nil || !c.heads.bad.Load() {
		return true
	}
	h.Set("Connection", "close")
	return false
}

// Unframe is for a connection that speaks another protocol from now on.
func Unframe(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && c.heads != nil {
		c.heads.blind.Store(true)
	}
}
