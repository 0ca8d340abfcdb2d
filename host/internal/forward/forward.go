// Package forward is how a host of a cluster has another one answer a request. Guesses and Place say which
// host is asked. A Client sends the request with a proof, which the Verifier of the other host checks; a
// Taken says there that the answer is under way. A Response passes on to the client what came of one
// attempt or several.
//
// The proof is a code over the head of the request and the digest of its body, made with a secret that
// the hosts share. It is checked before any of the body is read.
//
// Invariants:
//   - the code covers method, path, query, host, the length and digest of the body, every header that
//     is passed on, who forwards, who shall answer, and when; a header that it does not cover is dropped;
//   - a proof is good for one host, in one life of it, for a short time and once;
//   - a request ends when the host that answers it loses its lease, or gives no sign of life;
//   - the client sees one answer, and of a stream each event whole and once.
package forward

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of forwarded requests, and of answers to them.
const (
	// Proof is what shows that a request comes from a host.
	Proof = "Stile-Forwarded"
	// Moved says that the host that was asked does not run the session. Nothing was done.
	Moved = "Stile-Moved"
)

// MinSecret is the least that a secret has, in bytes.
const MinSecret = 32

// Window is how long a proof is good, and how far clocks may be apart.
const Window = 30 * time.Second

// maxProof bounds the header.
const maxProof = 8 << 10

// Claim is what a proof says of a request.
type Claim struct {
	From, To string // ids of hosts
	Peer     string // address of the client
	For      string // what the host wants by it; "" for what the client wants
	At       time.Time
}

// ofConnection are headers that are of one connection: they are made anew for the next one, and
// Upgrade and Connection are what the library makes of them.
var ofConnection = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Accept-Encoding"}

// Drop takes out of a head what is of one connection.
func Drop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range ofConnection {
		h.Del(name)
	}
}

// Sign proves that a request, which goes to a host with this body, is a host's. Its headers must
// not change any more.
func Sign(secret []byte, r *http.Request, body []byte, c Claim) {
	r.Header.Del(Proof)
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it does not fail
	names, sum := covered(r.Header), sha256.Sum256(body)
	v := url.Values{
		"length": {strconv.Itoa(len(body))}, "body": {hex.EncodeToString(sum[:])},
		"from": {c.From}, "to": {c.To}, "peer": {c.Peer}, "for": {c.For}, "at": {strconv.FormatInt(c.At.UnixMilli(), 10)},
		"nonce": {hex.EncodeToString(nonce[:])}, "names": {strings.Join(names, ",")},
	}
	v.Set("code", hex.EncodeToString(code(secret, r, v)))
	r.Header.Set(Proof, v.Encode())
}

// covered lists the headers that a code covers.
func covered(h http.Header) (names []string) {
	for name := range h {
		if name != Proof && !slices.Contains(ofConnection, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// code is the code of a request, over parts that each say how long they are.
func code(secret []byte, r *http.Request, v url.Values) []byte {
	m := hmac.New(sha256.New, secret)
	put := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		m.Write(n[:])
		m.Write([]byte(s))
	}
	for _, s := range []string{"stile forward 2", r.Method, r.Host, r.URL.RequestURI(), v.Get("length"), v.Get("body"), v.Get("from"), v.Get("to"), v.Get("peer"), v.Get("for"), v.Get("at"), v.Get("nonce"), v.Get("names")} {
		put(s)
	}
	for name := range strings.SplitSeq(v.Get("names"), ",") {
		all := r.Header[name]
		put(strconv.Itoa(len(all)))
		for _, s := range all {
			put(s)
		}
	}
	return m.Sum(nil)
}

// The errors of Verifier.Verify.
var (
	ErrForged = errors.New("the request shows no proof of a host of this cluster")
	ErrLate   = errors.New("the proof of the request is of another time")
	ErrAgain  = errors.New("the proof of the request was shown before")
)

// Verifier tells requests of hosts from others. Its methods are safe for concurrent use.
type Verifier struct {
	Secret []byte
	Old    [][]byte // secrets that prove as well

	mu        sync.Mutex
	turned    time.Time
	now, last map[string]struct{} // nonces that were shown, of this window and the one before
}

// Verify checks the proof of a request, at a time by the clock that the hosts share, and reads nothing
// of its body. It takes out of the head what the proof does not cover, and the proof. Then r.Body is a
// reader that ends with ErrForged, in place of io.EOF, if the body is not the one that was proved.
func (f *Verifier) Verify(r *http.Request, now time.Time) (Claim, error) {
	text := r.Header[Proof]
	if len(text) != 1 || len(text[0]) > maxProof {
		return Claim{}, ErrForged
	}
	v, err := url.ParseQuery(text[0])
	if err != nil {
		return Claim{}, ErrForged
	}
	got, err := hex.DecodeString(v.Get("code"))
	proves := func(secret []byte) bool { return subtle.ConstantTimeCompare(got, code(secret, r, v)) == 1 }
	if err != nil || !proves(f.Secret) && !slices.ContainsFunc(f.Old, proves) {
		return Claim{}, ErrForged
	}
	ms, err := strconv.ParseInt(v.Get("at"), 10, 64)
	if err != nil {
		return Claim{}, ErrForged
	}
	digest, err := hex.DecodeString(v.Get("body"))
	if err != nil || v.Get("length") != strconv.FormatInt(r.ContentLength, 10) { // -1 when it is not said
		return Claim{}, ErrForged
	}
	c := Claim{From: v.Get("from"), To: v.Get("to"), Peer: v.Get("peer"), For: v.Get("for"), At: time.UnixMilli(ms)}
	if d := now.Sub(c.At); d > Window || d < -Window {
		return Claim{}, ErrLate
	}
	if !f.fresh(v.Get("nonce"), now) {
		return Claim{}, ErrAgain
	}
	names := strings.Split(v.Get("names"), ",")
	for name := range r.Header {
		if !slices.Contains(names, name) && !slices.Contains(ofConnection, name) {
			delete(r.Header, name)
		}
	}
	r.Body = &proved{ReadCloser: r.Body, sum: sha256.New(), want: digest}
	return c, nil
}

// proved is a body whose digest is known before it is read.
type proved struct {
	io.ReadCloser
	sum  hash.Hash
	want []byte
}

// Read implements io.Reader.
func (b *proved) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && subtle.ConstantTimeCompare(b.sum.Sum(nil), b.want) != 1 {
		err = ErrForged
	}
	return n, err
}

// fresh notes a nonce, and reports whether it is new. A proof is good for Window before and
// after its time: nonces of two such spans are kept.
func (f *Verifier) fresh(nonce string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.turned) >= 2*Window {
		if f.last = f.now; now.Sub(f.turned) >= 4*Window {
			f.last = nil
		}
		f.now, f.turned = map[string]struct{}{}, now
	}
	if _, shown := f.last[nonce]; shown {
		return false
	}
	if _, shown := f.now[nonce]; shown {
		return false
	}
	f.now[nonce] = struct{}{}
	return true
}
