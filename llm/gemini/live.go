package gemini

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	sdk "google.golang.org/genai"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/internal/wire"
	"github.com/seed14be6753/stile/messages"
)

// liveOptions are the options of Live, which has no stop texts.
var liveOptions = wire.Named{
	Vendor: "gemini (live)",
	Fields: map[string]string{
		"temperature": "setup.generationConfig.temperature", "top_p": "setup.generationConfig.topP", "max_output_tokens": "setup.generationConfig.maxOutputTokens",
		"seed": "setup.generationConfig.seed", "reasoning_effort": "setup.generationConfig.thinkingConfig.thinkingLevel",
	},
	Efforts: options.Efforts,
	Own: []string{
		"clientContent", "realtimeInput", "toolResponse", "contextUpdate",
		"setup.model", "setup.systemInstruction", "setup.tools", "setup.historyConfig", "setup.sessionResumption", "setup.inputAudioTranscription", "setup.outputAudioTranscription",
		"setup.generationConfig.responseModalities", "setup.generationConfig.temperature", "setup.generationConfig.topP", "setup.generationConfig.maxOutputTokens",
		"setup.generationConfig.seed", "setup.generationConfig.thinkingConfig.thinkingLevel",
	},
}

// live is a client of Live, for replies as text.
type live struct {
	base      string
	maxTokens int32
}

// Send implements wire.Vendor. There are no requests but those over a WebSocket.
func (*live) Send(context.Context, *http.Client, *wire.Ask) error {
	return errors.New("the API live has no requests without a connection")
}

// Address implements wire.Talker.
func (v *live) Address(string) string {
	return v.base + "/ws/google.ai.generativelanguage." + version + ".GenerativeService.BidiGenerateContent"
}

// Talk implements wire.Talker.
func (v *live) Talk() wire.Talk { return &liveTalk{v: v} }

// liveTalk is what a connection's conversation has. Nothing of it can be taken back.
type liveTalk struct {
	v       *live
	longest int64 // tokens of a reply; 0 is unknown
	tools   bool
	turns   int    // that were asked for
	begun   bool   // the reply has begun
	whole   bool   // and the model has ended it
	handle  string // of the conversation behind the last reply
	leaving bool
	unsure  bool // the conversation may have something that was not asked for
}

// maxHandle bounds the name of a conversation, which the provider makes.
const maxHandle = 4 << 10

// Setup implements wire.FixedTalk. It changes nothing.
func (t *liveTalk) Setup(ask *wire.Ask, handle string) (any, error) {
	turns, err := wire.Behind(ask, 0)
	if err != nil {
		return nil, err
	}
	o := ask.Options
	tuned := (&vendor{maxTokens: t.v.maxTokens}).config(o)
	set := &sdk.LiveClientSetup{
		Model: ask.Model,
		GenerationConfig: &sdk.GenerationConfig{
			ResponseModalities: []sdk.Modality{sdk.ModalityText}, MaxOutputTokens: tuned.MaxOutputTokens,
			Temperature: tuned.Temperature, TopP: tuned.TopP, Seed: tuned.Seed, ThinkingConfig: tuned.ThinkingConfig,
		},
		SessionResumption: &sdk.SessionResumptionConfig{Handle: handle},
	}
	if !strings.Contains(set.Model, "/") {
		set.Model = "models/" + set.Model
	}
	if first := turns.Turns[0]; first.Role == messages.RoleSystem {
		set.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: first.Text()}}}
	}
	set.Tools, err = tools(&turns)
	return &sdk.LiveClientMessage{Setup: set}, err
}

// Next implements wire.Talk: the history, and then what is to be answered.
func (t *liveTalk) Next(ask *wire.Ask, sent int, _ string) ([]any, error) {
	turns, err := wire.Behind(ask, sent)
	if err != nil {
		return nil, err
	}
	all := turns.Turns
	if sent == 0 && all[0].Role == messages.RoleSystem {
		all = all[1:] // it was set up
	}
	t.turns++
	t.tools, t.longest = len(turns.Tools) > 0, int64((&vendor{maxTokens: t.v.maxTokens}).config(ask.Options).MaxOutputTokens)
	t.begun, t.whole, t.handle = false, false, ""
	if answers := results(all); sent > 0 && answers != nil {
		return []any{&sdk.LiveClientMessage{ToolResponse: answers}}, nil
	}
	var contents []*sdk.Content
	for i := range all {
		c, err := content(&all[i])
		if err != nil {
			return nil, err
		}
		contents = append(contents, c)
	}
	last := len(contents) - 1
	var frames []any
	if last > 0 {
		frames = append(frames, &sdk.LiveClientMessage{ClientContent: &sdk.LiveClientContent{Turns: contents[:last]}})
	}
	return append(frames, &sdk.LiveClientMessage{ClientContent: &sdk.LiveClientContent{Turns: contents[last:], TurnComplete: true}}), nil
}

