package confine

import (
	"path/filepath"
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Reach is what a program that a manifest names may reach. A nil Reach is all that the host's
// user reaches.
type Reach struct {
	Sandbox Sandbox
	// Guard is everything but the host's own files. Otherwise programs read what they are made
	// of and Read, change a temporary folder and Write, and have the network as a Jail has it.
	Guard             bool
	Read, Write       []string
	Network, Loopback bool
	// Apart and Kept are those of a Jail. They are no part of what makes two programs one.
	Apart []string `json:"-"`
	Kept  []string `json:"-"`
	// Ready has jails that wait for programs; nil has none.
	Ready *Ready `json:"-"`
}

// Check returns why a program cannot be run so. The error is ERR_CONFIG with Field isolation,
// network or entrypoint; program is the whole path, or "".
func (r *Reach) Check(program string) error {
	bad := func(field, detail string) error {
		return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
	}
	if r == nil {
		return nil
	}
	if why := r.Sandbox.Missing(); why != "" {
		return bad("isolation", "the program would reach the files of the host: Landlock cannot keep them from it, because "+why+"; where the operator trusts the program with them, say isolation: none")
	}
	if r.Network && !r.Loopback && !r.Sandbox.Peers {
		return bad("network", "this host cannot keep programs with the network from this machine; say network: {loopback: true} where that is meant")
	}
	if program != "" {
		all := newParts(&Jail{Apart: r.Apart})
		real, err := filepath.EvalSymlinks(program)
		if err == nil && all.lies(real, apart) {
			return bad("entrypoint", filepath.Base(program)+" lies among the files of the host, which programs do not reach; keep the data directory elsewhere (--dir)")
		}
	}
	return nil
}

// Jail returns a jail for one start of a program, with variables of its environment. clean must
// be called once the program has ended.
func (r *Reach) Jail() (j *Jail, env []string, clean func(), err error) {
	if r == nil {
		return nil, nil, func() {}, nil
	}
	j = &Jail{Sandbox: r.Sandbox, Guard: r.Guard, Apart: r.Apart, Kept: r.Kept}
	if !r.Guard {
		j.Read, j.Write, j.Network, j.Loopback = slices.Clone(r.Read), slices.Clone(r.Write), r.Network, r.Loopback
		if r.Network {
			j.Read = append(j.Read, NetworkFiles()...)
		}
	}
	temp, clean, err := r.Ready.Place(j)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case r.Guard:
		return j, nil, clean, nil
	}
	return j, []string{"HOME=" + temp, "TMPDIR=" + temp}, clean, nil
}

// Rule says in words what is out of the program's reach.
func (r *Reach) Rule() string {
	if r.Guard {
		return "the host's own files are out of its reach, and folders in which they lie, such as the agent's, take no new files: a folder below takes them"
	}
	return "it reaches the agent's folder to read, a temporary folder, and what the manifest names"
}
