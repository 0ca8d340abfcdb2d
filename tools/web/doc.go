// Package web is the host's own and no part of the public API: it may change in any release.
// It holds what reaches the network for a model, scrape and search
// (docs/spec/cogency.md §15) and relics that are services over HTTP (docs/spec/streaming.md §7).
//
// Invariants:
//   - scrape connects to public addresses alone, judged after every resolution and
//     redirect; a service to its one host;
//   - an answer is bounded before it is read, and its time too;
//   - no key reaches a model, not even one that a server sends back;
//   - an effectful request of which nothing is known after it was sent is Unsettled.
//
// It touches no file and starts no program.
package web
