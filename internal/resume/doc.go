// Package resume decides how a conversation that a provider keeps is used
// (docs/spec/model-sessions.md): what of a prompt it has already, when it is opened, given
// up and made anew, and when a run goes on without it.
//
// Invariants:
//   - pure: the same inputs give the same effects;
//   - the journal's prompt is the only truth. The rest of a prompt is sent alone only if the
//     conversation has exactly what the prompt begins with; else all of it is sent;
//   - what the model wrote and the journal does not have is never built upon;
//   - a request that has begun to answer is never made again, and one that has not is made
//     at most once more on the same footing.
//
// It opens no connection and knows no provider: internal/talk does what it says, by way
// of llm.SessionModel.
package resume
