package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Prompt is one request to a model: what it was sent, and what came back, as far as the
// journal can show it.
type Prompt struct {
	Run, Turn int64
	Seq       int64     // of the record model.request
	At        time.Time // of that record, UTC
	Request   *messages.ModelRequest
	// Messages are what was sent, Tools what was offered in the provider's own form. They
	// are made again from the records; Exact reports that their digest is the one that was
	// recorded. Why says what is wrong where it is not, or why there are none; where the
	// journal has the system message by itself, that is shown alone then.
	Messages []messages.Message
	Tools    []messages.ToolSpec
	Exact    bool
	Why      string
	// Reply is what came back, byte for byte, with its record; nil while it is not there.
	// Lost says why the bytes are not.
	Ended *messages.ModelReply
	Reply []byte
	Lost  string
}

// Text is the prompt as a text: each message under a line with its role. Where tools were
// offered in the provider's own form, so is a message that has one (calls and results, with
// their ids).
func (p *Prompt) Text() string {
	if len(p.Tools) == 0 {
		return PromptText(p.Messages)
	}
	sent := slices.Clone(p.Messages)
	for i := range sent {
		if sent[i].Native != "" {
			sent[i].Text = sent[i].Native
		}
	}
	return PromptText(sent)
}

// Prompts makes the prompts of a turn again. all are ways to come by the agents of the
// session, the best first; a session that does not come out as it was under one of them is
// run again with what differs passed over. Errors are ERR_NOT_FOUND for a turn that asked no
// model, ERR_JOURNAL for a session of which a record was erased, and the context's.
func Prompts(ctx context.Context, src Source, turn int64, all ...Agents) ([]Prompt, error) {
	var out []Prompt
	var origin *messages.ForkOrigin
	for _, r := range src.Records {
		if _, ok := r.Body.(*messages.Undecoded); ok || r.Body == nil {
			return nil, messages.Errorf(messages.ErrJournal, "record %d was erased, and with it what the session's models saw", r.Seq)
		}
		if b, ok := r.Body.(*messages.SessionOpened); ok {
			origin = b.Origin
		}
		if r.Turn != turn {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ModelRequest:
			out = append(out, Prompt{Run: r.Run, Turn: r.Turn, Seq: r.Seq, At: r.TS, Request: b})
		case *messages.ModelReply:
			if n := len(out); n > 0 {
				out[n-1].reply(ctx, &src, b)
			}
		}
	}
	if len(out) == 0 {
		return nil, messages.Errorf(messages.ErrNotFound, "turn %d does not exist in this session, or asked no model", turn)
	}
	if out[0].Seq <= src.From && origin != nil {
		out[0].Why = "the turn belongs to session " + origin.SID + ", which this one is a fork of; look there"
	} else if err := rebuild(ctx, src, turn, out, all); err != nil {
		return nil, err
	}
	for i := range out {
		if p := &out[i]; p.Messages == nil {
			p.system(ctx, &src, cmpWhy(p.Why, out[0].Why))
		}
	}
	return out, nil
}

func cmpWhy(own, first string) string {
	if own != "" {
		return own
	}
	return first
}

// reply fetches what came back.
func (p *Prompt) reply(ctx context.Context, src *Source, b *messages.ModelReply) {
	p.Ended = b
	if b.Length == 0 {
		p.Reply = []byte{}
		return
	}
	var err error
	if p.Reply, err = src.Blob(ctx, b.Blob); err != nil {
		p.Reply, p.Lost = nil, err.Error()
	}
}

// system shows what the journal has of a prompt that cannot be made again.
func (p *Prompt) system(ctx context.Context, src *Source, why string) {
	p.Why = why
	if p.Why == "" {
		p.Why = "it cannot be made again from the journal"
	}
	if p.Request.System.IsZero() {
		return
	}
	if b, err := src.Blob(ctx, p.Request.System); err == nil {
		p.Messages = []messages.Message{{Role: messages.RoleSystem, Text: string(b)}}
		p.Why += "; the system message is the recorded one"
	}
}

// errShown ends a replay that has come far enough.
var errShown = errors.New("the turn is over")

// rebuild fills in the messages: under each of all strictly, then with differences passed
// over, until every request is exact.
func rebuild(ctx context.Context, src Source, turn int64, out []Prompt, all []Agents) error {
	var why string
	src.Prompt = func(r *messages.Record, ms []messages.Message, tools []messages.ToolSpec) error {
		if r.Turn > turn {
			return errShown
		}
		i := slices.IndexFunc(out, func(p Prompt) bool { return p.Seq == r.Seq })
		if i < 0 || out[i].Exact {
			return nil
		}
		p := &out[i]
		p.Messages, p.Tools = ms, tools
		if p.Exact = promptDigest(ms, src.Records, r) == p.Request.Prompt; p.Exact {
			p.Why = ""
		}
		return nil
	}
	for _, pass := range []func(Agents) error{
		func(a Agents) error {
			_, err := Run(ctx, src, a)
			return err
		},
		func(a Agents) error {
			t, err := Try(ctx, src, a)
			if err == nil && t.Stopped != nil {
				err = t.Stopped
			}
			return err
		},
	} {
		for _, agents := range all {
			err := pass(agents)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && !errors.Is(err, errShown) && why == "" {
				why = err.Error()
				if d := (*Divergence)(nil); errors.As(err, &d) {
					why = d.Why
				}
			}
			if !slices.ContainsFunc(out, func(p Prompt) bool { return !p.Exact }) {
				return nil
			}
		}
	}
	for i := range out {
		if p := &out[i]; !p.Exact {
			p.Why = why
			if p.Messages != nil {
				p.Why = "rebuilt, differs from what was sent"
				if why != "" {
					p.Why += ": " + why
				}
			}
		}
	}
	return nil
}
