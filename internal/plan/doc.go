// Package plan is the dependency graph of one run's actions (docs/spec/streaming.md §§4–6).
// Its input is what was declared, started and ended; it decides which actions may begin, which
// are skipped and why, and what a $reference stands for.
//
// Invariants:
//   - calls return effects; there is no goroutine, clock or random source. The same calls
//     give the same effects in the same order;
//   - an action reaches exactly one terminal state, and the consequences of that state are in
//     the effects of the call that brought it;
//   - the meaning of a reference depends on its place in the document and never on how fast
//     an action ran: an action sees the actions declared before it and those it depends on;
//   - no action waits for ever. A cycle is skipped when its last edge appears, a dependency
//     on an id that is never declared when its generation ends, and no action waits for one
//     that can only come after a closed gate or after a waiting response;
//   - each edge is made once and released once. An action costs what its own edges cost;
//     only the declaration of an id that others already wait for looks further.
//
// The package executes nothing, asks no gate, knows no tool and no markup, and does not render
// results for the model. Workflows run by the same plan: every step is declared with mode
// async, then the generation ends.
//
// # How one node's end starts others
//
// A node is an action, or a feed that actions wait for; its number is its place in the
// document. An edge goes from a dependency (dep) to the node that waits for it (user). It
// comes from depends_on or from a $reference in the parameters, and is open until dep is
// satisfied or ends. node.unmet counts the open edges of a user.
//
//	Ended Started Cancel End FeedReady Declare Reject            calls
//	   │
//	   ▼
//	move / finish → ended     the node takes its state, gives back its slot, opens the
//	   │                      gate if it held it, and goes to Plan.queue
//	   ▼
//	cascade                   for each node of the queue, for each open edge to a user:
//	   │    satisfied           unmet−1; at 0 the user is Ready and goes to Plan.ready
//	   │    ended otherwise     finish(user, Skipped): one more node in the queue
//	   ▼
//	pump                      while a slot is free, take the first node of Plan.ready:
//	   │    settle substitutes its references
//	   │      a value for each   → Dispatch
//	   │      a name is pending  → Waiting again, with new edges; a feed gives Fetch
//	   │      no value           → finish(Failed or Skipped), then cascade again
//	   ▼
//	effects, in the order in which they were decided
//
// An example, with two slots: a and b are tools, c has depends_on [a, b], d refers to $c.
//
//	declare a  → dispatch a
//	declare b  → dispatch b
//	declare c    c.unmet = 2   (a→c, b→c open)
//	declare d    d.unmet = 1   (c→d open; soft if d names the tool and not the id of c)
//	ended a ok   c.unmet = 1
//	ended b failed (reason x)
//	           → end c skipped dependency_failed:b    b→c closes, c goes to the queue
//	           → end d skipped dependency_failed:c    c→d closes
//
// With "on_error: skip" on b, the end of b satisfies c: c is dispatched, and d after it.
//
// Three things wait outside the graph. An id of depends_on that no action has yet is in
// Plan.forward, and counts in unmet; the declaration of the id turns it into an edge
// (arrived), the end of the generation into a skip. A node without a free slot is in
// Plan.ready. A response that quotes a result waits in Text, which its caller asks again
// (Resume) after each call.
//
// What was tried and rejected:
//   - looking at all actions after each call, as the naive plan of the tests does: the
//     cost of a generation grows with its square. The edges are chains of indices for the
//     same reason: a generation allocates two slices, not a list for each node;
//   - resolving a reference by what has ended when its action begins: two runs of one
//     document then differ by the speed of their tools. So lookup also returns the ended
//     actions that an answer rests on, and sees limits a viewer to its place;
//   - giving an action that ended before a restart a slot, to be told so: actions that
//     wait for it then wait for slots of detached ones (see Over).
package plan
