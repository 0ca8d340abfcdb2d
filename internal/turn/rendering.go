package turn

// What rendering 2 brings to the machine (messages.Rendering, docs/spec/design.md §6), each
// by its name: turns of the first version are decided without it, so that their journals
// replay to the same records. A later version says here what it keeps.

// mending: a run goes on in another turn when one failed, which is told why.
func (r *Rules) mending() bool { return r.Rendering >= 2 }

// timesAll: calls that were cut off, or tried again, say how long they took.
func (r *Rules) timesAll() bool { return r.Rendering >= 2 }

// saysMissing: a call of a target that is not there is told what is near, and a reference to
// a feed without a value that it has none.
func (r *Rules) saysMissing() bool { return r.Rendering >= 2 }

// dotted: $a_b is the result of a call of a.b.
func (r *Rules) dotted() bool { return r.Rendering >= 2 }

// sources: what stands in the source of a feed that the model adds is for the feed.
func (r *Rules) sources() bool { return r.Rendering >= 2 }

// keepsDeeds: what a turn did is kept until one completes, and streams of one that failed
// replace none.
func (t *OpenTurn) keepsDeeds() bool { return t.Rendering >= 2 }
