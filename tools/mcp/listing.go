package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Tool is a tool that a server offers.
type Tool struct {
	Name        string // as the server knows it
	Description string
	Schema      string // of its arguments, canonical JSON
	Digest      string // of name, title, description, schemas and annotations: "sha256:" and 64 digits
}

// Bounds of a server's list.
const (
	MaxTools   = 512
	maxPages   = 64
	maxNameLen = 128
)

// Tools asks the server for the tools that it offers now, by name. While Changes returns the
// same number as changes, the list is up to date. Errors are ERR_CONFIG, or the cause of ctx.
func (s *Server) Tools(ctx context.Context) (all []Tool, changes int64, err error) {
	for first := true; ; first = false {
		c, err := s.connect(ctx)
		if err != nil {
			return nil, 0, err
		}
		all, changes, err := s.list(ctx, c)
		if err == nil || !first || ctx.Err() != nil {
			return all, changes, err
		}
		s.drop(c) // it may have been lost before without notice
	}
}

func (s *Server) list(ctx context.Context, c *connection) (all []Tool, changes int64, err error) {
	defer s.release(c)
	changes = s.Changes()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Connect)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	bad := func(detail string) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: reasonUnreachable, Detail: "the MCP server " + s.cfg.Name + " " + redact(excerpt(detail), c.secrets)}
	}
	var params sdk.ListToolsParams
	for pages := 0; ; pages++ {
		res, err := c.session.ListTools(ctx, &params)
		if err != nil {
			return nil, 0, bad("does not tell its tools: " + address.Hidden(err))
		}
		page, wrong, err := offered(res)
		if err != nil {
			return nil, 0, bad("has a tool whose schema is no JSON: " + wrong)
		}
		all = append(all, page...)
		switch {
		case len(all) > MaxTools || res.NextCursor != "" && pages >= maxPages:
			return nil, 0, bad("offers more tools than a host takes: name those that are wanted under tools, with their schema")
		case res.NextCursor == "":
			s.answered()
			slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
			s.noted(ctx, all, changes)
			return all, changes, nil
		}
		params.Cursor = res.NextCursor
	}
}

// offered returns the tools of a page of the list. With an error, wrong is the name of the
// tool whose schema is not JSON.
func offered(res *sdk.ListToolsResult) (all []Tool, wrong string, err error) {
	for _, t := range res.Tools {
		if t == nil {
			continue // null in the list
		}
		own := Tool{Name: t.Name, Description: describe(t)}
		if t.InputSchema != nil {
			raw, err := json.Marshal(t.InputSchema)
			if err != nil {
				return nil, t.Name, err
			}
			own.Schema = string(raw)
		}
		if own.Digest, err = digestOf(t); err != nil {
			return nil, t.Name, err
		}
		all = append(all, own)
	}
	return all, "", nil
}

// Changes returns how often the list of the server's tools may have changed.
func (s *Server) Changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// describe returns the description of a tool for a model.
func describe(t *sdk.Tool) string {
	text := t.Description
	if text == "" {
		text = t.Title
	}
	return clip.OneLine(text, catalog.MaxDescriptionBytes)
}

// Name returns a tool's name in the form that all dialects accept: a letter or '_', then
// letters, digits and '_'. All other characters become '_'.
func Name(name string) string {
	var b strings.Builder
	for i := 0; i < len(name) && b.Len() < maxNameLen; i++ {
		switch c := name[i]; {
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			b.WriteByte(c)
		case c >= '0' && c <= '9':
			if b.Len() == 0 {
				b.WriteByte('_')
			}
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}
