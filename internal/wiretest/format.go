package wiretest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Format is how a provider writes streams and errors.
type Format struct {
	Name string
	Path string // of a request, with %s for the model where it is in there
	// Key takes the key out of a request.
	Key func(http.Header) string
	// Asked reads a request.
	Asked func(body []byte) (Asked, error)

	// Begin opens a stream; input are the prompt's tokens where the provider tells
	// them there.
	Begin func(input int64) string
	// Text is an event with a JSON string literal of text.
	Text func(literal string) string
	// End is what follows the last text.
	End func(finish messages.Finish, u Counts) string
	// Bare is End without any usage.
	Bare func(finish messages.Finish) string
	// Noise are events that say nothing: pings, thoughts, empty deltas, unknown types.
	Noise []string
	// Withheld ends a stream for what is in it.
	Withheld string
	// Broken are errors inside a stream: overloaded, and a prompt that is too long.
	Overloaded, TooLong string
	// Late is the usage that follows Withheld, "" where it is a part of that.
	Late func(u Counts) string
	// Called ends a stream for the host to call a tool; "" where no stream does.
	Called string
	// Wrong are events that are JSON and no events of this provider.
	Wrong []string
	// Odd are events whose usage makes no sense.
	Odd []string
	// Refusal is the body of an error.
	Refusal func(status int, code, message string) string
	// BadKey is how the provider says that a key is wrong.
	BadKey func(message string) (status int, body string)
	// TooLongBody is the body of a 400 for a prompt that is too long.
	TooLongBody string
	// Whole is a reply in one piece.
	Whole func(text string, finish messages.Finish, u Counts) string
	// Takes are the places of options in a request, by the option's name.
	Takes map[string]string
	// Answer is the place of the schema of the answer.
	Answer string
	// Own are places that the adapter writes itself.
	Own []string
	// Calls is a whole stream of a text, which may be empty, and calls.
	Calls func(text string, calls []Called) string
	// Tooled reads what a request says of tools.
	Tooled func(body []byte) (Tooled, error)
	// Signs reports whether what the provider signs goes back to it.
	Signs bool
	// EarlyInput reports whether Begin carries the prompt's tokens.
	EarlyInput bool
}

// Counts are tokens as the suite thinks of them: All of the prompt includes the cached.
type Counts struct{ All, CacheRead, CacheWrite, Output int64 }

// Asked is what a request says.
type Asked struct {
	Model     string
	System    string
	Roles     []string // user and assistant, in turn
	Texts     []string // of each; several parts joined by "|"
	Stream    bool
	MaxTokens int64
	Cached    int   // parts marked for the cache
	Store     *bool // whether the provider may keep it
}

func event(name, data string) string {
	if name == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + name + "\ndata: " + data + "\n\n"
}

