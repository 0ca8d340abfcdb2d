package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
)

// changed is a default of manifests that another release has had otherwise. docs/upgrade.md
// has the same list, and a test holds them equal.
type changed struct {
	Key  string `json:"key"`
	Was  string `json:"was"`
	Is   string `json:"is"`
	Line string `json:"line"` // of the manifest, that restores what was
	// concerns reports whether a manifest that leaves the key out is affected.
	concerns func(m *manifest.Manifest) bool
}

// speaks are manifests of some dialects.
func speaks(m *manifest.Manifest, dialects ...string) bool {
	return slices.Contains(dialects, m.Dialect)
}

// imports reports whether one of a manifest's tools begins with a text.
func imports(m *manifest.Manifest, begin string) bool {
	return slices.ContainsFunc(m.Import.Tools, func(name string) bool { return strings.HasPrefix(name, begin) })
}

// changes are those since 0.1.
var changes = []changed{
	{
		"import.tools", "NeuroScript's fifty tools in every prompt", "in other dialects than aeiou those that are imported",
		"import: {tools: [str.*, list.*, map.*, math.*, error.*, userdata.*, meta.*]}",
		func(m *manifest.Manifest) bool { return speaks(m, "cortex", "cogency", "kitsu") && !imports(m, "str.") },
	},
	{
		"loop.strict", "a reply that misses the dialect is an error", "habits that leave no doubt are forgiven, each with a lint",
		"loop: {strict: [all]}",
		func(m *manifest.Manifest) bool { return len(m.Loop.Strict) == 0 },
	},
	{
		"loop.repairs", "a program that fails ends its run", "the run goes on in a fresh turn that is told, twice",
		"loop: {repairs: 0}",
		func(m *manifest.Manifest) bool { return speaks(m, "aeiou") && m.Loop.Repairs == nil },
	},
	{
		"quotas.calls", "256 tool calls a program, pure ones too", "4096 calls a program, pure ones not counted",
		"quotas: {calls: 256}",
		func(m *manifest.Manifest) bool { return speaks(m, "aeiou") && m.Quotas.Calls == 0 },
	},
	{
		"quotas.reply_actions", "64 actions a turn in aeiou, and 256 a run", "as many as quotas.calls, in a turn and in a run",
		"quotas: {reply_actions: 64, actions: 255}",
		func(m *manifest.Manifest) bool {
			return speaks(m, "aeiou") && (m.Quotas.ReplyActions == 0 || m.Quotas.Actions == 0 || m.Quotas.Actions == 256)
		},
	},
	{
		"loop.max_turns", "no limit of turns in aeiou", "50 turns a run",
		"loop: {max_turns: 1000000}",
		func(m *manifest.Manifest) bool { return speaks(m, "aeiou") && m.Loop.MaxTurns == 0 },
	},
	{
		"model.tool_calls", "calls written as text, whatever the provider", "tools as the provider's own functions at the three vendors' addresses, in cogency and cortex",
		"model: {tool_calls: text}",
		func(m *manifest.Manifest) bool {
			return speaks(m, "cortex", "cogency") && m.Model.ToolCalls == "" && m.Model.BaseURL == "" && slices.Contains([]string{"openai", "anthropic", "gemini"}, m.Model.Provider)
		},
	},
	{
		"model.mode", "auto was replay", "at OpenAI's own address the provider keeps the conversation, and goes without where that fails, in plain, cogency and kitsu",
		"model: {mode: replay}",
		func(m *manifest.Manifest) bool {
			return speaks(m, "plain", "cogency", "kitsu") && m.Model.Mode == manifest.ModeAuto && m.Model.Provider == "openai" && m.Model.BaseURL == "" && m.Model.API != "chat"
		},
	},
	{
		"kitsu.confirm_topics", "a search about another topic waits for confirmation", "it waits only where a person may approve",
		"kitsu: {confirm_topics: true}",
		func(m *manifest.Manifest) bool { return speaks(m, "kitsu") && m.Kitsu.ConfirmTopics == nil },
	},
	{
		"kitsu.search", "results made up by a stub where no tool searches", "there is no search, but with the scripted model",
		"kitsu: {search: stub}",
		func(m *manifest.Manifest) bool {
			return speaks(m, "kitsu") && m.Kitsu.Search == "" && !imports(m, "search") && m.Model.Provider != "scripted"
		},
	},
	{
		"workspace.editable", "tools change .git, .env and the folders of editors", "they read them",
		"workspace: {editable: [.git, .hg, .svn, .vscode, .idea, .vs, .zed, .fleet, .devcontainer, .env]}",
		func(m *manifest.Manifest) bool {
			return !speaks(m, "plain") && len(m.Workspace.Editable) == 0
		},
	},
	{
		"workspace.per", "all callers of an agent have one folder, one cache and one connection to an MCP server", "each user has them, where callers show tokens; access: project and system need workspace.per",
		"workspace: {per: agent}",
		func(m *manifest.Manifest) bool {
			return m.Workspace.Per == "" && (!speaks(m, "plain") || len(m.Import.MCP) > 0)
		},
	},
}

// upgrade names the changed defaults that concern manifests.
func (a *app) upgrade(config string, manifests []string, asJSON bool) error {
	manifests, err := a.manifests(config, manifests)
	if err != nil {
		return err
	}
	for _, path := range manifests {
		agent, err := stile.LoadAgent(path)
		if err != nil {
			return err
		}
		if !asJSON {
			fmt.Fprintf(a.out, "%s\n", harmless(path))
		}
		for _, c := range changes {
			switch {
			case !c.concerns(agent.Manifest):
			case asJSON:
				if err := a.writeJSON(c); err != nil {
					return err
				}
			default:
				fmt.Fprintf(a.out, "  %s\n    was  %s\n    is   %s\n    back %s\n", c.Key, c.Was, c.Is, c.Line)
			}
		}
	}
	return nil
}
