package plan

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// eachString calls f with every string in a JSON text that is a value, not a key, and may hold
// a reference, with its place in the text, until f returns false.
func eachString(s string, f func(from, to int, text string) bool) {
	for i := 0; i < len(s); {
		next := strings.IndexByte(s[i:], '"')
		if next < 0 {
			return
		}
		from := i + next
		to := quoteEnd(s, from)
		i = to
		if !mayRefer(s[from:to]) {
			continue
		}
		if after := space(s, to); after < len(s) && s[after] == ':' {
			continue // a key
		}
		if text := unquote(s[from:to]); strings.IndexByte(text, '$') >= 0 && !f(from, to, text) {
			return
		}
	}
}

// references collects in p.pending the actions that the parameters of a new action
// refer to, in the order of the text.
func (p *Plan) references(n int32) {
	p.above, p.budget = 0, MaxPathBytes
	source, behind := p.source(n)
	eachString(p.nodes[n].Args, func(at, _ int, text string) bool {
		if source <= at && at < behind {
			return true
		}
		for i := strings.IndexByte(text, '$'); i >= 0; {
			r := refAt(text[i:], true)
			if r.kind == refName {
				before := len(p.pending)
				p.lookup(r, n)
				// Feeds are fetched when the action is about to begin, not before.
				if before < len(p.pending) && p.pending[before].node == none {
					p.pending = p.pending[:before]
				}
			}
			i += r.n
			if next := strings.IndexByte(text[i:], '$'); next >= 0 {
				i += next
			} else {
				i = -1
			}
		}
		return true
	})
}

// source returns where the parameters of an action have the source of a feed, in which no
// reference is resolved; both are 0 without one.
func (p *Plan) source(n int32) (from, to int) {
	if !p.o.Sources || int(n) >= len(p.nodes) {
		return 0, 0
	}
	x := &p.nodes[n]
	if x.Type != messages.TypeInternal || x.Name != messages.InternalAddFeed && x.Name != messages.InternalUpdateFeed {
		return 0, 0
	}
	d := jsontext.NewDecoder(strings.NewReader(x.Args))
	if _, err := d.ReadToken(); err != nil {
		return 0, 0
	}
	for d.PeekKind() == '"' {
		key, err := d.ReadToken()
		if err != nil {
			return 0, 0
		}
		own := key.String() == "source"
		from = int(d.InputOffset())
		if err := d.SkipValue(); err != nil {
			return 0, 0
		}
		if own {
			return from, int(d.InputOffset())
		}
	}
	return 0, 0
}

// A fate is the outcome of a substitution.
type fate struct {
	failed string // reason of failure
	place  string // JSON pointer
	broken int32  // an action that ended without a value
	waits  bool   // for the actions and feeds of p.pending
}

// substitute returns a JSON text with the references in its strings resolved for a viewer. The
// first one that cannot be resolved decides the outcome.
func (p *Plan) substitute(src string, viewer int32) (string, fate) {
	out := make([]byte, 0, len(src)+64)
	res := fate{broken: none}
	var buf []byte
	done := 0
	p.pending, p.above, p.budget = p.pending[:0], 0, MaxPathBytes
	source, behind := p.source(viewer)
	eachString(src, func(from, to int, text string) bool {
		if source <= from && from < behind {
			return true
		}
		out = append(out, src[done:from]...)
		done = to
		if r := refAt(text, true); r.kind == refName && r.n == len(text) {
			switch v := p.tolerate(p.lookup(r, viewer), r, viewer); v.kind {
			case foundValue:
				out = append(out, v.value...)
			case foundLater:
				res.waits = true
			case foundBroken:
				res.broken = v.node
				return false
			case foundNothing:
				res.failed, res.place = ReasonUnresolved+":"+r.full(), pointer(src, from)
				return false
			}
		} else {
			buf = buf[:0]
			for text != "" && len(out)+len(buf) <= p.o.ParameterBytes {
				i := strings.IndexByte(text, '$')
				if i < 0 {
					buf = append(buf, text...)
					break
				}
				buf = append(buf, text[:i]...)
				r := refAt(text[i:], true)
				written := text[i : i+r.n]
				text = text[i+r.n:]
				switch r.kind {
				case refDollar:
					buf = append(buf, '$')
				case refName:
					switch v := p.tolerate(p.lookup(r, viewer), r, viewer); v.kind {
					case foundValue:
						buf = appendEmbedded(buf, v.value)
					case foundLater:
						res.waits = true
					case foundBroken:
						res.broken = v.node
						return false
					case foundNothing:
						if slices.Contains(p.o.Strict, r.name) {
							res.failed, res.place = ReasonUnresolved+":"+r.full(), pointer(src, from)
							return false
						}
						buf = append(buf, written...)
					}
				default:
					buf = append(buf, written...)
				}
			}
			out, _ = jsontext.AppendQuote(out, buf)
		}
		if len(out) > p.o.ParameterBytes {
			res.failed, res.place = ReasonTooLarge, pointer(src, from)
			return false
		}
		return true
	})
	if res.failed != "" || res.broken != none || res.waits {
		return "", res
	}
	out = append(out, src[done:]...)
	return string(out), res
}