// TakesPart implements wire.PartsTaker. Models of Live see pictures, and read no documents.
func (*live) TakesPart(mediaType string) bool {
	return mediaType == "image/png" || mediaType == "image/jpeg"
}

// results returns turns as the answer to the calls of the last reply; nil if they are none. The
// answer is what the model goes on from, and what interrupts it would cancel the calls: so texts
// go with the last result. Pictures have no place in it: such turns are content.
func results(turns []wire.Turn) *sdk.LiveClientToolResponse {
	if len(turns[0].Results) == 0 {
		return nil
	}
	out := &sdk.LiveClientToolResponse{}
	for _, r := range turns[0].Results {
		out.FunctionResponses = append(out.FunctionResponses, &sdk.FunctionResponse{ID: given(r.ID), Name: r.Name, Response: map[string]any{"output": r.Text}})
	}
	var texts []string
	for i := range turns {
		if turns[i].Role == messages.RoleAssistant || i > 0 && len(turns[i].Results) > 0 || len(turns[i].Files) > 0 {
			return nil
		}
		texts = append(texts, turns[i].Texts...)
	}
	if len(texts) > 0 {
		out.FunctionResponses[len(out.FunctionResponses)-1].Response["message"] = strings.Join(texts, "\n\n")
	}
	return out
}

// Heard implements wire.Talk: frames are read by Read.
func (*liveTalk) Heard(string, []byte) bool { return true }

// Mark implements wire.Talk.
func (t *liveTalk) Mark(response string) string {
	if t.unsure {
		return ""
	}
	return response
}

// Sure implements wire.Talk.
func (t *liveTalk) Sure() bool { return !t.unsure }

// Cancel implements wire.Talk. New content would interrupt a reply, and become history.
func (*liveTalk) Cancel(string) any { return nil }

// Handle implements wire.FixedTalk.
func (t *liveTalk) Handle() string {
	if t.unsure {
		return ""
	}
	return t.handle
}

// Leaving implements wire.FixedTalk.
func (t *liveTalk) Leaving() bool { return t.leaving }

// liveFrame is what this package reads of a frame.
type liveFrame struct {
	Setup   *struct{} `json:"setupComplete"`
	Content *struct {
		Turn struct {
			Parts []livePart `json:"parts"`
		} `json:"modelTurn"`
		Over        bool   `json:"turnComplete"`
		Interrupted bool   `json:"interrupted"`
		Generated   bool   `json:"generationComplete"`
		Reason      string `json:"turnCompleteReason"`
	} `json:"serverContent"`
	Call *struct {
		Calls []liveCall `json:"functionCalls"`
	} `json:"toolCall"`
	Cancelled *struct{} `json:"toolCallCancellation"`
	Usage     *wire.Bill[struct {
		Prompt   wire.Count `json:"promptTokenCount"`
		Cached   wire.Count `json:"cachedContentTokenCount"`
		Reply    wire.Count `json:"responseTokenCount"`
		Thoughts wire.Count `json:"thoughtsTokenCount"`
	}] `json:"usageMetadata"`
	GoAway     *struct{} `json:"goAway"`
	Resumption *struct {
		Handle    string `json:"newHandle"`
		Resumable bool   `json:"resumable"`
	} `json:"sessionResumptionUpdate"`
	Error wire.Raw `json:"error"`
}

type livePart struct {
	Text    wire.Raw `json:"text"`
	Thought bool     `json:"thought"`
}

type liveCall struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Args wire.Raw `json:"args"`
}

// says reports whether the frame has text that is more than white space, or calls.
func (f *liveFrame) says() bool {
	if f.Call != nil {
		return true
	}
	for _, p := range f.Content.Turn.Parts {
		if !p.Thought && !blank(p.Text) {
			return true
		}
	}
	return false
}

// blank reports whether a JSON text has nothing but white space.
func blank(text wire.Raw) bool {
	var s string
	return len(text) == 0 || string(text) == "null" || wire.Decode(text, &s) == nil && strings.TrimSpace(s) == ""
}

// Ready implements wire.FixedTalk.
func (*liveTalk) Ready(frame []byte) bool {
	var f liveFrame
	return wire.Decode(frame, &f) == nil && f.Setup != nil
}

