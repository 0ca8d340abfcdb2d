package host

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// Certificate is what a host shows to those who connect: a chain and its key, in PEM, of
// two files. They are looked at for each connection, and read when they have changed, so
// that one can be renewed under a running host. Its methods are safe for concurrent use.
type Certificate struct {
	cert, key string

	mu   sync.Mutex
	seen [2]os.FileInfo // of cert and key when they were read; nil for one that was not there
	now  *tls.Certificate
}

// OpenCertificate reads the files of a certificate and its key. Errors are ERR_CONFIG,
// with the field tls_cert or tls_key: one that is missing or cannot be read, that holds
// no PEM, or a key that is not the certificate's.
func OpenCertificate(cert, key string) (*Certificate, error) {
	switch {
	case cert == "":
		return nil, badCertificate("tls_cert", "", "a key is given, and no certificate", nil)
	case key == "":
		return nil, badCertificate("tls_key", "", "a certificate is given, and no key", nil)
	}
	c := &Certificate{cert: cert, key: key}
	var err error
	c.seen = c.look()
	if c.now, err = readCertificate(cert, key); err != nil {
		return nil, err
	}
	return c, nil
}

func badCertificate(field, path, detail string, cause error) error {
	e := &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail, Cause: cause}
	if path != "" {
		e.File = filepath.Base(path)
	}
	return e
}

// readCertificate reads a pair. Its errors show nothing of the key.
func readCertificate(cert, key string) (*tls.Certificate, error) {
	var pem [2][]byte
	for i, f := range []struct{ field, path string }{{"tls_cert", cert}, {"tls_key", key}} {
		b, err := os.ReadFile(f.path)
		if err != nil {
			return nil, badCertificate(f.field, f.path, "cannot be read", files.Cause(err))
		}
		pem[i] = b
	}
	pair, err := tls.X509KeyPair(pem[0], pem[1])
	if err == nil {
		return &pair, nil
	}
	// Of which of the two it speaks, the error does not say in a way to rely on.
	if !hasCertificate(pem[0]) {
		return nil, badCertificate("tls_cert", cert, "holds no certificate in PEM", nil)
	}
	return nil, badCertificate("tls_key", key, "is not the key of "+filepath.Base(cert)+", or no key in PEM", nil)
}

func hasCertificate(pem []byte) bool { return x509.NewCertPool().AppendCertsFromPEM(pem) }

func (c *Certificate) look() (info [2]os.FileInfo) {
	info[0], _ = os.Stat(c.cert) // what cannot be seen is told when it is read
	info[1], _ = os.Stat(c.key)
	return info
}

// sameFile reports whether a file is the one that was there before, unchanged.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// current returns the certificate of the files, read anew if they have changed. Files that
// make no pair, because one of them is new and the other not yet, are told of, and what
// was read before stays.
func (c *Certificate) current(log *zap.Logger) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.look()
	if sameFile(now[0], c.seen[0]) && sameFile(now[1], c.seen[1]) {
		return c.now
	}
	c.seen = now
	pair, err := readCertificate(c.cert, c.key)
	if err != nil {
		log.Warn("the certificate has changed and cannot be used; the one before stays", zap.Error(err))
		return c.now
	}
	c.now = pair
	log.Info("the certificate was read anew", zap.Time("expires", pair.Leaf.NotAfter))
	return pair
}

// Valid is the time in which those who connect take the certificate.
func (c *Certificate) Valid() (from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Leaf.NotBefore, c.now.Leaf.NotAfter
}

// Names reports whether the certificate was made for a name or address: nil if it was.
func (c *Certificate) Names(host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Leaf.VerifyHostname(host)
}

// suites are those of TLS 1.2; of 1.3 all are good. Those with CBC and SHA-1, which Go offers
// by itself, are left out.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// config is how a host with this certificate speaks TLS.
func (c *Certificate) config(log *zap.Logger) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   suites,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(log), nil },
	}
}
