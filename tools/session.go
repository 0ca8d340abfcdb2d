package tools

import (
	"context"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// SessionOutput gives session.output(sid): the OUTPUT of another session's last
// decided turn, for the sessions that grants opens (docs/spec/aeiou.md §14). A bare id
// means a session of the same tenant and user. Every attempt that names a session
// is audited, allowed or not; where nothing can be audited nothing is allowed. A
// denial is code 1003 and says the same whether or not the session exists; a
// granted one that does not exist is code 21.
func SessionOutput(grants Grants) Tool {
	grants = append(Grants(nil), grants...)
	return Tool{
		Name: "session.output", Class: messages.ReadOnly,
		Description: "The last OUTPUT of another session, if it is granted.",
		Params:      []neuroscript.Param{req("sid", "string")},
		Run: func(ctx context.Context, c *Call) (neuroscript.Value, error) {
			return sessionOutput(ctx, c, grants)
		},
	}
}

func sessionOutput(ctx context.Context, c *Call, grants Grants) (neuroscript.Value, error) {
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
	if c.Session == nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "this host offers no sessions to read")
	}
	out, found, err := c.Session.Output(ctx, to)
	if err != nil {
		return neuroscript.Value{}, err
	}
	if !found {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "there is no session %s", to.SID())
	}
	return neuroscript.String(strings.ToValidUTF8(out, "\uFFFD")), nil
}
