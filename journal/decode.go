package journal

import "github.com/seed14be6753/stile/messages"

// How this file is organised: DecodeBody mirrors encoder.body member by member.
// The decoder is a cursor that expects the next member by name, so it accepts the
// canonical bytes and nothing else: no spaces, no other order, no other escapes,
// no member it does not know. The first fault stays; after it nothing moves.

// DecodeBody reads what AppendBody wrote, strictly: it accepts raw if and only if
// AppendBody of the result gives raw again. A member or kind that a newer format
// added is refused. Failures are ERR_JOURNAL/CORRUPT with the kind as Field and
// the byte offset. The result shares nothing with raw.
func DecodeBody(kind messages.Kind, raw []byte) (messages.Body, error) {
	d := decoder{raw: raw, kind: kind}
	d.lit("{")
	b := d.body()
	d.lit("}")
	if d.err == nil && d.pos != len(raw) {
		d.fail("bytes after the body")
	}
	if d.err != nil {
		return nil, d.err
	}
	return b, nil
}

// Decode replaces an undecoded body of r by the typed one. The error is ERASED when the
// body was erased, CORRUPT when its bytes are not canonical. Decode changes r, which must
// not be shared yet.
func Decode(r *messages.Record) error {
	u, ok := r.Body.(*messages.Undecoded)
	if !ok {
		return nil
	}
	if r.Raw == nil {
		return Fail(ReasonErased, nil, "session %s: the body of record %d was erased", r.SID, r.Seq)
	}
	b, err := DecodeBody(u.Of, r.Raw)
	if err != nil {
		return Fail(ReasonCorrupt, err, "session %s: record %d", r.SID, r.Seq)
	}
	r.Body = b
	return nil
}

type decoder struct {
	raw  []byte
	pos  int
	kind messages.Kind
	err  *messages.Error
}

