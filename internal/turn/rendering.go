package turn

// The changes of rendering 2 to the machine (messages.Rendering, docs/spec/design.md §6), each
// under its own name. Turns of the first version are decided without them, so that their
// journals replay to the same records. A later version must decide here which it keeps.

// mending: when a turn failed, the run may go on in another one, whose prompt says why.
func (r *Rules) mending() bool { return r.Rendering >= 2 }

// timesAll: calls that were cut off or tried again record how long they took.
func (r *Rules) timesAll() bool { return r.Rendering >= 2 }

// saysMissing: the result of a call of an unknown target names similar targets, and a
// reference to a feed without a value fails instead of staying text.
func (r *Rules) saysMissing() bool { return r.Rendering >= 2 }

// dotted: $a_b may stand for the result of a call of a.b.
func (r *Rules) dotted() bool { return r.Rendering >= 2 }

// sources: references in the source of a feed that the model adds are left to the feed.
func (r *Rules) sources() bool { return r.Rendering >= 2 }

// keepsDeeds: the effects of a failed turn are kept until a turn completes, and its streams
// replace none.
func (t *OpenTurn) keepsDeeds() bool { return t.Rendering >= 2 }
