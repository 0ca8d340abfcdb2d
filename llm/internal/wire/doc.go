// Package wire carries one streamed exchange with a provider over HTTP.
//
// The vendor's SDK makes the request and sends it through the Transport of this
// package; the Transport adds the key and keeps the answer's body for itself. What
// streams is read here, event by event, and handed on as it comes: an SDK would
// decode each event into a union of everything its vendor ever sends, which costs
// seven times the time and fifty times the memory (llm/openai,
// BenchmarkReply1000Deltas), and would buffer events up to a bound of its own, 32 to
// 256 MiB.
//
// Invariants:
//   - one Stream is one request: no retry, no redirect. Rotation, retries and
//     fallback are decisions of the runtime, on the failure that the stream ends with;
//   - a key is in the Transport and on the wire, and nowhere else: the SDK never
//     sees it, and no failure holds it, also when the provider sends it back;
//   - one event is at most Config.MaxEventBytes, an error's body at most 64 KiB;
//   - leaving the range or ending the context ends the request: the provider sees its
//     connection close (or the stream of it reset);
//   - bytes of text arrive as the provider wrote them, also where it cuts a
//     character in two.
//
// It knows no vendor: shapes of requests and events are those of a Vendor.
package wire
