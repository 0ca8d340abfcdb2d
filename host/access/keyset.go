package access

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// How the issuer's keys are kept.
const (
	askTimeout   = 10 * time.Second
	askPause     = 5 * time.Second // between two questions, whatever tokens name
	keysFresh    = time.Minute     // older ones are asked for again: a withdrawn key goes
	keysUsable   = 24 * time.Hour  // if the issuer does not answer
	maxJWKSBytes = 1 << 20
	maxJWKSKeys  = 256
)

// keySet are an issuer's public keys, asked for when a token names one that is not
// known, or when they are old. It implements oidc.KeySet.
type keySet struct {
	cfg    Issuer
	client *http.Client
	algs   []jose.SignatureAlgorithm

	mu    sync.Mutex
	keys  []jose.JSONWebKey
	got   time.Time // when they came
	asked time.Time
	err   error         // of the last question
	wait  chan struct{} // closed when the question in flight is answered; nil without one
}

func newKeySet(cfg Issuer) *keySet {
	k := &keySet{cfg: cfg, client: noRedirects(cfg.Transport)}
	for _, a := range cfg.Algorithms {
		k.algs = append(k.algs, jose.SignatureAlgorithm(a))
	}
	return k
}

// silent reports whether the issuer has not given usable keys.
func (k *keySet) silent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err != nil
}

var errNoKey = errors.New("no key of the issuer verifies the token")

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(jwt, k.algs)
	if err != nil {
		return nil, err
	}
	if len(jws.Signatures) != 1 || !isAccess(jws.Signatures[0].Protected.ExtraHeaders) {
		return nil, errNoKey
	}
	kid := jws.Signatures[0].Header.KeyID
	keys, err := k.current(ctx, false)
	if err != nil {
		return nil, err
	}
	payload, named := try(jws, kid, keys)
	if payload == nil && !named {
		// The issuer may have new keys. A bad signature under a known one is just that.
		if keys, err = k.current(ctx, true); err != nil {
			return nil, err
		}
		payload, _ = try(jws, kid, keys)
	}
	if payload == nil {
		return nil, errNoKey
	}
	return payload, nil
}

// isAccess reports whether a JWT is of a kind that lets in, by its typ: one of no kind, one
// of all kinds, or an access token (RFC 9068). Others, such as logout+jwt, mean something
// else.
func isAccess(head map[jose.HeaderKey]any) bool {
	typ, there := head[jose.HeaderType]
	if !there {
		return true
	}
	name, _ := typ.(string)
	switch strings.TrimPrefix(strings.ToLower(name), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}

func try(jws *jose.JSONWebSignature, kid string, keys []jose.JSONWebKey) (payload []byte, named bool) {
	for i := range keys {
		if kid != "" && keys[i].KeyID != kid {
			continue
		}
		named = named || kid != ""
		if p, err := jws.Verify(&keys[i]); err == nil {
			return p, true
		}
	}
	return nil, named
}

// current returns the keys: those known while they are fresh, and with more set those the
// issuer has now, unless it was asked a moment ago.
func (k *keySet) current(ctx context.Context, more bool) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	now := k.cfg.Now()
	fresh := !k.got.IsZero() && now.Sub(k.got) < keysFresh
	if k.wait == nil && (!fresh || more) && (k.asked.IsZero() || now.Sub(k.asked) >= askPause) {
		k.asked, k.wait = now, make(chan struct{})
		go k.ask(k.wait)
	}
	wait := k.wait
	if usable := !k.got.IsZero() && now.Sub(k.got) < keysUsable; wait == nil || usable && !more {
		defer k.mu.Unlock()
		if !usable {
			return nil, fmt.Errorf("the issuer has given no keys: %w", cmpErr(k.err, errNoKey))
		}
		return k.keys, nil
	}
	k.mu.Unlock()
	select {
	case <-wait:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.got.IsZero() || now.Sub(k.got) >= keysUsable {
		return nil, fmt.Errorf("the issuer has given no keys: %w", cmpErr(k.err, errNoKey))
	}
	return k.keys, nil
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// ask asks the issuer for its keys. It belongs to no request: the one that came first
// may go.
func (k *keySet) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	keys, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err = err; err == nil {
		k.keys, k.got = keys, k.cfg.Now()
	}
	k.wait = nil
	close(done)
}

func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	where := k.cfg.JWKS
	if where == "" {
		var doc struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		if err := k.get(ctx, strings.TrimSuffix(k.cfg.URL, "/")+"/.well-known/openid-configuration", &doc); err != nil {
			return nil, err
		}
		if doc.Issuer != k.cfg.URL {
			return nil, fmt.Errorf("the issuer calls itself %s", quoted(doc.Issuer))
		}
		if !trustworthy(doc.JWKS) {
			return nil, errors.New("the issuer names no https address for its keys")
		}
		where = doc.JWKS
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, where, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxJWKSKeys {
		return nil, fmt.Errorf("the issuer has %d keys; at most %d are looked at", len(set.Keys), maxJWKSKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		// A key of a kind that we do not know is for other readers of the set.
		if key := (jose.JSONWebKey{}); key.UnmarshalJSON(raw) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") && !weak(key.Key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// leastRSA is how long an RSA key is at least, in bits (NIST SP 800-131A).
const leastRSA = 2048

// weak reports whether signatures under a key can be forged by who takes the trouble.
func weak(key any) bool {
	k, ok := key.(*rsa.PublicKey)
	return ok && k.N.BitLen() < leastRSA
}

func (k *keySet) get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the issuer answers %s", res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxJWKSBytes+1))
	if err != nil {
		return err
	}
	if len(b) > maxJWKSBytes {
		return errors.New("the issuer's answer has more than 1 MiB")
	}
	return json.Unmarshal(b, into)
}
