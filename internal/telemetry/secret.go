package telemetry

import (
	"fmt"
	"log/slog"

	"go.uber.org/zap"
)

// Redacted is what stands where a secret was.
const Redacted = "***"

// Secret carries a password, key or token past everything that prints. Whatever
// formats, encodes or logs it, by fmt, zap, slog or JSON, also as a field inside
// another struct, gets ***; the value comes out by Reveal alone. The zero Secret
// is the empty one. A Secret is immutable and safe to copy.
type Secret struct {
	// A pointer, because fmt prints unexported fields of other structs without
	// asking their methods: so it finds an address, not the text.
	value *string
}

// NewSecret hides value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal is the value, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String is ***.
func (Secret) String() string { return Redacted }

// GoString is ***.
func (Secret) GoString() string { return Redacted }

// Format writes *** for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalText is ***, for JSON, YAML and the like.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue is ***, for slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// Field is a zap field that says that there is a secret under key, and no more.
func (s Secret) Field(key string) zap.Field { return zap.String(key, Redacted) }
