package compiler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/web"
	"github.com/seed14be6753/stile/tools/workspace"
)

// Names of an agent's targets: a definition does not take that of a built-in tool, and
// references tell two names apart.

// builtins are the names of all tools of the product, imported or not.
func builtins() []string {
	all := slices.Concat(
		catalog.Standard(), []tools.Tool{catalog.SessionOutput(nil), catalog.TimeNow(nil), catalog.DemoPanic()},
		new(workspace.Files).Tools(), new(workspace.Workspace).Tools(), []tools.Tool{workspace.DeclareShell(0), web.Scrape(), web.Search(nil)},
	)
	names := []string{catalog.RecallName}
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names
}

// ownName refuses the name of a built-in tool to a command.
func ownName(name, at string) error {
	if !slices.ContainsFunc(builtins(), func(b string) bool { return strings.EqualFold(b, name) }) {
		return nil
	}
	return &messages.Error{
		Code: messages.ErrConfig, Reason: manifest.ReasonDuplicate, Field: at,
		Detail: fmt.Sprintf("%s is a built-in tool; give the command another name", clip.Quoted(name)),
	}
}

// distinct refuses two targets whose names differ in '.' and '_' alone: $a_b means both.
// The tools of MCP servers are left out, because no manifest names them; where one of
// those differs so from another target, the exact name counts in a reference. A replay
// takes what was run.
func (e *Env) distinct(has toolset, targets *catalog.Targets) error {
	if e.replays() {
		return nil
	}
	names := slices.DeleteFunc(has.set.Names(), func(name string) bool {
		return slices.ContainsFunc(has.foreign, func(t tools.Tool) bool { return t.Name == name })
	})
	for _, s := range targets.Specs() {
		names = append(names, s.Name)
	}
	first := map[string]string{}
	for _, name := range names {
		key := strings.ReplaceAll(name, ".", "_")
		other, ok := first[key]
		switch {
		case !ok:
			first[key] = name
		case other != name:
			return &messages.Error{
				Code: messages.ErrConfig, Reason: manifest.ReasonDuplicate, Field: "import",
				Detail: fmt.Sprintf("%s and %s differ in '.' and '_' alone, and $%s may mean both; rename one of them", clip.Quoted(other), clip.Quoted(name), key),
			}
		}
	}
	return nil
}
