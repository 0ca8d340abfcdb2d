// Package address keeps network addresses out of texts for models.
package address

import (
	"errors"
	"net"
	"net/url"
)

// Hidden returns the text of a transport's error without addresses: the address of the
// request has arguments in it, and a model must not learn to what a name resolves.
func Hidden(err error) string {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
