package catalog

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// KeyValueRelic is a relic that keeps JSON values by key in its session. Its operations are
// those of turn.RelicOperations.
type KeyValueRelic struct {
	Name       string
	Summary    string
	Operations []string // values of the parameter operation
	Limits     messages.RelicLimits
	Timeout    time.Duration
	Scope      string // messages.ScopeUser or ScopeTenant; "" for the session
	// Lasting is the first version of the relic: set takes no ttl, and the operation must
	// be named.
	Lasting bool
}

type (
	// Host is tools.Call.Host: what the host's own tools know of their call.
	Host = seam.Host
	// KeepCall is one operation on a KeyValueRelic, as Host.Keep takes it.
	KeepCall = seam.KeepCall
	// FeedCall is a fetch of a feed of an agent, as Host.Feed has it.
	FeedCall = seam.FeedCall
)

// KeyValue returns the target of a key-value relic. A call that a crash cut off is repeated under
// its key, which changes nothing twice: so that of a session is idempotent. That of a user or
// tenant is keyed, because its changes are in another journal than the action.
func KeyValue(s KeyValueRelic) *Executor {
	selects := oneOf(operation, s.Operations)
	selects.Required = true
	summary := s.Summary
	if summary != "" {
		summary += " "
	}
	set := "set (key, value, expect?)"
	params := Parameters{
		selects,
		{Name: "key", Type: "string"},
		{Name: "value"},
		{Name: "expect", Description: "set only if this is there; null for nothing"},
		{Name: "by", Type: "integer"},
		{Name: "prefix", Type: "string"},
		{Name: "after", Type: "string"},
		{Name: "limit", Type: "integer"},
	}
	if !s.Lasting {
		set = "set (key, value, expect?, ttl?)"
		params[0].Required = false
		params = append(params, Parameter{Name: "ttl", Type: "integer", Description: "seconds that set keeps the value; without it for good"})
	}
	keeps, class := "Keeps JSON values by key. ", messages.Idempotent
	if s.Scope != "" {
		keeps, class = "Keeps JSON values by key for all sessions of the "+s.Scope+". ", messages.Keyed
	}
	summary += keeps + "get (key), " + set + ", delete (key), add (key, by?) of integers, list (prefix?, after?, limit?) of keys."
	return &Executor{
		Type: messages.TypeRelic, Name: s.Name, Summary: summary, Class: class, Timeout: s.Timeout,
		Params: params, Within: s.Scope == "",
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			if c.Host.Keep == nil {
				return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "a key-value relic needs a session")
			}
			return c.Host.Keep(ctx, KeepCall{Relic: s.Name, Args: args, Key: c.Key, Limits: s.Limits, Scope: s.Scope})
		},
	}
}
