package tools

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// TimeNow gives time.now(): the instant that now tells. It is an action, so that
// a replay sees the recorded instant.
func TimeNow(now func() time.Time) Tool {
	return Tool{
		Name: "time.now", Class: messages.ReadOnly, Returns: "timedate",
		Description: "The current time.",
		Run: func(context.Context, *Call) (neuroscript.Value, error) {
			return neuroscript.TimeDate(now()), nil
		},
	}
}
