package stile

import (
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/messages"
)

// File is a picture or a file that is sent with a submit.
type File struct {
	Name string // may be empty
	Type string // media type; "" is what the bytes are
	Data []byte // not to be changed afterwards
}

// The bounds of Attach.
const (
	MaxParts      = compiler.MaxParts      // of a submit
	MaxPartBytes  = compiler.MaxPartBytes  // of a part
	MaxPartsBytes = compiler.MaxPartsBytes // of all parts of a submit
)

// ReasonPartType is the reason of ERR_INVALID for a type that a model of the agent does not take.
const ReasonPartType = compiler.ReasonPartType

// Attach sends pictures and files (PNG, JPEG, GIF, WebP, PDF, plain text) with a submit: the model
// sees them with the text, in this and every later run of the session that shows the text. They are
// kept in the journal. Submit returns ERR_INVALID with the field for bytes that are not of their
// type, for more than the bounds allow, for a type that a model of the agent or one of its fallbacks
// does not take (ReasonPartType), for an agent whose dialect shows none (aeiou), without a text, and
// under the policies Merge and Debounce.
func Attach(files ...File) SubmitOption {
	return func(in *messages.Input) {
		in.Parts, in.Data = nil, nil
		for _, f := range files {
			in.Parts, in.Data = append(in.Parts, messages.Part{Name: f.Name, Type: f.Type}), append(in.Data, f.Data)
		}
	}
}
