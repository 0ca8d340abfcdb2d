package compiler

import (
	"slices"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// vendors are the providers whose own addresses are sent tools as functions when a
// manifest does not say.
var vendors = []string{"anthropic", "gemini", "openai"}

// atHome reports whether a model is asked at its vendor's own address.
func (e *Env) atHome(a *Definition, f *manifest.Fallback) bool {
	return a.Model == nil && e.Models[f.Provider] == nil && f.BaseURL == "" && slices.Contains(vendors, f.Provider)
}

// callsTools reports whether a model can be sent tools as functions.
func callsTools(r compiled.Route) bool {
	p, ok := r.Port.(interface{ CallsTools() bool })
	return ok && p.CallsTools()
}

// native settles whether the tools are sent as the provider's functions, for all models of
// an agent alike. What was settled by default is put into the manifest: a replay, which
// reaches no provider, has it from there.
func (e *Env) native(m *manifest.Manifest, routes []compiled.Route, d parse.Dialect) error {
	bad := func(detail string) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "model.tool_calls", Detail: detail}
	}
	able := !slices.ContainsFunc(routes, func(r compiled.Route) bool { return !callsTools(r) })
	home := !slices.ContainsFunc(routes, func(r compiled.Route) bool { return !r.Home })
	switch {
	case e.rendering() < 2:
	case m.Model.ToolCalls == manifest.ToolCallsNative && !native.Speaks(d.Name()):
		return bad("the dialect " + d.Name() + " has no calls of the provider's own form; cogency and cortex have")
	case m.Model.ToolCalls == manifest.ToolCallsNative && !able && !e.replays():
		i := slices.IndexFunc(routes, func(r compiled.Route) bool { return !callsTools(r) })
		return bad("the provider " + routes[i].Provider + " cannot be sent tools as functions")
	case m.Model.ToolCalls != "" || !home || !native.Speaks(d.Name()):
	case able || e.replays():
		m.Model.ToolCalls = manifest.ToolCallsNative
	default:
		m.Model.ToolCalls = manifest.ToolCallsText
	}
	return nil
}

// isNative reports what native has settled.
func (e *Env) isNative(m *manifest.Manifest) bool {
	return e.rendering() >= 2 && m.Model.ToolCalls == manifest.ToolCallsNative
}

// nativeDialect is a dialect whose calls come in the provider's own form: only what the system
// says of it differs.
type nativeDialect struct {
	parse.Dialect
	short bool // primer: short
}

// Primer teaches the dialect without its calls.
func (t nativeDialect) Primer(tools []messages.ToolSpec) string {
	return native.Primer(t.Name(), tools, t.short)
}
