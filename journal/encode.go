package journal

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// How this file is organised: AppendBody switches over the body types; each case
// writes its members in the order of their names, which is the order of RFC 8785
// because all names are ASCII. The encoder's methods write one member each, those
// ending in z leave it out when zero, as `omitzero` does. A test holds the result
// equal to an independent RFC 8785 transformation of the reflected JSON.

// maxInt is 2^53−1, the largest integer every JSON reader keeps (docs/spec/design.md §7).
const maxInt = 1<<53 - 1

// AppendBody appends the canonical JSON (RFC 8785) of b, the bytes that are
// hashed, stored and published. It allocates nothing but the growth of dst.
//
// Text that is not UTF-8 is repaired: each offending byte becomes U+FFFD. A nil
// ModelChunk.Bytes is the empty string. A body of a foreign type, or nil, gives
// null, and an integer beyond ±(2^53−1) is written as it is; sealing refuses both.
func AppendBody(dst []byte, b messages.Body) []byte {
	e := encoder{dst: dst}
	e.body(b)
	return e.dst
}

type encoder struct {
	dst      []byte
	repaired bool   // some text was not UTF-8
	fault    string // what cannot be sealed: a member's name or "type"
}

func (e *encoder) body(b messages.Body) {
	e.dst = append(e.dst, '{')
	switch b := b.(type) {
	case *messages.SessionOpened:
		e.str("dialect", b.Dialect)
		e.str("incarnation", b.Incarnation)
		e.digest("manifest", b.Manifest)
		e.strz("name", b.Name)
		if o := b.Origin; o != nil {
			e.name("origin")
			e.dst = append(e.dst, '{')
			e.digest("hash", o.Hash)
			e.str("incarnation", o.Incarnation)
			e.num("seq", o.Seq)
			e.str("sid", o.SID)
			e.dst = append(e.dst, '}')
		}
		if p := b.Parent; p != nil {
			e.name("parent")
			e.dst = append(e.dst, '{')
			e.str("action", p.Action)
			e.num("depth", p.Depth)
			e.str("incarnation", p.Incarnation)
			e.str("sid", p.SID)
			e.num("turn", p.Turn)
			e.dst = append(e.dst, '}')
		}
		e.strz("receipts", b.Receipts)
	case *messages.SessionClosed:
		e.str("reason", b.Reason)
	case *messages.SessionDescribed:
		e.strz("by", b.By)
		appendListz(e, "tags", b.Tags)
		e.strz("title", b.Title)
	case *messages.Input:
		e.budgetz("budget", b.Budget)
		e.saidz("history", b.History)
		e.strz("key", b.Key)
		e.partsz("parts", b.Parts)
		e.str("policy", string(b.Policy))
		e.strz("text", b.Text)
		e.strz("trace", b.Trace)
		e.strz("trace_state", b.TraceState)
		e.str("user", b.User)
		e.strz("userdata", b.Userdata)
		e.strz("zone", b.Zone)
	case *messages.RunBegin:
		e.num("input", b.Input)
		e.numsz("merged", b.Merged)
	case *messages.RunEnd:
		e.str("decision", string(b.Decision))
		e.strz("detail", b.Detail)
		e.numsz("merged", b.Merged)
		e.numz("next", b.Next)
		e.strz("output", b.Output)
		e.strz("reason", string(b.Reason))
		e.num("turns", b.Turns)
	case *messages.RunWithdrawn:
		e.num("by", b.By)
	case *messages.TurnBegin:
		e.str("dialect", b.Dialect)
		e.digest("library", b.Library)
		e.digest("limits", b.Limits)
		e.digest("manifest", b.Manifest)
		e.numsz("merged", b.Merged)
		e.str("nonce", b.Nonce)
		e.num("pass", b.Pass)
		e.numz("rendering", b.Rendering)
		e.digest("tools", b.Tools)
	case *messages.ModelRequest:
		appendListz(e, "lints", b.Lints)
		e.booleanz("matched", b.Matched)
		e.num("messages", b.Messages)
		e.str("mode", b.Mode)
		e.str("model", b.Model)
		e.strz("options", b.Options)
		e.digest("prompt", b.Prompt)
		e.str("provider", b.Provider)
		e.numz("sent", b.Sent)
		e.numz("sent_bytes", b.SentBytes)
		e.numz("session", b.Session)
		e.digestz("system", b.System)
	case *messages.ModelChunk:
		e.bytes("bytes", b.Bytes)
		e.num("off", b.Off)
	case *messages.ModelReply:
		e.digest("blob", b.Blob)
		e.numz("cost_micro_usd", b.CostUSD)
		e.strz("error", b.Error)
		e.str("finish", string(b.Finish))
		e.num("length", b.Length)
		e.digestz("side", b.Side)
		e.booleanz("unpriced", b.Unpriced)
		e.name("usage")
		e.dst = append(e.dst, '{')
		e.numz("cache_read", b.Usage.CacheRead)
		e.numz("cache_write", b.Usage.CacheWrite)
		e.booleanz("estimated", b.Usage.Estimated)
		e.num("input", b.Usage.Input)
		e.num("output", b.Usage.Output)
		e.dst = append(e.dst, '}')
	case *messages.ModelFallback:
		e.str("from", b.From)
		e.str("reason", b.Reason)
		e.str("to", b.To)
	case *messages.ModelSession:
		e.strz("reason", b.Reason)
		e.num("session", b.Session)
		e.str("what", b.What)
	case *messages.UnitText:
		if !unitKind(b.UnitKind) {
			e.fail("type")
		}
		e.boolean("complete", b.Complete)
		e.numz("depth", b.Depth)
		e.booleanz("final", b.Final)
		e.strz("label", b.Label)
		e.numz("n", b.N)
		e.numz("parent", b.Parent)
		e.str("text", b.Text)
		e.str("unit", b.Unit)
	case *messages.Emit:
		e.booleanz("candidate", b.Candidate)
		e.booleanz("held", b.Held)
		e.str("text", b.Text)
	case *messages.Whisper:
		e.str("target", b.Target)
		e.str("text", b.Text)
	case *messages.ActionDeclared:
		e.str("args", b.Args)
		e.digest("args_digest", b.ArgsDigest)
		e.strz("block", b.Block)
		e.str("class", string(b.Class))
		e.strz("compensates", b.Compensates)
		e.numz("compensates_turn", b.CompensatesTurn)
		appendListz(e, "depends_on", b.DependsOn)
		e.strz("group", b.Group)
		e.str("id", b.ID)
		e.booleanz("in_thought", b.InThought)
		e.str("mode", b.Mode)
		e.str("name", b.Name)
		e.strz("of", b.Of)
		e.strz("on_error", b.OnError)
		e.strz("output_key", b.OutputKey)
		e.strz("rollback", b.Rollback)
		e.strz("show", b.Show)
		e.booleanz("stream", b.Stream)
		e.strz("template", b.Template)
		e.numz("thought", b.Thought)
		e.str("type", string(b.Type))
	case *messages.ActionTemplate:
		e.str("definition", b.Definition)
		e.str("name", b.Name)
	case *messages.ActionApproval:
		e.strz("approval", b.Approval)
		e.strz("args", b.Args)
		e.strz("basis", b.Basis)
		e.str("by", b.By)
		e.digest("digest", b.Digest)
		e.strz("expires", b.Expires)
		e.str("id", b.ID)
		e.strz("reason", b.Reason)
		e.str("state", string(b.State))
	case *messages.TurnSuspended:
		e.str("until", b.Until)
		appendListz(e, "waiting", b.Waiting)
	case *messages.TurnRestored:
		e.str("cause", b.Cause)
		e.num("count", b.Count)
		e.digest("manifest", b.Manifest)
		e.str("nonce", b.Nonce)
	case *messages.ActionStarted:
		e.strz("args", b.Args)
		e.num("attempt", b.Attempt)
		e.strz("child", b.Child)
		e.childrenz(b.Children)
		e.strz("failure", b.Failure)
		e.str("id", b.ID)
		e.str("key", b.Key)
		e.budgetz("reserved", b.Reserved)
		e.budgetz("used", b.Used)
	case *messages.ActionChunk:
		e.bytes("bytes", b.Bytes)
		e.str("id", b.ID)
		e.num("off", b.Off)
		e.num("seq", b.Seq)
	case *messages.ActionEnded:
		e.numz("actions", b.Actions)
		e.childrenz(b.Children)
		e.numz("cost_micro_usd", b.CostUSD)
		e.numz("error_code", b.ErrorCode)
		e.feedz(b.Feed)
		e.str("id", b.ID)
		e.num("ms", b.MS)
		e.strz("reason", b.Reason)
		e.strz("result", b.Result)
		e.str("state", string(b.State))
		e.numz("streamed", b.Streamed)
		e.numz("tokens", b.Tokens)
	case *messages.FeedInjected:
		e.numz("cost_usd", b.CostUSD)
		e.digest("digest", b.Digest)
		e.strz("error", b.Error)
		e.str("id", b.ID)
		e.strz("origin", b.Origin)
		e.strz("reason", b.Reason)
		e.booleanz("stale", b.Stale)
		e.numz("tokens", b.Tokens)
		e.booleanz("truncated", b.Truncated)
	case *messages.BlockBegin:
		e.strz("as", b.As)
		e.strz("block", b.Block)
		appendListz(e, "depends_on", b.DependsOn)
		appendListz(e, "each", b.Each)
		appendListz(e, "each_blocks", b.EachBlocks)
		appendListz(e, "each_keys", b.EachKeys)
		e.strz("fail", b.Fail)
		e.str("id", b.ID)
		e.strz("in", b.List)
		e.booleanz("in_thought", b.InThought)
		e.str("kind", b.BlockKind)
		e.numz("max", b.Max)
		e.strz("of", b.Of)
		e.strz("output_key", b.OutputKey)
		e.numz("parallel", b.Parallel)
		e.strz("test", b.Test)
		e.numz("timeout_ms", b.TimeoutMS)
	case *messages.BlockDecided:
		e.strz("branch", b.Branch)
		e.numz("count", b.Count)
		e.str("id", b.ID)
		e.digestz("items_digest", b.ItemsDigest)
		e.digestz("value_digest", b.ValueDigest)
	case *messages.BlockEnded:
		e.numz("failed", b.Failed)
		e.str("id", b.ID)
		e.strz("kind", b.BlockKind)
		e.numz("ok", b.OK)
		e.strz("reason", b.Reason)
		e.str("state", string(b.State))
	case *messages.RelicChanged:
		e.str("args", b.Args)
		e.strz("by", b.By)
		e.str("id", b.ID)
		e.str("key", b.Key)
		e.str("relic", b.Relic)
		e.str("result", b.Result)
	case *messages.ParseFault:
		e.str("code", string(b.Code))
		e.strz("detail", b.Detail)
		e.strz("field", b.Field)
		e.strz("id", b.ID)
		e.numz("n", b.N)
		e.strz("name", b.Name)
		e.num("offset", b.Offset)
		e.strz("reason", b.Reason)
		e.strz("tag", b.Tag)
	case *messages.Lint:
		e.str("code", string(b.Code))
		e.strz("detail", b.Detail)
		e.num("offset", b.Offset)
	case *messages.TurnDecided:
		e.turnDecided(b)
	case *messages.Control:
		e.strz("by", b.By)
		e.strz("code", string(b.Code))
		e.strz("detail", b.Detail)
		e.strz("name", b.Name)
		e.str("what", b.What)
	case *messages.Audit:
		e.boolean("allowed", b.Allowed)
		e.strz("text", b.Text)
		e.str("what", b.What)
		e.str("who", b.Who)
	case *messages.Note:
		e.str("text", b.Text)
	case *messages.RollbackBegin:
		e.str("cause", b.Cause)
		e.str("group", b.Group)
	case *messages.Retract:
		e.num("off", b.Off)
		e.booleanz("thought", b.Thought)
		e.str("unit", b.Unit)
	default:
		e.dst = append(e.dst[:len(e.dst)-1], "null"...)
		e.fail("type")
		return
	}
	e.dst = append(e.dst, '}')
}

