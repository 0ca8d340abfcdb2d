package catalog

import (
	"context"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// SessionOutput returns the tool session.output(sid): the OUTPUT of the last decided turn of
// another session, if grants allow it (docs/spec/aeiou.md §14). A bare id means a session of
// the same tenant and user. Every attempt that names a session is audited, allowed or not;
// without an audit log every attempt is denied. A denial is code 1003, with the same text
// whether or not the session exists; a granted session that does not exist is code 21.
func SessionOutput(grants Grants) tools.Tool {
	grants = append(Grants(nil), grants...)
	return tools.Tool{
		Name: "session.output", Class: messages.ReadOnly,
		Description: "The last OUTPUT of another session, if it is granted.",
		Params:      []neuroscript.Param{{Name: "sid", Type: "string"}},
		Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			return sessionOutput(ctx, c, grants)
		},
	}
}

func sessionOutput(ctx context.Context, c *tools.Call, grants Grants) (neuroscript.Value, error) {
	sid, err := c.RequireText(0, "sid")
	if err != nil {
		return neuroscript.Value{}, err
	}
	from, err := messages.ParseSID(c.SID)
	if err != nil {
		return neuroscript.Value{}, err
	}
	to := messages.SessionKey{Tenant: from.Tenant, User: from.User, ID: sid}
	if strings.Contains(sid, ":") {
		to, err = messages.ParseSID(sid)
	} else {
		err = to.Validate()
	}
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "argument sid: want an id or tenant:user:id")
	}
	ok, why := grants.Allows(from, to, AccessRead)
	if c.Audit == nil {
		ok = false
	} else {
		c.Audit(messages.Audit{Who: from.SID(), What: "session.output " + to.SID(), Allowed: ok, Text: why})
	}
	if !ok {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeDenied, "session %s is not open to this one", to.SID())
	}
	if c.Host.Session == nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "this host offers no sessions to read")
	}
	out, found, err := c.Host.Session.Output(ctx, to)
	if err != nil {
		return neuroscript.Value{}, err
	}
	if !found {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "there is no session %s", to.SID())
	}
	return neuroscript.String(strings.ToValidUTF8(out, "\uFFFD")), nil
}

// TimeNow returns the tool time.now(), which returns now(). It is an action, so that a
// replay sees the recorded instant.
func TimeNow(now func() time.Time) tools.Tool {
	return tools.Tool{
		Name: "time.now", Class: messages.ReadOnly, Returns: "timedate",
		Description: "The current time.",
		Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
			return neuroscript.TimeDate(now()), nil
		},
	}
}

// DemoPanic returns demo.panic(message), a tool that panics. Examples, the gallery and
// end-to-end tests call it to show that the turn ends in HALT(ERR_CRASH) and the session
// lives on (docs/spec/neuroscript.md §8.3). It is in no default set.
func DemoPanic() tools.Tool {
	return tools.Tool{
		Name: "demo.panic", Class: messages.ReadOnly,
		Description: "Panics with the message, to show what the host makes of it.",
		Params:      []neuroscript.Param{{Name: "message", Type: "string"}},
		Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			message, err := c.RequireText(0, "message")
			if err != nil {
				return neuroscript.Value{}, err
			}
			panic("demo.panic: " + message)
		},
	}
}
