// Package llmtest is the conformance suite of the model port.
//
// Port checks what every llm.Model promises. Wire checks what an adapter of a provider
// promises beyond: it speaks with a local server in the provider's own format, cut,
// broken, slow and hostile in turn. Formats and Server serve other tests too, which
// want a provider without a network.
//
// Invariants: servers listen on the loopback address alone; nothing waits for a moment
// to pass, but for the other side.
package llmtest
