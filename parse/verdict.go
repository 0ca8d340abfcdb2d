package parse

import "github.com/seed14be6753/stile/messages"

// Halt returns the verdict that ends a run without a token.
func Halt(c messages.Code, detail string) messages.Verdict {
	return messages.Verdict{Decision: messages.Halt, Code: c, Detail: detail, Token: -1}
}

// Failure returns why a turn did not complete: the code of a breach, else that of a model that
// failed or was cancelled; "" if it completed. A reply that was cut at its length counts as
// complete. A dialect may accept the text of a failed reply, but not that of a turn with a
// breach.
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
