// Package llmtest helps to test models. Port checks the contract of llm.Model: an author of a model
// calls it from a test. Provider is a provider that keeps conversations, for tests of what is built
// upon such models: it is scripted, can fail in every way that a provider can, and shows what it was
// asked.
//
// Invariants: no test sleeps; it waits for the other side. A Provider listens on the loopback
// address alone.
package llmtest
