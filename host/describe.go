package host

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/responses"
	"github.com/seed14be6753/stile/messages"
)

// What /openapi.json says of the routes that the framework does not serve, of the events of
// streams, and of refusals.

// nameSchema names the schema of a type: those of other packages with what they are about in front,
// because names of types are unique in a package alone.
func nameSchema(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	front := map[string]string{
		reflect.TypeFor[messages.Record]().PkgPath():    "Record",
		reflect.TypeFor[responses.Response]().PkgPath(): "Response",
		reflect.TypeFor[stile.SimpleEvent]().PkgPath():  "Simple",
	}[t.PkgPath()]
	if front == name {
		return name
	}
	return front + name
}

// embed adds the members of an embedded type to a schema: the framework passes over types that are
// not exported.
func embed[T any](r huma.Registry, s *huma.Schema, required bool) *huma.Schema {
	of := r.Schema(reflect.TypeFor[T](), false, "")
	maps.Copy(s.Properties, of.Properties)
	if required {
		s.Required = append(s.Required, of.Required...)
	}
	return s
}

// TransformSchema implements huma.SchemaTransformer.
func (runView) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	return embed[wholeView](r, s, false)
}

// TransformSchema implements huma.SchemaTransformer.
func (madeToken) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	return embed[tokenView](r, s, true)
}

func ref(name string) *huma.Schema { return &huma.Schema{Ref: "#/components/schemas/" + name} }

func text(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }

func number() *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Format: "int64"} }

func literal(words ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

func listOf(of *huma.Schema) *huma.Schema { return &huma.Schema{Type: huma.TypeArray, Items: of} }

// members is an object that has at least the required members, and may have others.
func members(props map[string]*huma.Schema, required ...string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: props, Required: required, AdditionalProperties: true}
}

func content(kind string, s *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: s}}
}

// schema is the reference to that of a type.
func schema[T any](s *Server) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// refusals are the statuses of refused requests, with the names of their responses.
var refusals = map[int]struct{ name, doc string }{
	http.StatusBadRequest:            {"BadRequest", "The request is malformed, or a parameter does not fit"},
	http.StatusUnauthorized:          {"Unauthorized", "The token is missing, wrong or no longer good"},
	http.StatusForbidden:             {"Forbidden", "The token lacks the scope, or a page of another origin asks"},
	http.StatusNotFound:              {"NotFound", "The object does not exist, or is not the caller's"},
	http.StatusConflict:              {"Conflict", "The request does not fit the present state"},
	http.StatusRequestEntityTooLarge: {"TooLarge", "The body has more than 1 MiB, or that of a message more than 12 MiB with its pictures and files"},
	http.StatusUnprocessableEntity:   {"Unprocessable", "The body, or a parameter, breaks its schema"},
	http.StatusTooManyRequests:       {"TooManyRequests", "A limit of the tenant: reason names it"},
}

