package compiler

import (
	"cmp"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// sessions settles whether replies come over conversations that the provider keeps
// (docs/spec/model-sessions.md), and why; nil is no.
func (e *Env) sessions(m *manifest.Manifest, routes []compiled.Route, d parse.Dialect) (_ *compiled.Sessions, why string, _ error) {
	if e.replays() {
		return nil, "a replay asks no model", nil
	}
	if m.Model.Mode == manifest.ModeReplay {
		return nil, "model.mode is replay", nil
	}
	s := &compiled.Sessions{Auto: m.Model.Mode != manifest.ModeResume, Idle: m.Model.Session.Idle, Age: m.Model.Session.MaxAge, Seed: int(m.Model.Session.Seed)}
	_, keeps := routes[0].Port.(llm.SessionModel)
	cure := ""
	ends := m.ContextFeedsAt == manifest.FeedsAtEnd
	switch grows := d.Traits().AppendOnly; {
	case !grows && d.Name() == "cortex":
		why, cure = "feeds stand in front of the conversation in cortex, and change, so there is nothing to resume", "write context_feeds_at: end, or leave mode out"
	case !grows:
		why, cure = "the prompts of the dialect "+d.Name()+" do not grow at their end, so there is nothing to resume", "leave mode out. plain, cogency and kitsu can, and cortex with context_feeds_at: end"
	case keeps && ends && !routes[0].TakesBack():
		why, cure = "a conversation over "+cmp.Or(m.Model.Session.Transport, "this model")+" cannot take back the feeds that end a prompt (context_feeds_at)", "openai can, over responses_ws and realtime. Leave mode out"
	case !keeps:
		why, cure = "the provider "+m.Model.Provider+" keeps no conversation here", "openai does, with api: responses and streamed replies, and gemini with session.transport: live. Leave mode out"
	case s.Auto && !routes[0].Home && m.Model.Session.Transport == "":
		return nil, "the model is not at its vendor's own address, and model.session.transport is not set", nil
	case s.Auto:
		return s, "the provider keeps the conversation" + over(&m.Model) + "; a run goes on with replay where that fails", nil
	default:
		return s, "model.mode is resume" + over(&m.Model), nil
	}
	if s.Auto {
		return nil, why, nil
	}
	return nil, "", &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "model.mode", Detail: why + "; " + cure}
}

// over names the transport of a model's conversations, as far as it is known.
func over(m *manifest.Model) string {
	switch {
	case m.Session.Transport == manifest.TransportLive:
		return " (live, and stores it for a while)"
	case m.Session.Transport != "":
		return " (" + m.Session.Transport + ")"
	case m.Provider == "openai":
		return " (responses_ws)"
	}
	return ""
}
