package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
)

// BootstrapBytes is the least length of a bootstrap token.
const BootstrapBytes = 32

// Bootstrap identifies the bearer of one token, which its operator chose, by the token's SHA-256:
// the first administrator of a host whose data directory has no tokens yet. It has all rights in
// tenant local. Tokens below BootstrapBytes are refused, because they can be guessed.
func Bootstrap(sum [sha256.Size]byte) Authenticator { return bootstrap(sum) }

type bootstrap [sha256.Size]byte

// Authenticate implements Authenticator.
func (b bootstrap) Authenticate(_ context.Context, bearer string) (Identity, error) {
	if len(bearer) < BootstrapBytes || len(bearer) > MaxBearerBytes {
		return Identity{}, unknown()
	}
	if sum := sha256.Sum256([]byte(bearer)); subtle.ConstantTimeCompare(sum[:], b[:]) != 1 {
		return Identity{}, unknown()
	}
	return Identity{Tenant: "local", User: "bootstrap", Token: "bootstrap", Scopes: Scopes()}, nil
}
