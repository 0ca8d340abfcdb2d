// Package host puts a runtime behind HTTP: sessions of the offered agents under /v1,
// their updates as server-sent events that resume at the byte, health and metrics
// (design.md §13).
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
//   - Without authentication the door serves its own machine alone: it refuses to
//     listen wider, and checks Host and Origin of every request, because a web page
//     that a person opens can reach this machine too.
//   - A stream has a deadline for each write: a client that does not read is cut, and
//     resumes.
//
// What it does not do: authenticate (every caller is the local user, on loopback),
// limit rates, speak WebSocket. It starts no session by itself.
package host