func (e *encoder) feedz(f *messages.FeedChange) {
	if f == nil {
		return
	}
	e.name("feed")
	e.feed(f)
}

func (e *encoder) feed(f *messages.FeedChange) {
	e.dst = append(e.dst, '{')
	e.booleanz("added", f.Added)
	if f.Also != nil {
		e.name("also")
		e.dst = append(e.dst, '[')
		for i := range f.Also {
			if i > 0 {
				e.dst = append(e.dst, ',')
			}
			e.feed(&f.Also[i])
		}
		e.dst = append(e.dst, ']')
	}
	e.booleanz("cleared", f.Cleared)
	e.booleanz("disabled", f.Disabled)
	e.booleanz("fresh", f.Fresh)
	e.booleanz("gone", f.Gone)
	e.strz("id", f.ID)
	e.strz("spec", f.Spec)
	e.dst = append(e.dst, '}')
}

func (e *encoder) turnDecided(b *messages.TurnDecided) {
	e.str("decision", string(b.Decision))
	e.strz("detail", b.Detail)
	e.digest("digest", b.Digest)
	e.numsz("failure_lines", b.FailureLines)
	appendListz(e, "failures", b.Failures)
	e.numz("gas_used", b.GasUsed)
	e.strz("jti", b.JTI)
	if b.Keep != nil {
		e.bytes("keep", b.Keep)
	}
	e.strz("kid", b.KID)
	e.num("latency_ms", b.LatencyMS)
	appendListz(e, "lints", b.Lints)
	e.digestz("minted", b.Minted)
	e.digestz("output", b.Output)
	e.num("output_bytes", b.OutputBytes)
	e.strz("reason", string(b.Reason))
	e.booleanz("repair", b.Repair)
	e.booleanz("resumed", b.Resumed)
	appendListz(e, "retract", b.Retract)
	e.digestz("scratch", b.Scratch)
	e.num("scratch_bytes", b.ScratchBytes)
	if b.State != nil {
		e.bytes("state", b.State)
	}
	e.num("turn_index", b.TurnIndex)
	e.strz("verification_failure_reason", b.Verification)
}

