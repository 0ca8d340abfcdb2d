// Package measure is the host's own and no part of the public API: it may change in any release.
//
// It holds what a load found: recorded while it runs, kept as a result in JSON, judged
// by thresholds, and compared with another (docs/bench-format.md).
//
// What holds:
//   - A time counts from when its submit was due, not from when it was sent: a target that
//     stalls does not hide the submits that waited for it (coordinated omission).
//   - Times are kept in HDR histograms of three significant digits, from 1 µs to 1 h.
//   - What was planned is what ended, was refused, failed, timed out or was left behind.
//
// It opens nothing and knows no target. A Recorder is safe for concurrent use.
package measure
