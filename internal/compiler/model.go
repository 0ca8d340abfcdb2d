package compiler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// routes resolves the manifest's providers: its own, then the fallbacks.
func (e *Env) routes(a *Definition, m *manifest.Manifest) ([]compiled.Route, error) {
	if a.routes != nil {
		return a.routes, nil
	}
	if own := e.own(a); own != nil {
		home := !slices.ContainsFunc(m.Models(), func(f manifest.Fallback) bool { return !e.atHome(a, &f) })
		return []compiled.Route{{Provider: m.Model.Provider, Model: m.Model.Model, Port: own, Options: requestOptions(&m.Model).JSON(), Home: home}}, nil
	}
	var routes []compiled.Route
	for i, f := range m.Models() {
		at := "model"
		if i > 0 {
			at = fmt.Sprintf("model.fallback[%d]", i-1)
		}
		own := i == 0 && ownInterface(m.Model.Session.Transport)
		if own {
			if f.API != "" {
				return nil, noTransport("is an interface of its own; leave model.api out", m)
			}
			f.API, f.Options = m.Model.Session.Transport, *requestOptions(&m.Model)
		}
		port, err := e.provider(a, &f, at)
		var bad *messages.Error
		if own && errors.As(err, &bad) && bad.Field == "model.api" {
			return nil, noTransport("is nothing that the provider "+f.Provider+" has", m)
		}
		if err != nil {
			return nil, err
		}
		routes = append(routes, compiled.Route{Provider: f.Provider, Model: f.Model, Port: port, Options: f.Options.JSON(), Home: e.atHome(a, &f)})
	}
	return routes, nil
}

// requestOptions returns the options of requests to the model: those of the manifest, and what
// model.session.compress is to Live.
func requestOptions(m *manifest.Model) *manifest.Options {
	o, of := m.Options, m.Session.Compress
	if of.Trigger == 0 && of.Target == 0 {
		return &o
	}
	window, slides := map[string]any{}, map[string]any{}
	if of.Trigger > 0 {
		window["triggerTokens"] = strconv.FormatInt(of.Trigger, 10) // numbers of 64 bits are texts there
	}
	if of.Target > 0 {
		slides["targetTokens"] = strconv.FormatInt(of.Target, 10)
	}
	window["slidingWindow"] = slides
	with := func(m map[string]any, key string, value any) map[string]any {
		if m = maps.Clone(m); m == nil {
			m = map[string]any{}
		}
		m[key] = value
		return m
	}
	setup, _ := o.Extra["setup"].(map[string]any)
	o.Extra = with(o.Extra, "setup", with(setup, "contextWindowCompression", window))
	return &o
}

// ownInterface reports whether a transport of conversations is an interface of a provider, as
// those of model.api are.
func ownInterface(transport string) bool {
	return transport == manifest.TransportRealtime || transport == manifest.TransportLive
}

func noTransport(why string, m *manifest.Manifest) error {
	return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "model.session.transport", Detail: m.Model.Session.Transport + " " + why}
}

// own is the model that stands for every provider of the manifest; nil when there is none.
func (e *Env) own(a *Definition) llm.Model {
	if e.replays() {
		return replayModel{}
	}
	return a.Model
}

// replayModel is the model of a replay, whose replies are in the journal.
type replayModel struct{}

// Stream implements llm.Model.
func (replayModel) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, messages.Errorf(messages.ErrModel, "there is no model here"))
	}
}

// provider finds a model; at is its place in the manifest.
func (e *Env) provider(a *Definition, f *manifest.Fallback, at string) (llm.Model, error) {
	set := llm.Settings{
		BaseURL: f.BaseURL, Secret: f.Secret, API: f.API, MaxTokens: f.MaxTokens, FirstByte: f.APITimeout,
		Price:   llm.Price{Input: f.Price.Input, Output: f.Price.Output, CacheRead: f.Price.CacheRead, CacheWrite: f.Price.CacheWrite},
		Options: f.Options.JSON(), Whole: f.Stream != nil && !*f.Stream,
	}
	if p, ok := e.Models[f.Provider]; ok {
		if set != (llm.Settings{}) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at, Detail: "the provider " + f.Provider + " is a model of the host and takes no settings but model"}
		}
		return p, nil
	}
	if provide, ok := e.Providers[f.Provider]; ok {
		if f.Model == "" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".model", Detail: "the provider " + f.Provider + " needs the name of a model"}
		}
		port, err := provide(set)
		return port, messages.At(err, at)
	}
	if f.Provider != "scripted" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".provider", Detail: "there is no provider " + f.Provider + " here; configured are " + e.providerNames()}
	}
	if f.Script == "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".script", Detail: "the scripted provider needs a script"}
	}
	path := f.Script
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".script", File: f.Script, Detail: "cannot read the script", Cause: files.Cause(err)}
	}
	script, err := scripted.Parse(f.Script, data)
	if err == nil {
		script.Price(set.Price)
	}
	return script, err
}

// providerNames lists what a manifest may name.
func (e *Env) providerNames() string {
	names := []string{"scripted"}
	names = slices.AppendSeq(names, maps.Keys(e.Models))
	names = slices.AppendSeq(names, maps.Keys(e.Providers))
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
