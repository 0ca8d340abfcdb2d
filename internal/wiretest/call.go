package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Called is a call as a provider's model makes it.
type Called struct {
	ID, Name, Args string
	Sig            string // of the thought behind it, where the provider signs calls
}

// Tooled is what a request says of tools: their names, and the calls and results among
// its messages in order, as "call ID NAME ARGS" and "result ID TEXT".
type Tooled struct {
	Tools   []string
	Schemas []string
	Said    []string
	Kept    []string // items that came from the provider and went back
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// halves are two pieces of a text, cut anywhere.
func halves(s string) []string { return []string{s[:len(s)/2], s[len(s)/2:]} }

// ChatCalls streams calls as Chat Completions does, the arguments of all at once in turn.
func chatCalls(text string, calls []Called) string {
	delta := func(d string) string {
		return event("", `{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":`+d+`,"finish_reason":null}]}`)
	}
	out := Chat().Begin(1)
	if text != "" {
		out += delta(`{"content":` + jsonString(text) + `}`)
	}
	for i, c := range calls {
		out += delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.ID, c.Name))
	}
	for k := range 2 {
		for i, c := range calls {
			out += delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, jsonString(halves(c.Args)[k])))
		}
	}
	return out + event("", `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`) +
		event("", `{"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":100}}}`) + event("", "[DONE]")
}

