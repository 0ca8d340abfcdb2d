// Package access identifies callers: it takes a bearer token to a tenant, a user and what
// they may do.
//
// One idea: an Identity comes from a secret alone, never from what a request says of
// itself; who has it reaches the sessions tenant:user:* and no others, because every
// session is looked up under that name.
//
// What holds:
//   - A token of ours has 256 random bits and is kept as its SHA-256: a reader of the
//     file of tokens cannot use it. A slow hash would add nothing to 256 bits.
//   - Comparing takes the same time whatever differs, and an unknown token costs what a
//     known one does.
//   - A token that is revoked or expired is refused from then on, by hosts that run
//     too: they look at the file's identity on every request.
//   - A file that cannot be read, or is gone, refuses every caller.
//   - A JWT is believed when issuer, audience, time, algorithm and signature are right;
//     which keys are the issuer's is asked at most every few seconds, whatever keys
//     tokens name.
//
// What it does not do: know routes, keep sessions of logged-in people, or make JWTs.
package access
