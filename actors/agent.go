package actors

import "github.com/seed14be6753/stile/internal/compiled"

// Agent is what the sessions of an agent have in common.
type Agent = compiled.Agent