func (e *encoder) fail(what string) {
	if e.fault == "" {
		e.fault = what
	}
}

// name begins a member. The byte before reports whether it is the first: a value
// never ends in an opening brace.
func (e *encoder) name(k string) {
	if e.dst[len(e.dst)-1] != '{' {
		e.dst = append(e.dst, ',')
	}
	e.dst = append(e.dst, '"')
	e.dst = append(e.dst, k...)
	e.dst = append(e.dst, '"', ':')
}

func (e *encoder) str(k, v string) {
	e.name(k)
	e.text(v)
}

func (e *encoder) strz(k, v string) {
	if v != "" {
		e.str(k, v)
	}
}

func (e *encoder) num(k string, v int64) {
	if v > maxInt || v < -maxInt {
		e.fail(k)
	}
	e.name(k)
	e.dst = strconv.AppendInt(e.dst, v, 10)
}

func (e *encoder) numz(k string, v int64) {
	if v != 0 {
		e.num(k, v)
	}
}

// numsz leaves out a nil list; an empty one is [].
func (e *encoder) numsz(k string, v []int64) {
	if v == nil {
		return
	}
	e.name(k)
	e.dst = append(e.dst, '[')
	for i, n := range v {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		if n > maxInt || n < -maxInt {
			e.fail(k)
		}
		e.dst = strconv.AppendInt(e.dst, n, 10)
	}
	e.dst = append(e.dst, ']')
}