// refuses lists the statuses that refuse an operation.
func refuses(op *huma.Operation, scope access.Scope) []int {
	all := []int{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity}
	if scope != public {
		all = append(all, http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	if strings.Contains(op.Path, "{") || op.Method != http.MethodGet {
		all = append(all, http.StatusNotFound)
	}
	if op.Method != http.MethodGet || strings.Contains(op.Path, "{id}") || op.Path == "/v1/tokens" || op.Path == "/v1/audit" { // the host has no tokens, or no log
		all = append(all, http.StatusConflict)
	}
	if op.Method == http.MethodPost || op.Method == http.MethodPatch {
		all = append(all, http.StatusRequestEntityTooLarge)
	}
	return all
}

// nameRefusals has an operation name the refusals that it has, in the form of its protocol: problems
// ("" stands for these), errors of OpenAI's API, or those of MCP, whose library refuses with a line of
// text. Every other answer is the default.
func (s *Server) nameRefusals(op *huma.Operation, front string) {
	doc := s.api.OpenAPI()
	form := content("application/problem+json", schema[problem](s))
	switch front {
	case openAI:
		form = content("application/json", schema[chatError](s))
	case mcpForm:
		form["application/json"] = &huma.MediaType{Schema: ref("MCPMessage")}
		form["text/plain"] = &huma.MediaType{Schema: text("")}
	}
	if doc.Components.Responses == nil {
		doc.Components.Responses = map[string]*huma.Response{}
	}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	for _, status := range refuses(op, s.scopes[op.Method+" "+op.Path]) {
		name := front + refusals[status].name
		if doc.Components.Responses[name] == nil {
			doc.Components.Responses[name] = &huma.Response{Description: refusals[status].doc, Content: form}
		}
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
	}
	op.Responses["default"] = &huma.Response{Description: "A failure", Content: form}
}

// The forms of refusals beside problems.
const (
	openAI  = "OpenAI"
	mcpForm = "MCP"
)

// describe adds an operation that the framework does not serve, whose refusals have that form.
func (s *Server) describe(op huma.Operation, scope access.Scope, form string) {
	op = asks(scope, op)
	s.secure(&op)
	if s.names[op.Method+" "+op.Path] == "" {
		s.names[op.Method+" "+op.Path] = op.OperationID
	}
	s.nameRefusals(&op, form)
	s.api.OpenAPI().AddOperation(&op)
}

// roomy says how long the body of a message may be.
const roomy = "At most 12 MiB, and 1 MiB beside its pictures and files"

// describeRest describes what is beside the framework, when everything else is described.
func (s *Server) describeRest() {
	doc := s.api.OpenAPI()
	doc.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	doc.Servers = []*huma.Server{{URL: "/", Description: "the host that serves this description"}}
	s.describeOpenAI()
	ok := func(kind, what string, of *huma.Schema) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: what, Content: content(kind, of)}}
	}
	note := members(map[string]*huma.Schema{"jsonrpc": literal("2.0"), "method": text(""), "id": {}, "params": {}, "result": {}, "error": {}}, "jsonrpc")
	doc.Components.Schemas.Map()["MCPMessage"] = note
	session := &huma.Param{Name: "Mcp-Session-Id", In: "header", Description: "of the protocol: what the answer to initialize had", Schema: text("")}
	call := post("mcp-post", "/mcp", "A message of the Model Context Protocol (streamable HTTP): every agent is a tool", http.StatusOK, "mcp")
	call.Parameters = []*huma.Param{session}
	call.RequestBody = &huma.RequestBody{Required: true, Description: roomy, Content: content("application/json", ref("MCPMessage"))}
	call.Responses = ok("text/event-stream", "The answer, as events with one message each", listOf(members(map[string]*huma.Schema{"data": ref("MCPMessage")}, "data")))
	call.Responses["200"].Content["application/json"] = &huma.MediaType{Schema: ref("MCPMessage")}
	call.Responses["202"] = &huma.Response{Description: "The message needs no answer"}
	follow := get("mcp-get", "/mcp", "Follow a session of the protocol", "mcp")
	follow.Parameters, follow.Responses = []*huma.Param{session}, ok("text/event-stream", "Events with one message each", listOf(members(map[string]*huma.Schema{"data": ref("MCPMessage")}, "data")))
	end := huma.Operation{OperationID: "mcp-delete", Method: http.MethodDelete, Path: "/mcp", Summary: "End a session of the protocol", Tags: []string{"mcp"}, Parameters: []*huma.Param{session}}
	end.Responses = map[string]*huma.Response{"204": {Description: "The session has ended"}}
	for _, op := range []huma.Operation{call, follow, end} {
		s.describe(op, access.Submit, mcpForm)
	}
	for id, path := range map[string]string{"oauth-resource": resourcePath, "oauth-mcp-resource": resourcePath + toolResource} {
		about := get(id, path, "The issuers whose tokens the host believes (RFC 9728); 404 without one", "operations")
		about.Responses = ok("application/json", "The metadata of the protected resource", schema[resourceView](s))
		about.Responses["404"] = &huma.Response{Description: "The host believes no issuer", Content: content("application/problem+json", schema[problem](s))}
		s.describe(about, public, "")
	}
	healthy := get("healthz", "/healthz", "The process is alive", "operations")
	healthy.Responses = ok("text/plain", "ok", text(""))
	s.describe(healthy, public, "")
	ready := get("readyz", "/readyz", "The host takes work", "operations")
	ready.Responses = ok("text/plain", "ok", text(""))
	ready.Responses["503"] = &huma.Response{Description: "It does not: reason says why", Content: content("application/problem+json", schema[problem](s))}
	s.describe(ready, public, "")
	metrics := get("metrics", "/metrics", "Metrics of all tenants, for Prometheus", "operations")
	metrics.Responses = ok("text/plain", "The exposition format", text(""))
	s.describe(metrics, access.Metrics, "")
	for _, unused := range []string{"ErrorModel", "ErrorDetail", "WholeView", "ChatChoiceLogprobsStruct"} { // problems take the place of the first, the others stand in what has them
		delete(doc.Components.Schemas.Map(), unused)
	}
}

