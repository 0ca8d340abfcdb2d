package load

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Outputs serves tools that read other sessions. The tool has checked the grant.
type Outputs struct{ Store journal.Store }

// Output returns the OUTPUT of a session's last decided turn.
func (o Outputs) Output(ctx context.Context, of messages.SessionKey) (string, bool, error) {
	head, err := o.Store.Head(ctx, of.SID())
	if journal.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var last *messages.TurnDecided
	for rec, err := range journal.Backward(ctx, o.Store, head.Inc, 0, head.Seq, 0) {
		if err == nil && rec.Body.Kind() == messages.KindTurnDecided {
			rec, err = journal.Typed(rec)
		}
		if err != nil {
			return "", false, err
		}
		if b, ok := rec.Body.(*messages.TurnDecided); ok {
			last = b
			break
		}
	}
	if last == nil || last.Output.IsZero() {
		return "", true, nil
	}
	b, err := o.Store.Blob(ctx, head.Inc, last.Output)
	if err != nil && !errors.Is(err, context.Canceled) {
		return "", false, err
	}
	return string(b), true, nil
}
