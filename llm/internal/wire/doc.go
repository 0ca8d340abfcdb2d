// Package wire carries streamed exchanges with a provider: single requests over HTTP, and
// conversations over a WebSocket.
//
// The vendor's SDK makes the request and sends it through the Transport of this
// package; the Transport adds the key and keeps the answer's body. This package reads
// the stream event by event, and passes the text on as it comes. An SDK would decode
// each event into a union of everything that its vendor sends, which takes seven times
// the time and fifty times the memory (llm/openai, BenchmarkReply1000Deltas), and would
// buffer events up to a bound of its own, 32 to 256 MiB.
//
// Invariants:
//   - one Stream is one request: no retry, no redirect. The runtime decides about
//     rotation, retries and fallback, by the failure that ends the stream;
//   - a key is in the Transport and on the wire alone: the SDK never sees it, and no
//     failure holds it, even if the provider sends it back;
//   - one event is at most Config.MaxEventBytes, an error's body at most 64 KiB;
//   - leaving the range or ending the context ends the request: the provider sees its
//     connection close (or the stream of it reset);
//   - bytes of text arrive as the provider wrote them, also where it cuts a
//     character in two.
//
// Providers that keep conversations are asked over a WebSocket. A Talking opens the connection, a
// session is what is known of it: which response is under way, and which messages the
// conversation has. converse.go makes one request on it, and passing.go takes back what the
// conversation must not keep of one.
//
// It is independent of vendors: a Vendor has the forms of its requests and events, a Talker
// those of a conversation.
package wire
