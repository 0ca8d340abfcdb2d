package token

// The members of a token's payload (docs/spec/aeiou.md §7.2), read from text that has
// passed checkObject.

// Kind is the only kind of token there is.
const Kind = "LOOP"

// Actions a token can ask for (docs/spec/aeiou.md §6).
const (
	ActionContinue = "continue"
	ActionDone     = "done"
	ActionAbort    = "abort"
)

// Limits of members, in bytes.
const (
	MaxJTIBytes = 64
	MaxKIDBytes = 64
)

// version is the value of the member v.
const version = 3

// fields are the known members of a payload. Strings alias the payload unless
// they hold escapes.
type fields struct {
	seen      uint // bits of member
	bad       bool // a known member is missing, of the wrong type or outside its rule
	v         int64
	turnIndex int64
	issuedAt  int64
	ttl       int64
	hasTTL    bool
	kind      []byte
	jti       []byte
	sessionID []byte
	nonce     []byte
	kid       []byte
	action    []byte
}

// One bit per required member.
const (
	sawV = 1 << iota
	sawKind
	sawJTI
	sawSessionID
	sawTurnIndex
	sawNonce
	sawIssuedAt
	sawKID
	sawPayload
	sawAction
	sawAll = 1<<iota - 1
)

// readFields takes the known members out of payload. Unknown members are
// ignored; so are those of the inner object but action, whose content is the
// application's.
func readFields(payload []byte) (f fields) {
	members(payload, func(name, value []byte) {
		switch string(unquote(name)) {
		case "v":
			f.integer(&f.v, value, sawV)
		case "kind":
			f.text(&f.kind, value, sawKind)
		case "jti":
			f.text(&f.jti, value, sawJTI)
			if len(f.jti) < 1 || len(f.jti) > MaxJTIBytes {
				f.bad = true
			}
		case "session_id":
			f.text(&f.sessionID, value, sawSessionID)
		case "turn_index":
			f.integer(&f.turnIndex, value, sawTurnIndex)
		case "turn_nonce":
			f.text(&f.nonce, value, sawNonce)
		case "issued_at":
			f.integer(&f.issuedAt, value, sawIssuedAt)
		case "ttl": // absent or null: no expiry check; 0 is a value (docs/spec/aeiou.md §20 row 20)
			if value[0] != 'n' {
				f.hasTTL = true
				f.integer(&f.ttl, value, 0)
			}
		case "kid":
			f.text(&f.kid, value, sawKID)
			if !validKID(f.kid) {
				f.bad = true
			}
		case "payload":
			f.seen |= sawPayload
			if value[0] != '{' {
				f.bad = true
				return
			}
			members(value, func(name, value []byte) {
				if string(unquote(name)) == "action" {
					f.text(&f.action, value, sawAction)
				}
			})
		}
	})
	if f.seen != sawAll {
		f.bad = true
	}
	return f
}

// integer takes a number that has passed the integer rule of docs/spec/aeiou.md §8.
func (f *fields) integer(dst *int64, value []byte, bit uint) {
	f.seen |= bit
	c := value[0]
	if c != '-' && (c < '0' || c > '9') {
		f.bad = true
		return
	}
	*dst = parseInteger(value)
}

// text takes a string.
func (f *fields) text(dst *[]byte, value []byte, bit uint) {
	f.seen |= bit
	if value[0] != '"' {
		f.bad = true
		return
	}
	*dst = unquote(value[1 : len(value)-1])
}

// parseInteger reads an integer that scan has found within ±maxSafeInteger.
func parseInteger(b []byte) int64 {
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	v := int64(0)
	for _, c := range b {
		v = v*10 + int64(c-'0')
	}
	if negative {
		return -v
	}
	return v
}

// validKID checks the rule for key ids: 1–64 bytes of [A-Za-z0-9._:-].
func validKID(kid []byte) bool {
	if len(kid) < 1 || len(kid) > MaxKIDBytes {
		return false
	}
	for _, c := range kid {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// knownAction reports whether action is one of the three.
func knownAction(action string) bool {
	return action == ActionContinue || action == ActionDone || action == ActionAbort
}