// describeOpenAI describes the doors for clients of OpenAI's API.
func (s *Server) describeOpenAI() {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	part := members(map[string]*huma.Schema{
		"type": text("text, refusal, image_url, file; a picture or file of an earlier message has a note in its place"), "text": text(""),
		"image_url": members(map[string]*huma.Schema{"url": text("a data: address with base64; others are refused")}, "url"),
		"file":      members(map[string]*huma.Schema{"filename": text(""), "file_data": text("a data: address with base64")}, "file_data"),
	}, "type")
	parts := &huma.Schema{OneOf: []*huma.Schema{text(""), listOf(part)}}
	schemas["ChatRequest"] = members(map[string]*huma.Schema{
		"model":          text("an agent: GET /v1/models lists them"),
		"messages":       listOf(members(map[string]*huma.Schema{"role": literal("user", "assistant", "system", "developer"), "content": parts}, "role")),
		"stream":         {Type: huma.TypeBoolean},
		"stream_options": members(map[string]*huma.Schema{"include_usage": {Type: huma.TypeBoolean}}),
		"user":           text("a person: passed over, unless the setting chat_user says that it names a session"),
		"tool_choice":    {Description: "none, where the request has tools"},
	}, "model", "messages")
	schemas["ResponseRequest"] = members(map[string]*huma.Schema{
		"model":                text("an agent: GET /v1/models lists them"),
		"input":                {OneOf: []*huma.Schema{text(""), listOf(members(nil))}, Description: "a text, or messages and references to answers"},
		"instructions":         text("a message of the user in front of the conversation"),
		"stream":               {Type: huma.TypeBoolean},
		"store":                {Type: huma.TypeBoolean, Description: "false: no other request can go on with the response"},
		"previous_response_id": text("go on with the session of that response"),
		"conversation":         {OneOf: []*huma.Schema{text(""), members(map[string]*huma.Schema{"id": text("")}, "id")}, Description: "the id of a session"},
		"tool_choice":          {Description: "none, where the request has tools"},
	}, "model", "input")
	schemas["ResponseEvent"] = members(map[string]*huma.Schema{
		"type": text("response.created, response.output_text.delta, response.completed and so on"), "sequence_number": number(),
		"response": schema[responses.Response](s), "output_index": number(), "content_index": number(), "item_id": text(""),
		"item": members(nil), "part": members(nil), "delta": text(""), "text": text(""),
	}, "type", "sequence_number")
	model := members(map[string]*huma.Schema{"id": text("the agent's name"), "object": literal("model"), "created": number(), "owned_by": text("")}, "id", "object", "created", "owned_by")
	schemas["Model"] = model
	headers := map[string]*huma.Param{
		sessionHeader: {Description: "the session", Schema: text("")}, runHeader: {Description: "the run in it", Schema: text("")},
	}
	asking := []*huma.Param{
		{Name: sessionHeader, In: "header", Description: "a session that the request is for", Schema: text("")},
		{Name: keyHeader, In: "header", Description: "a repeated request with the same key joins the run of the first", Schema: text("")},
	}
	chat := post("chat-completion", "/v1/chat/completions", "A chat completion, as OpenAI's API has it", http.StatusOK, "openai")
	chat.Parameters, chat.RequestBody = asking, &huma.RequestBody{Required: true, Description: roomy, Content: content("application/json", ref("ChatRequest"))}
	whole := schema[chatCompletion](s)
	schemas["ChatChoice"].Properties["logprobs"] = &huma.Schema{Type: "null"}
	chat.Responses = map[string]*huma.Response{"200": {Description: "The completion, or its chunks", Headers: headers, Content: content("application/json", whole)}}
	chat.Responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeArray, Description: "The last event has the text [DONE] for its data", Items: members(map[string]*huma.Schema{"data": {OneOf: []*huma.Schema{whole, schema[chatError](s), literal("[DONE]")}}}, "data"),
	}}
	s.describe(chat, access.Submit, openAI)
	respond := post("create-response", "/v1/responses", "A response, as OpenAI's API has it", http.StatusOK, "openai")
	respond.Parameters, respond.RequestBody = asking, &huma.RequestBody{Required: true, Description: roomy, Content: content("application/json", ref("ResponseRequest"))}
	passed := maps.Clone(headers)
	passed[overHeader] = &huma.Param{Description: "members of the request that were passed over", Schema: text("")}
	respond.Responses = map[string]*huma.Response{"200": {Description: "The response, or its events", Headers: passed, Content: content("application/json", schema[responses.Response](s))}}
	respond.Responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: listOf(members(map[string]*huma.Schema{"event": text("as type"), "data": ref("ResponseEvent")}, "event", "data"))}
	s.describe(respond, access.Submit, openAI)
	models := get("list-models", "/v1/models", "The agents, as models of OpenAI's API", "openai")
	models.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: content("application/json", members(map[string]*huma.Schema{"object": literal("list"), "data": listOf(ref("Model"))}, "object", "data"))}}
	s.describe(models, access.Read, openAI)
	one := get("get-model", "/v1/models/{model}", "An agent, as a model of OpenAI's API", "openai")
	one.Parameters = []*huma.Param{{Name: "model", In: "path", Required: true, Schema: text("")}}
	one.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: content("application/json", ref("Model"))}}
	s.describe(one, access.Read, openAI)
}

