package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// A model sees a server's own descriptions of its tools, and the server may change them. So
// each tool has a digest, changes are reported to the operator, and a manifest can pin the
// digest of the tools that it was written for.

// PinPrefix begins a digest in a manifest.
const PinPrefix = "sha256:"

// ReasonPin is the reason of ERR_CONFIG when a server does not offer what is pinned.
const ReasonPin = "MCP_PIN"

// Differs reports whether err means that a server does not offer what is pinned.
func Differs(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == ReasonPin
}

// Change is a tool whose digest has changed. Before is "" for a new tool, Now for a removed
// one.
type Change struct{ Tool, Before, Now string }

// digested is the content of a tool's digest. Other fields, such as icons, are not shown to
// models.
type digested struct {
	Annotations  *sdk.ToolAnnotations `json:"annotations,omitempty"`
	Description  string               `json:"description,omitempty"`
	InputSchema  any                  `json:"inputSchema,omitempty"`
	Name         string               `json:"name"`
	OutputSchema any                  `json:"outputSchema,omitempty"`
	Title        string               `json:"title,omitempty"`
}

func digestOf(t *sdk.Tool) (string, error) {
	return digestJSON(digested{t.Annotations, t.Description, t.InputSchema, t.Name, t.OutputSchema, t.Title})
}

// Described returns the digest of a tool that a manifest describes instead of its server.
func Described(name, description, schema string) string {
	d, err := digestJSON(digested{Name: name, Description: description, InputSchema: schema})
	if err != nil {
		return "" // a text is always JSON
	}
	return d
}

// ListDigest returns the digest of a list of tools.
func ListDigest(all []Tool) string {
	digests := make([]string, len(all))
	for i := range all {
		digests[i] = all[i].Digest
	}
	slices.Sort(digests)
	d, err := digestJSON(digests)
	if err != nil {
		return "" // as above
	}
	return d
}

func digestJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	own := jsontext.Value(raw)
	if err == nil {
		err = own.Canonicalize()
	}
	if err != nil {
		return "", err
	}
	return PinPrefix + messages.Digest(sha256.Sum256(own)).String(), nil
}

// offer is the list of tools that a server gave last.
type offer struct {
	tools   map[string]string // digests by name
	list    string            // digest of all
	changes int64             // Server.Changes when it was asked
}

// noted stores a list that the server gave, and reports tools that have changed since the
// last list, of this host process or of the one before.
func (s *Server) noted(ctx context.Context, all []Tool, changes int64) {
	now := &offer{tools: make(map[string]string, len(all)), list: ListDigest(all), changes: changes}
	for i := range all {
		now.tools[all[i].Name] = all[i].Digest
	}
	s.mu.Lock()
	before := s.offered
	if before == nil || before.changes <= changes {
		s.offered = now
	}
	s.mu.Unlock()
	var known map[string]string
	switch {
	case before != nil:
		known = before.tools
	case s.pool.opts.Known != nil && !s.own:
		known = s.pool.opts.Known(ctx, s.identity())
	}
	changed := changesOf(known, now.tools)
	if known != nil && len(changed) > 0 && s.pool.opts.Changed != nil {
		s.pool.opts.Changed(s.cfg.Name, changed)
	}
	if s.pool.opts.Remember != nil && !s.own && (known == nil || len(changed) > 0) {
		s.pool.opts.Remember(ctx, s.identity(), now.tools)
	}
}

// identity returns a key for the server of a manifest that is the same after a restart.
func (s *Server) identity() string {
	d, err := digestJSON([]any{s.cfg.Name, s.cfg.Command, s.cfg.Dir, s.cfg.URL})
	if err != nil {
		return s.cfg.Name // texts are JSON
	}
	return strings.TrimPrefix(d, PinPrefix)
}

func changesOf(before, now map[string]string) (all []Change) {
	for name, d := range now {
		if before[name] != d {
			all = append(all, Change{name, before[name], d})
		}
	}
	for name, d := range before {
		if _, there := now[name]; !there {
			all = append(all, Change{name, d, ""})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Tool, b.Tool) })
	return all
}

// Offered returns the digest of a tool in the last list; "" if the list lacks it or the
// server was not asked yet. It does not block.
func (s *Server) Offered(tool string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offered == nil {
		return ""
	}
	return s.offered.tools[tool]
}

// fresh returns the last offer if it cannot have changed since, and nil otherwise.
func (s *Server) fresh() *offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil || s.offered == nil || s.offered.changes != s.changes {
		return nil
	}
	return s.offered
}

// Agreed has the digests that a call was agreed to with: by a pin, or by a person's approval.
// "" is not compared.
type Agreed struct {
	Tool string // digest of the tool
	List string // digest of the list of all tools
}

// holds compares the server's offer with want, and asks the server first if the offer may have
// changed. The error is a *neuroscript.ScriptError, or the cause of ctx.
func (s *Server) holds(ctx context.Context, tool string, want Agreed) error {
	if want == (Agreed{}) {
		return nil
	}
	o := s.fresh()
	if o == nil {
		if _, _, err := s.Tools(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", detailOf(err))
		}
		s.mu.Lock()
		o = s.offered
		s.mu.Unlock()
	}
	if is := o.tools[tool]; want.Tool != "" && is != want.Tool {
		return neuroscript.Errorf(neuroscript.CodeDenied, "the MCP server %s offers another %s than the one that was agreed to (%s, not %s): nothing was called", s.cfg.Name, tool, orNone(is), want.Tool)
	}
	if want.List != "" && o.list != want.List {
		return neuroscript.Errorf(neuroscript.CodeDenied, "the MCP server %s offers other tools than those that are pinned (%s, not %s): nothing was called", s.cfg.Name, o.list, want.List)
	}
	return nil
}

func orNone(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}

// Pinned compares a list with pins: of the whole list, and of tools by name. The error is
// ERR_CONFIG with ReasonPin, the name of the tool and both digests.
func (s *Server) Pinned(all []Tool, list string, tools map[string]string) error {
	bad := func(what, is, pin string) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: ReasonPin, Field: "pin", Detail: fmt.Sprintf("%s of the MCP server %s has the digest %s, and the pin is %s: look at what it says now, then stile doctor --pins has the digests", what, s.cfg.Name, is, pin)}
	}
	is := map[string]string{}
	for i := range all {
		is[all[i].Name] = all[i].Digest
	}
	for name, pin := range tools {
		if is[name] != pin {
			return bad("the tool "+name, orNone(is[name]), pin)
		}
	}
	if d := ListDigest(all); list != "" && d != list {
		return bad("the list of tools", d, list)
	}
	return nil
}

// renewEvery is the shortest time between two requests for the list of a server that keeps
// reporting changes.
const renewEvery = time.Second

// renew asks for the list again in the background, if it was asked for before. s.mu is held.
func (s *Server) renew() {
	if s.offered == nil || s.renewing || s.own {
		return
	}
	s.renewing = true
	go s.keepFresh()
}

// keepFresh asks for the list until it has not changed meanwhile.
func (s *Server) keepFresh() {
	stop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.renewing = false
	}
	if !s.pool.begin() {
		stop()
		return
	}
	defer s.pool.work.Done()
	for {
		s.mu.Lock()
		if s.live == nil || s.offered.changes == s.changes {
			s.renewing = false // a further connection asks again
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if _, _, err := s.Tools(s.pool.ctx); err != nil {
			stop()
			return
		}
		wait := time.NewTimer(renewEvery)
		select {
		case <-wait.C:
		case <-s.pool.ctx.Done():
			wait.Stop()
			stop()
			return
		}
	}
}
