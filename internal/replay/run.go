package replay

import (
	"strings"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Compile compiles the program of a turn and reads its USERDATA. When one of them cannot
// be read, end is how the program ends.
func Compile(start *turn.RunProgram, compile func([]byte) (*neuroscript.Program, error)) (prog *neuroscript.Program, userdata neuroscript.Value, end *turn.ProgramEnd) {
	prog, err := compile(start.Source)
	if err != nil {
		return nil, userdata, &turn.ProgramEnd{Code: messages.ErrActionsParse, Detail: err.Error()}
	}
	if start.Userdata != "" {
		if userdata, err = neuroscript.FromJSON([]byte(start.Userdata)); err != nil {
			return nil, userdata, &turn.ProgramEnd{Code: messages.ErrUserdataSchema, Detail: err.Error()}
		}
	}
	return prog, userdata, nil
}

// Ended is how a program ends that ran. A turn whose token could not be made ends with
// that, whether or not the script caught it (docs/spec/aeiou.md §6.1).
func Ended(res *neuroscript.Result, magicFailed bool) *turn.ProgramEnd {
	end := &turn.ProgramEnd{Gas: res.Gas}
	switch {
	case res.Breach != nil:
		end.Code, end.Reason, end.Detail = res.Breach.Code, res.Breach.Meter, res.Breach.Error()+res.Cure
	case magicFailed:
	case res.Err != nil:
		end.Code, end.Detail = messages.ErrActionsRuntime, res.Err.Error()+res.Cure
	}
	return end
}

// HoldsCandidate reports whether a line of what a program emits has a token's beginning.
func HoldsCandidate(text string) bool {
	for line := range strings.Lines(text) {
		if token.Candidate([]byte(strings.TrimSuffix(line, "\n"))) {
			return true
		}
	}
	return false
}
