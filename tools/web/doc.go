// Package web is the host's own and no part of the public API: it may change in any release.
// It has the tools that use the network for a model: scrape and search
// (docs/spec/cogency.md §15), and relics that are services over HTTP (docs/spec/streaming.md §7).
//
// Invariants:
//   - scrape connects to public addresses alone, checked after every resolution and
//     redirect; a service connects to its own host;
//   - the bytes and the time of an answer are bounded;
//   - no key reaches a model, not even one that a server sends back;
//   - an effectful request without an answer is Unsettled.
//
// It touches no file and starts no program.
package web