func (d *decoder) body() messages.Body {
	switch d.kind {
	case messages.KindSessionOpened:
		b := &messages.SessionOpened{
			Dialect:     d.str("dialect"),
			Incarnation: d.str("incarnation"),
			Manifest:    d.digest("manifest"),
			Name:        d.strz("name"),
		}
		if d.has("origin") {
			d.lit("{")
			b.Origin = &messages.ForkOrigin{
				Hash:        d.digest("hash"),
				Incarnation: d.str("incarnation"),
				Seq:         d.num("seq"),
				SID:         d.str("sid"),
			}
			d.lit("}")
		}
		if d.has("parent") {
			d.lit("{")
			b.Parent = &messages.ParentLink{
				Action:      d.str("action"),
				Depth:       d.num("depth"),
				Incarnation: d.str("incarnation"),
				SID:         d.str("sid"),
				Turn:        d.num("turn"),
			}
			d.lit("}")
		}
		b.Receipts = d.strz("receipts")
		return b
	case messages.KindSessionClosed:
		return &messages.SessionClosed{Reason: d.str("reason")}
	case messages.KindDescribed:
		return &messages.SessionDescribed{
			By:    d.strz("by"),
			Tags:  decodeListz(d, "tags", decodeText[string]),
			Title: d.strz("title"),
		}
	case messages.KindInput:
		return &messages.Input{
			Budget:     d.budgetz("budget"),
			History:    decodeListz(d, "history", (*decoder).said),
			Key:        d.strz("key"),
			Parts:      decodeListz(d, "parts", (*decoder).part),
			Policy:     messages.Policy(d.str("policy")),
			Text:       d.strz("text"),
			Trace:      d.strz("trace"),
			TraceState: d.strz("trace_state"),
			User:       d.str("user"),
			Userdata:   d.strz("userdata"),
			Zone:       d.strz("zone"),
		}
	case messages.KindRunBegin:
		return &messages.RunBegin{Input: d.num("input"), Merged: decodeListz(d, "merged", (*decoder).integer)}
	case messages.KindRunEnd:
		return &messages.RunEnd{
			Decision: messages.Decision(d.str("decision")),
			Detail:   d.strz("detail"),
			Merged:   decodeListz(d, "merged", (*decoder).integer),
			Next:     d.numz("next"),
			Output:   d.strz("output"),
			Reason:   messages.Code(d.strz("reason")),
			Turns:    d.num("turns"),
		}
	case messages.KindRunWithdrawn:
		return &messages.RunWithdrawn{By: d.num("by")}
	case messages.KindTurnBegin:
		return &messages.TurnBegin{
			Dialect:   d.str("dialect"),
			Library:   d.digest("library"),
			Limits:    d.digest("limits"),
			Manifest:  d.digest("manifest"),
			Merged:    decodeListz(d, "merged", (*decoder).integer),
			Nonce:     d.str("nonce"),
			Pass:      d.num("pass"),
			Rendering: d.numz("rendering"),
			Tools:     d.digest("tools"),
		}
	case messages.KindModelRequest:
		return &messages.ModelRequest{
			Lints:    decodeListz(d, "lints", decodeText[messages.Code]),
			Matched:  d.booleanz("matched"),
			Messages: d.num("messages"),
			Mode:     d.str("mode"),
			Model:    d.str("model"),
			Options:  d.strz("options"),
			Prompt:   d.digest("prompt"),
			Provider: d.str("provider"),

			Sent: d.numz("sent"), SentBytes: d.numz("sent_bytes"), Session: d.numz("session"),

			System: d.digestz("system"),
		}
	case messages.KindModelChunk:
		return &messages.ModelChunk{Bytes: d.bytes("bytes"), Off: d.num("off")}
	case messages.KindModelReply:
		b := &messages.ModelReply{
			Blob:     d.digest("blob"),
			CostUSD:  d.numz("cost_micro_usd"),
			Error:    d.strz("error"),
			Finish:   messages.Finish(d.str("finish")),
			Length:   d.num("length"),
			Side:     d.digestz("side"),
			Unpriced: d.booleanz("unpriced"),
		}
		d.need("usage")
		d.lit("{")
		b.Usage = messages.Usage{
			CacheRead:  d.numz("cache_read"),
			CacheWrite: d.numz("cache_write"),
			Estimated:  d.booleanz("estimated"),
			Input:      d.num("input"),
			Output:     d.num("output"),
		}
		d.lit("}")
		return b
	case messages.KindModelFallback:
		return &messages.ModelFallback{From: d.str("from"), Reason: d.str("reason"), To: d.str("to")}
	case messages.KindModelSession:
		return &messages.ModelSession{Reason: d.strz("reason"), Session: d.num("session"), What: d.str("what")}
	case messages.KindResponse, messages.KindThought, messages.KindText:
		return &messages.UnitText{
			UnitKind: d.kind,
			Complete: d.boolean("complete"),
			Depth:    d.numz("depth"),
			Final:    d.booleanz("final"),
			Label:    d.strz("label"),
			N:        d.numz("n"),
			Parent:   d.numz("parent"),
			Text:     d.str("text"),
			Unit:     d.str("unit"),
		}
	case messages.KindEmit:
		return &messages.Emit{Candidate: d.booleanz("candidate"), Held: d.booleanz("held"), Text: d.str("text")}
	case messages.KindWhisper:
		return &messages.Whisper{Target: d.str("target"), Text: d.str("text")}
	case messages.KindActionDeclared:
		return &messages.ActionDeclared{
			Args:            d.str("args"),
			ArgsDigest:      d.digest("args_digest"),
			Block:           d.strz("block"),
			Class:           messages.Class(d.str("class")),
			Compensates:     d.strz("compensates"),
			CompensatesTurn: d.numz("compensates_turn"),
			DependsOn:       decodeListz(d, "depends_on", decodeText[string]),
			Group:           d.strz("group"),
			ID:              d.str("id"),
			InThought:       d.booleanz("in_thought"),
			Mode:            d.str("mode"),
			Name:            d.str("name"),
			Of:              d.strz("of"),
			OnError:         d.strz("on_error"),
			OutputKey:       d.strz("output_key"),
			Rollback:        d.strz("rollback"),
			Show:            d.strz("show"),
			Stream:          d.booleanz("stream"),
			Template:        d.strz("template"),
			Thought:         d.numz("thought"),
			Type:            messages.ActionType(d.str("type")),
		}
	case messages.KindActionTemplate:
		return &messages.ActionTemplate{Definition: d.str("definition"), Name: d.str("name")}
	case messages.KindActionApproval:
		return &messages.ActionApproval{
			Approval: d.strz("approval"),
			Args:     d.strz("args"),
			Basis:    d.strz("basis"),
			By:       d.str("by"),
			Digest:   d.digest("digest"),
			Expires:  d.strz("expires"),
			ID:       d.str("id"),
			Reason:   d.strz("reason"),
			State:    messages.GateAnswer(d.str("state")),
		}
	case messages.KindTurnSuspended:
		return &messages.TurnSuspended{Until: d.str("until"), Waiting: decodeListz(d, "waiting", decodeText[string])}
	case messages.KindTurnRestored:
		return &messages.TurnRestored{
			Cause:    d.str("cause"),
			Count:    d.num("count"),
			Manifest: d.digest("manifest"),
			Nonce:    d.str("nonce"),
		}
	case messages.KindActionStarted:
		return &messages.ActionStarted{
			Args:     d.strz("args"),
			Attempt:  d.num("attempt"),
			Child:    d.strz("child"),
			Children: decodeListz(d, "children", (*decoder).child),
			Failure:  d.strz("failure"),
			ID:       d.str("id"),
			Key:      d.str("key"),
			Reserved: d.budgetz("reserved"),
			Used:     d.budgetz("used"),
		}
	case messages.KindActionChunk:
		return &messages.ActionChunk{Bytes: d.bytes("bytes"), ID: d.str("id"), Off: d.num("off"), Seq: d.num("seq")}
	case messages.KindActionEnded:
		return &messages.ActionEnded{
			Actions:   d.numz("actions"),
			Children:  decodeListz(d, "children", (*decoder).child),
			CostUSD:   d.numz("cost_micro_usd"),
			ErrorCode: d.numz("error_code"),
			Feed:      d.feedz(),
			ID:        d.str("id"),
			MS:        d.num("ms"),
			Reason:    d.strz("reason"),
			Result:    d.strz("result"),
			State:     messages.ActionState(d.str("state")),
			Streamed:  d.numz("streamed"),
			Tokens:    d.numz("tokens"),
		}
	case messages.KindFeedInjected:
		return &messages.FeedInjected{
			CostUSD:   d.numz("cost_usd"),
			Digest:    d.digest("digest"),
			Error:     d.strz("error"),
			ID:        d.str("id"),
			Origin:    d.strz("origin"),
			Reason:    d.strz("reason"),
			Stale:     d.booleanz("stale"),
			Tokens:    d.numz("tokens"),
			Truncated: d.booleanz("truncated"),
		}
	case messages.KindBlockBegin:
		return &messages.BlockBegin{
			As:         d.strz("as"),
			Block:      d.strz("block"),
			DependsOn:  decodeListz(d, "depends_on", decodeText[string]),
			Each:       decodeListz(d, "each", decodeText[string]),
			EachBlocks: decodeListz(d, "each_blocks", decodeText[string]),
			EachKeys:   decodeListz(d, "each_keys", decodeText[string]),
			Fail:       d.strz("fail"),
			ID:         d.str("id"),
			List:       d.strz("in"),
			InThought:  d.booleanz("in_thought"),
			BlockKind:  d.str("kind"),
			Max:        d.numz("max"),
			Of:         d.strz("of"),
			OutputKey:  d.strz("output_key"),
			Parallel:   d.numz("parallel"),
			Test:       d.strz("test"),
			TimeoutMS:  d.numz("timeout_ms"),
		}
	case messages.KindBlockDecided:
		return &messages.BlockDecided{
			Branch:      d.strz("branch"),
			Count:       d.numz("count"),
			ID:          d.str("id"),
			ItemsDigest: d.digestz("items_digest"),
			ValueDigest: d.digestz("value_digest"),
		}
	case messages.KindBlockEnded:
		return &messages.BlockEnded{
			Failed:    d.numz("failed"),
			ID:        d.str("id"),
			BlockKind: d.strz("kind"),
			OK:        d.numz("ok"),
			Reason:    d.strz("reason"),
			State:     messages.ActionState(d.str("state")),
		}
	case messages.KindRelicChanged:
		return &messages.RelicChanged{
			Args:   d.str("args"),
			By:     d.strz("by"),
			ID:     d.str("id"),
			Key:    d.str("key"),
			Relic:  d.str("relic"),
			Result: d.str("result"),
		}
	case messages.KindParseError:
		return &messages.ParseFault{
			Code:   messages.Code(d.str("code")),
			Detail: d.strz("detail"),
			Field:  d.strz("field"),
			ID:     d.strz("id"),
			N:      d.numz("n"),
			Name:   d.strz("name"),
			Offset: d.num("offset"),
			Reason: d.strz("reason"),
			Tag:    d.strz("tag"),
		}
	case messages.KindLint:
		return &messages.Lint{Code: messages.Code(d.str("code")), Detail: d.strz("detail"), Offset: d.num("offset")}
	case messages.KindTurnDecided:
		return d.turnDecided()
	case messages.KindControl:
		return &messages.Control{
			By:     d.strz("by"),
			Code:   messages.Code(d.strz("code")),
			Detail: d.strz("detail"),
			Name:   d.strz("name"),
			What:   d.str("what"),
		}
	case messages.KindAudit:
		return &messages.Audit{
			Allowed: d.boolean("allowed"),
			Text:    d.strz("text"),
			What:    d.str("what"),
			Who:     d.str("who"),
		}
	case messages.KindNote:
		return &messages.Note{Text: d.str("text")}
	case messages.KindRollbackBegin:
		return &messages.RollbackBegin{Cause: d.str("cause"), Group: d.str("group")}
	case messages.KindRetract:
		return &messages.Retract{Off: d.num("off"), Thought: d.booleanz("thought"), Unit: d.str("unit")}
	}
	d.fail("this version knows no record of that kind")
	return nil
}

