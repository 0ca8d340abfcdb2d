package rehearse

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Call is a call that a journal holds, with its end.
type Call struct {
	Turn int64
	Type messages.ActionType
	Name string
	Args string // canonical JSON, references replaced
	End  messages.ActionEnded
}

// Recorded returns the calls of a session that a target has answered, in the order in which
// they were declared: those of state ok and failed. Calls of turns before from are left out;
// 0 takes all. Calls that were denied, skipped, cancelled, or whose outcome is unknown
// have no answer to give again. An error is that of records.
func Recorded(records iter.Seq2[*messages.Record, error], from int64) ([]Call, error) {
	type id struct {
		turn int64
		id   string
	}
	open := map[id]*Call{}
	started := map[id]bool{}
	var order []*Call
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Turn < from {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			c := &Call{Turn: r.Turn, Type: typeOf(b.Type), Name: b.Name, Args: b.Args}
			open[id{r.Turn, b.ID}] = c
			order = append(order, c)
		case *messages.ActionStarted:
			at := id{r.Turn, b.ID}
			started[at] = true
			if c := open[at]; c != nil && b.Args != "" {
				c.Args = b.Args
			}
		case *messages.ActionEnded:
			at := id{r.Turn, b.ID}
			if c := open[at]; c != nil && started[at] && (b.State == messages.ActionOK || b.State == messages.ActionFailed) {
				c.End = *b
			}
		}
	}
	var calls []Call
	for _, c := range order {
		if c.End.State != "" {
			calls = append(calls, *c)
		}
	}
	return calls, nil
}

// typeOf is the type of a call; one of a program is a tool's.
func typeOf(t messages.ActionType) messages.ActionType {
	if t == "" {
		return messages.TypeTool
	}
	return t
}

// key is what equal calls share.
type key struct {
	typ        messages.ActionType
	name, args string
}

func keyOf(typ messages.ActionType, name, args string) key {
	v := jsontext.Value(args)
	if v.Canonicalize(jsontext.CanonicalizeRawInts(false)) == nil { // what is no JSON stands for itself
		args = string(v)
	}
	return key{typeOf(typ), name, args}
}
