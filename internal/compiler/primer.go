package compiler

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/schema"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/workspace"
)

// builtin begins the ids that switch parts of the prompt (docs/spec/design.md §11).
const builtin = "builtin."

// parts are the parts of the prompt before feeds and conversation.
type parts struct {
	identity bool // who the agent is: name and summary
	tools    bool // what may be called
	security bool // see wantsSecurity
	profile  bool // of the user; on with memory.profile
	feeds    int  // how many feeds the manifest has
}

// set switches one part.
func (p *parts) set(f *manifest.Feed, at string) error {
	bad := func(field, format string, args ...any) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: feeds.ReasonBadValue, Field: at + field, Detail: fmt.Sprintf(format, args...)}
	}
	on := true
	if f.Enabled != nil {
		var ok bool
		if on, ok = feeds.Truth(*f.Enabled); !ok {
			return bad(".enabled", "it is not one of true, 1, yes, on, false, 0, no, off")
		}
	}
	own := manifest.Feed{ID: f.ID, Enabled: f.Enabled}
	if !reflect.DeepEqual(*f, own) {
		return bad("", "a part of the prompt has nothing but id and enabled")
	}
	switch name := strings.TrimPrefix(f.ID, builtin); name {
	case "identity":
		p.identity = on
	case "tools":
		p.tools = on
	case "security":
		p.security = on
	case "profile":
		p.profile = on
	default:
		return bad(".id", "%q is not one of builtin.identity, .tools, .security, .profile", f.ID)
	}
	return nil
}

// primer returns the system text: the parts that are on, in their order.
func (p *parts) primer(m *manifest.Manifest, d parse.Dialect, specs []messages.ToolSpec, answer *schema.Schema) string {
	var all []string
	if text := m.Instructions.Text; len(prompt.Placeholders(text)) == 0 && text != "" { // else they are made for each run
		text, _ = prompt.Expand(text, nil)
		all = append(all, text)
	}
	if p.identity {
		text := "You are " + cmp.Or(m.Name, "an agent") + "."
		if m.Summary != "" {
			text += "\n" + m.Summary
		}
		all = append(all, text)
	}
	if !p.tools {
		specs = nil
	}
	if text := d.Primer(specs); text != "" {
		all = append(all, text)
	}
	if answer != nil {
		all = append(all, answerForm(d, answer))
	}
	if p.security {
		all = append(all, security(m, p.feeds))
	}
	return strings.Join(all, "\n\n")
}

// importsAny reports whether a manifest imports one of these tools.
func importsAny(m *manifest.Manifest, names ...string) bool {
	return slices.ContainsFunc(m.Import.Tools, func(name string) bool { return slices.Contains(names, strings.ToLower(name)) })
}

// The tools of the security section: those that work in a folder, and those that return text
// from other sources.
var (
	folderTools  = []string{"read", "write", "edit", "list", "find", "replace", "shell"}
	foreignTools = []string{"scrape", "search", catalog.RecallName}
)

// wantsSecurity reports whether the security section is on by default.
func wantsSecurity(m *manifest.Manifest, feeds int) bool {
	return feeds > 0 || recalls(m) || importsAny(m, folderTools...) || importsAny(m, foreignTools...)
}

// security is the section for an agent.
func security(m *manifest.Manifest, feeds int) string {
	s := prompt.Security{Feeds: feeds > 0, Folder: importsAny(m, folderTools...)}
	s.System = workspace.Access(m.Workspace.Access) == workspace.AccessSystem
	s.Changes = importsAny(m, "write", "edit", "replace", "shell")
	return s.Text()
}