func (e *encoder) boolean(k string, v bool) {
	e.name(k)
	e.dst = strconv.AppendBool(e.dst, v)
}

func (e *encoder) booleanz(k string, v bool) {
	if v {
		e.boolean(k, v)
	}
}

func (e *encoder) digest(k string, d messages.Digest) {
	e.name(k)
	e.dst = append(e.dst, '"')
	if !d.IsZero() {
		e.dst = hex.AppendEncode(e.dst, d[:])
	}
	e.dst = append(e.dst, '"')
}

func (e *encoder) digestz(k string, d messages.Digest) {
	if !d.IsZero() {
		e.digest(k, d)
	}
}

func (e *encoder) bytes(k string, v []byte) {
	e.name(k)
	e.dst = append(e.dst, '"')
	e.dst = base64.StdEncoding.AppendEncode(e.dst, v)
	e.dst = append(e.dst, '"')
}

// appendListz leaves out a nil list; an empty one is [].
func appendListz[T ~string](e *encoder, k string, v []T) {
	if v == nil {
		return
	}
	e.name(k)
	e.dst = append(e.dst, '[')
	for i, s := range v {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.text(string(s))
	}
	e.dst = append(e.dst, ']')
}

func (e *encoder) text(s string) {
	var repaired bool
	e.dst, repaired = appendText(e.dst, s)
	e.repaired = e.repaired || repaired
}