func bearer(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

func openAIError(_ int, code, message string) string {
	return fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":%s}}`, jsonString(message), jsonString(code))
}

// Chat is OpenAI's Chat Completions, and that of servers like it.
func Chat() Format {
	chunk := func(choices, usage string) string {
		return event("", `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`+choices+`],"usage":`+usage+`}`)
	}
	choice := func(delta, finish string) string {
		return `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}`
	}
	word := map[messages.Finish]string{messages.FinishComplete: `"stop"`, messages.FinishLength: `"length"`}
	return Format{
		Name: "openai/chat", Path: "/v1/chat/completions", Key: bearer,
		Asked: func(body []byte) (Asked, error) {
			var b struct {
				Model    string
				Stream   bool
				Store    *bool
				Max      int64 `json:"max_tokens"`
				Messages []struct{ Role, Content string }
				Options  struct {
					Usage bool `json:"include_usage"`
				} `json:"stream_options"`
			}
			err := json.Unmarshal(body, &b)
			a := Asked{Model: b.Model, Stream: b.Stream && b.Options.Usage, MaxTokens: b.Max, Store: b.Store}
			for _, m := range b.Messages {
				if m.Role == "system" {
					a.System += m.Content
					continue
				}
				a.Roles, a.Texts = append(a.Roles, m.Role), append(a.Texts, m.Content)
			}
			return a, err
		},
		Begin: func(int64) string { return chunk(choice(`{"role":"assistant","content":""}`, "null"), "null") },
		Text:  func(lit string) string { return chunk(choice(`{"content":`+lit+`}`, "null"), "null") },
		End: func(f messages.Finish, u Counts) string {
			return chunk(choice(`{}`, word[f]), "null") +
				chunk("", fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, u.All, u.Output, u.All+u.Output, u.CacheRead)) +
				event("", "[DONE]")
		},
		Bare: func(f messages.Finish) string { return chunk(choice(`{}`, word[f]), "null") + event("", "[DONE]") },
		Noise: []string{
			": keep-alive\n\n",
			chunk(choice(`{"content":""}`, "null"), "null"),
			chunk(choice(`{"content":null,"reasoning_content":"hm"}`, "null"), "null"),
			chunk(`{"index":1,"delta":{"content":"another choice"},"finish_reason":null}`, "null"),
			event("", `{"object":"something.new","value":[1]}`),
			"event: later\nid: 7\nretry: 10\n\n",
		},
		Withheld:   chunk(choice(`{}`, `"content_filter"`), "null"),
		Overloaded: event("", `{"error":{"message":"SECRET overloaded","type":"server_error","code":"server_is_overloaded"}}`),
		TooLong:    event("", `{"error":{"message":"This model's maximum context length is 8192 tokens","type":"BadRequestError","code":400}}`),
		Late: func(u Counts) string {
			return chunk(choice(`{"content":"more"}`, `"stop"`), fmt.Sprintf(`{"prompt_tokens":%d.0,"completion_tokens":%d}`, u.All, u.Output)) + event("", "[DONE]")
		},
		Called: chunk(choice(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"read","arguments":"{}"}}]}`, "null"), "null") + chunk(choice(`{}`, `"tool_calls"`), "null"),
		Wrong:  []string{event("", `{"choices":7}`), event("", `{"choices":[{"index":0,"delta":{"content":{"a":1}}}]}`), chunk(choice(`{"content":[7]}`, "null"), "null"), chunk(choice(`{"content":[{"type":"text","text":7}]}`, "null"), "null")},
		Odd: []string{
			chunk("", `"none"`), chunk("", `[]`), chunk("", `7`),
			chunk("", `{"prompt_tokens":null,"completion_tokens":"7","prompt_tokens_details":[]}`),
		},
		Refusal: openAIError,
		BadKey:  func(m string) (int, string) { return 401, openAIError(401, "invalid_api_key", m) },

		TooLongBody: openAIError(400, "context_length_exceeded", "too long"),

		Whole: func(text string, f messages.Finish, u Counts) string {
			return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":%s}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`,
				jsonString(text), word[f], u.All, u.Output, u.CacheRead)
		},
		Takes: map[string]string{
			"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens", "stop": "stop", "seed": "seed", "reasoning_effort": "reasoning_effort",
		},
		Own: []string{"messages", "model", "stream", "tools", "temperature", "n"},

		Calls: chatCalls, Tooled: chatTooled, Answer: "response_format.json_schema.schema",
	}
}