func (d *decoder) budgetz(k string) *messages.Budget {
	if !d.has(k) {
		return nil
	}
	d.lit("{")
	b := &messages.Budget{Actions: d.numz("actions"), CostUSD: d.numz("cost_micro_usd"), Tokens: d.numz("tokens")}
	d.lit("}")
	return b
}

func (d *decoder) said() messages.Said {
	d.lit("{")
	s := messages.Said{Role: messages.Role(d.str("role")), Text: d.str("text")}
	d.lit("}")
	return s
}

func (d *decoder) part() messages.Part {
	d.lit("{")
	p := messages.Part{Digest: d.digest("digest"), Name: d.strz("name"), Size: d.num("size"), Type: d.str("type")}
	d.lit("}")
	return p
}

func (d *decoder) child() messages.ChildLink {
	d.lit("{")
	c := messages.ChildLink{Incarnation: d.str("incarnation"), Run: d.num("run"), SID: d.str("sid")}
	d.lit("}")
	return c
}

func (d *decoder) feedz() *messages.FeedChange {
	if !d.has("feed") {
		return nil
	}
	f := d.feed(true)
	return &f
}

// alsoFeed is the change of a feed that came with another's. It has none of its own, so the
// decoder goes no deeper.
func (d *decoder) alsoFeed() messages.FeedChange { return d.feed(false) }

