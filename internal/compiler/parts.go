package compiler

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// The bounds of what comes with an input.
const (
	MaxParts      = 8
	MaxPartBytes  = 4 << 20 // of one
	MaxPartsBytes = 8 << 20 // of all of an input
	maxPartName   = 128
)

// ReasonPartType is the reason of ERR_INVALID for a part of a type that the agent's model does not
// take.
const ReasonPartType = "PART_TYPE"

// CheckParts checks the parts of an input and says what they are. Errors are ERR_INVALID with the
// field, and for bytes that are not what they are said to be with the offset.
func (c *Agent) CheckParts(in *messages.Input) error {
	if len(in.Parts) == 0 && len(in.Data) == 0 {
		return nil
	}
	switch {
	case c.Carries:
		return badPart("parts", "the agent's dialect shows its model a program's input alone, no pictures or files")
	case in.Policy == messages.Merge || in.Policy == messages.Debounce:
		return badPart("parts", "pictures and files come with a run of its own: use another policy than "+string(in.Policy))
	}
	if err := SniffParts(in); err != nil {
		return err
	}
	for i := range in.Parts {
		for k := range c.Actor.Routes {
			if r := &c.Actor.Routes[k]; !r.TakesPart(in.Parts[i].Type) {
				e := badPart(partField(i, "type"), "the model "+strings.TrimSuffix(r.Provider+"/"+r.Model, "/")+" takes no "+in.Parts[i].Type)
				e.Reason = ReasonPartType
				return e
			}
		}
	}
	return nil
}

// SniffParts is CheckParts for any agent. It does not decode what it looks at.
func SniffParts(in *messages.Input) error {
	switch {
	case len(in.Parts) > MaxParts:
		return badPart("parts", "there are more than "+strconv.Itoa(MaxParts))
	case len(in.Parts) != len(in.Data):
		return badPart("parts", "a part without its bytes")
	case strings.TrimSpace(in.Text+in.Userdata) == "":
		return badPart("input", "a text says what is to be done with the parts")
	}
	in.Parts = slices.Clone(in.Parts)
	size := 0
	for i := range in.Parts {
		p, data := &in.Parts[i], in.Data[i]
		size += len(data)
		switch {
		case len(data) == 0:
			return badPart(partField(i, "data"), "it is empty")
		case len(data) > MaxPartBytes:
			return badPart(partField(i, "data"), "it has more than 4 MiB")
		case size > MaxPartsBytes:
			return badPart("parts", "they have more than 8 MiB together")
		case !validPartName(p.Name):
			return badPart(partField(i, "name"), "a name has at most 128 bytes, and no control characters, slashes, quotation marks or brackets")
		}
		declared := p.Type
		if declared == "" {
			if declared = sniffed(data); declared == "" {
				return badPart(partField(i, "type"), "the bytes are none of "+strings.Join(partTypes, ", "))
			}
		}
		at, known := differs(declared, data)
		switch {
		case !known:
			return badPart(partField(i, "type"), "want one of "+strings.Join(partTypes, ", "))
		case at >= 0:
			e := badPart(partField(i, "data"), "the bytes are no "+declared)
			e.Offset, e.HasOffset = int64(at), true
			return e
		}
		p.Type, p.Size, p.Digest = declared, int64(len(data)), sha256.Sum256(data)
	}
	return nil
}

func partField(i int, member string) string { return "parts[" + strconv.Itoa(i) + "]." + member }

func badPart(field, detail string) *messages.Error {
	return &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: detail}
}

func validPartName(name string) bool {
	return len(name) <= maxPartName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || strings.ContainsRune("<>[]{}/\\\"'`", r) })
}

const textPlain = "text/plain"

var partTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", textPlain}

// sniffed is the type of bytes; "" for one that is not known.
func sniffed(data []byte) string {
	for _, t := range partTypes {
		if at, _ := differs(t, data); at < 0 {
			return t
		}
	}
	return ""
}

// head is how the bytes of a type begin: at each place one of some texts.
type head struct {
	at   int
	text []string
}

var heads = map[string][]head{
	"image/png":       {{0, []string{"\x89PNG\r\n\x1a\n"}}, {8, []string{"\x00\x00\x00\x0dIHDR"}}},
	"image/jpeg":      {{0, []string{"\xff\xd8\xff"}}},
	"image/gif":       {{0, []string{"GIF87a", "GIF89a"}}},
	"image/webp":      {{0, []string{"RIFF"}}, {8, []string{"WEBPVP8 ", "WEBPVP8L", "WEBPVP8X"}}},
	"application/pdf": {{0, []string{"%PDF-1.", "%PDF-2."}}},
}

// differs returns where bytes are none of a type, −1 where they are; known is false for a type of
// which nothing is known. Of pictures and PDF it looks at the head, and of a picture's measures only
// whether there are any.
func differs(mediaType string, data []byte) (at int, known bool) {
	if mediaType == textPlain {
		for i := 0; i < len(data); {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n < 2 || r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' || r == 0x7f {
				return i, true
			}
			i += n
		}
		return -1, true
	}
	all, known := heads[mediaType]
	if !known {
		return 0, false
	}
	for _, h := range all {
		best := -1
		for _, text := range h.text {
			n := 0
			for n < len(text) && h.at+n < len(data) && data[h.at+n] == text[n] {
				n++
			}
			if n == len(text) {
				best = -1
				break
			}
			best = max(best, h.at+n)
		}
		if best >= 0 {
			return min(best, len(data)), true
		}
	}
	if mediaType == "image/png" && (len(data) < 24 || binary.BigEndian.Uint32(data[16:]) == 0 || binary.BigEndian.Uint32(data[20:]) == 0) {
		return min(16, len(data)), true
	}
	return -1, true
}
