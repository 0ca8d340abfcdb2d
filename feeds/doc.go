// Package feeds is the host's own and no part of the public API: it may change in any release.
//
// It keeps named context for prompts: data that a session's manifest or its model asked for,
// fetched periodically or when a prompt is built, and injected before the conversation
// (docs/spec/streaming.md §7).
//
// Invariants:
//   - a Definition is in normal form: trigger and source kind are apart, every bound
//     is checked, references name feeds of the same set and make no cycle;
//   - a Set is a value. A change by the model is a function of the call and its
//     permission, so folding the recorded calls gives the same set again;
//   - the loss of any cached value costs a fetch and nothing else;
//   - a feed is fetched at most once at a time, for all callers, and a prompt waits for
//     all its feeds together no longer than one deadline;
//   - the states of a session's feeds (States) belong to one actor and have no lock. What each
//     decides (state, Crashes) is pure: values and times are arguments. What sessions share is
//     the Keeper's: the cache, the wheel, and the goroutines of fetches;
//   - no feed has a goroutine or timer of its own: the host has one wheel, which ticks a
//     session's actor when a feed is due; fetches that are due go to a bounded number of
//     workers, which end when none waits;
//   - no value can close its element.
//
// It knows no actors: Open gets the function that delivers a message to the session's. It calls
// no tool, relic, workflow, model or agent itself: a session passes a Fetcher for those.
// It writes no journal, builds no prompt, and checks no permissions but those it is given.
// The manifest expands ${NAME}.
package feeds
