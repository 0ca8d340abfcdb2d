package replay

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/aeiou"
)

// MagicParams are the parameters of tool.aeiou.magic (docs/spec/aeiou.md §6).
func MagicParams() []neuroscript.Param { return magicParams }

var magicParams = []neuroscript.Param{
	{Name: "kind", Type: "string"}, {Name: "payload", Type: "map"}, {Name: "opts", Type: "map", Optional: true},
}

// MagicArguments reads what a program asks of tool.aeiou.magic: the kind, the payload
// as JSON, and the seconds to live, nil when it names none. What cannot be read is
// an error of the script.
func MagicArguments(args []neuroscript.Value) (kind string, payload []byte, ttl *int64, err error) {
	kind, _ = args[0].AsString()
	if payload, err = neuroscript.AppendJSON(nil, args[1]); err != nil {
		return "", nil, nil, neuroscript.Errorf(token.ScriptArgumentCode, "magic: payload: %v", err)
	}
	if ttl, err = ttlOf(args[2]); err != nil {
		return "", nil, nil, err
	}
	return kind, payload, ttl, nil
}

// defaultMagicCalls is the default of magic.max_per_turn (docs/spec/aeiou.md §18).
const defaultMagicCalls = 32

// mint is tool.aeiou.magic: it counts and refuses as the live one does, and gives
// the line that was minted then, which must say what is asked for now.
func (x *program) mint(tell func(programStep) bool, args []neuroscript.Value) (neuroscript.Value, error) {
	limit := x.p.agent.MagicCalls
	if limit <= 0 {
		limit = defaultMagicCalls
	}
	if x.tokens++; x.tokens > limit {
		return neuroscript.Value{}, &neuroscript.Breach{Code: messages.ErrQuota, Meter: neuroscript.MeterMagic, Limit: int64(limit)}
	}
	kind, payload, ttl, err := MagicArguments(args)
	if err != nil {
		return neuroscript.Value{}, err
	}
	asked, err := x.asked(kind, payload, ttl)
	if err != nil {
		var fault *token.ArgumentError
		if errors.As(err, &fault) {
			return neuroscript.Value{}, neuroscript.Errorf(token.ScriptArgumentCode, "%s", fault.Error())
		}
		return neuroscript.Value{}, x.broken(err.Error())
	}
	if len(x.minted) == 0 {
		if !x.whole { // the process, or the program's time, ended before its lines were kept
			tell(programStep{blind: true})
			return neuroscript.Value{}, errHalted
		}
		x.failed = true
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInternal, "tool.aeiou.magic: no signer is available")
	}
	line := x.minted[0]
	if !same(read([]byte(line)), asked) {
		return neuroscript.Value{}, x.broken("a minted token says something else than the program asks for")
	}
	x.minted = x.minted[1:]
	x.used = append(append(x.used, line...), '\n')
	return neuroscript.String(line), nil
}

// asked makes the token a call asks for, but for its key, or refuses the call for
// its arguments. How long a token may be depends on the key; it is that of the next
// minted line, else one as the key ring names them.
func (x *program) asked(kind string, payload []byte, ttl *int64) (words, error) {
	signer := stamp{kid: "tok-20060102-000000", tag: make([]byte, 64)}
	if len(x.minted) > 0 {
		next := read([]byte(x.minted[0]))
		signer = stamp{kid: next.KID, tag: make([]byte, tagBytes(x.minted[0]))}
		if next.fallback() { // then the primary found nothing wrong, whatever its name
			signer = stamp{kid: "k", tag: make([]byte, 32)}
		}
	}
	m := token.Minter{Signers: signer, Rand: zeros{}, TTL: x.p.agent.TokenTTL, MaxTTL: x.p.agent.TokenMaxTTL}
	scope := token.Scope{SID: x.p.src.Key.SID(), TurnIndex: x.start.Turn, Nonce: x.start.Nonce}
	minted, err := m.Mint(kind, payload, ttl, scope, x.p.src.Records[x.p.at-1].TS)
	return read([]byte(minted.Line)), err
}

// stamp is a signer that signs nothing.
type stamp struct {
	kid string
	tag []byte
}

// KID implements token.Signer.
func (s stamp) KID() string { return s.kid }

