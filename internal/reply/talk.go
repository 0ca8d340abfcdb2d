package reply

import (
	"iter"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// stream asks a route, and posts what was asked: over the session's conversation, if the agent
// and the route have one, else with the whole prompt.
func (r *Reply) stream(route compiled.Route, req llm.Request, opened *turn.ModelOpened) iter.Seq2[llm.Chunk, error] {
	port, keeps := route.Port.(llm.SessionModel)
	if r.Talk == nil || !keeps || len(req.Files) > 0 && !route.TalksParts() || req.Passing > 0 && !route.TakesBack() {
		r.sends(messages.ModelReplay, r.asked)
		r.post(opened)
		return route.Port.Stream(r.ctx, req)
	}
	traits := r.Prompt.Agent.Dialect.Traits()
	asked := false
	r.counts = -1
	return r.Talk.Stream(r.ctx, &talk.Request{
		Request: req, Model: port, Run: r.Prompt.Open.Run, Marks: r.Prompt.Agent.Digests().Marks(req.Messages[:len(req.Messages)-req.Passing], r.Prompt.View),
		// A dialect without transcripts tells of a finished run what came of it.
		Whole:  r.Prompt.Agent.Shape == nil && (traits.Transcript && r.Prompt.Agent.Rules.Rendering >= 2 || r.Prompt.Open.Pass > 1),
		Counts: func() int64 { return r.counts },
		Note: func(s messages.ModelSession) {
			r.post(&turn.ModelTalk{Ident: r.Prompt.Open.Ident, Session: s})
		},
		Asked: func(mode string, session int64, sent []messages.Message) {
			in := *opened
			bytes := bytesOf(sent)
			if mode == messages.ModelReplay { // also of parts that are sent as notes
				bytes = r.asked
			}
			if in.Request.Mode = mode; mode == messages.ModelResume {
				in.Request.Session, in.Request.Sent, in.Request.SentBytes = session, int64(len(sent)), bytes
			}
			r.sends(mode, bytes)
			if asked {
				in.System, in.Request.Lints = nil, nil
				r.requests++
			}
			asked = true
			r.post(&in)
		},
	})
}

// sends counts a request that goes out.
func (r *Reply) sends(mode string, bytes int64) {
	r.mode = mode
	r.env.ModelAsked(mode, bytes)
}
