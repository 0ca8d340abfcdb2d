package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// transient marks the cause of a failure to reach the server that may end by itself. It is set before
// the text of the cause is cleaned, which loses the types of its errors.
type transient struct{ error }

// Unwrap is for package errors.
func (t transient) Unwrap() error { return t.error }

// Transient reports whether Open, or an operation of an open journal, failed because the server could not be
// reached or takes no connection at the moment, so that a later attempt may succeed: a name that is not resolved, a refused, broken or
// late connection, a server that starts or stops, or one with too many connections. A refused login, an
// unknown database and a wrong set-up of TLS are none of these.
//
// Of a URL with several hosts, all have failed. Then one transient failure is enough, unless another
// host has refused the login, the database, or the certificates: those would do so again.
func Transient(err error) bool {
	var t transient
	return errors.As(err, &t)
}

// passes is Transient for an error as pgx gives it.
func passes(err error) bool {
	some := false
	for _, e := range eachHost(err) {
		switch judge(e) {
		case away:
			some = true
		case refused:
			return false
		}
	}
	return some
}

// eachHost takes apart what pgx joins: an error for each attempt at a host.
func eachHost(err error) (all []error) {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, eachHost(e)...)
	}
	return all
}

// answer is what an attempt to connect says of the server.
type answer int

const (
	neither answer = iota // such as a server without TLS: sslmode=prefer goes on without
	away
	refused
)

func judge(err error) answer {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pe.Code {
		case "57P01", "57P02", "57P03", "53300": // it stops, has crashed, starts; too many connections
			return away
		}
		return refused
	}
	for _, certificate := range []any{new(*tls.CertificateVerificationError), new(x509.UnknownAuthorityError), new(x509.CertificateInvalidError), new(x509.HostnameError)} {
		if errors.As(err, certificate) {
			return refused
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		switch op.Op {
		case "dial", "read", "write":
			if errors.Is(err, fs.ErrPermission) { // of a socket file
				return refused
			}
			return away
		}
		return refused // "remote error": the server refuses our certificate
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok || pgconn.Timeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed) {
		return away
	}
	return neither
}
