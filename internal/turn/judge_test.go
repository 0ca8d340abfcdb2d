package turn

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// The machine is tested under two dialects that exist nowhere else, so that it
// cannot know them by name.

// programJudge decides by the tokens of a program: the last valid one wins. Its
// memory is one byte a turn.
type programJudge struct {
	guardFinal bool
	bare       bool // gives no decision at all, as a broken dialect
	noReason   bool // halts without a code
	memory     int  // bytes of memory to return
}

func (j programJudge) Traits() messages.Traits {
	return messages.Traits{Carry: true, GuardFinal: j.guardFinal, Busy: messages.Enqueue}
}

func (j programJudge) Decide(f messages.Facts) messages.Verdict {
	v := messages.Verdict{Token: -1, State: append(bytes.Clone(f.State), 'p')}
	halt := func(c messages.Code) messages.Verdict {
		v.Decision, v.Code = messages.Halt, c
		return v
	}
	switch {
	case j.bare:
		return messages.Verdict{Token: -1}
	case j.noReason:
		return halt("")
	case j.memory > 0:
		v.State = make([]byte, j.memory)
	}
	// A breach is left to the machine on purpose: it must win over any verdict.
	switch {
	case len(f.Errors) > 0:
		return halt(f.Errors[0].Code)
	case f.Finish == messages.FinishError:
		return halt(messages.ErrModel)
	case f.MagicFailed:
		return halt(messages.ErrMagicToolInternal)
	}
	code := messages.ErrTokenMissing
	for i, t := range f.Tokens {
		if t.Failure != "" {
			code = t.Failure
			continue
		}
		v.Token = i
		v.Decision = map[string]messages.Decision{"continue": messages.Continue, "done": messages.Done, "abort": messages.Abort}[t.Action]
	}
	if v.Token < 0 {
		return halt(code)
	}
	return v
}

// Comparable leaves lines out that begin with <<tok.
func (programJudge) Comparable(text string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "<<tok") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func (programJudge) Digest(f messages.Facts) (out, scr []byte) { return f.Out, f.Scr }

// textJudge decides by the last word of the reply, which its digest leaves out.
type textJudge struct{}

func (textJudge) Traits() messages.Traits { return messages.Traits{AppendOnly: true} }

func (textJudge) Decide(f messages.Facts) messages.Verdict {
	v := messages.Verdict{Decision: messages.Done, Token: -1}
	switch {
	case f.Finish == messages.FinishError:
		v.Decision, v.Code = messages.Halt, messages.ErrModel
	case strings.HasSuffix(textOf(f), " more"):
		v.Decision = messages.Continue
	case strings.HasSuffix(textOf(f), " quit"):
		v.Decision = messages.Abort
	}
	return v
}

func (textJudge) Digest(f messages.Facts) (out, scr []byte) {
	text := textOf(f)
	return []byte(text[:strings.LastIndexByte(text, ' ')+1]), nil
}

func textOf(f messages.Facts) string {
	var b strings.Builder
	for _, u := range f.Units {
		b.WriteString(u.Text)
	}
	return b.String()
}
