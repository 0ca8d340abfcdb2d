// Package js holds the JavaScript client of a host, for those who serve it.
//
// The client itself is stile.js: one ES module without dependencies. It is not written
// in Go because it runs in browsers; it is in a Go package so that a binary can carry it.
package js

import _ "embed"

// Source is the module. It must not be changed.
//
//go:embed stile.js
var Source []byte
