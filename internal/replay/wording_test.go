package replay

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// Explanations are the journal's when nothing but them differs.
func TestReword(t *testing.T) {
	decided := func(code messages.Code, detail string) *messages.TurnDecided {
		return &messages.TurnDecided{Decision: messages.Halt, Reason: code, Detail: detail}
	}
	for name, c := range map[string]struct {
		want, got messages.Body
		now       string
		other     bool
	}{
		"turn.decided": {
			want: decided(messages.ErrQuota, "old"), got: decided(messages.ErrQuota, "new"), now: "old", other: true,
		},
		"equal":                    {want: decided(messages.ErrQuota, "old"), got: decided(messages.ErrQuota, "old"), now: "old"},
		"another code":             {want: decided(messages.ErrQuota, "old"), got: decided(messages.ErrCrash, "new"), now: "new"},
		"none in journal":          {want: decided(messages.ErrQuota, ""), got: decided(messages.ErrQuota, "new"), now: "new"},
		"none in replay":           {want: decided(messages.ErrQuota, "old"), got: decided(messages.ErrQuota, ""), now: ""},
		"another kind":             {want: &messages.RunEnd{Reason: messages.ErrQuota, Detail: "old"}, got: decided(messages.ErrQuota, "new"), now: "new"},
		"run.end":                  {want: &messages.RunEnd{Reason: messages.ErrQuota, Detail: "old"}, got: &messages.RunEnd{Reason: messages.ErrQuota, Detail: "new"}, now: "old", other: true},
		"control":                  {want: &messages.Control{What: "breach", Detail: "old"}, got: &messages.Control{What: "breach", Detail: "new"}, now: "old", other: true},
		"another control":          {want: &messages.Control{What: "timer", Detail: "old"}, got: &messages.Control{What: "breach", Detail: "new"}, now: "new"},
		"parse.error":              {want: &messages.ParseFault{Code: messages.ErrEnvSize, Detail: "old"}, got: &messages.ParseFault{Code: messages.ErrEnvSize, Detail: "new"}, now: "old", other: true},
		"a kind that was not said": {want: &messages.BlockEnded{ID: "b"}, got: &messages.BlockEnded{ID: "b", BlockKind: "if"}, now: "", other: true},
		"another kind of block":    {want: &messages.BlockEnded{ID: "b", BlockKind: "foreach"}, got: &messages.BlockEnded{ID: "b", BlockKind: "if"}, now: "if"},
		"a text is no word":        {want: &messages.Emit{Text: "old"}, got: &messages.Emit{Text: "new"}, now: "new"},
	} {
		if other := reword(c.want, c.got); other != c.other {
			t.Errorf("%s: reworded %v", name, other)
		}
		if now := detailOf(c.got); now != c.now {
			t.Errorf("%s: says %q now", name, now)
		}
	}
}

func detailOf(b messages.Body) string {
	switch b := b.(type) {
	case *messages.TurnDecided:
		return b.Detail
	case *messages.RunEnd:
		return b.Detail
	case *messages.Control:
		return b.Detail
	case *messages.ParseFault:
		return b.Detail
	case *messages.Emit:
		return b.Text
	case *messages.BlockEnded:
		return b.BlockKind
	}
	return "?"
}
