//go:build !unix

package postgrestest

import "errors"

// Server is a private server, which this system cannot have.
type Server struct{}

// Start refuses.
func Start() (*Server, error) { return nil, errors.New("a private server needs a unix system") }

// URL, Through, Socket, Password, Restart, Kill, Quit and Stop are never reached.
func (*Server) URL() string             { return "" }
func (*Server) Through(string) string   { return "" }
func (*Server) Socket() string          { return "" }
func (*Server) Password() string        { return "" }
func (*Server) Restart(...string) error { return nil }
func (*Server) Kill()                   {}
func (*Server) Quit()                   {}
func (*Server) Stop()                   {}

// Save, GoBack and Admit are never reached.
func (*Server) Save() error        { return nil }
func (*Server) GoBack() error      { return nil }
func (*Server) Admit(string) error { return nil }
