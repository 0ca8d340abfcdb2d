package compiler

import (
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// sessions settles whether replies come over conversations that the provider keeps
// (docs/spec/model-sessions.md); nil is no.
func (e *Env) sessions(m *manifest.Manifest, routes []compiled.Route, d parse.Dialect) (*compiled.Sessions, error) {
	if e.replays() || m.Model.Mode == manifest.ModeReplay {
		return nil, nil
	}
	s := &compiled.Sessions{Auto: m.Model.Mode != manifest.ModeResume, Idle: m.Model.Session.Idle, Age: m.Model.Session.MaxAge}
	_, keeps := routes[0].Port.(llm.SessionModel)
	bad := func(detail string) (*compiled.Sessions, error) {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "model.mode", Detail: detail}
	}
	switch grows := d.Traits().AppendOnly; {
	case s.Auto && (!grows || !keeps || !routes[0].Home && m.Model.Session.Transport == ""):
		return nil, nil
	case !grows:
		return bad("the prompts of the dialect " + d.Name() + " do not grow at their end, so there is nothing to resume; leave mode out. plain, cogency and kitsu can")
	case !keeps:
		return bad("the provider " + m.Model.Provider + " keeps no conversation here; openai does, with api: responses and streamed replies. Leave mode out")
	}
	return s, nil
}