// Sign implements token.Signer.
func (s stamp) Sign([]byte) ([]byte, error) { return s.tag, nil }

// TagBytes lets a token that is too long be refused.
func (s stamp) TagBytes() int { return len(s.tag) }

// TokenSigner implements token.SignerSource.
func (s stamp) TokenSigner(time.Time) token.Signer { return s }

// TokenFallback implements token.SignerSource.
func (s stamp) TokenFallback(time.Time) token.Signer { return nil }

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// ttlOf reads opts, which knows ttl alone.
func ttlOf(opts neuroscript.Value) (*int64, error) {
	if opts.IsNil() {
		return nil, nil
	}
	var ttl *int64
	for _, key := range opts.MapKeys() {
		v, _ := opts.MapGet(key)
		n, ok := v.AsInt()
		if key != "ttl" {
			return nil, neuroscript.Errorf(token.ScriptArgumentCode, "magic: opts has the unknown member %q; it knows ttl", key)
		}
		if !ok {
			return nil, neuroscript.Errorf(token.ScriptArgumentCode, "magic: opts.ttl must be an integer of seconds")
		}
		ttl = &n
	}
	return ttl, nil
}

// verified restores the outcome of the checks: which candidates failed and how
// stands in the decision that follows; the rest were valid and are read for what
// they say.
func (p *player) verified(e *turn.Verify) *turn.Verified {
	in := &turn.Verified{Ident: e.Ident}
	failed := map[int64]string{}
	if d := p.ahead.decided; d != nil {
		for i, text := range d.Failures {
			if i < len(d.FailureLines) {
				failed[d.FailureLines[i]] = text
			}
		}
	}
	for n, line := range aeiou.Candidates(e.Out) {
		ck := messages.TokenCheck{Line: n}
		if text, ok := failed[int64(n)]; ok {
			code, reason, _ := strings.Cut(text, "/")
			ck.Failure, ck.Reason = messages.Code(code), reason
		} else {
			w := read(line)
			ck.Action, ck.KID, ck.JTI = w.action(), w.KID, w.JTI
		}
		in.Checks = append(in.Checks, ck)
	}
	return in
}

// words are what a token says.
type words struct {
	JTI     string          `json:"jti"`
	KID     string          `json:"kid"`
	Payload json.RawMessage `json:"payload"`
	SID     string          `json:"session_id"`
	TTL     int64           `json:"ttl"`
	Turn    int64           `json:"turn_index"`
	Nonce   string          `json:"turn_nonce"`
}

// read takes a token's words without judging it: it was judged then. What is no
// token says nothing.
func read(line []byte) (w words) {
	_, rest, _ := bytes.Cut(line, []byte("<<<NSMAG:V3:"))
	_, rest, _ = bytes.Cut(rest, []byte(":"))
	payload, _, _ := bytes.Cut(rest, []byte("."))
	raw, err := base64.RawURLEncoding.AppendDecode(nil, payload)
	if err != nil || json.Unmarshal(raw, &w) != nil {
		return words{}
	}
	return w
}

// tagBytes is the length of a line's tag.
func tagBytes(line string) int {
	_, tag, _ := strings.Cut(line, ".")
	tag, _, _ = strings.Cut(tag, ">")
	return base64.RawURLEncoding.DecodedLen(len(tag))
}

func (w words) program() (p struct {
	Action  string `json:"action"`
	Request struct {
		Reason any `json:"reason"`
	} `json:"request"`
},
) {
	if json.Unmarshal(w.Payload, &p) != nil {
		p.Action = ""
	}
	return p
}

func (w words) action() string { return w.program().Action }

// fallback reports whether the fallback signer made the token, which then says the same
// whatever the program asked for (docs/spec/aeiou.md §6.1).
func (w words) fallback() bool {
	p := w.program()
	return p.Action == "abort" && p.Request.Reason == "fallback_signer_activated"
}

// same compares all but the key and what was drawn.
func same(was, asked words) bool {
	if was.SID != asked.SID || was.TTL != asked.TTL || was.Turn != asked.Turn || was.Nonce != asked.Nonce {
		return false
	}
	return was.fallback() || bytes.Equal(was.Payload, asked.Payload)
}