// recordBodies has one body of each kind of records.
var recordBodies = []messages.Body{
	&messages.SessionOpened{}, &messages.SessionClosed{}, &messages.SessionDescribed{}, &messages.Input{}, &messages.RunBegin{}, &messages.RunEnd{},
	&messages.RunWithdrawn{}, &messages.TurnBegin{}, &messages.ModelRequest{}, &messages.ModelChunk{}, &messages.ModelReply{}, &messages.ModelFallback{},
	&messages.ModelSession{}, &messages.UnitText{UnitKind: messages.ThoughtUnit}, &messages.UnitText{UnitKind: messages.ResponseUnit},
	&messages.UnitText{UnitKind: messages.TextUnit}, &messages.Emit{}, &messages.Whisper{}, &messages.ActionDeclared{}, &messages.ActionApproval{},
	&messages.ActionStarted{}, &messages.ActionChunk{}, &messages.ActionEnded{}, &messages.ActionTemplate{}, &messages.BlockBegin{}, &messages.BlockDecided{},
	&messages.BlockEnded{}, &messages.FeedInjected{}, &messages.ParseFault{}, &messages.Lint{}, &messages.TurnDecided{},
	&messages.TurnSuspended{}, &messages.TurnRestored{}, &messages.Control{}, &messages.Audit{}, &messages.Note{}, &messages.Retract{}, &messages.RollbackBegin{},
}

