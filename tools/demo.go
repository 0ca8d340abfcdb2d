package tools

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// DemoPanic gives demo.panic(message), a tool with a bug: it panics. Examples,
// the gallery and end-to-end tests call it to show that the turn ends in
// HALT(ERR_CRASH) and the session lives on (docs/spec/neuroscript.md §8.3). It is in no
// default set.
func DemoPanic() Tool {
	return Tool{
		Name: "demo.panic", Class: messages.ReadOnly,
		Description: "Panics with the message, to show what the host makes of it.",
		Params:      []neuroscript.Param{req("message", "string")},
		Run: func(_ context.Context, c *Call) (neuroscript.Value, error) {
			message, err := c.RequireText(0, "message")
			if err != nil {
				return neuroscript.Value{}, err
			}
			panic("demo.panic: " + message)
		},
	}
}
