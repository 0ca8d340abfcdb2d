package messages

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/visible"
)

// Bounds of what a session is described with.
const (
	MaxTitleBytes = 200
	MaxTags       = 16
	MaxTagBytes   = 64
)

// Validate names the first part that a session cannot be described with, as ERR_INVALID
// with the part's name as Field: a title is one line of at most MaxTitleBytes bytes; tags
// are at most MaxTags, sorted, each once, of the form key or key=value, 1 to MaxTagBytes
// bytes without spaces. Both are UTF-8 without control or invisible characters.
func (b *SessionDescribed) Validate() error {
	if err := describes("title", b.Title, MaxTitleBytes); err != nil {
		return err
	}
	if len(b.Tags) > MaxTags {
		return &Error{Code: ErrInvalid, Field: "tags", Detail: "are " + strconv.Itoa(len(b.Tags)) + "; the limit is " + strconv.Itoa(MaxTags)}
	}
	for i, t := range b.Tags {
		if err := describes("tags", t, MaxTagBytes); err != nil {
			return err
		}
		switch {
		case t == "" || t[0] == '=':
			return &Error{Code: ErrInvalid, Field: "tags", Detail: "a tag is key or key=value, and " + strconv.Quote(t) + " has no key"}
		case strings.ContainsAny(t, " ,"):
			return &Error{Code: ErrInvalid, Field: "tags", Detail: "the tag " + strconv.Quote(t) + " has a space or a comma"}
		case i > 0 && b.Tags[i-1] >= t:
			return &Error{Code: ErrInvalid, Field: "tags", Detail: "are not sorted, each once"}
		}
	}
	return nil
}

func describes(field, s string, most int) error {
	switch {
	case len(s) > most:
		return &Error{Code: ErrInvalid, Field: field, Detail: "has " + strconv.Itoa(len(s)) + " bytes; the limit is " + strconv.Itoa(most)}
	case !utf8.ValidString(s):
		return &Error{Code: ErrInvalid, Field: field, Detail: "is not UTF-8"}
	case strings.ContainsAny(s, "\n\t") || visible.Text(s) != s:
		return &Error{Code: ErrInvalid, Field: field, Detail: "has a control or invisible character"}
	}
	return nil
}

// Changed is the description after a change: title, when it is not nil, takes the place of
// the one before, tags, when they are not nil, that of those before; then remove goes and add
// comes. b may be nil: no description.
func (b *SessionDescribed) Changed(title *string, tags, add, remove []string) *SessionDescribed {
	next := &SessionDescribed{}
	if b != nil {
		next.Title, next.Tags = b.Title, slices.Clone(b.Tags)
	}
	if title != nil {
		next.Title = *title
	}
	if tags != nil {
		next.Tags = slices.Clone(tags)
	}
	next.Tags = slices.DeleteFunc(next.Tags, func(t string) bool { return slices.Contains(remove, t) })
	next.Tags = append(next.Tags, add...)
	slices.Sort(next.Tags)
	if next.Tags = slices.Compact(next.Tags); len(next.Tags) == 0 {
		next.Tags = nil
	}
	return next
}