// recordSchema adds the schemas of records, and returns that of any.
func (s *Server) recordSchema() *huma.Schema {
	schemas := s.api.OpenAPI().Components.Schemas
	if schemas.Map()["Record"] != nil {
		return ref("Record")
	}
	head := map[string]*huma.Schema{
		"sid": text(""), "inc": text("the session's incarnation"), "seq": number(), "epoch": number(), "run": number(), "turn": number(),
		"ts": {Type: huma.TypeString, Format: "date-time"}, "prev": text(""), "body_digest": text(""), "hash": text(""),
		"salt": {Type: huma.TypeString, Nullable: true}, "sig": members(map[string]*huma.Schema{"kid": text(""), "sig": text("")}, "kid", "sig"),
	}
	schemas.Map()["RecordHead"] = members(head, "sid", "inc", "seq", "epoch", "run", "turn", "ts", "prev", "body_digest", "hash", "salt")
	all := &huma.Schema{Description: "An entry of a session's journal. Its body is null when it was erased."}
	kinds := map[reflect.Type]*huma.Schema{}
	for _, b := range recordBodies {
		t := reflect.TypeOf(b).Elem()
		if kinds[t] == nil {
			of := schemas.Schema(t, true, "")
			kinds[t] = literal()
			all.OneOf = append(all.OneOf, &huma.Schema{Title: string(b.Kind()), AllOf: []*huma.Schema{ref("RecordHead"), {
				Type:       huma.TypeObject,
				Properties: map[string]*huma.Schema{"type": kinds[t], "body": {OneOf: []*huma.Schema{of, {Type: "null"}}}}, Required: []string{"type", "body"},
			}}})
		}
		kinds[t].Enum = append(kinds[t].Enum, string(b.Kind()))
	}
	for name, one := range schemas.Map() { // later releases add members
		if strings.HasPrefix(name, "Record") && one.AdditionalProperties == false {
			one.AdditionalProperties = nil
			delete(one.Properties, "UnitKind")
			one.Required = slices.DeleteFunc(one.Required, func(n string) bool { return n == "UnitKind" })
		}
	}
	schemas.Map()["Record"] = all
	return ref("Record")
}

// eventSchema is that of the events of a stream, of either format.
func (s *Server) eventSchema() *huma.Schema {
	schemas := s.api.OpenAPI().Components.Schemas.Map()
	if schemas["StreamEvent"] == nil {
		event := func(name string, names []string, id bool, data *huma.Schema) *huma.Schema {
			e := &huma.Schema{Type: huma.TypeObject, Title: name, Properties: map[string]*huma.Schema{"event": literal(names...), "data": data}, Required: []string{"event", "data"}}
			if id {
				e.Properties["id"] = text("pass it as after, or as Last-Event-ID: the stream goes on behind the event")
				e.Required = append(e.Required, "id")
			}
			return e
		}
		var names []string
		for _, b := range recordBodies {
			if b.Kind() != messages.KindRetract { // the name is also that of the event about text that was never recorded
				names = append(names, string(b.Kind()))
			}
		}
		place := map[string]*huma.Schema{
			"run": number(), "seq": number(), "unit": text("of a text"), "action": text("of a result that grows"), "turn": number(), "off": number(),
		}
		grows := maps.Clone(place)
		maps.Copy(grows, map[string]*huma.Schema{"type": literal("delta"), "kind": text("of the record that follows"), "text": text(""), "n": number(), "parent": number(), "depth": number(), "label": text("")})
		schemas["Delta"] = members(grows, "type", "run", "seq", "off")
		back := maps.Clone(place)
		back["type"] = literal("retract")
		schemas["Retraction"] = members(back, "type", "run", "seq", "off")
		schemas["Progress"] = members(map[string]*huma.Schema{
			"type": literal("progress"), "action": text(""), "done": number(), "total": number(), "text": text(""), "run": number(), "seq": number(), "turn": number(),
		}, "type", "action", "done", "run", "seq", "turn")
		schemas["StreamEvent"] = &huma.Schema{
			Description: "A server-sent event; as a message of a WebSocket it is this object",
			OneOf: []*huma.Schema{
				event("record", names, true, s.recordSchema()),
				event("delta", []string{"delta"}, true, ref("Delta")),
				event("retract", []string{"retract"}, true, &huma.Schema{OneOf: []*huma.Schema{s.recordSchema(), ref("Retraction")}}),
				event("progress", []string{"progress"}, true, ref("Progress")),
				event("simple", []string{"message"}, false, schema[stile.SimpleEvent](s)),
				event("problem", []string{"problem"}, false, schema[problem](s)),
				event("leaving", []string{"leaving"}, false, members(map[string]*huma.Schema{"detail": text("")}, "detail")),
			},
		}
	}
	return listOf(ref("StreamEvent"))
}
