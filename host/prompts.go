package host

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// promptView is one request to a model: what it was sent, and what came back.
type promptView struct {
	Run      int64           `json:"run"`
	Turn     int64           `json:"turn"`
	Seq      int64           `json:"seq" doc:"of the record model.request"`
	At       string          `json:"at" format:"date-time"`
	Provider string          `json:"provider"`
	Model    string          `json:"model"`
	Options  json.RawMessage `json:"options,omitempty" doc:"of the model, as its provider was sent them"`
	Exact    bool            `json:"exact" doc:"the messages are what was sent, byte for byte: their digest is the recorded one"`
	Why      string          `json:"why,omitempty" doc:"what differs, where they are not exact"`
	Messages []saidView      `json:"messages"`
	Tools    []offeredView   `json:"tools,omitempty" doc:"tools that were offered in the provider's own form"`
	Reply    *rawReplyView   `json:"reply,omitempty" doc:"with reply=true, once there is one"`
}

type saidView struct {
	Role   string          `json:"role" enum:"system,user,assistant,tool"`
	Text   string          `json:"text"`
	Native json.RawMessage `json:"native,omitempty" doc:"what was sent in place of the text: calls and results in the provider's own form, with their ids"`
}

type offeredView struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" doc:"of the arguments"`
}

type rawReplyView struct {
	Finish string         `json:"finish"`
	Usage  messages.Usage `json:"usage"`
	Cost   int64          `json:"cost_micro_usd,omitempty"`
	Error  string         `json:"error,omitempty"`
	Text   string         `json:"text" doc:"as it came; bytes that are no UTF-8 are replaced"`
	Lost   string         `json:"lost,omitempty" doc:"why the text is not there"`
}

type promptList struct {
	Requests []promptView `json:"requests"`
}

func viewPrompt(p *stile.Prompt, reply bool) promptView {
	v := promptView{
		Run: p.Run, Turn: p.Turn, Seq: p.Seq, At: p.At.UTC().Format(time.RFC3339Nano), Provider: p.Request.Provider, Model: p.Request.Model,
		Options: validJSON(p.Request.Options), Exact: p.Exact, Why: p.Why, Messages: []saidView{},
	}
	for _, m := range p.Messages {
		own := saidView{Role: string(m.Role), Text: m.Text}
		if len(p.Tools) > 0 {
			own.Native = validJSON(m.Native)
		}
		v.Messages = append(v.Messages, own)
	}
	for _, t := range p.Tools {
		v.Tools = append(v.Tools, offeredView{t.Name, t.Description, validJSON(t.Schema)})
	}
	if b := p.Ended; b != nil && reply {
		v.Reply = &rawReplyView{Finish: string(b.Finish), Usage: b.Usage, Cost: b.CostUSD, Error: b.Error, Text: string(p.Reply), Lost: p.Lost}
	}
	return v
}

func validJSON(text string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// promptRoutes show what models saw. Making a prompt again takes processor time in proportion
// to the session, so that few are made at once.
func (s *Server) promptRoutes() {
	type promptIn struct {
		ID    string `path:"id" maxLength:"128"`
		Turn  string `path:"turn" maxLength:"20" doc:"number of the turn, or last: the last one that asked a model"`
		Reply bool   `query:"reply" doc:"the raw replies too"`
	}
	places := make(chan struct{}, maxPrompts)
	route(s, get("get-prompt", "/v1/sessions/{id}/turns/{turn}/prompt", "What the model saw in a turn, and what it replied", "runs"),
		func(ctx context.Context, in *promptIn) (*answered[promptList], error) {
			ses, err := s.find(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			turn, err := s.turnOf(ctx, ses, in.Turn)
			if err != nil {
				return nil, err
			}
			all, err := s.rt.Archive().Prompts(ctx, ses.Incarnation(), s.offer.Load().agents[ses.AgentName()], turn)
			if err != nil {
				return nil, err
			}
			var out answered[promptList]
			for i := range all {
				out.Body.Requests = append(out.Body.Requests, viewPrompt(&all[i], in.Reply))
			}
			return &out, nil
		})
}

// maxPrompts is how many prompts are made again at once.
const maxPrompts = 2

// turnOf reads the number of a turn.
func (s *Server) turnOf(ctx context.Context, ses *stile.Session, text string) (turn int64, err error) {
	if text != "last" {
		if turn, err = strconv.ParseInt(text, 10, 64); err != nil || turn < 1 {
			return 0, &messages.Error{Code: messages.ErrInvalid, Field: "turn", Detail: "want a number from 1 on, or last"}
		}
		return turn, nil
	}
	for r, err := range ses.Query(ctx, stile.RecordQuery{Kinds: []stile.Kind{messages.KindModelRequest}, Latest: 1}) {
		if err != nil {
			return 0, err
		}
		turn = r.Turn
	}
	if turn == 0 {
		return 0, messages.Errorf(messages.ErrNotFound, "the session has asked no model")
	}
	return turn, nil
}
