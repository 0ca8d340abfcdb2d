package mcp

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/tools"
)

// PartialKey is the member of _meta with which a call asks for pieces of its result (true), and
// with which a progress notification has the next one, a text (docs/spec/extensions.md §5). MCP
// itself has no partial results.
const PartialKey = "stile/partial"

// partial shows how far a call is, and what its server has sent of the result. The server's
// answer has the whole result.
type partial struct {
	call  *tools.Call
	veil  veil
	most  int64
	wake  chan struct{} // has room for one: there is more
	shown strings.Builder

	mu    sync.Mutex
	text  strings.Builder // all pieces that came
	over  bool            // they are longer than a result may be: no more are taken
	ended bool
}

// watch asks for the progress of a call whose result is shown as it grows. The function that it
// returns is called with the result, "" for none, and shows what is missing of that.
func (s *Server) watch(ctx context.Context, c *connection, call *tools.Call, params *sdk.CallToolParams) (p *partial, end func(result string) error) {
	if call == nil || call.Sink == nil {
		return nil, func(string) error { return nil }
	}
	p = &partial{call: call, veil: newVeil(c.secrets), most: s.cfg.MaxBytes, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.watches++
	token := "stile-" + strconv.FormatInt(s.watches, 10)
	if s.watched == nil {
		s.watched = map[string]*partial{}
	}
	s.watched[token] = p
	s.mu.Unlock()
	params.Meta = sdk.Meta{PartialKey: true}
	params.SetProgressToken(token)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.show(ctx)
	}()
	return p, func(result string) error {
		s.mu.Lock()
		delete(s.watched, token)
		s.mu.Unlock()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		close(p.wake)
		<-done
		rest, ok := strings.CutPrefix(plan.StreamedText(result), p.shown.String())
		if result == "" || p.shown.Len() == 0 || !ok {
			return nil // another result fails the action
		}
		return p.emit(ctx, rest)
	}
}

func (s *Server) progress(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string)
	s.mu.Lock()
	p := s.watched[token]
	s.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if text, ok := req.Params.Meta[PartialKey].(string); ok {
		if p.over = p.over || int64(p.text.Len()+len(text)) > p.most; !p.over {
			p.text.WriteString(strings.ToValidUTF8(text, "\ufffd"))
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}
		return
	}
	p.call.Progress(int64(req.Params.Progress), int64(req.Params.Total), redact(req.Params.Message, p.veil.secrets))
}

// show shows pieces until the end of the call.
func (p *partial) show(ctx context.Context) {
	taken := 0
	for open := true; open; {
		_, open = <-p.wake
		p.mu.Lock()
		all := p.text.String()
		p.mu.Unlock()
		piece := p.veil.pass(all[taken:])
		if taken = len(all); p.emit(ctx, piece) != nil {
			return
		}
	}
}

// emit shows a piece whole, also when ctx ends meanwhile. It does not wait for longer than the
// attempt lasts.
func (p *partial) emit(ctx context.Context, text string) error {
	p.shown.WriteString(text)
	return p.call.Emit(context.WithoutCancel(ctx), text)
}

// has reports whether a piece was shown. It is for a call that has ended.
func (p *partial) has() bool { return p != nil && p.shown.Len() > 0 }

// veil redacts a text that comes in pieces as redact does the whole.
type veil struct {
	secrets []string
	spelled []string // each in all its spellings
	longest int
	rest    string // may be the beginning of a secret
}

func newVeil(secrets []string) veil {
	v := veil{secrets: secrets}
	for _, key := range secrets {
		for _, k := range spellings(key) {
			v.spelled = append(v.spelled, k)
			v.longest = max(v.longest, len(k))
		}
	}
	return v
}

// pass returns what can be shown by now. What is left at the end stands in the result.
func (v *veil) pass(piece string) string {
	v.rest += piece
	cut := max(0, len(v.rest)-max(0, v.longest-1))
	for before := -1; before != cut; { // until no secret lies over the cut
		before = cut
		for _, k := range v.spelled {
			from := max(0, cut-len(k)+1)
			if i := strings.Index(v.rest[from:], k); i >= 0 && from+i < cut {
				cut = from + i
			}
		}
	}
	out := redact(v.rest[:cut], v.secrets)
	v.rest = v.rest[cut:]
	return out
}

// spellings returns a secret as it is, and as it stands in JSON and addresses.
func spellings(key string) []string {
	forHTML, _ := json.Marshal(key)
	plain, _ := jsontext.AppendQuote(nil, key)
	return []string{key, inQuotes(forHTML), inQuotes(plain), url.QueryEscape(key), url.PathEscape(key)}
}
