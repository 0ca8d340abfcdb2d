// Package publicnet judges addresses: whether a connection to one leaves for the public internet.
// It judges what a name was resolved to, just before a connection is made, so that a name
// cannot change its meaning in between. It resolves and connects nothing itself.
package publicnet

import (
	"errors"
	"net/netip"
	"slices"
)

// ErrPrivate says that an address is not on the public internet.
var ErrPrivate = errors.New("the address is in a private network or not a host's")

// global6 is the block from which IANA assigns addresses of hosts. All other IPv6 addresses
// have a special purpose or none: loopback, IPv4 in another form (::/96, ::ffff:0:0:0/96,
// 64:ff9b::/96), segments, private and local networks.
var global6 = netip.MustParsePrefix("2000::/3")

// special are the other blocks of IANA's two registries of special-purpose addresses,
// where the methods of netip.Addr do not know them. Anycast sinks (AS112, AMT) are among
// them: a network may have its own.
var special = func() (all []netip.Prefix) {
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
		"192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}()

// Judge returns ErrPrivate for an address, host and port, that is not on the public internet.
func Judge(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrPrivate
	}
	ip := at.Addr().Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Is6() && !global6.Contains(ip) || slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return ErrPrivate
	}
	return nil
}
