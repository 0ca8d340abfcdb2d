//go:build unix

package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Save copies the data of a server that does not run. GoBack takes the copy in place of the data,
// as a server that takes the place of another one and has not all of its commits.
func (s *Server) Save() error { return s.copied(s.data(), s.data()+"-saved") }

// GoBack takes the copy of Save in place of the data of a server that does not run.
func (s *Server) GoBack() error { return s.copied(s.data()+"-saved", s.data()) }

// Admit lets clients of a network show their password over TCP, from the next start on. Restart has to be
// told to listen there.
func (s *Server) Admit(network string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "host all all %s scram-sha-256\n", network)
	return errors.Join(err, f.Close())
}

func (s *Server) copied(from, to string) error {
	out, err := exec.Command("rm", "-rf", to).CombinedOutput()
	if err == nil {
		out, err = exec.Command("cp", "-a", from, to).CombinedOutput()
	}
	if err != nil {
		return fmt.Errorf("copying the data: %w: %s", err, out)
	}
	return nil
}
