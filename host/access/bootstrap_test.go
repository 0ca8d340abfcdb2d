package access

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

func TestBootstrap(t *testing.T) {
	const good = "0123456789abcdef0123456789abcdef"
	a := Bootstrap(sha256.Sum256([]byte(good)))
	id, err := a.Authenticate(t.Context(), good)
	if err != nil || id.Tenant != "local" || id.User != "bootstrap" || id.Token != "bootstrap" || !id.May(Admin) || !id.May(Metrics) || !id.Expires.IsZero() {
		t.Errorf("%+v, %v", id, err)
	}
	short := "0123456789abcdef"
	for name, c := range map[string]struct {
		of    Authenticator
		shown string
	}{
		"another":  {a, strings.ToUpper(good)},
		"none":     {a, ""},
		"longer":   {a, good + "0"},
		"its hash": {a, fmt.Sprintf("%x", sha256.Sum256([]byte(good)))},
		"short":    {Bootstrap(sha256.Sum256([]byte(short))), short},
		"huge":     {Bootstrap(sha256.Sum256([]byte(strings.Repeat("a", MaxBearerBytes+1)))), strings.Repeat("a", MaxBearerBytes+1)},
	} {
		if id, err := c.of.Authenticate(t.Context(), c.shown); reasonOf(err) != ReasonUnauthenticated || id.Tenant != "" {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}
