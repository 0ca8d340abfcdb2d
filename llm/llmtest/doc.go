// Package llmtest is the conformance suite of the model port: Port checks what every
// llm.Model promises. An author of a model calls it from a test.
//
// Invariant: nothing waits for a moment to pass, but for the other side.
package llmtest
