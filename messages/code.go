package messages

// Code names a failure (ERR_…) or a remark (LINT_…). Every code of the product
// is in the table below and nowhere else (docs/spec/design.md §12, docs/spec/aeiou.md §16).
type Code string

// Failures of the AEIOU protocol.
const (
	ErrEnvMarkersInvalid Code = "ERR_ENV_MARKERS_INVALID"
	ErrEnvSectionMissing Code = "ERR_ENV_SECTION_MISSING"
	ErrEnvOrder          Code = "ERR_ENV_ORDER"
	ErrEnvSectionDup     Code = "ERR_ENV_SECTION_DUP"
	ErrEnvSize           Code = "ERR_ENV_SIZE"
	ErrUserdataSchema    Code = "ERR_USERDATA_SCHEMA"
	ErrTokenParse        Code = "ERR_TOKEN_PARSE"
	ErrTokenVerify       Code = "ERR_TOKEN_VERIFY"
	ErrTokenScope        Code = "ERR_TOKEN_SCOPE"
	ErrTokenTTL          Code = "ERR_TOKEN_TTL"
	ErrTokenReplay       Code = "ERR_TOKEN_REPLAY"
	ErrTokenMissing      Code = "ERR_TOKEN_MISSING"
	ErrMagicToolInternal Code = "ERR_MAGIC_TOOL_INTERNAL"
	ErrTimeout           Code = "ERR_TIMEOUT"
	ErrQuota             Code = "ERR_QUOTA"
	ErrNoProgress        Code = "ERR_NO_PROGRESS"
	ErrActionsParse      Code = "ERR_ACTIONS_PARSE"
	ErrActionsRuntime    Code = "ERR_ACTIONS_RUNTIME"
	ErrCrash             Code = "ERR_CRASH"
	ErrCancelled         Code = "ERR_CANCELLED"
	ErrMaxTurns          Code = "ERR_MAX_TURNS"
	ErrBusy              Code = "ERR_BUSY"
)

// Failures of the runtime around the protocols.
const (
	ErrModel    Code = "ERR_MODEL"
	ErrJournal  Code = "ERR_JOURNAL"
	ErrFenced   Code = "ERR_FENCED"
	ErrLoop     Code = "ERR_LOOP"
	ErrApproval Code = "ERR_APPROVAL"
	ErrConfig   Code = "ERR_CONFIG"
	ErrNotFound Code = "ERR_NOT_FOUND"
	ErrInvalid  Code = "ERR_INVALID"
	ErrConflict Code = "ERR_CONFLICT"
	ErrDialect  Code = "ERR_DIALECT"
	ErrOutput   Code = "ERR_OUTPUT"
	ErrDenied   Code = "ERR_DENIED"
	ErrAudit    Code = "ERR_AUDIT"
)

// Lints never change a decision.
const (
	LintPostTokenText     Code = "LINT_POST_TOKEN_TEXT"
	LintMultiTokens       Code = "LINT_MULTI_TOKENS"
	LintDupSectionIgnored Code = "LINT_DUP_SECTION_IGNORED"
	LintMarkerEscaped     Code = "LINT_MARKER_ESCAPED"
	LintCarryTruncated    Code = "LINT_CARRY_TRUNCATED"
	LintFeedForged        Code = "LINT_FEED_FORGED"
)

// Lints of habits that were forgiven (docs/spec/design.md §5).
const (
	LintFence    Code = "LINT_FENCE"
	LintProse    Code = "LINT_PROSE"
	LintThink    Code = "LINT_THINK"
	LintCommas   Code = "LINT_COMMAS"
	LintControls Code = "LINT_CONTROLS"
	LintAliases  Code = "LINT_ALIASES"
	LintStrings  Code = "LINT_STRINGS"
	LintCase     Code = "LINT_CASE"
	LintSingle   Code = "LINT_SINGLE"
	LintClosing  Code = "LINT_CLOSING"
	LintSections Code = "LINT_SECTIONS"
	LintBare     Code = "LINT_BARE"
	LintUnseen   Code = "LINT_UNSEEN"
	LintSilence  Code = "LINT_SILENCE"
)

