package replay

import "github.com/seed14be6753/stile/messages"

// reword sets the explanation in got to the one in the journal, and reports whether that was
// another one. An explanation is prose for people: a later version may word it better and still
// make the same decision, with the same code at the same place. Other fields keep the values
// that the replay computed. So it is with a member that earlier versions did not have.
func reword(want, got messages.Body) bool {
	var was, is *string
	switch g := got.(type) {
	case *messages.TurnDecided:
		if w, ok := want.(*messages.TurnDecided); ok && w.Reason == g.Reason {
			was, is = &w.Detail, &g.Detail
		}
	case *messages.RunEnd:
		if w, ok := want.(*messages.RunEnd); ok && w.Reason == g.Reason {
			was, is = &w.Detail, &g.Detail
		}
	case *messages.Control:
		if w, ok := want.(*messages.Control); ok && w.What == g.What && w.Code == g.Code {
			was, is = &w.Detail, &g.Detail
		}
	case *messages.ParseFault:
		if w, ok := want.(*messages.ParseFault); ok && w.Code == g.Code {
			was, is = &w.Detail, &g.Detail
		}
	}
	if g, ok := got.(*messages.BlockEnded); ok { // versions that did not say the kind
		if w, ok := want.(*messages.BlockEnded); ok && w.BlockKind == "" && g.BlockKind != "" {
			g.BlockKind = ""
			return true
		}
		return false
	}
	// An explanation that one side does not have at all is a difference.
	if is == nil || *is == *was || *is == "" || *was == "" {
		return false
	}
	*is = *was
	return true
}
