package standard

import (
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// userdataTools is the group userdata.
func userdataTools() []tools.Tool {
	return []tools.Tool{{
		Name: "userdata.get", Class: messages.Pure,
		Description: "The member of USERDATA at a dotted path, such as fields.goal or fields.rows.0; nil if there is none.",
		Params:      []neuroscript.Param{req("path", "string")},
		Pure: func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			return lookupPath(c.Userdata(), str(args[0])), nil
		},
	}}
}

// lookupPath follows a path of keys, and of indices where it meets a list. A path
// that leads nowhere gives nil, as a missing key does.
func lookupPath(v neuroscript.Value, path string) neuroscript.Value {
	for more := true; more; {
		var step string
		step, path, more = strings.Cut(path, ".")
		if l, ok := v.AsList(); ok {
			i, ok := listIndex(step, len(l))
			if !ok {
				return neuroscript.Value{}
			}
			v = l[i]
			continue
		}
		next, ok := v.MapGet(step)
		if !ok {
			return neuroscript.Value{}
		}
		v = next
	}
	return v
}

// listIndex reads a plain decimal index below n.
func listIndex(s string, n int) (int, bool) {
	if s == "" || len(s) > 9 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	i := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int(c-'0')
	}
	return i, i < n
}