// Responses is OpenAI's Responses.
func Responses() Format {
	f := Chat()
	f.Name, f.Path = "openai/responses", "/v1/responses"
	f.Asked = func(body []byte) (Asked, error) {
		var b struct {
			Model        string
			Stream       bool
			Store        *bool
			Max          int64 `json:"max_output_tokens"`
			Instructions string
			Input        []struct{ Role, Content string }
		}
		err := json.Unmarshal(body, &b)
		a := Asked{Model: b.Model, Stream: b.Stream, MaxTokens: b.Max, System: b.Instructions, Store: b.Store}
		for _, m := range b.Input {
			a.Roles, a.Texts = append(a.Roles, m.Role), append(a.Texts, m.Content)
		}
		return a, err
	}
	ev := func(name, rest string) string { return event(name, `{"type":"`+name+`","sequence_number":1`+rest+`}`) }
	end := func(f messages.Finish, usage string) string {
		if f == messages.FinishLength {
			return ev("response.incomplete", `,"response":{"id":"r","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"usage":`+usage+`}`)
		}
		return ev("response.output_text.done", `,"text":"all of it again"`) +
			ev("response.completed", `,"response":{"id":"r","status":"completed","error":null,"incomplete_details":null,"usage":`+usage+`}`)
	}
	f.Begin = func(int64) string {
		return ev("response.created", `,"response":{"id":"r","status":"in_progress","error":null,"usage":null}`)
	}
	f.Text = func(lit string) string {
		return ev("response.output_text.delta", `,"item_id":"i","output_index":0,"content_index":0,"delta":`+lit)
	}
	f.End = func(fin messages.Finish, u Counts) string {
		return end(fin, fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"total_tokens":%d}`, u.All, u.CacheRead, u.CacheWrite, u.Output, u.All+u.Output))
	}
	f.Bare = func(fin messages.Finish) string { return end(fin, "null") }
	f.Noise = []string{
		": keep-alive\n\n",
		ev("response.output_text.delta", `,"delta":""`),
		ev("response.reasoning_text.delta", `,"delta":"hm"`),
		ev("response.something.new", `,"delta":{"x":1}`),
		ev("response.in_progress", `,"response":{"id":"r","status":"in_progress","error":null}`),
	}
	f.Withheld = ev("response.incomplete", `,"response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`)
	f.Overloaded = ev("response.failed", `,"response":{"status":"failed","error":{"code":"server_is_overloaded","message":"SECRET"}}`)
	f.TooLong = ev("error", `,"code":"context_length_exceeded","message":"too long","param":"input"`)
	f.Late = nil
	f.Called = ev("response.output_item.added", `,"output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"read","arguments":""}`) +
		ev("response.output_item.done", `,"output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"read","arguments":"{}"}`) + end(messages.FinishComplete, "null")
	f.Odd = []string{
		ev("response.in_progress", `,"response":{"usage":"none"}`), ev("response.in_progress", `,"response":{"usage":[1]}`),
		ev("response.in_progress", `,"response":{"usage":{"input_tokens":{},"output_tokens":"7","input_tokens_details":7}}`),
	}
	f.Whole = func(text string, fin messages.Finish, u Counts) string {
		status := `"completed","incomplete_details":null`
		if fin == messages.FinishLength {
			status = `"incomplete","incomplete_details":{"reason":"max_output_tokens"}`
		}
		return fmt.Sprintf(`{"id":"r","object":"response","status":%s,"error":null,"output":[{"type":"reasoning","id":"x","summary":[]},{"type":"message","id":"i","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]}],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d}}`,
			status, jsonString(text), u.All, u.CacheRead, u.Output)
	}
	f.Takes = map[string]string{"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"}
	f.Calls, f.Tooled, f.Signs, f.Answer = responsesCalls, responsesTooled, true, "text.format.schema"
	f.Own = []string{"input", "instructions", "model", "stream", "tools", "store", "reasoning.effort", "text.format"}
	f.Wrong = []string{event("", `{"type":7}`), ev("response.output_text.delta", `,"delta":{"a":1}`)}
	return f
}

// Anthropic is Anthropic's Messages.
func Anthropic() Format {
	refusal := func(_ int, code, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":"r"}`, jsonString(code), jsonString(message))
	}
	ev := func(name, rest string) string { return event(name, `{"type":"`+name+`"`+rest+`}`) }
	word := map[messages.Finish]string{messages.FinishComplete: "end_turn", messages.FinishLength: "max_tokens", messages.FinishStop: "stop_sequence"}
	end := func(f messages.Finish, usage string) string {
		return ev("content_block_stop", `,"index":0`) +
			ev("message_delta", `,"delta":{"stop_reason":"`+word[f]+`","stop_sequence":null},"usage":`+usage) +
			ev("message_stop", "")
	}
	return Format{
		Name: "anthropic", Path: "/v1/messages", EarlyInput: true,
		Key: func(h http.Header) string { return h.Get("X-Api-Key") },
		Asked: func(body []byte) (Asked, error) {
			type block struct {
				Type, Text string
				Cache      *struct{ Type string } `json:"cache_control"`
			}
			var b struct {
				Model    string
				Stream   bool
				Max      int64 `json:"max_tokens"`
				System   []block
				Messages []struct {
					Role    string
					Content []block
				}
			}
			err := json.Unmarshal(body, &b)
			a := Asked{Model: b.Model, Stream: b.Stream, MaxTokens: b.Max}
			read := func(bs []block) string {
				var texts []string
				for _, b := range bs {
					texts = append(texts, b.Text)
					if b.Cache != nil && b.Cache.Type == "ephemeral" {
						a.Cached++
					}
				}
				return strings.Join(texts, "|")
			}
			a.System = read(b.System)
			for _, m := range b.Messages {
				a.Roles, a.Texts = append(a.Roles, m.Role), append(a.Texts, read(m.Content))
			}
			return a, err
		},
		Begin: func(input int64) string {
			return ev("message_start", fmt.Sprintf(`,"message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":%d,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1}}`, input)) +
				ev("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
		},
		Text: func(lit string) string {
			return ev("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":`+lit+`}`)
		},
		End: func(f messages.Finish, u Counts) string {
			return end(f, fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d}`, u.All-u.CacheRead-u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output))
		},
		Bare: func(f messages.Finish) string { return end(f, "{}") },
		Noise: []string{
			ev("ping", ""),
			ev("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":""}`),
			ev("content_block_delta", `,"index":0,"delta":{"type":"thinking_delta","thinking":"hm"}`),
			ev("content_block_delta", `,"index":0,"delta":{"type":"signature_delta","signature":"c2ln"}`),
			ev("something_new", `,"text":"no"`),
			": comment\n\n",
		},
		Withheld:   ev("message_delta", `,"delta":{"stop_reason":"refusal","stop_sequence":null},"usage":{"output_tokens":3}`) + ev("message_stop", ""),
		Overloaded: ev("error", `,"error":{"type":"overloaded_error","message":"SECRET"}`),
		TooLong:    ev("error", `,"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8"}`),
		Called:     ev("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"t","name":"read","input":{}}`) + ev("message_delta", `,"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}`),
		Odd: []string{
			ev("message_start", `,"message":{"usage":[]}`), ev("message_delta", `,"delta":{},"usage":"none"`),
			ev("message_delta", `,"delta":{},"usage":{"input_tokens":"7","cache_read_input_tokens":null,"output_tokens":[]}`),
		},
		Wrong:   []string{event("content_block_delta", `{"type":"content_block_delta","delta":[]}`), ev("content_block_delta", `,"delta":{"type":"text_delta","text":7}`)},
		Refusal: refusal,
		BadKey:  func(m string) (int, string) { return 401, refusal(401, "authentication_error", m) },

		TooLongBody: refusal(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),

		Whole: func(text string, f messages.Finish, u Counts) string {
			return fmt.Sprintf(`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":%s}],"stop_reason":%q,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d}}`,
				jsonString(text), word[f], u.All-u.CacheRead-u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output)
		},
		Takes: map[string]string{
			"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens", "stop": "stop_sequences", "reasoning_effort": "output_config.effort",
		},
		Own: []string{"messages", "system", "model", "stream", "tools", "max_tokens", "output_config.format"},

		Calls: anthropicCalls, Tooled: anthropicTooled, Signs: true, Answer: "output_config.format.schema",
	}
}

