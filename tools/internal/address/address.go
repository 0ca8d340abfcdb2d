// Package address keeps addresses out of what a model is told.
package address

import (
	"errors"
	"net"
	"net/url"
)

// Hidden is the text of a transport's error without addresses: that of the request
// has arguments in it, and what a name resolves to is not the model's to know.
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
