// Package remote is the host's own and no part of the public API: it may change in any release.
//
// It gets values of feeds from other hosts (docs/spec/extensions.md §10): one request for each
// fetch, to hosts that the operator lists, within two seconds.
//
// Invariants:
//   - nothing but a listed origin is asked, and no redirect is followed;
//   - the address is judged after it was resolved: one in a private network is asked only if it
//     is listed itself, plain HTTP goes to this machine alone;
//   - an answer over the limit is not read, nor is the rest of one that says less than it holds;
//   - every request says that its value is on its way to another host already, so that the peer
//     gives nothing that it had from a third;
//   - the token is read from the environment for each request, and is in no error.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
)

const (
	// Deadline bounds a fetch, from the resolution of the name to the last byte.
	Deadline = 2 * time.Second
	// MaxBytes bounds an answer: a value of the largest size, quoted.
	MaxBytes = 2*feeds.MaxValueBytes + 64<<10

	maxHeaderBytes = 64 << 10
	maxTagBytes    = 128
	maxOrigin      = 256
)

// HopHeader counts the hosts that a value of a feed has come through.
const HopHeader = "Stile-Feed-Hop"

// Config makes a Client.
type Config struct {
	// Allow lists the hosts: origins such as https://host:8471, and addresses or prefixes such
	// as 10.0.0.0/8, in which their names may resolve to private networks. An origin that is an
	// address lists that address, and localhost those of this machine.
	Allow []string
	// CA has certificates, in PEM, that vouch for hosts beside those of the system.
	CA []byte
	// Secret reads a variable of the environment.
	Secret func(name string) string
}

// Client asks other hosts. It is safe for concurrent use, and holds no connection open.
type Client struct {
	origins  []string
	networks []netip.Prefix
	secret   func(string) string
	http     http.Client
}

