// Package mcp is the host's own and no part of the public API: it may change in any release.
// It calls the tools of MCP servers (Model Context Protocol), over the standard streams of
// a program or over streamable HTTP, with the official SDK.
//
// Invariants:
//   - a Pool has one connection for all uses of equal Configs, but those that are apart; it
//     is made when it is first needed and ends with the pool;
//   - a call that may have reached a server, without an answer, is *Unsettled unless
//     repeating it is harmless (docs/spec/design.md §7). A server's description of its tools
//     never lowers a class;
//   - a server's messages, results and lists of tools are bounded;
//   - a secret is read when a connection is made, and is in no error, result or log.
//
// It does not: decide what may be called, keep journals, repeat calls that are not
// harmless, or offer a server anything – no sampling, no elicitation, no roots.
package mcp
