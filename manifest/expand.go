package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// maxExpandedBytes bounds what variables put into one file, all together:
// variables that name variables would double with every line.
const maxExpandedBytes = 1 << 20

// expand replaces ${NAME}, ${NAME:-text} and $$ in a text (docs/spec/streaming.md §7.1).
// What was put in is not read again.
func (l *loader) expand(s string) (string, *messages.Error) {
	if l.raw || !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch s = s[i+1:]; s[0] {
		case '$':
			b.WriteByte('$')
			s = s[1:]
		case '{':
			body, rest, ok := strings.Cut(s[1:], "}")
			if !ok {
				return "", refuse(ReasonBadValue, "${ has no }")
			}
			v, err := l.variable(body)
			if err != nil {
				return "", err
			}
			if l.grown += len(v); l.grown > maxExpandedBytes {
				return "", refuse(ReasonBadValue, "variables put more than %d bytes into this file", maxExpandedBytes)
			}
			b.WriteString(v)
			s = rest
		default:
			b.WriteByte('$')
		}
	}
}

// variable returns what the body of ${…} stands for. Errors name the variable and
// never a value.
func (l *loader) variable(body string) (string, *messages.Error) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !shapes["env"].re.MatchString(name) {
		return "", refuse(ReasonBadValue, "%q is not %s", clip.Quoted(name), shapes["env"].words)
	}
	v, ok := l.vars[name]
	allowed := ok || slices.Contains(l.allow, name)
	if !ok && allowed {
		v, ok = l.lookup(name)
	}
	switch {
	case ok && (v != "" || !hasFallback):
		return v, nil
	case hasFallback:
		return fallback, nil
	case allowed && l.undefined:
		return "", nil
	case !allowed:
		return "", refuse(ReasonUndefinedEnv, "%s is neither in environment.allow nor in environment.variables", name)
	}
	return "", refuse(ReasonUndefinedEnv, "%s is not set and has no default", name)
}

func refuse(reason, format string, args ...any) *messages.Error {
	return &messages.Error{Code: messages.ErrConfig, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
