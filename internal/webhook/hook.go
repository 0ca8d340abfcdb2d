// Package webhook is the host's own and no part of the public API: it may change in any release.
//
// It tells other services what has happened in sessions, by HTTP requests that are signed as the
// Standard Webhooks convention has it.
//
// One idea: an event is a record of the journal, and its id is made of the place of the record. So
// the journal is the queue that lasts, and what is kept here is how far it has been worked off.
//
// Invariants:
//   - an event that was offered is delivered, dead or still to be sent, also after a crash: what the
//     file of the state does not know is offered again from the journal, with the same id;
//   - the address is judged after its name was resolved: only one on the public internet is asked,
//     unless its network is listed; plain HTTP goes to listed networks alone; no redirect is
//     followed, and no proxy is used;
//   - what waits and what is dead is bounded for each tenant; an endpoint that does not answer holds
//     up no other one, nor a tenant's events those of another tenant;
//   - no secret and no URL is in an error, in the log, or in the file of the state.
//
// What it does not do: decide what an event is; the host makes them of records. Order is not kept.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
)

// The types of events.
const (
	RunEnded        = "run.ended"
	ApprovalWaiting = "approval.waiting"
)

// Types are the types of events.
func Types() []string { return []string{RunEnded, ApprovalWaiting} }

// Bounds of what an operator says.
const (
	maxHooks   = 64
	maxName    = 32
	maxURL     = 2048
	minSecret  = 24 // bytes, as the convention has it
	maxSecret  = 64
	maxSecrets = 4
)

// Hook is an endpoint and what it wants to be told.
type Hook struct {
	Name string // letters, digits and hyphens; lists and metrics have it
	URL  string
	// Events are types of events, none being all; Tenants likewise.
	Events, Tenants []string
	// Networks are addresses and prefixes, such as 10.0.0.0/8, that the endpoint may have beside
	// public ones.
	Networks []string
	// Secrets are those of signatures, each whsec_ and base64. Each of them signs, so that a
	// receiver can go over from one to the next.
	Secrets []string
}

// endpoint is a Hook that was checked.
type endpoint struct {
	Hook
	url      *url.URL
	networks []netip.Prefix
	secrets  [][]byte
}

// Check reports whether hooks can be meant. Errors are ERR_CONFIG, and have no secret and no URL.
func Check(hooks []Hook) error {
	_, err := compile(hooks)
	return err
}

func compile(hooks []Hook) (map[string]*endpoint, error) {
	if len(hooks) > maxHooks {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "webhooks", Detail: "there may be " + strconv.Itoa(maxHooks)}
	}
	all := map[string]*endpoint{}
	for _, h := range hooks {
		e := &endpoint{Hook: h}
		field, detail := e.check()
		if all[h.Name] != nil {
			field, detail = "", "two of them have this name"
		}
		if detail != "" {
			where := "webhooks." + h.Name
			if field != "" {
				where += "." + field
			}
			return nil, &messages.Error{Code: messages.ErrConfig, Field: where, Detail: detail}
		}
		all[h.Name] = e
	}
	return all, nil
}

// check fills in the endpoint; detail says what is wrong with which field, or is "".
func (e *endpoint) check() (field, detail string) {
	if e.Name == "" || len(e.Name) > maxName || strings.Trim(e.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", "want a name of lower-case letters, digits and hyphens, " + strconv.Itoa(maxName) + " at most"
	}
	for _, n := range e.Networks {
		network, err := netip.ParsePrefix(n)
		if ip, bad := netip.ParseAddr(n); bad == nil {
			network, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return "networks", strconv.Quote(n) + " is no network; want one such as 10.0.0.0/8"
		}
		e.networks = append(e.networks, network.Masked())
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil, len(e.URL) > maxURL, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.User != nil, u.Fragment != "":
		return "url", "want an address such as https://hooks.example.com/stile"
	case u.Scheme == "http" && len(e.networks) == 0:
		return "url", "plain HTTP goes to listed networks alone; want https, or list the network in networks"
	}
	e.url = u
	for _, t := range e.Events {
		if !slices.Contains(Types(), t) {
			return "events", strconv.Quote(t) + " is no type of event; there are " + strings.Join(Types(), ", ")
		}
	}
	if len(e.Secrets) == 0 || len(e.Secrets) > maxSecrets {
		return "secret", "want a secret, and " + strconv.Itoa(maxSecrets) + " at most: whsec_ and the base64 of 24 to 64 random bytes"
	}
	for _, s := range e.Secrets {
		text, ok := strings.CutPrefix(s, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
			return "secret", "want whsec_ and the base64 of 24 to 64 random bytes" // what it is instead is not told
		}
		e.secrets = append(e.secrets, key)
	}
	return "", ""
}

// wants reports whether the endpoint is told of events of a type and tenant.
func (e *endpoint) wants(kind, tenant string) bool {
	return (len(e.Events) == 0 || slices.Contains(e.Events, kind)) && (len(e.Tenants) == 0 || slices.Contains(e.Tenants, tenant))
}

// judge decides on an address, host and port, that a name was resolved to.
func (e *endpoint) judge(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil {
		ip := at.Addr().Unmap().WithZone("")
		if slices.ContainsFunc(e.networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return nil
		}
	}
	if e.url.Scheme != "https" {
		return publicnet.ErrPrivate
	}
	return publicnet.Judge(address)
}

// sign returns the header webhook-signature of a message.
func sign(secrets [][]byte, id string, at time.Time, body string) string {
	var all []string
	for _, key := range secrets {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
