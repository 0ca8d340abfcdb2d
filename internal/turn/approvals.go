package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Approval is a call of a suspended turn that waits for a person's answer.
type Approval struct {
	ID        string // 128 random bits in base64url
	Run, Turn int64
	Action    string // id of the action in its turn
	Tool      string
	Args      string // canonical JSON
	// Basis is what else the call rests on: canonical JSON with the tool's name and, where
	// it has them, digests of the folder it works in and of what its server says of it; ""
	// in journals of before.
	Basis   string
	Digest  messages.Digest // of Basis and Args: of what would run
	Class   messages.Class
	Asked   time.Time
	Expires time.Time
}

// ApprovalsOf lists the open questions of a state.
func ApprovalsOf(s *State) []Approval {
	if s.Open == nil || s.Open.Turn == nil {
		return nil
	}
	var all []Approval
	for i := range s.Open.Turn.Actions {
		a := &s.Open.Turn.Actions[i]
		if q := a.Question; q != nil && q.Answer == "" {
			all = append(all, Approval{
				ID: q.ID, Run: s.Open.Run, Turn: s.Open.Turn.Index, Action: a.ID, Tool: a.Name, Args: a.Asks(),
				Basis: q.Basis, Digest: a.AskDigest(), Class: a.Class,
				Asked: time.Unix(0, q.Asked).UTC(), Expires: time.Unix(0, q.Expires).UTC(),
			})
		}
	}
	return all
}
