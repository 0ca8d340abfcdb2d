package responses

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

var update = flag.Bool("update", false, "write the golden file")

var inc = messages.Incarnation(uuid.MustParse("0194d000-0000-7000-8000-000000000001"))

// What a request asks, and where one is wrong.
func TestParse(t *testing.T) {
	ref := (&ID{Inc: inc, Run: 3}).item()
	said := func(role messages.Role, text string) Item { return Item{Said: messages.Said{Role: role, Text: text}} }
	for name, c := range map[string]struct {
		in    string // members beside the model
		want  Request
		field string // of the refusal
		code  messages.Code
	}{
		"a text":            {in: `"input": "hello"`, want: Request{Text: "hello", Store: true}},
		"a message":         {in: `"input": [{"role": "user", "content": "hello"}]`, want: Request{Text: "hello", Store: true}},
		"parts":             {in: `"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]`, want: Request{Text: "a\nb", Store: true}},
		"a conversation":    {in: `"input": [{"role": "developer", "content": "Be brief."}, {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}, {"role": "user", "content": "b"}]`, want: Request{Text: "b", Store: true, Before: []Item{said(messages.RoleUser, "Be brief."), said(messages.RoleAssistant, "a")}}},
		"an old picture":    {in: `"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}]}, {"role": "user", "content": "b"}]`, want: Request{Text: "b", Store: true, Before: []Item{said(messages.RoleUser, "a\n[not shown: image]")}}},
		"an old empty one":  {in: `"input": [{"role": "assistant", "content": ""}, {"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "user", "content": "b"}]`, want: Request{Text: "b", Store: true}},
		"a reference":       {in: `"input": [{"type": "item_reference", "id": "` + ref + `"}, {"role": "user", "content": "b"}]`, want: Request{Text: "b", Store: true, Before: []Item{{Ref: &ID{Inc: inc, Run: 3}}}}},
		"what is passed on": {in: `"input": "x", "instructions": "y", "stream": true, "store": false, "conversation": {"id": "c"}`, want: Request{Text: "x", Instructions: "y", Stream: true, Conversation: "c"}},
		"the one before":    {in: `"input": "x", "previous_response_id": "` + (&ID{Inc: inc, Run: 3, Told: "0a1b2c3d"}).response() + `"`, want: Request{Text: "x", Store: true, Previous: &ID{Inc: inc, Run: 3, Told: "0a1b2c3d"}, previous: "resp_0194d000000070008000000000000001_3_0a1b2c3d"}},
		"what is over":      {in: `"input": "x", "temperature": 1, "user": "ann", "metadata": {}, "top_p": null, "reasoning": {"effort": "low"}, "bad name": 1`, want: Request{Text: "x", Store: true, Over: []string{"reasoning", "temperature", "user"}}},
		"tools for nothing": {in: `"input": "x", "tools": [{"type": "function"}], "tool_choice": "none"`, want: Request{Text: "x", Store: true, Over: []string{"tools"}}},
		"no tools":          {in: `"input": "x", "tools": [], "tool_choice": "auto", "text": {"format": {"type": "text"}}`, want: Request{Text: "x", Store: true}},
		"tools":             {in: `"input": "x", "tools": [{"type": "function"}]`, field: "tools"},
		"tools by force":    {in: `"input": "x", "tools": [{"type": "function"}], "tool_choice": {"type": "none"}`, field: "tools"},
		"no input":          {in: `"store": true`, field: "input"},
		"an empty text":     {in: `"input": ""`, field: "input"},
		"an empty list":     {in: `"input": []`, field: "input"},
		"a number":          {in: `"input": 7`, field: "input"},
		"a picture": {
			in:   `"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}, {"type": "input_text", "text": "b"}, {"type": "input_file", "filename": "f", "file_data": "y"}]}]`,
			want: Request{Text: "a\nb", Store: true, Parts: []Part{{At: "input[0].content[1].image_url", URI: "data:x"}, {At: "input[0].content[3].file_data", Name: "f", URI: "y"}}},
		},
		"a picture alone":    {in: `"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]`, field: "input[0].content"},
		"a stored file":      {in: `"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "x"}]}]`, field: "input[0].content[1]"},
		"a sound":            {in: `"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_audio"}]}]`, field: "input[0].content[1].type"},
		"the agent's word":   {in: `"input": [{"role": "assistant", "content": "x"}]`, field: "input[0]"},
		"the system's word":  {in: `"input": [{"role": "system", "content": "x"}]`, field: "input[0]"},
		"an empty message":   {in: `"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}]}]`, field: "input[0].content"},
		"a ghost":            {in: `"input": [{"role": "ghost", "content": "x"}]`, field: "input[0].role"},
		"a tool's result":    {in: `"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}, {"role": "user", "content": "b"}]`, field: "input[0].type"},
		"a part of a ghost":  {in: `"input": [{"role": "user", "content": [{"type": "ghost"}]}]`, field: "input[0].content[0].type"},
		"a strange item":     {in: `"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "b"}]`, field: "input[0].id", code: messages.ErrNotFound},
		"a strange response": {in: `"input": "x", "previous_response_id": "resp_1"`, field: "previous_response_id", code: messages.ErrNotFound},
		"two ways":           {in: `"input": "x", "previous_response_id": "resp_1", "conversation": "c"`, field: "previous_response_id"},
		"in the background":  {in: `"input": "x", "background": true`, field: "background"},
		"a template":         {in: `"input": "x", "prompt": {"id": "p"}`, field: "prompt"},
		"JSON":               {in: `"input": "x", "text": {"format": {"type": "json_object"}}`, field: "text.format"},
		"no conversation":    {in: `"input": "x", "conversation": 7`, field: "conversation"},
		"a wrong type":       {in: `"input": "x", "stream": "yes"`, field: "stream"},
		"no JSON":            {in: `"input"`, field: "body"},
		"too many":           {in: `"input": [` + strings.Repeat(`{"role": "user", "content": "x"},`, MaxItems) + `{"role": "user", "content": "x"}]`, field: "input"},
	} {
		got, err := Parse([]byte(`{"model": "m", ` + c.in + `}`))
		if c.field == "" {
			c.want.Model = "m"
			if err != nil || !reflect.DeepEqual(got, &c.want) {
				t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
			}
			continue
		}
		if c.code == "" {
			c.code = messages.ErrInvalid
		}
		var e *messages.Error
		if !errors.As(err, &e) || e.Field != c.field || e.Code != c.code || e.Detail == "" {
			t.Errorf("%s: %v, want %s at %s", name, err, c.code, c.field)
		}
	}
}