func (e *encoder) budgetz(k string, v *messages.Budget) {
	if v == nil {
		return
	}
	e.name(k)
	e.dst = append(e.dst, '{')
	e.numz("actions", v.Actions)
	e.numz("cost_micro_usd", v.CostUSD)
	e.numz("tokens", v.Tokens)
	e.dst = append(e.dst, '}')
}

// saidz leaves out a nil list; an empty one is []. It, partsz and childrenz are written out: a
// function for the entries would move the encoder to the heap.
func (e *encoder) saidz(k string, v []messages.Said) {
	if v == nil {
		return
	}
	e.name(k)
	e.dst = append(e.dst, '[')
	for i := range v {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(e.dst, '{')
		e.str("role", string(v[i].Role))
		e.str("text", v[i].Text)
		e.dst = append(e.dst, '}')
	}
	e.dst = append(e.dst, ']')
}

// partsz leaves out a nil list; an empty one is [].
func (e *encoder) partsz(k string, v []messages.Part) {
	if v == nil {
		return
	}
	e.name(k)
	e.dst = append(e.dst, '[')
	for i := range v {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(e.dst, '{')
		e.digest("digest", v[i].Digest)
		e.strz("name", v[i].Name)
		e.num("size", v[i].Size)
		e.str("type", v[i].Type)
		e.dst = append(e.dst, '}')
	}
	e.dst = append(e.dst, ']')
}

// childrenz leaves out a nil list; an empty one is [].
func (e *encoder) childrenz(v []messages.ChildLink) {
	if v == nil {
		return
	}
	e.name("children")
	e.dst = append(e.dst, '[')
	for i := range v {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(e.dst, '{')
		e.str("incarnation", v[i].Incarnation)
		e.num("run", v[i].Run)
		e.str("sid", v[i].SID)
		e.dst = append(e.dst, '}')
	}
	e.dst = append(e.dst, ']')
}

// appendText appends a JSON string with the escapes of RFC 8785 §3.2.2.2 and reports
// whether it had to repair it: each byte that is not UTF-8 becomes U+FFFD.
func appendText(dst []byte, s string) (out []byte, repaired bool) {
	if !utf8.ValidString(s) {
		s, repaired = string([]rune(s)), true
	}
	return jsonstring.Append(dst, s), repaired
}

func unitKind(k messages.Kind) bool {
	return k == messages.ResponseUnit || k == messages.ThoughtUnit || k == messages.TextUnit
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