// Read implements wire.FixedTalk. A reply has no id: it begins with the first that the model
// says after a request, and ends with its turn, or with calls, after which the provider waits.
func (t *liveTalk) Read(frame []byte, asked bool) (all []wire.Piece) {
	var f liveFrame
	if first := bytes.TrimLeft(frame, " \t\r\n"); len(first) == 0 || first[0] != '{' || wire.Decode(frame, &f) != nil {
		return []wire.Piece{{}}
	}
	id := "turn_" + strconv.Itoa(t.turns)
	add := func(kind string, says bool) {
		all = append(all, wire.Piece{Type: kind, Response: id, Says: says, Data: frame})
	}
	t.leaving = t.leaving || f.GoAway != nil
	if len(f.Error) > 0 && string(f.Error) != "null" {
		add(wire.PieceFails, false)
		return all
	}
	c := f.Content
	content := c != nil && len(c.Turn.Parts) > 0
	called := f.Call != nil && len(f.Call.Calls) > 0
	if f.Cancelled != nil || called && !t.tools || !asked && (content || called) {
		t.unsure = true
	}
	if r := f.Resumption; r != nil && !asked { // in the middle of a reply a handle loses a part of it
		if t.handle = ""; r.Resumable && len(r.Handle) <= maxHandle {
			t.handle = r.Handle
		}
	}
	over := c != nil && (c.Over || c.Interrupted)
	if !asked {
		return all
	}
	if t.whole && (content || called) {
		return []wire.Piece{{}} // two replies in one
	}
	if !t.begun && (content || called || over || c != nil && c.Generated) {
		t.begun = true
		add(wire.PieceBegins, false)
	}
	if content || called || t.begun && f.Usage != nil && !over {
		add(wire.PieceSays, (content || called) && f.says())
	}
	t.whole = t.whole || c != nil && c.Generated
	switch {
	case over && t.longest > 0 && f.Usage != nil && f.Usage.Of.Reply.Plus(f.Usage.Of.Thoughts).N >= t.longest:
		add(wire.PieceCut, false)
	case over || called:
		add(wire.PieceEnds, false)
	}
	return all
}

// refusals are what the reasons of closed connections say, in small letters, and the codes of
// the provider for that. The codes of WebSockets alone do not tell them apart.
var refusals = []struct{ says, code string }{
	{"api key", "API_KEY_INVALID"},
	{"api_key", "API_KEY_INVALID"},
	{"unauthenticated", "UNAUTHENTICATED"},
	{"permission", "PERMISSION_DENIED"},
	{"quota", "RESOURCE_EXHAUSTED"},
	{"resource_exhausted", "RESOURCE_EXHAUSTED"},
	{"resource has been exhausted", "RESOURCE_EXHAUSTED"},
	{"overloaded", "UNAVAILABLE"},
	{"unavailable", "UNAVAILABLE"},
}

// Refused implements wire.FixedTalk.
func (*liveTalk) Refused(code int, reason string) *llm.Failure {
	low := strings.ToLower(reason)
	name := map[int]string{1007: "INVALID_ARGUMENT", 1008: "FAILED_PRECONDITION", 1011: "INTERNAL"}[code]
	for _, r := range refusals {
		if strings.Contains(low, r.says) {
			name = r.code
			break
		}
	}
	if name == "" {
		return nil
	}
	f := wire.FailureOf(name)
	return &f
}

// Events implements wire.Vendor.
func (*live) Events() wire.Events { return &liveEvents{} }

type liveEvents struct{ calls int64 }

// Event implements wire.Events.
func (s *liveEvents) Event(ev wire.Event, r *wire.Reply) error {
	var f liveFrame
	if ev.Name == wire.PieceBegins {
		return nil
	}
	if err := wire.Decode(ev.Data, &f); err != nil {
		return err
	}
	if f.Usage != nil {
		u := &f.Usage.Of
		r.Input(u.Prompt, u.Cached, wire.Count{})
		r.Running(u.Reply.Plus(u.Thoughts))
	}
	if ev.Name == wire.PieceSays {
		return s.says(&f, r)
	}
	var reason string
	if f.Content != nil {
		if f.Content.Interrupted {
			r.Fail("interrupted")
			return nil
		}
		reason = f.Content.Reason
	}
	switch finish := messages.FinishComplete; cmp.Or(reason, "NEED_MORE_INPUT") {
	case "NEED_MORE_INPUT", string(sdk.TurnCompleteReasonUnspecified):
		if ev.Name == wire.PieceCut {
			finish = messages.FinishLength
		}
		r.Finish(finish)
	case string(sdk.TurnCompleteReasonMalformedFunctionCall), string(sdk.TurnCompleteReasonMaxRegenerationReached):
		r.Fail(reason)
	default: // what else there is says that content was refused
		r.Withhold(reason)
	}
	return nil
}

func (s *liveEvents) says(f *liveFrame, r *wire.Reply) error {
	if f.Content != nil {
		for _, p := range f.Content.Turn.Parts {
			if p.Thought {
				continue
			}
			if err := r.Text(p.Text); err != nil {
				return err
			}
		}
	}
	if f.Call != nil {
		for _, c := range f.Call.Calls {
			r.Call(s.calls, c.ID, c.Name)
			r.CallObject(s.calls, c.Args)
			r.CallEnd(s.calls)
			s.calls++
		}
	}
	return nil
}

// Whole implements wire.Events. There are no replies in one piece.
func (*liveEvents) Whole([]byte, *wire.Reply) error {
	return errors.New("there are no replies in one piece")
}
