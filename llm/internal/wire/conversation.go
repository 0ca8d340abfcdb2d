package wire

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/messages"
)

// Raw is a JSON value as the provider wrote it.
type Raw = jsontext.Value

// Turns is a prompt in the form that all vendors share: the system text, then user and
// assistant in turn, the user first and last.
type Turns struct {
	System string // its messages joined by blank lines
	Turns  []Turn
	Tools  []native.Function
}

// Turn is the messages of one side up to the answer of the other: at least a text, a call or
// a result, and no empty text.
type Turn struct {
	Role    messages.Role
	Results []native.Result // of the calls of the turn before, before the texts
	Items   []Raw           // parts that this provider wants back, before all else
	Files   []File          // of a user, before the texts
	Texts   []string
	Calls   []native.Call // after the texts
}

// File is a picture or a file of a turn.
type File struct {
	messages.Part
	Data []byte
}

// Base64 is the file's bytes as text.
func (f *File) Base64() string { return base64.StdEncoding.EncodeToString(f.Data) }

// DataURI is the file as the address of itself.
func (f *File) DataURI() string { return "data:" + f.Type + ";base64," + f.Base64() }

// Titled is the file's name, or one made of its place among the files of a turn.
func (f *File) Titled(i int) string { return cmp.Or(f.Name, "file-"+strconv.Itoa(i+1)) }

// earlier is the first user message of a prompt that begins with a reply, as a cut history may.
const earlier = "(Earlier messages are left out.)"

// Conversation converts a prompt to turns. It leaves out empty messages, which providers
// refuse. The error means that no message is left to answer.
func Conversation(ask *Ask) (Turns, error) {
	out := ask.turns(0, false)
	if n := len(out.Turns); n == 0 || out.Turns[n-1].Role != messages.RoleUser {
		return Turns{}, errNothing
	}
	return out, nil
}

// Behind converts a prompt without its first sent messages, which the provider has. The last of
// them, if there is one, is the model's. System texts are turns where they stand, and not in
// Turns.System.
func Behind(ask *Ask, sent int) (Turns, error) {
	out := ask.turns(sent, true)
	for _, t := range slices.Backward(out.Turns) {
		if t.Role == messages.RoleUser {
			return out, nil
		}
		if t.Role == messages.RoleAssistant {
			break
		}
	}
	return Turns{}, errNothing
}

var errNothing = errors.New("there is no message to answer")

// turns converts the messages from one on.
func (a *Ask) turns(from int, inPlace bool) Turns {
	var out Turns
	var system []string
	var own []*native.Message
	first := max(0, from-1) // results belong to the calls in front of them
	if len(a.Tools) > 0 {
		own = native.Pair(a.Messages[first:])
		out.Tools = native.NewFunctions(a.Tools).All
	}
	for i := from; i < len(a.Messages); i++ {
		m := &a.Messages[i]
		next := Turn{Role: m.Role}
		switch {
		case own != nil && own[i-first] != nil:
			next.take(own[i-first], i, a.Source)
		case strings.TrimSpace(m.Text) == "" && len(m.Parts) > 0:
		case strings.TrimSpace(m.Text) == "":
			continue
		case m.Role == messages.RoleSystem && !inPlace:
			system = append(system, m.Text)
			continue
		default:
			next.Texts = []string{m.Text}
		}
		for _, p := range m.Parts {
			if data, ok := a.Files[p.Digest]; ok {
				next.Files = append(next.Files, File{p, data})
			}
		}
		if n := len(out.Turns); n > 0 && out.Turns[n-1].Role == m.Role {
			last := &out.Turns[n-1]
			last.Items = append(last.Items, next.Items...)
			last.Files = append(last.Files, next.Files...)
			last.Texts = append(last.Texts, next.Texts...)
			last.Calls, last.Results = append(last.Calls, next.Calls...), append(last.Results, next.Results...)
			continue
		}
		if m.Role == messages.RoleAssistant && from == 0 && !out.spoken() {
			out.Turns = append(out.Turns, Turn{Role: messages.RoleUser, Texts: []string{earlier}})
		}
		out.Turns = append(out.Turns, next)
	}
	out.System = strings.Join(system, "\n\n")
	return out
}

// spoken reports whether one side has said something.
func (t *Turns) spoken() bool {
	return slices.ContainsFunc(t.Turns, func(t Turn) bool { return t.Role != messages.RoleSystem })
}

// take adds message i in the provider's own form. Signatures and items of another provider are
// left out; its ids are kept, if it has any.
func (t *Turn) take(m *native.Message, i int, source string) {
	if len(m.Calls) == 0 {
		for k, r := range m.Results {
			if r.ID == "" {
				r.ID = madeID(i-1, k)
			}
			t.Results = append(t.Results, r)
		}
		if m.Rest != "" {
			t.Texts = []string{m.Rest}
		}
		return
	}
	if strings.TrimSpace(m.Text) != "" {
		t.Texts = []string{m.Text}
	}
	for k, c := range m.Calls {
		if c.ID == "" {
			c.ID = madeID(i, k)
		}
		if m.Provider != source {
			c.Sig = ""
		}
		t.Calls = append(t.Calls, c)
	}
	if m.Provider == source {
		t.Items = m.Items
	}
}

// MadeID is the prefix of ids that the host has made.
const MadeID = "call_made_"

// madeID returns an id for a call without one, from the indexes of its message and of the call
// in it.
func madeID(message, call int) string {
	return MadeID + strconv.Itoa(message) + "_" + strconv.Itoa(call)
}

// Text returns the texts of a turn as one.
func (t *Turn) Text() string { return strings.Join(t.Texts, "\n\n") }
