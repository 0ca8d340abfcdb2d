package cortex

import "github.com/seed14be6753/stile/messages"

func (Dialect) Render(p messages.Projection) []messages.Message { return nil }

func (Dialect) Primer([]messages.ToolSpec) string { return "" }
