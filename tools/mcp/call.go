package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Do calls a tool with the JSON object of its arguments. The result is JSON: the structured
// content if there is some, else the text, else a list of the contents, with a description of
// those that are no text.
//
// The error is a *neuroscript.ScriptError of code 21 when the tool reports a failure, the
// server refuses the call, or the call did not reach it. When the server may have begun and
// did not answer the error is *tools.Unsettled; a call of class read_only or idempotent is
// made once more instead. When ctx ends first the error is its cause, and the server is
// notified.
//
// If agreed is given, the server must offer exactly that on the connection of each attempt:
// otherwise no tool is called, and the code is 1003.
//
// action is what the call serves, nil for none. Of an action whose result is shown as it grows,
// the server is asked for progress and for pieces of the result (PartialKey). A call of which a
// piece was shown is not made once more.
func (s *Server) Do(ctx context.Context, action *tools.Call, tool string, class messages.Class, args string, agreed ...Agreed) (string, error) {
	harmless := class == messages.ReadOnly || class == messages.Idempotent
	for first := true; ; first = false {
		for _, want := range agreed {
			if err := s.holds(ctx, tool, want); err != nil {
				return "", err
			}
		}
		c, err := s.connect(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", detailOf(err))
		}
		params := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)}
		p, end := s.watch(ctx, c, action, params)
		result, lost, begun, err := s.callOnce(ctx, c, params)
		if err := end(result); err != nil {
			return "", err
		}
		switch {
		case !lost:
			return result, err
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !first || begun && !harmless || p.has() || s.pool.ctx.Err() != nil:
			return "", lostError(begun, class, err.Error())
		}
	}
}

// lostError returns the error of a call without an answer.
func lostError(begun bool, class messages.Class, why string) error {
	if begun && class.Durable() {
		return &tools.Unsettled{Reason: why}
	}
	return neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", why)
}

// detailOf returns the text for a model about a connection that could not be made.
func detailOf(err error) string {
	var u *unreached
	if errors.As(err, &u) {
		return u.told
	}
	var e *messages.Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}