// The events of a stream, whole.
func TestEvents(t *testing.T) {
	var out strings.Builder
	show := func(events []Event) {
		for _, e := range events {
			b, err := json.Marshal(e.Data)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n  %s\n", e.Type, b)
		}
	}
	reply := func() *Reply {
		return &Reply{Request: &Request{Model: "m", Store: true, Instructions: "Be brief.", previous: "resp_x"}, ID: &ID{Inc: inc, Run: 2, Told: "0a1b2c3d"}, Session: "s", Run: 2, Created: time.Unix(100, 0)}
	}
	end := Outcome{Run: 2, Decision: "DONE", Usage: messages.Usage{Input: 12, Output: 7, CacheRead: 3, CacheWrite: 1}, Ended: time.Unix(105, 0)}
	for name, f := range map[string]func(*Reply){
		"1 whole": func(r *Reply) { show([]Event{{"(no stream)", r.Whole("Hello.", end)}}) },
		"2 stream": func(r *Reply) {
			show(r.Begin())
			show(r.Grow("Hel"))
			show(r.Grow("lo."))
			show(r.End(end))
		},
		"3 cut short": func(r *Reply) {
			cut := end
			cut.Cut = true
			show(r.End(cut))
		},
		"4 failed": func(r *Reply) {
			show(r.Grow("Hel"))
			show(r.Fail("ERR_MODEL", "stile_halt", "ERR_MODEL: the wire is cut"))
		},
		"5 failed before any text": func(r *Reply) { show(r.Fail("ERR_APPROVAL", "stile_halt", "ERR_APPROVAL: waits")) },
		"6 not stored": func(r *Reply) {
			r.ID, r.Name, r.Request = nil, "resp_77", &Request{Model: "m", Conversation: "c"}
			show([]Event{{"(no stream)", r.Whole("Hello.", end)}})
		},
	} {
		out.Reset()
		f(reply())
		path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != out.String() {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, out.String(), want)
		}
	}
}

// FuzzParse: a request is read, or refused as its client's mistake; ids are spelt in one way.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model": "m", "input": "x"}`, `{"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], "tools": [], "x": 1}`,
		`{"input": [{"type": "item_reference", "id": "` + (&ID{Inc: inc, Run: 3}).item() + `"}, {"role": "user", "content": "b"}], "previous_response_id": "` + (&ID{Inc: inc, Run: 3}).response() + `"}`,
		`[]`, `{"input": [null]}`, `{"conversation": {"id": 7}, "input": "x"}`, `{"instructions": "\ud800", "input": "x", "metadata": {"a": [[[[]]]]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := Parse(data)
		if err != nil {
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.ErrInvalid && e.Code != messages.ErrNotFound || e.Field == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if q.Text == "" || len(q.Before) >= MaxItems || len(q.Over) > maxOver+1 {
			t.Fatalf("%+v", q)
		}
		for _, name := range q.Over {
			if !isName(name) {
				t.Fatalf("%q stands in no header", name)
			}
		}
		if q.Previous != nil && q.Previous.response() != q.PreviousText() {
			t.Fatalf("%q is read as %+v", q.PreviousText(), q.Previous)
		}
	})
}

// A reply that reached its bound is incomplete, whole and as events.
func TestCutReply(t *testing.T) {
	r := &Reply{Request: &Request{}, Name: "resp_0", Run: 1}
	v := r.Whole("half", Outcome{Run: 1, Cut: true})
	if v.Status != "incomplete" || v.Incomplete == nil || v.Completed != nil {
		t.Errorf("%+v", v)
	}
}

// An id has one spelling.
func TestSpellingOfIDs(t *testing.T) {
	id := &ID{Inc: messages.Incarnation{0xab, 0xcd}, Run: 7}
	text := id.response()
	if ParseID(text) == nil {
		t.Fatal(text)
	}
	head := strings.TrimSuffix(text, "_7")
	for _, other := range []string{"resp_" + strings.ToUpper(head[len("resp_"):]) + "_7", head + "_07", head + "_+7", text + "_"} {
		if got := ParseID(other); got != nil {
			t.Errorf("%s is %+v", other, got)
		}
	}
}
