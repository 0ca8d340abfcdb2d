package workspace

import (
	"path"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/tools/catalog"
)

const (
	maxCommandBytes = 32 << 10
	maxWords        = 1024
)

// splitCommand splits a command line into the words of one program (docs/spec/cogency.md §14).
// No shell sees the line, so operators of a shell are refused and not passed on as text.
// Quotes work as in a shell. Errors are for the model.
func splitCommand(line string) ([]string, error) {
	if len(line) > maxCommandBytes {
		return nil, catalog.Failed("the command has more than %d bytes", maxCommandBytes)
	}
	s := splitter{}
	for i, r := range line {
		if s.plain() && strings.HasPrefix(line[i:], "&&") {
			return nil, catalog.Failed("there is no &&: calls are independent, make one for each command; cwd says in which folder it runs")
		}
		if err := s.next(r); err != nil {
			return nil, err
		}
	}
	switch {
	case s.quote != 0:
		return nil, catalog.Failed("a %c is not closed", s.quote)
	case s.escaped:
		return nil, catalog.Failed("nothing follows the last \\")
	}
	s.end()
	switch {
	case len(s.words) == 0:
		return nil, catalog.Failed("the command is empty")
	case len(s.words) > maxWords:
		return nil, catalog.Failed("the command has more than %d words", maxWords)
	}
	return s.words, nil
}

// splitter reads a command line, character by character.
type splitter struct {
	words   []string
	word    strings.Builder
	inWord  bool
	quote   rune // the open quote, or 0
	escaped bool // the next character is taken as it is
}

// operators are the operators of a shell. Their full-width forms, which look the same, are
// refused as well.
const operators = ";&|<>`；＆｜＜＞｀"

// plain reports whether the next character is neither quoted nor escaped.
func (s *splitter) plain() bool { return s.quote == 0 && !s.escaped }

func (s *splitter) next(r rune) error {
	switch {
	case r == '\n' || r == '\r' || r == 0 || r == '\u0085' || r == '\u2028' || r == '\u2029':
		return catalog.Failed("a command is one line without NUL; each call runs one program")
	case (r == '$' || r == '＄') && s.quote != '\'':
		return catalog.Failed("$ is not expanded; write the value, or put it in single quotes")
	case s.escaped:
		if s.quote == '"' && !strings.ContainsRune(`"\`+"`", r) {
			s.word.WriteByte('\\') // as a shell keeps it there
		}
		s.escaped = false
		s.word.WriteRune(r)
	case r == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case s.quote != 0 && r == s.quote:
		s.quote = 0
	case s.quote != 0:
		s.word.WriteRune(r)
	case r == '\'' || r == '"':
		s.quote, s.inWord = r, true
	case strings.ContainsRune(operators, r):
		return catalog.Failed("there is no shell: %c is not available; each call runs one program", r)
	case r == ' ' || r == '\t':
		s.end()
	default:
		s.inWord = true
		s.word.WriteRune(r)
	}
	return nil
}

func (s *splitter) end() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
		s.word.Reset()
		s.inWord = false
	}
}

// deniedPrograms are never run, wherever they are: they change the user, the system, or the
// meaning of a command.
var deniedPrograms = []string{
	"sudo", "su", "doas", "pkexec", "runuser", "setpriv", "capsh", "chroot", "nsenter", "unshare", "newgrp", "sg", // privilege
	"mkfs", "fdisk", "sfdisk", "parted", "wipefs", "mount", "umount", "swapon", "swapoff", "losetup", "dd", "shred", // discs
	"shutdown", "reboot", "halt", "poweroff", "init", "telinit", "systemctl", "service", "kexec", "insmod", "modprobe", "rmmod", "sysctl", // the system
	"iptables", "ip6tables", "nft", "crontab", "at", "batch", "useradd", "userdel", "usermod", "passwd", "chpasswd", "kill", "killall", "pkill",
	"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "ash", "busybox", "toybox", // interpreters of command lines
}

// judgeWords checks the words of a command, the program included, so that an attempt fails
// early and with a reason. The kernel confines the command; these rules do not.
func judgeWords(words []string, access Access) error {
	name := path.Base(words[0])
	if slices.Contains(deniedPrograms, name) || strings.HasPrefix(name, "mkfs.") {
		return catalog.Failed("%s is not available; each call runs one program, and none that changes the system or reads command lines", clip.Excerpt(name))
	}
	if access == AccessSystem {
		return nil
	}
	for _, w := range words {
		// --flag=path too
		for _, p := range append([]string{w}, strings.SplitN(w, "=", 2)[1:]...) {
			if strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
				return catalog.Failed("path outside sandbox: %s", clip.Excerpt(w))
			}
		}
	}
	return nil
}