// tolerate reads as null a failure that the action's on_error allows, and for a viewer whose
// on_error allows it what stood in a branch that was not taken.
func (p *Plan) tolerate(v found, r reference, viewer int32) found {
	if v.kind == foundBroken && (p.nodes[v.node].satisfied() || int(viewer) < len(p.nodes) && p.nodes[viewer].forgives(&p.nodes[v.node])) {
		return p.part("null", r)
	}
	return v
}

// refers reports whether the parameters of an action can hold a reference at all.
func (p *Plan) refers(n int32) bool {
	return !p.o.Verbatim && !p.nodes[n].Literal && mayRefer(p.nodes[n].Args)
}

// settle substitutes the parameters of an action that is about to begin. It returns false if
// that is not possible: the action has ended then, or waits again.
func (p *Plan) settle(dst *[]Effect, n int32) bool {
	if !p.refers(n) {
		p.nodes[n].params = p.nodes[n].Args
		return true
	}
	out, res := p.substitute(p.nodes[n].Args, n)
	switch {
	case res.broken != none:
		p.finish(dst, n, Skipped, p.because(res.broken), "")
		return false
	case res.failed != "":
		p.finish(dst, n, Failed, res.failed, res.place)
		return false
	case !res.waits:
		p.nodes[n].params = out
		return true
	}
	// A name that was the environment's is an action's now, or a feed must be fetched.
	p.nodes[n].state = Waiting
	p.mark++
	for _, w := range p.pending {
		dep := w.node
		if dep == none {
			dep = p.feedNode(dst, w.feed)
		}
		if d := &p.nodes[dep]; d.mark != p.mark {
			d.mark = p.mark
			p.link(n, dep, w.soft)
		}
	}
	p.cycle(dst, n)
	return false
}

// feedNode returns the node of a feed that is being fetched.
func (p *Plan) feedNode(dst *[]Effect, name string) int32 {
	if n, ok := p.feeds[name]; ok {
		return n
	}
	n := p.add(node{Action: messages.Action{ID: name}, feed: true, gen: p.gen})
	p.feeds[name] = n
	*dst = append(*dst, Effect{Kind: Fetch, Feed: name})
	return n
}

// Resolve substitutes the references in a JSON text by the values known at this place of the
// document, as for the output of a workflow. An unresolved reference is ERR_CONFIG at its JSON
// pointer with ReasonUnresolved; a reference to an action that has not ended, or ended without
// a value, is ERR_CONFIG too.
func (p *Plan) Resolve(src string) (string, error) {
	if !valid(src) {
		return "", &messages.Error{Code: messages.ErrConfig, Detail: "not a JSON value"}
	}
	out, res := p.substitute(src, int32(len(p.nodes)))
	switch {
	case res.failed != "":
		return "", &messages.Error{Code: messages.ErrConfig, Field: res.place, Reason: res.failed}
	case res.broken != none:
		return "", &messages.Error{Code: messages.ErrConfig, Reason: ReasonDependencyFailed + ":" + p.nodes[res.broken].ID}
	case res.waits:
		return "", &messages.Error{Code: messages.ErrConfig, Detail: "an action it refers to has not ended"}
	}
	return out, nil
}

// pointer returns the JSON pointer of the string that begins at a byte of a JSON text.
func pointer(src string, at int) string {
	d := jsontext.NewDecoder(strings.NewReader(src))
	for {
		if _, err := d.ReadToken(); err != nil {
			return ""
		}
		if d.InputOffset() > int64(at) {
			return string(d.StackPointer())
		}
	}
}
