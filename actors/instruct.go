package actors

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// instructionsFeed is what the system says in front of all else in the turns of a run: made
// for its first prompt, and the same from then on, which known names. Without it no model is
// asked.
func (h *Host) instructionsFeed(ctx context.Context, agent *Agent, sid string, inc messages.Incarnation, who feeds.Session, known messages.Digest) []messages.Feed {
	if agent.Instructions == "" {
		return nil
	}
	fd := messages.Feed{ID: messages.InstructionsFeed}
	var err error
	if known.IsZero() {
		var text string
		if text, err = h.instructions(ctx, agent, sid, who); err == nil {
			quoted, _ := jsontext.AppendQuote(nil, text)
			fd.Value = string(quoted)
		}
	} else {
		var kept []byte
		kept, err = h.cfg.Store.Blob(ctx, inc, known)
		fd.Value = string(kept)
	}
	if err != nil {
		h.log.Warn("the instructions of a run cannot be made", zap.String("SID", sid), zap.Error(err))
		fd.Value, fd.Error, fd.Reason = "", feeds.ErrorFailed, err.Error()
	}
	return []messages.Feed{fd}
}

// instructions fills in the placeholders: what the program gives, a variable, or the value of
// a feed of the manifest. Feeds that the model has added or changed do not count.
func (h *Host) instructions(ctx context.Context, agent *Agent, sid string, who feeds.Session) (string, error) {
	text, err := prompt.Expand(agent.Instructions, func(name string) (string, error) {
		switch {
		case name != prompt.Given:
		case agent.Instruct == nil:
			return "", messages.Errorf(messages.ErrConfig, "no function gives instructions")
		default:
			return agent.Instruct(ctx, sid)
		}
		if agent.Feeds.Environment != nil {
			if v, ok := agent.Feeds.Environment(name); ok {
				return v, nil
			}
		}
		if _, ok := agent.Feeds.Set.Get(name); !ok {
			return "", nil // a variable that is not set
		}
		fd := h.feed(ctx, agent, who, agent.Feeds.Set, name)
		if fd.Error != "" {
			return "", messages.Errorf(messages.ErrConfig, "the feed %s has no value (%s)", name, strings.Trim(fd.Error+": "+fd.Reason, ": "))
		}
		return prompt.Filled(fd.Value), nil
	})
	switch {
	case err != nil:
	case !utf8.ValidString(text):
		err = messages.Errorf(messages.ErrConfig, "they are not UTF-8")
	case len(text) > manifest.MaxInstructions:
		err = messages.Errorf(messages.ErrConfig, "they have %d bytes, at most %d are allowed", len(text), manifest.MaxInstructions)
	}
	return text, err
}

// instructed tells why a turn with these feeds has none of the instructions that its agent
// must have.
func (a *Agent) instructed(fs []messages.Feed) error {
	if a.Instructions == "" {
		return nil
	}
	i := slices.IndexFunc(fs, func(fd messages.Feed) bool { return fd.ID == messages.InstructionsFeed })
	why := "they were not made"
	if i >= 0 {
		if fs[i].Error == "" {
			return nil
		}
		why = cmp.Or(fs[i].Reason, fs[i].Error)
	}
	return &messages.Error{Code: messages.ErrConfig, Field: "instructions", Detail: why}
}
