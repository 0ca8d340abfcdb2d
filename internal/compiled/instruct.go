package compiled

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Fill returns the instructions of a session with their placeholders filled in: by Instruct, a
// variable of the environment, or the value of a feed of the manifest, which feed fetches. Feeds
// that the model has added or changed do not count.
func (a *Agent) Fill(ctx context.Context, sid string, feed func(id string) messages.Feed) (string, error) {
	text, err := prompt.Expand(a.Instructions, func(name string) (string, error) {
		switch {
		case name != prompt.Given:
		case a.Instruct == nil:
			return "", messages.Errorf(messages.ErrConfig, "no function gives instructions")
		default:
			return a.Instruct(ctx, sid)
		}
		if a.Feeds.Environment != nil {
			if v, ok := a.Feeds.Environment(name); ok {
				return v, nil
			}
		}
		if _, ok := a.Feeds.Set.Get(name); !ok {
			return "", nil // a variable that is not set
		}
		fd := feed(name)
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

// Instructed returns an error when the feeds of a turn lack the instructions that the agent must
// have.
func (a *Agent) Instructed(fs []messages.Feed) error {
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
