package messages

// The limits of what a model may write or is shown, as the manifest spells them. A host
// counts how often each is reached (docs/spec/streaming.md §10).
const (
	LimitBody         = "body"          // of an action: it is not run
	LimitDrain        = "drain"         // after a final response: what still ran was cancelled
	LimitFeedDeadline = "feed_deadline" // of a prompt: it went without the latest value of a feed
	LimitFeeds        = "feeds"         // of a session: a feed was not added
	LimitGateBuffer   = "gate_buffer"   // behind a gate: the model's stream was left unread
	LimitJSONDepth    = "json_depth"    // of an action's body: it is not run
	LimitParallel     = "parallel"      // actions at once: one waited for others
	LimitReply        = "reply"         // of a reply: its turn is HALT
	LimitReplyActions = "reply_actions" // of a reply: one more failed
	LimitResult       = "result"        // of a result: the model was shown a part
	LimitTag          = "tag"           // of a reply: it is text
	LimitThoughtDepth = "thought_depth" // of a reply: a thought began that is no level of its own
)

// Limits are all of them.
func Limits() []string {
	return []string{
		LimitBody, LimitDrain, LimitFeedDeadline, LimitFeeds, LimitGateBuffer, LimitJSONDepth, LimitParallel, LimitReply, LimitReplyActions,
		LimitResult, LimitTag, LimitThoughtDepth,
	}
}
