package confine

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// MinLandlockABI is what shell needs: older kernels let a confined process truncate any
// file that its user may write.
const MinLandlockABI = 3

// Sandbox is what the kernel of a host can hold a command to, as Probe finds it.
type Sandbox struct {
	ABI    int    // version of Landlock; 0 without it
	Filter bool   // system calls can be filtered
	Asks   bool   // the kernel asks about those that a filter cannot judge
	Peers  bool   // and about peers of sockets, which this process may take to look at
	Mounts bool   // programs can have a mount namespace of their own
	Why    string // Landlock is not there
}

// Missing says why programs cannot be confined by Landlock, or "".
func (s Sandbox) Missing() string {
	switch {
	case s.ABI >= MinLandlockABI && s.Filter:
		return ""
	case s.Why != "":
		return s.Why
	case s.ABI >= MinLandlockABI: // a program would have the host by the thread that starts it
		return "without a filter of system calls, which this processor or kernel does not have, a program reaches the host"
	}
	return fmt.Sprintf("its version here is %d, and %d is needed (Linux 6.2)", s.ABI, MinLandlockABI)
}

// Err is nil when commands can be confined, and otherwise ERR_CONFIG with Field
// shell.isolation, which says what is missing and what to do.
func (s Sandbox) Err() error {
	why := s.Missing()
	if why == "" {
		return nil
	}
	return &messages.Error{
		Code: messages.ErrConfig, Field: "shell.isolation",
		Detail: "the tool shell confines commands by Landlock: " + why + "; on a host whose operator does without, say isolation: none",
	}
}

// Layers says in a line what confines a command, for people.
func (s Sandbox) Layers() string {
	if s.Err() != nil {
		return "none"
	}
	layers := []string{fmt.Sprintf("Landlock %d: files", s.ABI)}
	if s.ABI >= 4 {
		layers = append(layers, "TCP")
	}
	if s.ABI >= 6 {
		layers = append(layers, "signals")
	}
	if s.Filter {
		layers = append(layers, "no sockets")
	}
	if s.Asks {
		layers = append(layers, "modes and times", "processes")
	}
	if s.Peers {
		layers = append(layers, "peers")
	}
	if s.Mounts {
		layers = append(layers, "mounts")
	}
	return strings.Join(layers, ", ")
}

// Jail is what one command is confined to, by a Sandbox whose Err is nil.
type Jail struct {
	Sandbox Sandbox
	Read    []string // absolute paths: read and execute, with all that is below
	Write   []string // everything but making devices
	// ReadOnly and Hidden are parts of Read and Write: absolute paths without symbolic links,
	// of files and folders that exist. The program can only read those of ReadOnly, and finds
	// those of Hidden empty. Both need Sandbox.Mounts, or Bubblewrap.
	ReadOnly, Hidden []string
	// Bubblewrap is the program that makes the jail, by namespaces, in place of Landlock; "" is
	// none. Sandbox is not needed then. Network without Loopback cannot be had.
	Bubblewrap string
	// User is whom the program runs as; nil is the host's user. The host must be root, with
	// Sandbox.Mounts, and Write have no symbolic links.
	User *User
	// Dir is the folder that the program begins in, held open; nil leaves it to the command.
	Dir *os.File
	// Network lets programs open sockets of the internet, to other machines. Loopback lets
	// them reach this machine and link-local addresses too.
	Network, Loopback bool
	// Guard opens what the host's user reaches, the network included, in place of Read, Write
	// and Network.
	Guard bool
	// Apart are files and folders, with all below them, that a program can neither read nor
	// change wherever they lie in its folders; Kept are those that it can only read. They are
	// absolute paths, which need not exist; one that ends in * stands for the files that begin
	// so. A folder in which one of Apart lies can be listed, and takes no new files.
	Apart, Kept []string

	peers peers // judged without Loopback
	parts parts // of Apart and Kept, once the rules are made
	// What the rules rest on, once they are made.
	opened    []opened
	piecewise bool       // a folder was opened entry by entry
	kept      *keptRules // of a guard, if they are kept

	seat  *seat // waits for the program
	begun bool  // a program that needs no mount namespace has begun in it
}

// User is a user of the machine that programs run as.
type User struct{ UID, GID uint32 }

// FindUser returns a user by name or number. It must not be root. The error is ERR_CONFIG.
func FindUser(name string) (*User, error) {
	bad := func(detail string) (*User, error) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "program_user", Detail: detail}
	}
	is, err := user.LookupId(name)
	if err != nil {
		is, err = user.Lookup(name)
	}
	var uid, gid uint64
	if err != nil { // a number without an entry will do: its group has the same number
		if uid, err = strconv.ParseUint(name, 10, 31); err != nil {
			return bad("this machine has no user " + strconv.Quote(name))
		}
		gid = uid
	} else {
		var failed error
		uid, err = strconv.ParseUint(is.Uid, 10, 32)
		gid, failed = strconv.ParseUint(is.Gid, 10, 32)
		if err != nil || failed != nil {
			return bad("the user " + strconv.Quote(name) + " has no number")
		}
	}
	if uid == 0 || gid == 0 {
		return bad("programs must not run as root: name a user who owns nothing")
	}
	return &User{UID: uint32(uid), GID: uint32(gid)}, nil
}

// peers are the addresses that may be spoken to. The zero value is the strict one.
type peers struct{ own bool } // own: this machine's, in tests of how calls are done
