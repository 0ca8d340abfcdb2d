package messages_test

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestParsePosition(t *testing.T) {
	for id, want := range map[string]messages.Position{
		"0":         {},
		"17":        {Seq: 17},
		"17.3.0.99": {Seq: 17, Unit: messages.UnitID{Turn: 3}, Off: 99},
		"0.1.2.0":   {Unit: messages.UnitID{Turn: 1, N: 2}},
	} {
		if got, err := messages.ParsePosition(id); err != nil || got != want || got.String() != id {
			t.Errorf("%q: %v, %v", id, got, err)
		}
	}
	for _, id := range []string{
		"", "x", "-1", "+1", "01", "1.", ".1", "1.2", "1.2.3", "1.2.3.4.5", "1.0.3.4", " 1", "1 ", "1.1.1.-1",
		"9007199254740992", "99999999999999999999", "1.1.1.99999999999999999999", "1\n", "¹", "1,2,3,4",
	} {
		if got, err := messages.ParsePosition(id); messages.CodeOf(err) != messages.ErrInvalid {
			t.Errorf("%q: %v, %v", id, got, err)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	for _, id := range []string{"0", "17.3.0.99", "1.2.3", "9007199254740992"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, err := messages.ParsePosition(id)
		if err == nil && p.String() != id {
			t.Errorf("%q is %v", id, p)
		}
	})
}
