package catalog

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Shelf is a relic that keeps JSON values by key in its session. Its operations are
// those of turn.RelicOperations.
type Shelf struct {
	Name       string
	Summary    string
	Operations []string // what the parameter operation may be
	Limits     messages.RelicLimits
	Timeout    time.Duration
	// Lasting values alone are those of the first rendering: set takes no ttl, and must be
	// named.
	Lasting bool
}

type (
	// Host is what a tool of the host knows of its call, as tools.Call.Host.
	Host = seam.Host
	// KeepCall is one operation on a Shelf, as Host.Keep takes it.
	KeepCall = seam.KeepCall
)

// KeyValue makes the target of a shelf. It is idempotent: a call that a crash cut off
// is done again under its key, and finds what it did.
func KeyValue(s Shelf) *Executor {
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
	summary += "Keeps JSON values by key. get (key), " + set + ", delete (key), add (key, by?) of integers, list (prefix?, after?, limit?) of keys."
	return &Executor{
		Type: messages.TypeRelic, Name: s.Name, Summary: summary, Class: messages.Idempotent, Timeout: s.Timeout,
		Params: params, Within: true,
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			if c.Host.Keep == nil {
				return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "there is no session that could keep anything")
			}
			return c.Host.Keep(ctx, KeepCall{Relic: s.Name, Args: args, Key: c.Key, Limits: s.Limits})
		},
	}
}
