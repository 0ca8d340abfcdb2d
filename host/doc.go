// Package host puts a runtime behind HTTP: sessions of the offered agents under /v1,
// their updates as server-sent events that resume at the byte, a page at / for people,
// chat completions for clients of OpenAI, tools for those of MCP, health and metrics (docs/spec/design.md §13).
//
// One idea: a request finds its session by the caller's tenant and user and an id, and
// says to the facade what a Go program would say; the door itself keeps nothing. So a
// client may come back to another process, a disconnect cancels nothing, and whatever
// was answered is on disk.
//
// What holds:
//   - A body, a header, the time to send them, the streams that are open at once: all
//     are bounded, and beyond a bound comes a typed refusal before work begins.
//   - Every error is an RFC 9457 document with a code of the product and, if there is
//     one, the place. None holds a path or a secret of the host.
//   - Who asks is known before anything else is done: a token gives tenant and user, a
//     session is looked up under both, and a session of another user is one that is
//     not there. A route without a scope of its own asks for the highest.
//   - The right of every request is watched until its answer ends: a route needs no word
//     of its own for that.
//   - Without authentication the door serves its own machine alone: it refuses to
//     listen wider. Host and Origin of every request are checked, because a web page
//     that a person opens can reach this machine too.
//   - An answer has a deadline for each write: a client that does not read is cut, and
//     resumes what was a stream.
//
// What it does not do: know what a token is (host/access does), or start a session by
// itself.
package host
