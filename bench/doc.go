// Package bench is the host's own and no part of the public API: it may change in any release.
//
// It holds the workloads that span rooms: whole turns, many sessions,
// the durable path. What one room promises is measured in that room. The numbers in
// docs/benchmarks.md come from `make bench` and the commands named there.
package bench
