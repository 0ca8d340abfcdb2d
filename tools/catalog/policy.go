package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Policy says which tools of a registry a program may call. The zero value allows none. An
// entry is a tool's name or a group with a star, "str.*", which covers the groups below it;
// case does not matter.
type Policy struct {
	Allow []string
	Deny  []string // takes precedence over Allow
	// MaxCalls limits the calls per program of the tools that an entry names, beside the
	// limit that a tool declares; the smallest limit counts. 0 forbids calls.
	MaxCalls map[string]int64
}

// Set is a registry under a policy. It never changes and is safe for concurrent use; Bind
// makes it ready for one program.
type Set struct {
	registry *Registry
	entries  []entry        // as in registry.tools
	lookup   map[string]int // lower-cased name → place in entries
	allowed  int
	limited  bool
}

// entry is a tool under a policy.
type entry struct {
	tool    *tools.Tool
	native  *neuroscript.Tool // for a pure tool; the others are made per program
	allowed bool
	limit   int64 // calls per program; negative for none
}

// Apply returns the registry under a policy. An entry that is malformed or matches no tool is
// ERR_CONFIG with Field policy.allow, policy.deny or policy.max_calls, so that a misspelt
// denial is found. Entries may name the tools of the turn (group aeiou), which are always
// allowed.
func (r *Registry) Apply(p Policy) (*Set, error) {
	s := &Set{registry: r, entries: make([]entry, len(r.tools)), lookup: r.index}
	for i, t := range r.tools {
		e := entry{tool: t, limit: -1}
		if t.MaxCalls > 0 {
			e.limit = t.MaxCalls
		}
		if t.Class == messages.Pure && t.Pure != nil {
			e.native = native(t, t.Pure)
		}
		s.entries[i] = e
	}
	mark := func(field, pattern string, do func(*entry)) error {
		hit := false
		for i := range s.entries {
			if matches(pattern, s.entries[i].tool.Name) {
				do(&s.entries[i])
				hit = true
			}
		}
		if !hit && !inTurnGroup(pattern) {
			return invalid(field, "no tool matches "+strconv.Quote(pattern))
		}
		return nil
	}
	for _, pattern := range p.Allow {
		if err := mark("policy.allow", pattern, func(e *entry) { e.allowed = true }); err != nil {
			return nil, err
		}
	}
	for _, pattern := range p.Deny {
		if inTurnGroup(pattern) {
			return nil, invalid("policy.deny", "the tools of group aeiou belong to the turn and cannot be denied")
		}
		if err := mark("policy.deny", pattern, func(e *entry) { e.allowed = false }); err != nil {
			return nil, err
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(p.MaxCalls)) {
		limit := p.MaxCalls[pattern]
		if limit < 0 {
			return nil, invalid("policy.max_calls."+pattern, "must not be negative")
		}
		if inTurnGroup(pattern) {
			return nil, invalid("policy.max_calls."+pattern, "the tools of group aeiou have the limits of the turn")
		}
		err := mark("policy.max_calls", pattern, func(e *entry) {
			if e.limit < 0 || limit < e.limit {
				e.limit = limit
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range s.entries {
		if s.entries[i].allowed {
			s.allowed++
			s.limited = s.limited || s.entries[i].limit >= 0
		}
	}
	return s, nil
}

// invalid returns an ERR_CONFIG.
func invalid(field, detail string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
}

// Covers reports whether one of the entries of a policy covers a tool's name.
func Covers(entries []string, name string) bool {
	return slices.ContainsFunc(entries, func(pattern string) bool { return matches(pattern, name) })
}

// matches reports whether a policy's entry covers a tool's name.
func matches(pattern, name string) bool {
	if group, ok := strings.CutSuffix(pattern, ".*"); ok {
		return group != "" && len(name) > len(group)+1 && name[len(group)] == '.' && strings.EqualFold(name[:len(group)], group)
	}
	return strings.EqualFold(pattern, name)
}

func inTurnGroup(pattern string) bool {
	return matches(seam.TurnGroup+".*", pattern)
}

// Allows reports whether the policy lets a program call the tool.
func (s *Set) Allows(name string) bool {
	i, ok := s.lookup[strings.ToLower(name)]
	return ok && s.entries[i].allowed
}

// Lookup returns an allowed tool by its name, in any case. Its errors are those of a program's
// call: code 3 for a name that is not registered, 1003 for a denied one. It counts no call.
func (s *Set) Lookup(name string) (*tools.Tool, error) {
	i, ok := s.lookup[strings.ToLower(name)]
	if !ok {
		return nil, neuroscript.Errorf(neuroscript.CodeToolNotFound, "there is no tool %s", name)
	}
	if !s.entries[i].allowed {
		return nil, denied(s.entries[i].tool)
	}
	return s.entries[i].tool, nil
}

// Names returns the names of the allowed tools, in the registry's order. The slice is a copy.
func (s *Set) Names() []string {
	names := make([]string, 0, s.allowed)
	for i := range s.entries {
		if s.entries[i].allowed {
			names = append(names, s.entries[i].tool.Name)
		}
	}
	return names
}

// Specs describes the allowed tools.
func (s *Set) Specs() []messages.ToolSpec { return s.registry.Specs(s.Allows) }

func denied(t *tools.Tool) *neuroscript.ScriptError {
	return neuroscript.Errorf(neuroscript.CodeDenied, "tool %s is not allowed here", t.Name)
}

func overLimit(t *tools.Tool, limit int64) *neuroscript.ScriptError {
	return &neuroscript.ScriptError{
		Code:    neuroscript.CodeDenied,
		Message: fmt.Sprintf("tool %s may be called %d times in one program", t.Name, limit),
	}
}