// callOnce makes a call on a connection. lost reports whether there was no answer, begun
// whether the server may have got the call.
func (s *Server) callOnce(ctx context.Context, c *connection, params *sdk.CallToolParams) (result string, lost, begun bool, err error) {
	var sent, missing atomic.Bool
	sent.Store(s.cfg.URL == "") // a pipe does not show when it is read
	call, cancel := context.WithCancel(httptrace.WithClientTrace(context.WithValue(ctx, missingKey{}, &missing), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	res, err := c.session.CallTool(call, params)
	s.release(c)
	if err == nil {
		s.answered()
		result, err = s.result(res, c.secrets)
		return result, false, true, err
	}
	var refused *jsonrpc.Error
	if errors.As(err, &refused) && refused.Code != rejectedByTransport && ctx.Err() == nil && c.ctx.Err() == nil {
		s.answered()
		return "", false, true, neuroscript.Errorf(neuroscript.CodeToolFailed, "the MCP server %s refuses: %s", s.cfg.Name, redact(excerpt(refused.Message), c.secrets))
	}
	if ctx.Err() != nil {
		return "", true, sent.Load(), err
	}
	// A server that has lost the session does nothing in it. The end of the connection may
	// arrive before the error that reports the loss.
	begun = sent.Load() && !missing.Load() && !errors.Is(err, sdk.ErrSessionMissing)
	why := redact(excerpt(address.Hidden(err)), c.secrets)
	s.drop(c)
	if s.cfg.URL == "" {
		select {
		case <-c.done:
			s.mu.Lock()
			why = c.ended
			s.mu.Unlock()
		case <-ctx.Done():
		}
	}
	return "", true, begun, fmt.Errorf("the MCP server %s gave no answer: %s", s.cfg.Name, why)
}

// missingKey is the context key under which a call notes that it was answered 404: the
// server does not know the session.
type missingKey struct{}

// rejectedByTransport is the SDK's code for a call that it could not send; refusals of
// servers have other codes.
const rejectedByTransport = -32005

// result returns the result of a call as a model gets it.
func (s *Server) result(res *sdk.CallToolResult, secrets []string) (string, error) {
	var texts []string
	var all []any
	size := 0
	for _, block := range res.Content {
		switch b := block.(type) {
		case *sdk.TextContent:
			texts = append(texts, b.Text)
			all = append(all, map[string]any{"type": "text", "text": b.Text})
			size += len(b.Text)
		case *sdk.ImageContent:
			all = append(all, map[string]any{"type": "image", "mime": b.MIMEType, "bytes": len(b.Data), "note": notText})
		case *sdk.AudioContent:
			all = append(all, map[string]any{"type": "audio", "mime": b.MIMEType, "bytes": len(b.Data), "note": notText})
		case *sdk.ResourceLink:
			all = append(all, map[string]any{"type": "link", "uri": b.URI, "name": b.Name, "description": b.Description})
			size += len(b.URI) + len(b.Name) + len(b.Description)
		case *sdk.EmbeddedResource:
			if b.Resource == nil {
				continue
			}
			item := map[string]any{"type": "resource", "uri": b.Resource.URI, "mime": b.Resource.MIMEType}
			if b.Resource.Blob != nil {
				item["bytes"], item["note"] = len(b.Resource.Blob), notText
			} else {
				item["text"] = b.Resource.Text
			}
			all = append(all, item)
			size += len(b.Resource.URI) + len(b.Resource.Text)
		default:
			all = append(all, map[string]any{"type": "unknown", "note": "this host does not know content of this type"})
		}
	}
	if res.IsError {
		text := clip.Short(strings.ToValidUTF8(strings.Join(texts, "\n"), "\ufffd"), maxFailureBytes)
		if text == "" {
			text = "the tool failed and did not say why"
		}
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", redact(text, secrets))
	}
	tooLarge := neuroscript.Errorf(neuroscript.CodeToolFailed, "the result is over its limit of %d bytes", s.cfg.MaxBytes)
	if int64(size) > s.cfg.MaxBytes {
		return "", tooLarge
	}
	var v any
	switch {
	case res.StructuredContent != nil:
		if len(texts) == 1 {
			if own, ok := sameJSON(texts[0], res.StructuredContent); ok {
				return redact(own, secrets), nil // with its numbers as they were written
			}
		}
		v = res.StructuredContent
	case len(texts) == len(all):
		v = strings.Join(texts, "\n")
	default:
		v = all
	}
	raw, err := json.Marshal(v)
	own := jsontext.Value(raw)
	if err == nil {
		err = own.Compact(jsontext.AllowInvalidUTF8(false), jsontext.EscapeForHTML(false), jsontext.PreserveRawStrings(false))
	}
	switch {
	case err != nil || !shallow(own):
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "the result cannot be written as JSON of %d levels", neuroscript.MaxValueDepth)
	case int64(len(own)) > s.cfg.MaxBytes:
		return "", tooLarge
	}
	return redact(string(own), secrets), nil
}

const (
	notText         = "not text; left out"
	maxFailureBytes = 4 << 10
	maxExcerptBytes = 512
)

// sameJSON returns a text in compact form, and whether it is the JSON of a value.
func sameJSON(text string, v any) (string, bool) {
	own := jsontext.Value(text)
	var read any
	// Strings get one spelling, so that a secret is found in it; numbers keep theirs.
	if own.Compact(jsontext.PreserveRawStrings(false), jsontext.EscapeForHTML(false)) != nil || json.Unmarshal(own, &read) != nil || !reflect.DeepEqual(read, v) || !shallow(own) {
		return "", false
	}
	return string(own), true
}

// shallow reports whether JSON nests no deeper than values do.
func shallow(v jsontext.Value) bool {
	d := jsontext.NewDecoder(strings.NewReader(string(v)), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return true // it was read before
		}
		if d.StackDepth() > neuroscript.MaxValueDepth {
			return false
		}
	}
}

// redact removes secrets from a text, also in the spelling of JSON and of addresses.
func redact(s string, secrets []string) string {
	for _, key := range secrets {
		for _, k := range spellings(key) {
			s = strings.ReplaceAll(s, k, "[redacted]")
		}
	}
	return s
}

// inQuotes returns the part of a JSON string between its quotes.
func inQuotes(b []byte) string {
	if len(b) < 2 {
		return string(b)
	}
	return string(b[1 : len(b)-1])
}

func excerpt(s string) string { return clip.OneLine(s, maxExcerptBytes) }