// Who can do something about a code.
const (
	ActorAuthor   = "author"   // the model, which wrote the reply
	ActorClient   = "client"   // the caller of the door
	ActorOperator = "operator" // the person who runs the host
	ActorNobody   = "nobody"   // a remark, or a stop that was asked for
)

// CodeInfo describes a code.
type CodeInfo struct {
	Code      Code
	Layer     string // the room that raises it
	HTTP      int    // status at the HTTP door
	Retryable bool   // the same request may succeed later
	Acts      string // ActorAuthor, ActorClient, ActorOperator or ActorNobody
	Meaning   string // one sentence
}

var codes = []CodeInfo{
	{ErrEnvMarkersInvalid, "parse/aeiou", 422, false, ActorAuthor, "The envelope's marker lines are wrong, or its bytes are not UTF-8."},
	{ErrEnvSectionMissing, "parse/aeiou", 422, false, ActorAuthor, "USERDATA or ACTIONS is missing."},
	{ErrEnvOrder, "parse/aeiou", 422, false, ActorAuthor, "The sections are not in the order USERDATA, SCRATCHPAD, OUTPUT, ACTIONS."},
	{ErrEnvSectionDup, "parse/aeiou", 422, false, ActorOperator, "A section is repeated and strict duplicates are on."},
	{ErrEnvSize, "parse/aeiou", 413, false, ActorAuthor, "An envelope, section, stream or emitted line is over its limit."},
	{ErrUserdataSchema, "parse/aeiou", 422, false, ActorClient, "USERDATA is not the object the schema asks for."},
	{ErrTokenParse, "crypto/token", 422, false, ActorAuthor, "A control token line is malformed."},
	{ErrTokenVerify, "crypto/token", 422, false, ActorAuthor, "A control token does not verify under any key it may use."},
	{ErrTokenScope, "crypto/token", 422, false, ActorAuthor, "A control token belongs to another session or turn."},
	{ErrTokenTTL, "crypto/token", 422, false, ActorAuthor, "A control token is expired or from the future."},
	{ErrTokenReplay, "crypto/token", 422, false, ActorAuthor, "A control token was used before."},
	{ErrTokenMissing, "parse/aeiou", 422, false, ActorAuthor, "The turn emitted no control token."},
	{ErrMagicToolInternal, "crypto/token", 500, true, ActorOperator, "No signer could mint a control token, not even the fallback."},
	{ErrTimeout, "turn", 504, true, ActorAuthor, "A clock ran out."},
	{ErrQuota, "turn", 422, false, ActorAuthor, "A meter ran out."},
	{ErrNoProgress, "turn", 422, false, ActorAuthor, "The session repeated itself too often."},
	{ErrActionsParse, "neuroscript", 422, false, ActorAuthor, "The ACTIONS program does not parse."},
	{ErrActionsRuntime, "neuroscript", 422, false, ActorAuthor, "The ACTIONS program failed with an error nothing handled."},
	{ErrCrash, "supervisor", 500, true, ActorOperator, "A part of the turn panicked, or the process died under it."},
	{ErrCancelled, "turn", 409, true, ActorNobody, "The turn was cancelled."},
	{ErrMaxTurns, "turn", 422, false, ActorOperator, "The run used all the turns it was allowed."},
	{ErrBusy, "turn", 409, true, ActorClient, "A run is in flight and the policy does not wait, or the queue is full."},
	{ErrModel, "llm", 502, true, ActorOperator, "The model or its transport failed after retries and fallback."},
	{ErrJournal, "journal", 503, true, ActorOperator, "The journal cannot be read or appended to."},
	{ErrFenced, "journal", 409, false, ActorNobody, "Another owner has taken the session; this one stops."},
	{ErrLoop, "turn", 422, false, ActorAuthor, "The same call keeps giving the same result."},
	{ErrApproval, "tools", 409, false, ActorClient, "An answer to an approval is late, changed, the second or not this caller's to give."},
	{ErrConfig, "stile", 400, false, ActorOperator, "A setting, key file, script, manifest or agent cannot be used."},
	{ErrNotFound, "stile", 404, false, ActorClient, "What is named does not exist: a session, run, agent, approval, token, feed, blob or path."},
	{ErrInvalid, "stile", 400, false, ActorClient, "A name, position, argument, query or body is malformed."},
	{ErrConflict, "stile", 409, false, ActorClient, "The request does not fit what is there: a name or key in use, a session of another agent, a position to come."},
	{ErrDialect, "parse", 422, false, ActorAuthor, "The reply breaks a rule of its dialect."},
	{ErrOutput, "turn", 422, false, ActorAuthor, "The final answer does not fit the agent's schema."},
	{ErrDenied, "tools", 403, false, ActorOperator, "Policy does not allow it."},
	{ErrAudit, "host", 503, true, ActorOperator, "The audit log cannot be written; what it would record is not done."},

	{LintPostTokenText, "parse/aeiou", 200, false, ActorAuthor, "Text follows the chosen control token."},
	{LintMultiTokens, "parse/aeiou", 200, false, ActorAuthor, "More than one valid control token was emitted."},
	{LintDupSectionIgnored, "parse/aeiou", 200, false, ActorAuthor, "A repeated section was ignored; the first one counts."},
	{LintMarkerEscaped, "parse/aeiou", 200, false, ActorAuthor, "A carried line that looked like a marker was indented by one space."},
	{LintCarryTruncated, "parse/aeiou", 200, false, ActorAuthor, "A carried stream was cut to its tail to fit the envelope."},
	{LintFeedForged, "turn", 200, false, ActorAuthor, "The model wrote a context feed; no feed and no variable was changed by it."},
	{LintFence, "parse", 200, false, ActorAuthor, "A code fence around what the host reads was taken off."},
	{LintProse, "parse", 200, false, ActorAuthor, "Text around a program was passed over."},
	{LintThink, "parse", 200, false, ActorAuthor, "Reasoning in a tag that the dialect has not was taken for a thought."},
	{LintCommas, "parse", 200, false, ActorAuthor, "A trailing comma in JSON was passed over."},
	{LintControls, "parse", 200, false, ActorAuthor, "A raw control character in a string of JSON was read as its escape."},
	{LintAliases, "parse", 200, false, ActorAuthor, "Another word for a member was read as the one it stands for."},
	{LintStrings, "parse", 200, false, ActorAuthor, "A string was read as the number or object that it holds."},
	{LintCase, "parse", 200, false, ActorAuthor, "A marker in other case was read as the one it differs from by that alone; in `cogency`, at the end of a reply, also `</end>` and `<end/>`."},
	{LintSingle, "parse", 200, false, ActorAuthor, "One call was read as an array of it."},
	{LintClosing, "parse", 200, false, ActorAuthor, "The missing last marker of a reply was added."},
	{LintSections, "parse", 200, false, ActorAuthor, "An envelope without sections that are the host's was read for its program."},
	{LintBare, "parse", 200, false, ActorAuthor, "Text without any block was taken for the answer."},
	{LintUnseen, "parse", 200, false, ActorAuthor, "An answer beside calls whose results it had not seen was not the last word."},
	{LintSilence, "parse", 200, false, ActorAuthor, "A reply that said nothing was asked again."},
}

var codeIndex = func() map[Code]*CodeInfo {
	m := make(map[Code]*CodeInfo, len(codes))
	for i := range codes {
		m[codes[i].Code] = &codes[i]
	}
	return m
}()

// Codes lists every code in the order of the documentation. The slice is a copy.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codes...) }

// Info describes c; ok is false for a code that is not in the table.
func (c Code) Info() (info CodeInfo, ok bool) {
	if p := codeIndex[c]; p != nil {
		return *p, true
	}
	return CodeInfo{}, false
}

// TokenStage orders the verification failures by how far the token got: PARSE <
// VERIFY < SCOPE < TTL < REPLAY (docs/spec/aeiou.md §10). Other codes are −1.
func TokenStage(c Code) int {
	switch c {
	case ErrTokenParse:
		return 0
	case ErrTokenVerify:
		return 1
	case ErrTokenScope:
		return 2
	case ErrTokenTTL:
		return 3
	case ErrTokenReplay:
		return 4
	}
	return -1
}