// Gemini is Google's streamGenerateContent.
func Gemini() Format {
	refusal := func(status int, code, message string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%s}}`, status, jsonString(message), jsonString(code))
	}
	chunk := func(parts, finish, usage string) string {
		return event("", `{"candidates":[{"content":{"parts":[`+parts+`],"role":"model"}`+finish+`,"index":0}]`+usage+`,"modelVersion":"m","responseId":"r"}`)
	}
	word := map[messages.Finish]string{messages.FinishComplete: `"STOP"`, messages.FinishLength: `"MAX_TOKENS"`}
	return Format{
		Name: "gemini", Path: "/v1beta/models/%s:streamGenerateContent",
		Key: func(h http.Header) string { return h.Get("X-Goog-Api-Key") },
		Asked: func(body []byte) (Asked, error) {
			type content struct {
				Role  string
				Parts []struct{ Text string }
			}
			var b struct {
				Contents []content
				System   content `json:"systemInstruction"`
				Config   struct {
					Max int64 `json:"maxOutputTokens"`
				} `json:"generationConfig"`
			}
			err := json.Unmarshal(body, &b)
			read := func(c content) string {
				var texts []string
				for _, p := range c.Parts {
					texts = append(texts, p.Text)
				}
				return strings.Join(texts, "|")
			}
			a := Asked{Stream: true, System: read(b.System), MaxTokens: b.Config.Max}
			for _, c := range b.Contents {
				role := c.Role
				if role == "model" {
					role = "assistant"
				}
				a.Roles, a.Texts = append(a.Roles, role), append(a.Texts, read(c))
			}
			return a, err
		},
		Begin: func(int64) string { return "" },
		Text:  func(lit string) string { return chunk(`{"text":`+lit+`}`, "", "") },
		End: func(f messages.Finish, u Counts) string {
			return chunk("", `,"finishReason":`+word[f], fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":1,"totalTokenCount":9}`, u.All, u.CacheRead, u.Output-1))
		},
		Bare: func(f messages.Finish) string { return chunk("", `,"finishReason":`+word[f], "") },
		Noise: []string{
			chunk(`{"text":""}`, "", ""),
			chunk(`{"text":"hm","thought":true}`, "", ""),
			event("", `{"somethingNew":{"a":1}}`),
			event("", `{"candidates":[{"index":1,"content":{"parts":[{"text":"another candidate"}]}}]}`),
			": comment\n\n",
		},
		Withheld:   chunk("", `,"finishReason":"SAFETY"`, ""),
		Overloaded: event("", refusal(503, "UNAVAILABLE", "SECRET overloaded")),
		Called:     chunk(`{"functionCall":{"name":"read","args":{}}}`, `,"finishReason":"STOP"`, ""),
		TooLong:    event("", refusal(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).")),
		Odd: []string{
			event("", `{"usageMetadata":7}`), event("", `{"usageMetadata":["x"]}`),
			event("", `{"usageMetadata":{"promptTokenCount":"7","cachedContentTokenCount":{},"thoughtsTokenCount":null}}`),
		},
		Wrong:   []string{event("", `{"candidates":"x"}`), chunk(`{"text":[1]}`, "", "")},
		Refusal: refusal,
		BadKey: func(m string) (int, string) {
			return 400, fmt.Sprintf(`[{"error":{"code":400,"message":%s,"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}]`, jsonString(m))
		},
		TooLongBody: refusal(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),

		Whole: func(text string, f messages.Finish, u Counts) string {
			return fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":%s}],"role":"model"},"finishReason":%s,"index":0}],"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":1}}`,
				jsonString(text), word[f], u.All, u.CacheRead, u.Output-1)
		},
		Takes: map[string]string{
			"temperature": "generationConfig.temperature", "top_p": "generationConfig.topP", "max_output_tokens": "generationConfig.maxOutputTokens",
			"stop": "generationConfig.stopSequences", "seed": "generationConfig.seed", "reasoning_effort": "generationConfig.thinkingConfig.thinkingLevel",
		},
		Own: []string{"contents", "systemInstruction", "tools", "generationConfig.temperature", "generationConfig.responseMimeType"},

		Calls: geminiCalls, Tooled: geminiTooled, Signs: true, Answer: "generationConfig.responseJsonSchema",
	}
}
