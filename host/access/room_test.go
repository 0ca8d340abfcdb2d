package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// The tokens that one tenant makes take none away from another tenant, nor from the
// command on the host.
func TestTokensOfOneTenantLeaveRoom(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		revoked         time.Time // zero: they are good
		has             map[string]int
		evil, acme, cli bool // may make one
		left            int  // in the file, when all three have tried
	}{
		"revoked by the thousand, as older versions let a tenant": {now, map[string]int{"evil": 9990}, true, true, true, 3},
		"a tenant at its bound":                                   {time.Time{}, map[string]int{"evil": 1000}, false, true, true, 1002},
		"older versions let a tenant have all":                    {time.Time{}, map[string]int{"evil": 9990}, false, false, true, 9991},
		"many tenants, each as much as it may":                    {time.Time{}, map[string]int{"a": 1000, "b": 1000, "c": 1000, "d": 1000, "e": 1000, "f": 900, "evil": 800}, false, true, true, 6702},
		"dead for a month and a day":                              {now.AddDate(0, 0, -31), map[string]int{"acme": 900}, true, true, true, 3},
		"dead for a day":                                          {now.AddDate(0, 0, -1), map[string]int{"acme": 900}, true, true, true, 903},
		"nothing but tokens that are good":                        {time.Time{}, map[string]int{"a": 10000}, false, false, false, 10000},
		"the last one that tokens may make":                       {time.Time{}, map[string]int{"a": 9499}, true, false, true, 9501},
	} {
		t.Run(name, func(t *testing.T) {
			f := &file{}
			for _, tenant := range slices.Sorted(maps.Keys(c.has)) {
				for i := range c.has[tenant] {
					f.Tokens = append(f.Tokens, Token{ID: fmt.Sprint(tenant, i), Tenant: tenant, Maker: "x", Revoked: c.revoked})
				}
			}
			for i, try := range []struct {
				tok Token
				may bool
			}{{Token{Tenant: "evil", Maker: "x"}, c.evil}, {Token{Tenant: "acme", Maker: "y"}, c.acme}, {Token{Tenant: "acme"}, c.cli}} {
				try.tok.ID = fmt.Sprint("new", i)
				err := f.room(&try.tok, now)
				var e *messages.Error
				if try.may != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != messages.ErrBusy || e.Reason != ReasonTokens) {
					t.Errorf("%s by %q: %v", try.tok.Tenant, try.tok.Maker, err)
				}
				if err == nil {
					f.Tokens = append(f.Tokens, try.tok)
				}
			}
			if len(f.Tokens) != c.left {
				t.Errorf("%d are left, want %d", len(f.Tokens), c.left)
			}
		})
	}
}
