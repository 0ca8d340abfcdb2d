package parse

import "github.com/seed14be6753/stile/messages"

// Halt is the verdict of a dialect that ends a run without a token.
func Halt(c messages.Code, detail string) messages.Verdict {
	return messages.Verdict{Decision: messages.Halt, Code: c, Detail: detail, Token: -1}
}

// Failure is why a turn did not come to its end: a breach, or else a model that failed,
// or a cancel. It is "" where there was none of them; a reply that was cut at its length
// has come to an end. A dialect may let stand what a broken reply said before, but
// nothing beside a breach.
func Failure(f messages.Facts) messages.Code {
	switch {
	case f.Breach != "":
		return f.Breach
	case f.Finish == messages.FinishError:
		return messages.ErrModel
	case f.Finish == messages.FinishCancelled:
		return messages.ErrCancelled
	}
	return ""
}