// New makes a client. The error is ERR_CONFIG: an entry that is neither, or a CA without a
// certificate.
func New(cfg Config) (*Client, error) {
	c := &Client{secret: cfg.Secret}
	for i, entry := range cfg.Allow {
		if err := c.allow(entry); err != nil {
			err.Field = "remotes[" + strconv.Itoa(i) + "]"
			return nil, err
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CA != nil {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(cfg.CA) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "ca", Detail: "no certificate in PEM"}
		}
		config.RootCAs = roots
	}
	// A connection is not reused: a session must not see what another left on it.
	transport := func(plain bool) *http.Transport {
		dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return c.judge(address, plain) }}
		return &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: config, MaxResponseHeaderBytes: maxHeaderBytes, DisableKeepAlives: true, DisableCompression: true}
	}
	c.http = http.Client{
		Transport:     byScheme{secure: transport(false), plain: transport(true)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// byScheme has a transport for each scheme: what plain HTTP may reach is less.
type byScheme struct{ secure, plain *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t byScheme) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.secure.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

func (c *Client) allow(entry string) *messages.Error {
	if network, err := netip.ParsePrefix(entry); err == nil {
		c.networks = append(c.networks, network.Masked())
		return nil
	}
	if ip, err := netip.ParseAddr(entry); err == nil {
		c.networks = append(c.networks, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	origin, ok := feeds.OriginOf(entry)
	if !ok {
		return &messages.Error{Code: messages.ErrConfig, Detail: strconv.Quote(entry) + " is no origin such as https://host:8471 and no network such as 10.0.0.0/8"}
	}
	c.origins = append(c.origins, origin)
	u, err := url.Parse(origin)
	if err != nil {
		return nil // OriginOf made it
	}
	if u.Hostname() == "localhost" {
		c.networks = append(c.networks, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	} else if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		c.networks = append(c.networks, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
	}
	return nil
}

// Allows reports whether an origin is listed.
func (c *Client) Allows(origin string) bool { return c != nil && slices.Contains(c.origins, origin) }

var errPlain = errors.New("plain HTTP goes to this machine alone; use https")

// judge returns why a connection to an address must not be made, nil if it may.
func (c *Client) judge(address string, plain bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return publicnet.ErrPrivate
	}
	ip := at.Addr().Unmap().WithZone("")
	if plain && !ip.IsLoopback() {
		return errPlain
	}
	if slices.ContainsFunc(c.networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	return publicnet.Judge(address)
}

// answer is what a host says of feeds, as far as it is read.
type answer struct {
	Feeds []struct {
		ID      string `json:"id"`
		Value   string `json:"value"`
		Stale   bool   `json:"stale"`
		Failure string `json:"failure"`
	} `json:"feeds"`
	Session     string `json:"session"`
	Agent       string `json:"agent"`
	Incarnation string `json:"incarnation"`
	Seq         int64  `json:"seq"`
}

// Fetch implements feeds.Peers.
func (c *Client) Fetch(ctx context.Context, src feeds.Source, tag string) (v feeds.Value, same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	resp, p, err := c.ask(ctx, src, tag, "")
	if err != nil || resp == nil {
		return v, err == nil, err
	}
	defer resp.Body.Close()
	if resp.ContentLength > MaxBytes {
		return v, false, failed(feeds.ReasonTooLarge, strconv.FormatInt(resp.ContentLength, 10)+" bytes, more than "+strconv.Itoa(MaxBytes))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBytes+1))
	switch {
	case len(body) > MaxBytes:
		return v, false, failed(feeds.ReasonTooLarge, "more than "+strconv.Itoa(MaxBytes)+" bytes")
	case err != nil:
		return v, false, unanswered(ctx, err)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return v, false, failed(feeds.ReasonNotFound, "the answer is no list of feeds")
	}
	agent, _, _ := p.SID()
	if agent != "" && a.Agent != agent || agent == "" && a.Session != p.Session {
		return v, false, failed(feeds.ReasonNotFound, "the token's session is another one")
	}
	return c.value(&a, p.Feed, resp.Header.Get("Etag"))
}

// Waits of a request for a change: how long the peer is asked to wait, and how long its answer is
// waited for.
const (
	peerWaits = 25
	waits     = peerWaits*time.Second + Deadline
)

// Wait implements feeds.Peers.
func (c *Client) Wait(ctx context.Context, src feeds.Source, tag string) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, waits)
	defer cancel()
	resp, _, err := c.ask(ctx, src, tag, "&wait="+strconv.Itoa(peerWaits))
	if err != nil || resp == nil {
		return false, err
	}
	return true, resp.Body.Close()
}

// ask makes a request. The answer has the status 200; it is nil for one that says that the value
// under tag is still the peer's.
func (c *Client) ask(ctx context.Context, src feeds.Source, tag, more string) (resp *http.Response, p feeds.Peer, err error) {
	p, ok := src.Peer()
	if !ok || !c.Allows(p.Origin) {
		return nil, p, failed(feeds.ReasonNotFound, "the host is not in feeds.remotes")
	}
	token := strings.TrimSpace(c.secret(p.Secret))
	if token == "" {
		return nil, p, failed(feeds.ReasonUnauthenticated, p.Secret+" is not set")
	}
	_, user, id := p.SID()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Origin+"/v1/sessions/"+url.PathEscape(id)+"/feeds?values="+url.QueryEscape(p.Feed+",")+more, nil)
	if err != nil {
		return nil, p, failed(feeds.ReasonNotFound, "the source makes no address")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set(HopHeader, "1")
	if user != "" {
		req.Header.Set("X-Stile-User", user)
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err = c.http.Do(req)
	if err != nil {
		return nil, p, unanswered(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, p, nil
	}
	_ = resp.Body.Close() // it is not read
	switch status := resp.StatusCode; {
	case status == http.StatusNotModified && tag != "":
		return nil, p, nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		err = failed(feeds.ReasonUnauthenticated, "the peer does not take the token: "+resp.Status)
	case status >= 300 && status < 400:
		err = failed(feeds.ReasonNotFound, "the peer redirects, and no redirect is followed")
	case status == http.StatusRequestEntityTooLarge:
		err = failed(feeds.ReasonTooLarge, "the peer says so")
	case status == http.StatusTooManyRequests || status >= 500:
		err = failed(feeds.ReasonTimeout, "the peer cannot answer now: "+resp.Status)
	default:
		err = failed(feeds.ReasonNotFound, "the peer answers "+resp.Status)
	}
	return nil, p, err
}

// value takes the value of a feed from an answer.
func (c *Client) value(a *answer, id, tag string) (v feeds.Value, same bool, err error) {
	for i := range a.Feeds {
		f := &a.Feeds[i]
		if f.ID != id {
			continue
		}
		switch f.Failure {
		case "":
		case feeds.ReasonForwarded:
			return v, false, failed(feeds.ReasonForwarded, "the peer has it from another host itself")
		case feeds.ReasonTooLarge, feeds.ReasonNotFound:
			return v, false, failed(f.Failure, "the peer says so")
		default:
			return v, false, failed(feeds.ReasonTimeout, "the peer has no value now")
		}
		if !jsontext.Value(f.Value).IsValid() {
			return v, false, failed(feeds.ReasonNotFound, "the value is no JSON")
		}
		v = feeds.Value{JSON: f.Value, Failed: f.Stale}
		if len(tag) <= maxTagBytes {
			v.Tag = tag
		}
		if origin := a.Session + "@" + a.Incarnation + ", " + strconv.FormatInt(a.Seq, 10); len(origin) <= maxOrigin {
			v.Origin = strings.ToValidUTF8(origin, "\ufffd")
		}
		return v, false, nil
	}
	return v, false, failed(feeds.ReasonNotFound, "the session has no such feed, or it is disabled")
}

// failed is a failure whose text begins with its reason.
func failed(reason, detail string) error {
	e := &messages.Error{Code: messages.ErrConfig, Reason: reason, Detail: reason + ": " + detail}
	if reason == feeds.ReasonTimeout {
		e.Code = messages.ErrTimeout
	}
	return e
}

// unanswered is the failure of a request without an answer. What the error says of addresses
// is for the log.
func unanswered(ctx context.Context, err error) error {
	detail := "the peer does not answer"
	var number syscall.Errno
	switch {
	case ctx.Err() != nil:
		detail = "no answer within " + Deadline.String()
	case errors.Is(err, publicnet.ErrPrivate):
		return withCause(failed(feeds.ReasonNotFound, "the host is in a private network that feeds.remotes does not list"), err)
	case errors.Is(err, errPlain):
		return withCause(failed(feeds.ReasonNotFound, errPlain.Error()), err)
	case errors.As(err, &number):
		detail += ": " + number.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		detail = "the answer ends before its end"
	}
	return withCause(failed(feeds.ReasonTimeout, detail), err)
}

func withCause(err, cause error) error {
	var e *messages.Error
	if errors.As(err, &e) {
		e.Cause = cause
	}
	return err
}
