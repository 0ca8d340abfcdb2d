//go:build unix

package postgrestest

import (
	"fmt"
	"os/exec"
)

// Save copies the data of a server that does not run. GoBack takes the copy in place of the data,
// as a server that takes the place of another one and has not all of its commits.
func (s *Server) Save() error { return s.copied(s.data(), s.data()+"-saved") }

// GoBack takes the copy of Save in place of the data of a server that does not run.
func (s *Server) GoBack() error { return s.copied(s.data()+"-saved", s.data()) }

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
