package driver

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// A feed of an agent is fetched by a run of a child session, which is linked with its parent by
// the name of the feed instead of an action (docs/spec/extensions.md §10).

// feedLink begins ParentLink.Action of such a session, whose Turn is 0. No id of an action has a
// colon in a turn 0.
const feedLink = "feed:"

// Feed names the child session of a feed, and says how it is linked with its parent. A tail makes
// another name of it; "" is the one that is kept.
func (p *Parent) Feed(feed, tail string) (messages.SessionKey, messages.ParentLink, Refusal) {
	link := messages.ParentLink{SID: p.SID, Incarnation: p.Inc, Action: feedLink + feed, Depth: 1}
	if p.Link != nil {
		link.Depth += p.Link.Depth
	}
	if link.Depth > MaxAgentDepth {
		return messages.SessionKey{}, link, TooDeep
	}
	if tail != "" {
		tail = "." + short(tail)
	}
	for _, prefix := range FeedPrefixes(p.Key) {
		key, err := messages.ParseSID(prefix + feed + tail)
		if err == nil {
			return key, link, Granted
		}
	}
	return messages.SessionKey{}, link, Nameless
}

// FeedPrefixes returns what the names of the child sessions of a session's feeds begin with: the
// second one where the first leaves no room.
func FeedPrefixes(parent messages.SessionKey) []string {
	return []string{parent.SID() + ".feed.", parent.Tenant + ":" + parent.User + ":feed." + short(parent.SID()) + "."}
}

// short is a name for a text.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// FeedOf returns the feed for which a child session is asked; ok is false for one that works for
// an action.
func FeedOf(link *messages.ParentLink) (feed string, ok bool) {
	if link.Turn != 0 {
		return "", false
	}
	return strings.CutPrefix(link.Action, feedLink)
}

// UnawaitedRuns returns the runs that are open in the session of a feed when it is woken, and
// that nothing has cancelled. What fetched the feed has gone with the process: the next fetch
// asks anew.
func UnawaitedRuns(state *turn.State) (runs []int64) {
	if open := state.Open; open != nil && open.Cancel == nil {
		runs = append(runs, open.Run)
	}
	for i := range state.Queue {
		runs = append(runs, state.Queue[i].Run)
	}
	return runs
}