func (d *decoder) feed(whole bool) messages.FeedChange {
	d.lit("{")
	f := messages.FeedChange{Added: d.booleanz("added")}
	if whole {
		f.Also = decodeListz(d, "also", (*decoder).alsoFeed)
	}
	f.Cleared, f.Disabled, f.Fresh, f.Gone = d.booleanz("cleared"), d.booleanz("disabled"), d.booleanz("fresh"), d.booleanz("gone")
	f.ID, f.Spec = d.strz("id"), d.strz("spec")
	d.lit("}")
	return f
}

func (d *decoder) turnDecided() messages.Body {
	return &messages.TurnDecided{
		Decision:     messages.Decision(d.str("decision")),
		Detail:       d.strz("detail"),
		Digest:       d.digest("digest"),
		FailureLines: decodeListz(d, "failure_lines", (*decoder).integer),
		Failures:     decodeListz(d, "failures", (*decoder).text),
		GasUsed:      d.numz("gas_used"),
		JTI:          d.strz("jti"),
		Keep:         d.bytesz("keep"),
		KID:          d.strz("kid"),
		LatencyMS:    d.num("latency_ms"),
		Lints:        decodeListz(d, "lints", decodeText[messages.Code]),
		Minted:       d.digestz("minted"),
		Output:       d.digestz("output"),
		OutputBytes:  d.num("output_bytes"),
		Reason:       messages.Code(d.strz("reason")),
		Repair:       d.booleanz("repair"),
		Resumed:      d.booleanz("resumed"),
		Retract:      decodeListz(d, "retract", (*decoder).text),
		Scratch:      d.digestz("scratch"),
		ScratchBytes: d.num("scratch_bytes"),
		State:        d.bytesz("state"),
		TurnIndex:    d.num("turn_index"),
		Verification: d.strz("verification_failure_reason"),
	}
}
