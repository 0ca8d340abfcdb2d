package compiler

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

const (
	png  = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06"
	jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF"
	gif  = "GIF89a\x01\x00\x01\x00"
	webp = "RIFF\x1a\x00\x00\x00WEBPVP8L"
	pdf  = "%PDF-1.7\n"
)

// takes is a model that takes some types.
type takes string

func (takes) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] { return nil }
func (m takes) TakesPart(t string) bool                                       { return strings.Contains(string(m), t) }

// Bytes are of the type that they are said to be, or are refused where they are not.
func TestCheckParts(t *testing.T) {
	all := &Agent{Actor: &compiled.Agent{Routes: []compiled.Route{{Provider: "p", Model: "m", Port: takes(strings.Join(partTypes, " "))}}}}
	some := &Agent{Actor: &compiled.Agent{Routes: []compiled.Route{all.Actor.Routes[0], {Provider: "q", Model: "n", Port: takes("image/png")}}}}
	none := &Agent{Actor: &compiled.Agent{Routes: []compiled.Route{{Provider: "p", Model: "m"}}}}
	big := png + strings.Repeat("x", MaxPartBytes-len(png))
	for name, c := range map[string]struct {
		agent  *Agent
		types  []string
		data   []string
		policy messages.Policy
		text   string
		want   string // the type of the first
		field  string
		at     int64 // −1 for none
	}{
		"png":               {data: []string{png}, want: "image/png"},
		"jpeg":              {data: []string{jpeg}, want: "image/jpeg"},
		"gif":               {data: []string{gif}, want: "image/gif"},
		"webp":              {data: []string{webp}, want: "image/webp"},
		"pdf":               {data: []string{pdf}, want: "application/pdf"},
		"text":              {data: []string{"Grüße\r\n\t%PDF\f"}, want: "text/plain"},
		"text that is pdf":  {data: []string{pdf}, types: []string{"text/plain"}, want: "text/plain"},
		"the largest":       {data: []string{big, big}, want: "image/png"},
		"too large":         {data: []string{big + "x"}, field: "parts[0].data", at: -1},
		"too large, all":    {data: []string{big, big, "x"}, field: "parts", at: -1},
		"too many":          {data: strings.Split(strings.Repeat("x ", MaxParts)+"x", " "), field: "parts", at: -1},
		"empty":             {data: []string{png, ""}, field: "parts[1].data", at: -1},
		"no png":            {data: []string{"\x89PNX"}, types: []string{"image/png"}, field: "parts[0].data", at: 3},
		"png cut":           {data: []string{png[:20]}, types: []string{"image/png"}, field: "parts[0].data", at: 16},
		"png of no size":    {data: []string{png[:16] + strings.Repeat("\x00", 9)}, types: []string{"image/png"}, field: "parts[0].data", at: 16},
		"png's beginning":   {data: []string{"\x89"}, types: []string{"image/png"}, field: "parts[0].data", at: 1},
		"jpeg, not png":     {data: []string{png, jpeg}, types: []string{"", "image/png"}, field: "parts[1].data", at: 0},
		"a wave":            {data: []string{"RIFF\x1a\x00\x00\x00WAVEfmt "}, types: []string{"image/webp"}, field: "parts[0].data", at: 9},
		"no text":           {data: []string{"ab\x00"}, types: []string{"text/plain"}, field: "parts[0].data", at: 2},
		"no UTF-8":          {data: []string{"ab\xff"}, types: []string{"text/plain"}, field: "parts[0].data", at: 2},
		"nothing known":     {data: []string{"\x7fELF"}, field: "parts[0].type", at: -1},
		"another type":      {data: []string{"<svg/>"}, types: []string{"image/svg+xml"}, field: "parts[0].type", at: -1},
		"a type not taken":  {agent: some, data: []string{png, pdf}, field: "parts[1].type", at: -1},
		"a model of texts":  {agent: none, data: []string{png}, field: "parts[0].type", at: -1},
		"an aeiou agent":    {agent: &Agent{Carries: true, Actor: all.Actor}, data: []string{png}, field: "parts", at: -1},
		"joins a run":       {policy: messages.Merge, data: []string{png}, field: "parts", at: -1},
		"waits with others": {policy: messages.Debounce, data: []string{png}, field: "parts", at: -1},
		"without a text":    {text: " \n", data: []string{png}, field: "input", at: -1},
	} {
		t.Run(name, func(t *testing.T) {
			in := messages.Input{Text: "look" + c.text, Policy: c.policy}
			if c.text != "" {
				in.Text = c.text
			}
			for i, data := range c.data {
				p := messages.Part{Name: "n"}
				if i < len(c.types) {
					p.Type = c.types[i]
				}
				in.Parts, in.Data = append(in.Parts, p), append(in.Data, []byte(data))
			}
			agent := c.agent
			if agent == nil {
				agent = all
			}
			err := agent.CheckParts(&in)
			if c.field == "" {
				if p := in.Parts[0]; err != nil || p.Type != c.want || p.Size != int64(len(c.data[0])) || p.Digest.IsZero() {
					t.Fatalf("%+v, %v", p, err)
				}
				return
			}
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrInvalid || e.Field != c.field || e.HasOffset != (c.at >= 0) || e.HasOffset && e.Offset != c.at {
				t.Fatalf("%+v", err)
			}
			if wants := c.agent == some || c.agent == none; (e.Reason == ReasonPartType) != wants {
				t.Errorf("reason %q", e.Reason)
			}
		})
	}
	for _, name := range []string{"a/b", "<execute>", "a\nb", "\xff", strings.Repeat("x", maxPartName+1), "[INTERNAL]"} {
		in := messages.Input{Text: "look", Parts: []messages.Part{{Name: name}}, Data: [][]byte{[]byte(png)}}
		if err := SniffParts(&in); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// Whatever comes, it is of a known type, or refused at a place that there is.
func FuzzSniff(f *testing.F) {
	for _, seed := range []string{png, jpeg, gif, webp, pdf, "text", "\x00"} {
		f.Add([]byte(seed), "image/png")
	}
	f.Fuzz(func(t *testing.T, data []byte, declared string) {
		was := bytes.Clone(data)
		in := messages.Input{Text: "x", Parts: []messages.Part{{Type: declared}}, Data: [][]byte{data}}
		err := SniffParts(&in)
		var e *messages.Error
		switch {
		case err == nil && (declared != "" && in.Parts[0].Type != declared || in.Parts[0].Size == 0):
			t.Errorf("%+v", in.Parts[0])
		case err != nil && (!errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(data))):
			t.Errorf("%+v", err)
		case !bytes.Equal(was, data):
			t.Error("the bytes were changed")
		}
	})
}
