package messages

// Limit names a limit of what a model may write or is shown, as the manifest spells it. A
// host counts how often each is reached (docs/spec/streaming.md §10).
type Limit string

// The limits.
const (
	LimitBody         Limit = "body"          // of an action: it is not run
	LimitDrain        Limit = "drain"         // after a final response: what still ran was cancelled
	LimitFeedDeadline Limit = "feed_deadline" // of a prompt: it went without the latest value of a feed
	LimitFeeds        Limit = "feeds"         // of a session: a feed was not added
	LimitGateBuffer   Limit = "gate_buffer"   // behind a gate: the model's stream was left unread
	LimitJSONDepth    Limit = "json_depth"    // of an action's body: it is not run
	LimitParallel     Limit = "parallel"      // actions at once: one waited for others
	LimitReply        Limit = "reply"         // of a reply: its turn is HALT
	LimitReplyActions Limit = "reply_actions" // of a reply: one more failed
	LimitResult       Limit = "result"        // of a result: the model was shown a part
	LimitTag          Limit = "tag"           // of a reply: it is text
	LimitThoughtDepth Limit = "thought_depth" // of a reply: a thought began that is no level of its own
)

// Limits are all of them.
func Limits() []Limit {
	return []Limit{
		LimitBody, LimitDrain, LimitFeedDeadline, LimitFeeds, LimitGateBuffer, LimitJSONDepth, LimitParallel, LimitReply, LimitReplyActions,
		LimitResult, LimitTag, LimitThoughtDepth,
	}
}