func chatTooled(body []byte) (t Tooled, err error) {
	var b struct {
		Tools []struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		Messages []struct {
			Role    string
			Content string
			ID      string `json:"tool_call_id"`
			Calls   []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	err = json.Unmarshal(body, &b)
	for _, f := range b.Tools {
		t.Tools, t.Schemas = append(t.Tools, f.Function.Name), append(t.Schemas, compact(f.Function.Parameters))
	}
	for _, m := range b.Messages {
		for _, c := range m.Calls {
			t.Said = append(t.Said, "call "+c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
		}
		if m.Role == "tool" {
			t.Said = append(t.Said, "result "+m.ID+" "+m.Content)
		}
	}
	return t, err
}

// responsesCalls streams calls as Responses does: behind a thought, one item each.
func responsesCalls(text string, calls []Called) string {
	ev := func(name, rest string) string { return event(name, `{"type":"`+name+`"`+rest+`}`) }
	out := Responses().Begin(1)
	at := 0
	out += ev("response.output_item.added", `,"output_index":0,"item":{"type":"reasoning","id":"rs1","summary":[]}`) +
		ev("response.output_item.done", `,"output_index":0,"item":{"type":"reasoning","id":"rs1","status":"completed","summary":[],"encrypted_content":"c2VjcmV0"}`)
	if text != "" {
		at++
		out += ev("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":{"type":"message","id":"i","content":[]}`, at)) +
			ev("response.output_text.delta", fmt.Sprintf(`,"output_index":%d,"delta":%s`, at, jsonString(text)))
	}
	for _, c := range calls {
		at++
		out += ev("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":{"type":"function_call","id":"fc","call_id":%q,"name":%q,"arguments":""}`, at, c.ID, c.Name))
		for _, h := range halves(c.Args) {
			out += ev("response.function_call_arguments.delta", fmt.Sprintf(`,"output_index":%d,"delta":%s`, at, jsonString(h)))
		}
		out += ev("response.function_call_arguments.done", fmt.Sprintf(`,"output_index":%d,"arguments":%s`, at, jsonString(c.Args))) +
			ev("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":{"type":"function_call","id":"fc","call_id":%q,"name":%q,"arguments":%s}`, at, c.ID, c.Name, jsonString(c.Args)))
	}
	return out + Responses().End(messages.FinishComplete, counts)
}

func responsesTooled(body []byte) (t Tooled, err error) {
	var b struct {
		Tools []struct {
			Name       string
			Parameters json.RawMessage
		}
		Input []struct {
			Type, Name, Arguments, Output string
			ID                            string `json:"call_id"`
			Encrypted                     string `json:"encrypted_content"`
		}
	}
	err = json.Unmarshal(body, &b)
	for _, f := range b.Tools {
		t.Tools, t.Schemas = append(t.Tools, f.Name), append(t.Schemas, compact(f.Parameters))
	}
	for _, m := range b.Input {
		switch m.Type {
		case "function_call":
			t.Said = append(t.Said, "call "+m.ID+" "+m.Name+" "+m.Arguments)
		case "function_call_output":
			t.Said = append(t.Said, "result "+m.ID+" "+m.Output)
		case "reasoning":
			t.Kept = append(t.Kept, m.Encrypted)
		}
	}
	return t, err
}

// anthropicCalls streams calls as Messages does: behind a signed thought, one block each.
func anthropicCalls(text string, calls []Called) string {
	ev := func(name, rest string) string { return event(name, `{"type":"`+name+`"`+rest+`}`) }
	out := ev("message_start", `,"message":{"usage":{"input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}`) +
		ev("content_block_start", `,"index":0,"content_block":{"type":"thinking","thinking":"","signature":""}`) +
		ev("content_block_delta", `,"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`) +
		ev("content_block_delta", `,"index":0,"delta":{"type":"signature_delta","signature":"c2VjcmV0"}`) +
		ev("content_block_stop", `,"index":0`)
	at := 0
	if text != "" {
		at++
		out += ev("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"text","text":""}`, at)) +
			ev("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"text_delta","text":%s}`, at, jsonString(text))) +
			ev("content_block_stop", fmt.Sprintf(`,"index":%d`, at))
	}
	for _, c := range calls {
		at++
		out += ev("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}`, at, c.ID, c.Name))
		for _, h := range halves(c.Args) {
			out += ev("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, at, jsonString(h)))
		}
		out += ev("content_block_stop", fmt.Sprintf(`,"index":%d`, at))
	}
	return out + ev("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}`) + ev("message_stop", "")
}

func anthropicTooled(body []byte) (t Tooled, err error) {
	var b struct {
		Tools []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
		}
		Messages []struct {
			Content []struct {
				Type, ID, Name, Signature string
				Input                     json.RawMessage
				Use                       string `json:"tool_use_id"`
				Content                   []struct{ Text string }
			}
		}
	}
	err = json.Unmarshal(body, &b)
	for _, f := range b.Tools {
		t.Tools, t.Schemas = append(t.Tools, f.Name), append(t.Schemas, compact(f.Schema))
	}
	for _, m := range b.Messages {
		for _, c := range m.Content {
			switch c.Type {
			case "tool_use":
				t.Said = append(t.Said, "call "+c.ID+" "+c.Name+" "+compact(c.Input))
			case "tool_result":
				t.Said = append(t.Said, "result "+c.Use+" "+c.Content[0].Text)
			case "thinking":
				t.Kept = append(t.Kept, c.Signature)
			}
		}
	}
	return t, err
}

// geminiCalls streams calls as Gemini does: whole, the first one with its signature.
func geminiCalls(text string, calls []Called) string {
	out := ""
	if text != "" {
		out += Gemini().Text(jsonString(text))
	}
	var parts []string
	for i, c := range calls {
		sig := ""
		if i == 0 {
			sig = `,"thoughtSignature":"c2VjcmV0"`
		}
		parts = append(parts, fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s}%s}`, c.ID, c.Name, c.Args, sig))
	}
	return out + event("", `{"candidates":[{"content":{"parts":[`+strings.Join(parts, ",")+`],"role":"model"},"index":0}]}`) + Gemini().End(messages.FinishComplete, counts)
}

func geminiTooled(body []byte) (t Tooled, err error) {
	var b struct {
		Tools []struct {
			Functions []struct {
				Name   string
				Schema json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		}
		Contents []struct {
			Parts []struct {
				Sig  string `json:"thoughtSignature"`
				Call *struct {
					ID, Name string
					Args     json.RawMessage
				} `json:"functionCall"`
				Response *struct {
					ID, Name string
					Response struct{ Output string }
				} `json:"functionResponse"`
			}
		}
	}
	err = json.Unmarshal(body, &b)
	for _, g := range b.Tools {
		for _, f := range g.Functions {
			t.Tools, t.Schemas = append(t.Tools, f.Name), append(t.Schemas, compact(f.Schema))
		}
	}
	for _, c := range b.Contents {
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				t.Said = append(t.Said, "call "+p.Call.ID+" "+p.Call.Name+" "+compact(p.Call.Args))
				if p.Sig != "" {
					t.Kept = append(t.Kept, p.Sig)
				}
			case p.Response != nil:
				t.Said = append(t.Said, "result "+p.Response.ID+" "+p.Response.Response.Output)
			}
		}
	}
	return t, err
}
