package mcp

import (
	"context"

	"github.com/seed14be6753/stile/messages"
)

// Call is Do for no action.
func (s *Server) Call(ctx context.Context, tool string, class messages.Class, args string, agreed ...Agreed) (string, error) {
	return s.Do(ctx, nil, tool, class, args, agreed...)
}
