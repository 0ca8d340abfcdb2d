package feeds

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// MaxReasonBytes bounds what is kept and shown of why a feed has no fresh value.
const MaxReasonBytes = 256

// Why says in one line why a fetch gave nothing: the details of typed errors, the
// outermost first, which hold no secret and no path of the host. What other errors say is
// for the log alone. It is "" for nil.
func Why(err error) string {
	if err == nil {
		return ""
	}
	var parts []string
	for e := new(messages.Error); errors.As(err, &e); err = e.Cause {
		if e.Detail != "" && (len(parts) == 0 || !strings.Contains(parts[len(parts)-1], e.Detail)) {
			parts = append(parts, e.Detail)
		}
	}
	if leaf := leafOf(err); leaf != "" {
		parts = append(parts, leaf)
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(strings.Join(parts, ": "), "\ufffd")), " ")
	return clip.Short(text, MaxReasonBytes-len("…"))
}

// leafOf returns what an error that is not typed is, where its text can be shown.
func leafOf(err error) string {
	var crash *PanicError
	var number syscall.Errno
	switch {
	case errors.As(err, &crash):
		return "the source crashed"
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.As(err, &number):
		return number.Error()
	}
	return ""
}
