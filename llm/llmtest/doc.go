// Package llmtest is the conformance suite of the model port: Port checks the contract of
// llm.Model. An author of a model calls it from a test.
//
// Invariant: no test sleeps; it waits for the other side.
package llmtest
