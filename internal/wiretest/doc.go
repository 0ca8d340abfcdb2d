// Package wiretest checks what an adapter of a provider promises beyond llm.Model: Wire
// has it speak with a local server in the provider's own format, cut, broken, slow and
// hostile in turn. Formats and Server serve other tests too, which want a provider
// without a network.
//
// Invariants: servers listen on the loopback address alone; nothing waits for a moment
// to pass, but for the other side.
package wiretest
