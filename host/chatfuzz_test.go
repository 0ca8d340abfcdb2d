package host_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
)

// chatBodies makes bodies for /v1/chat/completions, most of them nearly right.
type chatBodies struct {
	rnd *rand.Rand
}

// one gives any of the texts.
func (c *chatBodies) one(of ...string) string { return of[c.rnd.IntN(len(of))] }

// seldom is true once in n times.
func (c *chatBodies) seldom(n int) bool { return c.rnd.IntN(n) == 0 }

// text is a string of JSON, sometimes of bytes that are no UTF-8, or no string at all.
func (c *chatBodies) text() string {
	switch c.rnd.IntN(8) {
	case 0:
		return "\"\xff\xc3(\xed\xa0\x80\""
	case 1:
		return `"\ud800 \u0000 \udc00"`
	case 2:
		return `"` + strings.Repeat("word ", 1+c.rnd.IntN(20000)) + `"`
	case 3:
		b, err := json.Marshal(hostile[c.rnd.IntN(len(hostile))])
		if err != nil {
			panic(err) // a string
		}
		return string(b)
	}
	return `"hello"`
}

// any is a value of any kind, also one that is deeper than a decoder goes, or that ends
// too early.
func (c *chatBodies) any() string {
	switch c.rnd.IntN(9) {
	case 0:
		n := c.rnd.IntN(30000)
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	case 1:
		n := c.rnd.IntN(12000)
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	case 2:
		return strings.Repeat("[", c.rnd.IntN(100))
	case 3:
		return c.text()
	}
	return c.one("null", "true", "7", "-1", "1e999", "[]", "{}", `[null]`, `[{}]`, `""`, "", "NaN", `{"type":"function","function":{"name":"f"}}`)
}

func (c *chatBodies) part() string {
	switch c.rnd.IntN(8) {
	case 0:
		return `{"type":"image_url","image_url":{"url":"data:,"}}`
	case 1:
		return `{"type":"input_audio","input_audio":{"data":` + c.text() + `,"format":"wav"}}`
	case 2:
		return `{"type":"refusal","refusal":` + c.text() + `}`
	case 3:
		return c.any()
	}
	return `{"type":"text","text":` + c.text() + `}`
}

func (c *chatBodies) content() string {
	switch c.rnd.IntN(6) {
	case 0:
		return c.any()
	case 1:
		var parts []string
		for range c.rnd.IntN(4) {
			parts = append(parts, c.part())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case 2:
		if c.seldom(8) { // many small ones
			return "[" + strings.Repeat(`{"type":"text","text":"x"},`, 30000) + `{"type":"text"}]`
		}
	}
	return c.text()
}

func (c *chatBodies) message(last bool) string {
	role := c.one(`"user"`, `"assistant"`, `"system"`, `"developer"`)
	switch {
	case last && !c.seldom(6):
		role = `"user"`
	case c.seldom(12):
		role = c.one(`"tool"`, `"function"`, `"ghost"`, `"USER"`, "null", "7", `""`)
	}
	members := []string{`"role":` + role, `"content":` + c.content()}
	if c.seldom(10) {
		members = append(members, `"tool_calls":`+c.one("null", "[]", c.any(), `[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]`))
	}
	if c.seldom(10) {
		members = append(members, c.one(`"name":`+c.text(), `"role":"user"`, `"content":null`, `"x":`+c.any()))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (c *chatBodies) body() string {
	if c.seldom(20) {
		return c.any()
	}
	var all []string
	n := 1 + c.rnd.IntN(4)
	switch {
	case c.seldom(20):
		n = 0
	case c.seldom(40):
		n = 5000
	}
	for i := range n {
		if n == 5000 && i < n-1 {
			all = append(all, `{"role":"user","content":"x"}`)
			continue
		}
		all = append(all, c.message(i == n-1))
	}
	model := `"talker"`
	if c.seldom(15) {
		model = c.any()
	}
	members := []string{`"model":` + model, `"messages":[` + strings.Join(all, ",") + "]"}
	for _, m := range []string{
		`"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, `"stream":` + c.any(), `"stream_options":` + c.any(), `"user":` + c.text(), `"user":"u` + strconv.Itoa(c.rnd.IntN(3)) + `"`,
		`"n":` + c.one("1", "2", "null", c.any()), `"tools":` + c.one("[]", "null", `[{"type":"function","function":{"name":"f"}}]`, c.any()), `"functions":` + c.any(),
		`"response_format":` + c.one(`{"type":"text"}`, `{"type":"json_object"}`, "null", c.any()), `"modalities":` + c.one(`["text"]`, `["audio"]`, "null", c.any()),
		`"logprobs":` + c.one("true", "null", c.any()), `"temperature":` + c.any(), `"model":"talker"`, `"metadata":` + c.any(),
	} {
		if c.seldom(14) {
			members = append(members, m)
		}
	}
	c.rnd.Shuffle(len(members), func(i, k int) { members[i], members[k] = members[k], members[i] })
	body := "{" + strings.Join(members, ",") + "}"
	if c.seldom(20) {
		body = body[:c.rnd.IntN(len(body))]
	}
	return body
}

// Whatever is sent as a chat completion gets a completion, whole, or an error in the
// protocol's shape: never a failure of the host, never a word about its insides.
func TestHostileChats(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bodies := &chatBodies{rand.New(rand.NewPCG(seed, 0))}
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	answers := map[int]int{}
	streams := 0
	for i := range 300 {
		body := bodies.body()
		if i%20 == 0 {
			body = `{"model":"talker","messages":[` + bodies.message(false) + `,{"role":"user","content":"hello"}],"stream":true}`
		}
		headers := []string{}
		if bodies.seldom(8) {
			headers = append(headers, "X-Stile-Session", strings.Map(printable, hostile[bodies.rnd.IntN(len(hostile))]))
		}
		if bodies.seldom(8) {
			headers = append(headers, "Idempotency-Key", bodies.one("k", strings.Repeat("k", 257)))
		}
		res := d.ask("POST", "/v1/chat/completions", body, headers...)
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("seed %d, body %d: %v", seed, i, err)
		}
		answers[res.StatusCode]++
		shown := body[:min(len(body), 500)]
		for _, bad := range []string{home, "goroutine ", "panic", ".go:"} {
			if bytes.Contains(got, []byte(bad)) {
				t.Errorf("seed %d, body %d: the answer to %s tells %q: %s", seed, i, shown, bad, got)
			}
		}
		var answer struct {
			Object string
			Error  *struct{ Message, Type, Code string }
		}
		switch kind := res.Header.Get("Content-Type"); {
		case res.StatusCode == http.StatusOK && kind == "text/event-stream":
			streams++
			if !bytes.HasSuffix(bytes.TrimSpace(got), []byte("data: [DONE]")) {
				t.Errorf("seed %d, body %d: the stream for %s ended with %s", seed, i, shown, got)
			}
		case kind != "application/json" || json.Unmarshal(got, &answer) != nil:
			t.Errorf("seed %d, body %d: to %s came %s %s", seed, i, shown, res.Status, got)
		case res.StatusCode == http.StatusOK && answer.Object == "chat.completion":
		case res.StatusCode >= 400 && res.StatusCode < 500 && answer.Error != nil && answer.Error.Message != "" && answer.Error.Type == "invalid_request_error" && answer.Error.Code != "":
		default:
			t.Errorf("seed %d, body %d: to %s came %s %s", seed, i, shown, res.Status, got)
		}
	}
	if answers[200] == 0 || answers[400] == 0 || streams == 0 {
		t.Errorf("seed %d: the requests were not varied: %v, %d streams", seed, answers, streams)
	}
}
