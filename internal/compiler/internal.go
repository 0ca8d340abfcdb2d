package compiler

import (
	"context"
	"slices"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// internals adds the actions on the session itself, where the dialect has a way to
// name them (docs/spec/streaming.md §7.4). m has its defaults.
func internals(t *catalog.Targets, d parse.Dialect, m manifest.InternalActions, extensions []string) error {
	if tr := d.Traits(); !tr.InStreamActions || tr.Verbatim {
		// A manifest that was made for another dialect has that one's defaults.
		if m.Allowed != nil && len(*m.Allowed) > 0 && !slices.Equal(*m.Allowed, *manifest.Default("cortex").InternalActions.Allowed) {
			return &messages.Error{Code: messages.ErrConfig, Field: "internal_actions.allowed_actions", Detail: "the dialect " + d.Name() + " knows no actions on the session itself"}
		}
		return nil
	}
	return t.AddInternal(catalog.Permission{Disabled: !*m.Enabled, Allowed: *m.Allowed, Blocked: m.Blocked}, append(feedActions(extensions), variableActions()...)...)
}

// variableActions are those about the session's variables.
func variableActions() []catalog.Internal {
	do := func(action string) func(context.Context, *tools.Call, string) (string, error) {
		return func(ctx context.Context, c *tools.Call, args string) (string, error) {
			result, err := turn.Variables(c.Host.Variables).Do(action, args)
			if err == nil && action == messages.InternalClearContext && c.Host.Feeds != nil {
				return c.Host.Feeds(ctx, action, args)
			}
			return result, tools.RefusalOf(err)
		}
	}
	name := catalog.Parameter{Name: "name", Type: "string", Required: true}
	return []catalog.Internal{
		{
			Name: messages.InternalSetVariable, Class: messages.Idempotent, Do: do(messages.InternalSetVariable),
			Summary: "Keeps a value in the session; $name is it from then on, also in later turns and runs.",
			Params:  catalog.Parameters{name, {Name: "value", Required: true}},
		},
		{
			Name: messages.InternalDeleteVariable, Class: messages.Idempotent, Do: do(messages.InternalDeleteVariable),
			Summary: "Forgets a variable.", Params: catalog.Parameters{name},
		},
		{
			Name: messages.InternalClearContext, Class: messages.Idempotent, Do: do(messages.InternalClearContext),
			Summary: "Forgets all variables, and what context feeds have fetched.",
		},
	}
}

// feedActions are those about the session's feeds. What their parameters must be is the
// feeds' own to say.
func feedActions(extensions []string) []catalog.Internal {
	do := func(action string) func(context.Context, *tools.Call, string) (string, error) {
		return func(ctx context.Context, c *tools.Call, args string) (string, error) {
			if c.Host.Feeds == nil {
				return "", tools.Refuse(feeds.ReasonNotAllowed, "the session has no feeds")
			}
			return c.Host.Feeds(ctx, action, args)
		}
	}
	id := catalog.Parameter{Name: "id", Type: "string", Required: true}
	members := catalog.Parameters{
		id,
		{Name: "type", Type: "string", Enum: []string{`"on_demand"`, `"periodic"`}},
		{Name: "interval", Type: "integer", Description: "Seconds, 5 or more, of a periodic feed."},
		{Name: "cache_ttl", Type: "integer", Description: "Seconds a value may be served."},
		{Name: "max_tokens", Type: "integer"},
		{Name: "max_size_bytes", Type: "integer"},
		{Name: "enabled", Type: "boolean"},
		{Name: "source", Type: "object", Description: "type: internal, tool, relic, workflow or llm; name of what is called, or action of internal (system_clock, random, env, session, agent_metadata); params: an object."},
	}
	if slices.Contains(extensions, manifest.FeedTransform) {
		members = append(members, catalog.Parameter{
			Name: "transform", Type: "array", Description: "Steps that change the value, in order, such as {\"op\": \"head\", \"lines\": 20}; 16 at most.",
		})
	}
	add, update, remove := members, members, catalog.Parameters{id}
	if slices.Contains(extensions, manifest.FeedReferences) {
		cascade := catalog.Parameter{Name: "cascade", Type: "boolean", Description: "Feeds that refer to it go with it."}
		update, remove = append(slices.Clone(members), cascade), append(remove, cascade)
	}
	return []catalog.Internal{
		{
			Name: messages.InternalAddFeed, Class: messages.Idempotent, Do: do(messages.InternalAddFeed), Params: add,
			Summary: "Keeps named context at hand: its value is in your next prompts, and $id is it at once.",
		},
		{
			Name: messages.InternalRemoveFeed, Class: messages.Idempotent, Do: do(messages.InternalRemoveFeed), Params: remove,
			Summary: "Removes a feed.",
		},
		{
			Name: messages.InternalUpdateFeed, Class: messages.Idempotent, Do: do(messages.InternalUpdateFeed), Params: update,
			Summary: "Replaces members of a feed; source as a whole.",
		},
		{
			Name: messages.InternalListFeeds, Class: messages.ReadOnly, Do: do(messages.InternalListFeeds),
			Summary: "Lists the feeds.",
		},
		{
			Name: messages.InternalGetFeed, Class: messages.ReadOnly, Do: do(messages.InternalGetFeed),
			Params:  catalog.Parameters{id, {Name: "refresh", Type: "boolean"}},
			Summary: "Gives a feed's value and how old it is, and fetches it first if you say refresh.",
		},
	}
}
