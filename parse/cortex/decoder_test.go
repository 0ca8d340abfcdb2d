package cortex

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// short writes canonical events in a line each.
func short(events []map[string]any) string {
	var b strings.Builder
	for _, e := range events {
		switch e["ev"] {
		case "action":
			fmt.Fprintf(&b, "action %v %v %v %v %v key=%v deps=%v %vs retry=%v %v", e["type"], e["mode"], e["id"], e["name"], e["parameters"], e["output_key"], e["depends_on"], e["timeout"], e["retry"], e["on_error"])
			if e["in_thought"] == true {
				b.WriteString(" in_thought")
			}
		case "error":
			fmt.Fprintf(&b, "! %v", e["code"])
			for _, k := range []string{"id", "tag", "name", "field"} {
				if e[k] != nil {
					fmt.Fprintf(&b, " %s=%v", k, e[k])
				}
			}
		default:
			b.WriteString(e["ev"].(string))
			if e["id"] != nil {
				fmt.Fprintf(&b, " %v", e["id"])
			}
			fmt.Fprintf(&b, " %q", e["text"])
			for _, k := range []string{"final", "complete"} {
				if e[k] == true {
					b.WriteString(" " + k)
				}
			}
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// one is the action event of a body whose other fields have their defaults.
func one(id, rest string) string {
	return "action tool sync " + id + " t map[] key=<nil> deps=[] 300s retry=0 fail" + rest
}

// The sentences of docs/spec/streaming.md §§1–3 that no vector has, a line each.
func TestSentences(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		// §1 tags
		{"< thought>a</ thought>", `text "< thought>a</ thought>"`},
		{"<thought/ >", `! bad_tag tag=thought; text "<thought/ >"`},
		{"<thought/x", `! bad_tag tag=thought; text "<thought/x"`},
		{"</thought/>", `text "</thought/>"`},
		{"<response final='true'id=x>", `! bad_tag tag=response; text "<response final='true'id=x>"`},
		{"<thought a=>x", `! bad_tag tag=thought; text "<thought a=>x"`},
		{"<thought a='x\ny'>", "! bad_tag tag=thought; text \"<thought a='x\\ny'>\""},
		{"<thought a=[x\n'\"/>y]>z</thought>", `thought "z"`},
		{"<thought a='<thought>z</thought>", `! bad_tag tag=thought; text "<thought a='"; thought "z"`},
		{"<thought a=b/>c", `text "c"`},
		{"<thought a=b/c>", `! bad_tag tag=thought; text "<thought a=b/c>"`},
		{"<thought 1=a>", `! bad_tag tag=thought; text "<thought 1=a>"`},
		{"<thought a.b-c_9 = \t é>z</thought>", `thought "z"`},
		{"<thought a='&quot;'>z</thought>", `thought "z"`},
		{"<<thought>z</thought>", `text "<"; thought "z"`},
		{"a<thought/>b", `text "a"; text "b"`},
		{"<action_results>", `text "<action_results>"`},
		{"</thought x>", `! bad_tag tag=thought; text "</thought x>"`},
		{"<thought>a</thought x>b</thought>", `thought "a"; ! bad_tag tag=thought; thought "</thought x>b"`},
		{"<response>a</response x>b</response>", `response "a</response x>b" final complete`},
		{"<context_feed id=f>a</context_feed x>b</context_feed>", `feed f "a</context_feed x>b"`},
		{"<if>a</if x>b</if>", `! unsupported_tag tag=if`},
		{"<thought a a=1 a=2 b b>x</thought>", `! duplicate_attribute name=a; ! duplicate_attribute name=b; thought "x"`},
		{"<response final=no final=true>x</response>", `! duplicate_attribute name=final; ! bad_attribute name=final; response "x" complete`},
		{"<thought>a\n<response final=x final=y>b</response>", `thought "a\n"; ! unclosed_thought; ! duplicate_attribute name=final; ! bad_attribute name=final; response "b" complete`},
		{"\xff<tho\xffught>", `text "` + "\ufffd<tho\ufffdught>" + `"`},
		// §2 top
		{"\n a \n\t<thought/>\n \n b", `text "a"; text "b"`},
		{"</action></context_feed></if></action_result>", `! stray_close tag=action; ! stray_close tag=context_feed; ! stray_close tag=if; ! stray_close tag=action_result`},
		// thoughts
		{"<thought>a</action></response><context_feed id=x>b</context_feed></if>c</thought>", `thought "a</action></response><context_feed id=x>b</context_feed></if>c"`},
		{"<thought>a<thought/>b</thought>", `thought "a"; thought "b"`},
		{"<thought>a<thought x=1>b</thought>c", `thought "a"; ! nested_thought; thought "b"; thought "c"; ! unclosed_thought`},
		{"<thought>a<thought>b\n \t<response>r</response>", `thought "a"; ! nested_thought; thought "b\n \t"; ! unclosed_thought; response "r" final complete`},
		{"<thought>a\n<response/>b", `thought "a\n"; ! unclosed_thought; response "" final complete; ! after_final`},
		{"<thought>a\n<response !>b", `thought "a\n"; ! bad_tag tag=response; thought "<response !>b"; ! unclosed_thought`},
		{"<thought>a <response !>b</thought>", `thought "a <response !>b"`},
		{"<thought\n><response>x</response></thought>", `thought "<response>x</response>"`},
		{"<thought>\n<thought/><response>x</response></thought>", `thought "\n"; thought "<response>x</response>"`},
		{"<thought>\n<action id=a>{\"name\":\"t\"\n}\n</action><response>x</thought>", `thought "\n"; ` + one("a", " in_thought") + `; thought "<response>x"`},
		{"<thought>a<action id=b>{\n\t<response>r</response>", `thought "a"; ! unclosed_action id=b; ! unclosed_thought; response "r" final complete`},
		{"<thought>a<action id=b>{ <response>r</thought>", `thought "a"; ! unclosed_action id=b; thought "<response>r"`},
		{"<thought>\n\r<response>x</thought>", `thought "\n\r<response>x"`},
		{"<thought>\r<response>x</thought>", `thought "\r<response>x"`},
		{"<thought>a<action_result>b</action_result>c<parallel/>d</thought>", `thought "a"; ! reserved_tag tag=action_result; thought "c"; ! unsupported_tag tag=parallel; thought "d"`},
		// responses
		{"<response final>x</response>", `! bad_attribute name=final; response "x" complete`},
		{"<response final=[true]>x</response>", `! bad_attribute name=final; response "x" complete`},
		{"<response final=fal\u017fe>x</response>", `! bad_attribute name=final; response "x" complete`},
		{"<response final=' true'>x</response>", `! bad_attribute name=final; response "x" complete`},
		{"<response final=False>a<response>b</response>c", `response "a<response>b" complete; text "c"`},
		{"<response>&lt;/response></response>", `response "&lt;/response>" final complete`},
		{"<response>a</response\t>\r\n\t ", `response "a" final complete`},
		{"<response>a</response>\n<response>b</response><if>", `response "a" final complete; ! after_final`},
		{"<response>a</response>\xff", `response "a" final complete; ! after_final`},
		// feeds
		{"<context_feed>x</context_feed>y", `! missing_id tag=context_feed; text "y"`},
		{"<context_feed id=''>x", `! missing_id tag=context_feed; ! unclosed_feed`},
		{"<context_feed id='a b'/>", `feed a b ""`},
		{"<context_feed id=f>x</context_fee", `! unclosed_feed id=f`},
		{"<context_feed id=f>\r\n \t</context_feed>", `feed f ""`},
		// skipped elements
		{"<if><if/><if a>x</if></if y></if>z", `! unsupported_tag tag=if; text "z"`},
		{"<if><foreach></if>z", `! unsupported_tag tag=if; text "z"`},
		{"<foreach><action>{\"a\":\"</foreach>", `! unsupported_tag tag=foreach`},
		{"<thought><if>x</thought>", `! unsupported_tag tag=if; ! unclosed_tag tag=if; ! unclosed_thought`},
		{"<if><if ", `! unsupported_tag tag=if; ! unclosed_tag tag=if`},
		{"<rollback group=g/>x", `! unsupported_tag tag=rollback; text "x"`},
		{"<if a a>", `! duplicate_attribute name=a; ! unsupported_tag tag=if; ! unclosed_tag tag=if`},
		// action bodies
		{`<action id=a>{"name":"t"}</thought>x`, `! unclosed_action id=a; ! stray_close tag=thought; text "x"`},
		{`<thought>b<action id=a>{"name":"t"}</thought>x`, `thought "b"; ! unclosed_action id=a; text "x"`},
		{`<thought>b<action id=a>{"name":"t"}<context_feed id=x>y</thought>`, `thought "b"; ! unclosed_action id=a; thought "<context_feed id=x>y"`},
		{`<action id=a>{"name":"t"}<action`, `! unclosed_action id=a`},
		{`<action id=a>{"name":"t"}<action !>`, `! unclosed_action id=a; ! bad_tag tag=action; text "<action !>"`},
		{`<action id=a>{"name":"t"}<thought b=1`, `! unclosed_action id=a; ! unclosed_tag tag=thought`},
		{`<action id=a>{"name":"t"}<if/>x`, `! unclosed_action id=a; ! unsupported_tag tag=if; text "x"`},
		{`<action id=a>{"name":"t"}<b></action>`, `! invalid_json id=a`},
		{`<action id=a>{"s":"<thought>","name":"t"}</action>`, one("a", "")},
		{`<action id=a>{"s":"\<thought>x</thought>`, `! unclosed_action id=a; thought "x"`},
		{"<action id=a>{\"s\":\"\x01</action>\"}</action>", `! invalid_json id=a; text "\"}"; ! stray_close tag=action`},
		{`<action id=a>{"s":"x</action>`, `! unclosed_action id=a`},
		{`<action id=a>{"s":"\ud800</action>","name":"t"}</action>b`, `! invalid_json id=a; text "b"`},
		{`<action id=a>{"s":"\ud83d\ude80","name":"\u0074"}</action>`, one("a", "")},
		{`<action id=a>{"\udead":1}</action>`, `! invalid_json id=a`},
		{`<action id=a>nul</action>`, `! invalid_json id=a`},
		{`<action id=a>01</action>`, `! invalid_json id=a`},
		{`<action id=a>null</action>`, `! invalid_body id=a`},
		{`<action id=a>"{}"</action>`, `! invalid_body id=a`},
		{`<action id=a>-0</action>`, `! invalid_body id=a`},
		{`<action id=a>{}{}</action>`, `! invalid_json id=a`},
		{"<action id=a>\t\r\n </action>", `! missing_body id=a`},
		{"<action id=a>\v</action>", `! invalid_json id=a`},
		{"<action id='a b'/>", `! missing_body id=a b`},
		{"<action/><action/><action id=x/><action>{\"name\":\"t\"}</action>", `! missing_body id=#1; ! missing_body id=#2; ! missing_body id=x; ` + one("#4", "")},
		// §3.1, in the order of the checks
		{`<action id='1' type=x mode=y>[]</action>`, `! invalid_body id=1`},
		{`<action id='1' type=x mode=y>{}</action>`, `! bad_id id=1`},
		{`<action id=a type=x mode=y>{}</action>`, `! unknown_type id=a`},
		{`<action id=a type mode=y>{}</action>`, `! unknown_type id=a`},
		{`<action id=a type=Tool>{}</action>`, `! unknown_type id=a`},
		{`<action id=a mode=y>{}</action>`, `! unknown_mode id=a`},
		{`<action id=a mode=''>{}</action>`, `! unknown_mode id=a`},
		{`<action id=a>{"name":null,"parameters":1}</action>`, `! missing_name id=a`},
		{`<action id=a>{"name":"\u00a0\t"}</action>`, `! missing_name id=a`},
		{`<action id=a>{"name":7}</action>`, `! missing_name id=a`},
		{`<action id=a depends_on='!'>{"name":"t","parameters":"{}","output_key":1,"on_error":1,"retry":"1","timeout":0}</action>`, `! bad_field id=a field=parameters`},
		{`<action id=a depends_on='!'>{"name":"t","output_key":1,"on_error":1,"retry":"1","timeout":0}</action>`, `! bad_field id=a field=output_key`},
		{`<action id=a depends_on='!'>{"name":"t","on_error":1,"retry":"1","timeout":0}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","on_error":1,"retry":"1","timeout":0}</action>`, `! bad_field id=a field=on_error`},
		{`<action id=a>{"name":"t","retry":"1","timeout":0}</action>`, `! bad_field id=a field=retry`},
		{`<action id=a/><action id=a>{"name":"t","timeout":0}</action>`, `! missing_body id=a; ! bad_field id=a field=timeout`},
		{`<action id=a/><action id=a>{"name":"t"}</action>`, `! missing_body id=a; ! duplicate_id id=a`},
		{`<action id=a>{<action id=a>{"name":"t"}</action>`, `! unclosed_action id=a; ! duplicate_id id=a`},
		{`<action id=''>{"name":"t"}</action>`, one("#1", "")},
		{`<action id=` + strings.Repeat("a", 65) + `>{"name":"t"}</action>`, `! bad_id id=` + strings.Repeat("a", 65)},
		{`<action id=` + strings.Repeat("a", 64) + `>{"name":"t"}</action>`, one(strings.Repeat("a", 64), "")},
		{`<action id=_a.b-9>{"name":"t"}</action>`, one("_a.b-9", "")},
		{`<action id=a>{"name":"u","name":"t","parameters":{"x":1},"parameters":null}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","output_key":"a$"}</action>`, `! bad_field id=a field=output_key`},
		{`<action id=a>{"name":"t","output_key":""}</action>`, `! bad_field id=a field=output_key`},
		{`<action id=a>{"name":"t","output_key":null,"depends_on":null,"timeout":null,"retry":null,"on_error":null}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","depends_on":""}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","depends_on":["b,c"]}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","depends_on":["b,\"c"]}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","depends_on":[["b"]]}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","depends_on":[null]}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a>{"name":"t","depends_on":["#1"]}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a depends_on=[]>{"name":"t","depends_on":[]}</action>`, one("a", "")},
		{`<action id=a depends_on='["\u0062","c"]'>{"name":"t"}</action>`, "action tool sync a t map[] key=<nil> deps=[b c] 300s retry=0 fail"},
		{`<action id=a depends_on=[b,c]>{"name":"t"}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a depends_on='["b",'>{"name":"t"}</action>`, `! bad_field id=a field=depends_on`},
		{`<action id=a depends_on=" b ,	c,b">{"name":"t","depends_on":"b"}</action>`, "action tool sync a t map[] key=<nil> deps=[b c] 300s retry=0 fail"},
		{`<action id=a>{"name":"t","timeout":1e-30}</action>`, "action tool sync a t map[] key=<nil> deps=[] 1e-09s retry=0 fail"},
		{`<action id=a>{"name":"t","timeout":1e-999}</action>`, "action tool sync a t map[] key=<nil> deps=[] 1e-09s retry=0 fail"},
		{`<action id=a>{"name":"t","timeout":1e999}</action>`, "action tool sync a t map[] key=<nil> deps=[] 3600s retry=0 fail"},
		{`<action id=a>{"name":"t","timeout":0.25}</action>`, "action tool sync a t map[] key=<nil> deps=[] 0.25s retry=0 fail"},
		{`<action id=a>{"name":"t","timeout":-0}</action>`, `! bad_field id=a field=timeout`},
		{`<action id=a>{"name":"t","timeout":0e9}</action>`, `! bad_field id=a field=timeout`},
		{`<action id=a>{"name":"t","timeout":"30"}</action>`, `! bad_field id=a field=timeout`},
		{`<action id=a>{"name":"t","timeout":true}</action>`, `! bad_field id=a field=timeout`},
		{`<action id=a>{"name":"t","retry":2.0}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=2 fail"},
		{`<action id=a>{"name":"t","retry":300e-2}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=3 fail"},
		{`<action id=a>{"name":"t","retry":0.0000000004e10}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=4 fail"},
		{`<action id=a>{"name":"t","retry":1e99999999999}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=5 fail"},
		{`<action id=a>{"name":"t","retry":1e-99999999999}</action>`, `! bad_field id=a field=retry`},
		{`<action id=a>{"name":"t","retry":0e99999999999}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","retry":-0.0}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","retry":2.5}</action>`, `! bad_field id=a field=retry`},
		{`<action id=a>{"name":"t","retry":-1}</action>`, `! bad_field id=a field=retry`},
		{`<action id=a>{"name":"t","retry_count":2}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=2 fail"},
		{`<action id=a>{"name":"t","retry":1,"retry_count":"x"}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=1 fail"},
		{`<action id=a>{"name":"t","retry":null,"retry_count":"x"}</action>`, `! bad_field id=a field=retry`},
		{`<action id=a>{"name":"t","on_error":"retry","retry":0}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=0 retry"},
		{`<action id=a>{"name":"t","skip_on_error":true}</action>`, "action tool sync a t map[] key=<nil> deps=[] 300s retry=0 skip"},
		{`<action id=a>{"name":"t","skip_on_error":false}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","skip_on_error":"true"}</action>`, `! bad_field id=a field=on_error`},
		{`<action id=a>{"name":"t","on_error":"fail","skip_on_error":true}</action>`, one("a", "")},
		{`<action id=a>{"name":"t","on_error":"Fail"}</action>`, `! bad_field id=a field=on_error`},
		// §2 end of stream
		{"<", `text "<"`},
		{"</", `text "</"`},
		{"<thought", `text "<thought"`},
		{"a <thought ", `text "a"; ! unclosed_tag tag=thought`},
		{"a </thought ", `text "a"; ! unclosed_tag tag=thought`},
		{"a </thought", `text "a </thought"`},
		{"<thought>a<", `thought "a"; ! unclosed_thought`},
		{"<thought>a</", `thought "a"; ! unclosed_thought`},
		{"<thought>a<t", `thought "a<t"; ! unclosed_thought`},
		{"<thought>a</tho", `thought "a"; ! unclosed_thought`},
		{"<thought>a<action", `thought "a<action"; ! unclosed_thought`},
		{"<thought>a<action x='1", `thought "a"; ! unclosed_tag tag=action; ! unclosed_thought`},
		{"<thought>a<response ", `thought "a<response "; ! unclosed_thought`},
		{"<thought>a\n<response ", `thought "a\n"; ! unclosed_tag tag=response; ! unclosed_thought`},
		{"<response>a</response \n", `response "a"; ! unclosed_response`},
		{"<response>a<", `response "a"; ! unclosed_response`},
		{"<response>a</t", `response "a</t"; ! unclosed_response`},
		{"<response>", `response ""; ! unclosed_response`},
		{"<thought>a<action id=x>{<thought ", `thought "a"; ! unclosed_action id=x; ! unclosed_tag tag=thought; ! unclosed_thought`},
		{"a\xe2\x82", `text "a` + "\ufffd\ufffd" + `"`},
	} {
		reply := everyCut(t, Dialect{}, c.in)
		if got := short(reply.canonical); got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
		}
		if err := sameAsReference(reply.canonical, []byte(c.in)); err != nil && !strings.Contains(c.in, "e99999999999") && !strings.Contains(c.in, "e-99999999999") {
			t.Error(err)
		}
	}
}

// What show says is no canonical member.
func TestShow(t *testing.T) {
	for in, want := range map[string]string{
		`<action>{"name":"t"}</action>`:                             messages.ShowUser,
		`<action show=none>{"name":"t"}</action>`:                   messages.ShowNone,
		`<action show=none>{"name":"t","show":"operator"}</action>`: messages.ShowNone,
		`<action>{"name":"t","show":"operator"}</action>`:           messages.ShowOperator,
		`<action show=None>{"name":"t","show":"none"}</action>`:     messages.ShowUser,
		`<action show>{"name":"t","show":"none"}</action>`:          messages.ShowUser,
		`<action>{"name":"t","show":["none"]}</action>`:             messages.ShowUser,
		`<action>{"name":"t","show":1}</action>`:                    messages.ShowUser,
	} {
		var got string
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		d.Push([]byte(in), func(e messages.Event) {
			if e.Action != nil {
				got = e.Action.Show
			}
		})
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// The arguments are in normal form: the bytes that everyone after the decoder sees.
func TestArgsAreNormal(t *testing.T) {
	const in = `<action>{"parameters": {"z": [1.50, 1E+2, 12345678901234567890, -0] , "a\/b" : "\u00e9\u0041\n\u001F\u2028", "n": null, "d": {"x":1,"x":{"y":2}}, "z2":{}, "a/b": true},"name":"t"}</action>`
	const want = `{"a/b":true,"d":{"x":{"y":2}},"n":null,"z":[1.50,1E+2,12345678901234567890,-0],"z2":{}}`
	var got string
	Dialect{}.NewDecoder(messages.TurnInfo{}).Push([]byte(in), func(e messages.Event) { got = e.Action.Args })
	if got != want {
		t.Errorf("%s", got)
	}
}

// An action is out with the last byte of its closer, and text as soon as it cannot
// be a tag.
func TestLatency(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`<action>{"name":"t"}</action>`, one("#1", "")},
		{"<thought>ab", "ab"},
		{"<thought>ab<x", "ab<x"},
		{"<thought>ab<th", "ab"},
		{"<thought>ab<tx", "ab<tx"},
		{"<thought>ab <response ", "ab <response "},
		{"<thought>ab</action ", "ab</action "},
		{"<response>a <action id=", "a <action id="},
		{"<response>a</respons", "a"},
		{"<response>a</responsx", "a</responsx"},
		{"a b ", "a b"},
		{"a <b", "a <b"},
		{"é\xc3", "é"},
		{"<thought>\xf0\x9f\x9a", ""},
		{"<thought>x<action !", "x<action !"},
	} {
		var text strings.Builder
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		for i := range len(c.in) {
			d.Push([]byte(c.in[i:i+1]), func(e messages.Event) {
				text.Write(e.Text)
				if e.Action != nil {
					text.WriteString(short([]map[string]any{canonicalAction(t, e.Action)}))
				}
			})
		}
		if text.String() != c.want {
			t.Errorf("%q: so far %q, want %q", c.in, text.String(), c.want)
		}
	}
}

// Text is not copied: what is emitted lies in what was pushed.
func TestTextAliases(t *testing.T) {
	reply := []byte("<thought>one two\nthree</thought> between <response>four <b>five</b></response>")
	d := Dialect{}.NewDecoder(messages.TurnInfo{})
	d.Push(reply, func(e messages.Event) {
		if e.Kind == messages.EventUnitText && &e.Text[0] != &reply[e.Offset] {
			t.Errorf("%q at %d is a copy", e.Text, e.Offset)
		}
	})
}

// Each limit at, below and above its number, and a character that lies across it.
func TestLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	pad := func(n int) string { return strings.Repeat("x", n) }
	tag := func(before, mid, after string, n int) string {
		return before + mid + pad(n-len(before)-len(mid)-len(after)) + after
	}
	var replies []string
	for n := 4094; n <= 4098; n++ {
		for _, mid := range []string{"", "é", "\U0001f680"} {
			for _, tail := range []string{"", "<", "é</thought>"} {
				replies = append(
					replies, tag("<thought a='", "", mid+"'>", n)+tail, tag("<thought a='", mid, "", n)+tail, tag("<thought a='", "", mid, n)+tail,
					tag("a<response>b</response", "", "", 4096)[:12]+"</response"+strings.Repeat(" ", n-11)+">"+tail,
					"<thought>b</thought"+strings.Repeat(" ", n-10)+">"+tail, "<if></if"+strings.Repeat("\n", n-5)+">"+tail,
					"<action>{}</action"+strings.Repeat("\t", n-9)+">"+tail, "<action>{}</thought"+strings.Repeat("\t", n-10)+">"+tail,
				)
			}
		}
	}
	for n := 31; n <= 34; n++ {
		replies = append(replies, "<thought"+strings.Repeat(" a=1", n)+">x", "<thought"+strings.Repeat(" a", n), "<thought"+strings.Repeat(" a", n)+" ")
	}
	for n := 62; n <= 66; n++ {
		nest := strings.Repeat("[", n) + `"</action>"` + strings.Repeat("]", n)
		replies = append(replies, "<action>"+nest+"</action>", `<action>{"name":"t","parameters":{"x":`+nest+"}}</action>")
	}
	for n := 6; n <= 12; n++ {
		replies = append(replies, strings.Repeat("<thought>", n)+"x"+strings.Repeat("</thought>", n-1))
	}
	for n := MaxBodyBytes - 2; n <= MaxBodyBytes+2; n++ {
		for _, c := range []string{
			`{"name":"t","s":"` + pad(n-len(`{"name":"t","s":""}`)) + `"}`, `{"name":"t"}` + strings.Repeat(" ", n-len(`{"name":"t"}`)),
			strings.Repeat(" ", n), `{"name":"t","s":"` + pad(n-len(`{"name":"t","s":"`)) + `</action>x"}`, `{"name":"t","s":"` + pad(n-len(`{"name":"t","s":"`)-1) + `é"}`,
		} {
			replies = append(replies, "<action id=a>"+c+"</action>z")
		}
	}
	for _, reply := range replies {
		checkReply(t, r, []byte(reply))
	}
	t.Logf("%d replies", len(replies))
}

// What one action was does not reach into the next, and an id is known however many
// there are.
func TestManyActions(t *testing.T) {
	var reply, deps strings.Builder
	for round := range 2 {
		for i := range 30 {
			fmt.Fprintf(&reply, `<action id="i%d">{"name":"t"}</action>`, i)
			fmt.Fprintf(&deps, `"i%d",`, i)
		}
		big := strings.Repeat("x", MaxBodyBytes*2/3)
		fmt.Fprintf(&reply, `<action id="big%d">{"name":"t","s":"%s"}</action><action id="m%d">{"name":"t","depends_on":[%s"i0"]}</action>`, round, big, round, deps.String())
	}
	got := decode(t, Dialect{}, messages.FinishComplete, []byte(reply.String()))
	if err := sameAsReference(got.canonical, []byte(reply.String())); err != nil {
		t.Fatal(err)
	}
	if s := short(got.canonical); strings.Count(s, "action tool") != 34 || strings.Count(s, "! duplicate_id") != 30 || !strings.Contains(s, "i28 i29] 300s") {
		t.Error(s)
	}
}

// The limits can be set, and so can what a response is that does not say.
func TestSettings(t *testing.T) {
	x := Dialect{NotFinal: true, Limits: Limits{TagBytes: 20, BodyBytes: 20, JSONDepth: 1, ThoughtDepth: 1}}
	for in, want := range map[string]string{
		"<response>a</response>b":                          `response "a" complete; text "b"`,
		"<response final=true>a</response>":                `! bad_tag tag=response; text "<response final=true>a"; ! stray_close tag=response`,
		"<thought a='1234567'>x</thought>":                 `! bad_tag tag=thought; text "<thought a='1234567'>x"; ! stray_close tag=thought`,
		"<thought a='123456'>x</thought>":                  `thought "x"`,
		"<thought><thought>x":                              `! too_deep; thought "x"; ! unclosed_thought`,
		"<action>{\"name\":\"123456789\"}</action>":        `action tool sync #1 123456789 map[] key=<nil> deps=[] 300s retry=0 fail`,
		"<action>{\"name\":\"12345678901\"}</action>":      `! invalid_json id=#1`,
		"<action>{\"name\":[]}</action>":                   `! invalid_json id=#1`,
		"<action>                     </action>":           `! missing_body id=#1`,
		"<action>{\"name\":\"12345678901</action>8\"}</b>": `! invalid_json id=#1; text "8\"}</b>"`,
	} {
		if got := short(everyCut(t, x, in).canonical); got != want {
			t.Errorf("%q\n got %s\nwant %s", in, got, want)
		}
	}
}

// A limit that is none is the default, not a way to have none.
func TestNegativeLimits(t *testing.T) {
	x := Dialect{Limits: Limits{TagBytes: -1, BodyBytes: -1, JSONDepth: -1, ThoughtDepth: -1}}
	for _, v := range vectors(t) {
		reply := []byte(v.Input)
		if got, want := decode(t, x, messages.FinishComplete, reply).exact, decode(t, Dialect{}, messages.FinishComplete, reply).exact; got != want {
			t.Errorf("%q\ngot\n%swant\n%s", reply, got, want)
		}
	}
}

// What a reply may have is what Limits say, to the byte and level, and an error of what
// is over one of them names it, wherever the reply is cut. Tags and bodies are measured
// as they are read: a byte that is no UTF-8 is the three of U+FFFD.
func TestLimitsAreNamed(t *testing.T) {
	x := Dialect{Limits: Limits{TagBytes: 24, BodyBytes: 20, JSONDepth: 2, ThoughtDepth: 2}}
	const tag, body = `<thought a='%s'>`, `<action id=a>{"name":"%s"}</action>`
	for _, c := range []struct{ reply, want string }{
		{fmt.Sprintf(tag, "123456789a") + "x</thought>", ""},
		{fmt.Sprintf(tag, "123456789ab") + "x", "bad_tag/tag"},
		{fmt.Sprintf(tag, "1234567\xff") + "x</thought>", ""},
		{fmt.Sprintf(tag, "12345678\xff") + "x", "bad_tag/tag"},
		{"<thought a='\r'>x", "bad_tag/"},
		{fmt.Sprintf(body, "123456789"), ""},
		{fmt.Sprintf(body, "1234567890"), "invalid_json/body"},
		{fmt.Sprintf(body, "123456\xff"), ""},
		{fmt.Sprintf(body, "1234567\xff"), "invalid_json/body"},
		{`<action id=a>{"name":"a","b":12345`, "unclosed_action/body"},
		{`<action id=a>{"name":1x}</action>`, "invalid_json/"},
		{`<action id=a>{"a":[]}x</action>`, "invalid_json/"},
		{`<action id=a>{"a":[1]}</action>`, "missing_name/"},
		{`<action id=a>{"a":[[]]}</action>`, "invalid_json/json_depth"},
		{`<action id=a>{"a":[[1]]}</action><action id=b>{"a":x}</action>`, "invalid_json/json_depth invalid_json/"},
		{"<thought>a<thought>b</thought></thought>", "nested_thought/"},
		{"<thought>a<thought>b<thought>c</thought></thought></thought>", "nested_thought/ too_deep/thought_depth"},
	} {
		for size := 1; size <= len(c.reply); size++ {
			var got []string
			emit := func(e messages.Event) {
				if e.Kind == messages.EventParseError {
					got = append(got, e.Fault.Reason+"/"+e.Fault.Limit)
				}
			}
			d := x.NewDecoder(messages.TurnInfo{})
			for i := 0; i < len(c.reply); i += size {
				d.Push([]byte(c.reply[i:min(i+size, len(c.reply))]), emit)
			}
			d.End(messages.FinishComplete, emit)
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q in pieces of %d: %q, want %q", c.reply, size, got, c.want)
			}
		}
	}
}

// A reply over its bound is read to there, wherever it was cut, and says so.
func TestTooLarge(t *testing.T) {
	const reply = "<thought>abcé</thought>"
	for limit := 1; limit <= len(reply)+1; limit++ {
		var want string
		for size := 1; size <= len(reply); size++ {
			d := Dialect{}.NewDecoder(messages.TurnInfo{MaxReplyBytes: int64(limit)})
			var got, texts strings.Builder
			emit := func(e messages.Event) {
				texts.Write(e.Text)
				if e.Kind == messages.EventParseError {
					fmt.Fprintf(&got, "%s/%s@%d ", e.Fault.Code, e.Fault.Reason, e.Offset)
				}
			}
			for i := 0; i < len(reply); i += size {
				d.Push([]byte(reply[i:min(i+size, len(reply))]), emit)
			}
			d.End(messages.FinishComplete, emit)
			got.WriteString(texts.String())
			if over := strings.Contains(got.String(), fmt.Sprintf("ERR_QUOTA/stream_too_large@%d ", limit)); over != (limit < len(reply)) {
				t.Errorf("%d bytes of %d: %s", limit, len(reply), got.String())
			}
			if want == "" {
				want = got.String()
			}
			if got.String() != want {
				t.Errorf("%d bytes by %d: %s, want %s", limit, size, got.String(), want)
			}
		}
	}
}

// Work is linear and memory bounded, whatever the reply: each of these is made of
// what costs most, and ten times as much of it may not take more than that.
func TestHostileReplies(t *testing.T) {
	const size = 1 << 20
	for name, piece := range map[string]string{
		"brackets": "<", "half tags": "<action ", "openers": "<thought>", "closers": "</thought>", "lines": "\n ", "white space": " ",
		"bad bytes": "\xff", "cut characters": "\xf0\x9f", "feeds": "<context_feed id=a>", "skips": "<if>", "attributes": "<thought a a a a a a a>",
		"actions": "<action/>", "ids": "<action id=a/>", "quotes": `<action>{"`, "responses": "<thought>\n<response final=0></response>",
	} {
		reply := []byte(strings.Repeat(piece, size/len(piece)))
		events := 0
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		emit := func(messages.Event) { events++ }
		for rest := reply; len(rest) > 0; {
			n := min(1000, len(rest))
			d.Push(rest[:n], emit)
			rest = rest[n:]
		}
		d.End(messages.FinishComplete, emit)
		if events > 4*len(reply) {
			t.Errorf("%s: %d events", name, events)
		}
		x := d.(*decoder)
		if cap(x.held)+cap(x.arena) > 64<<10 {
			t.Errorf("%s: %d bytes held", name, cap(x.held)+cap(x.arena))
		}
	}
}

func TestFinish(t *testing.T) {
	for _, c := range []struct {
		f              messages.Finish
		reply, partial string
	}{
		{messages.FinishComplete, "text", "true"},
		{messages.FinishStop, "text", "true"},
		{messages.FinishLength, "text", "false"},
		{messages.FinishError, "text", "false"},
		{messages.FinishCancelled, "text", "false"},
		{messages.FinishComplete, "<thought>text", "false"},
		{messages.FinishComplete, "<response>text", "false"},
		{messages.FinishLength, "<response>text</response>", "true"},
		{messages.FinishLength, "<thought>text</thought>", "true"},
	} {
		var got string
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		emit := func(e messages.Event) {
			if e.Kind == messages.EventUnitEnd {
				got += fmt.Sprint(e.Complete)
				if e.Final && !e.Complete {
					t.Errorf("%s of %q: final and incomplete", c.f, c.reply)
				}
			}
		}
		d.Push([]byte(c.reply), emit)
		d.End(c.f, emit)
		if got != c.partial {
			t.Errorf("%s of %q: complete %s", c.f, c.reply, got)
		}
	}
}

func TestDecide(t *testing.T) {
	response := []messages.Unit{{Kind: messages.ResponseUnit}}
	talk := []messages.Unit{{Kind: messages.ThoughtUnit, Text: "x"}, {Kind: messages.TextUnit, Text: "y"}}
	call := []messages.Call{{ID: "a"}}
	rejected := []messages.ParseError{{Code: messages.ErrDialect, Reason: BadField, ID: "a"}}
	for _, c := range []struct {
		name string
		f    messages.Facts
		want messages.Decision
		code messages.Code
		idle bool
	}{
		{"a final response", messages.Facts{Finish: messages.FinishComplete, Units: response, Final: true}, messages.Done, "", false},
		{"and then the transport broke", messages.Facts{Finish: messages.FinishError, Units: response, Final: true}, messages.Done, "", false},
		{"and was cancelled, as it should be", messages.Facts{Finish: messages.FinishCancelled, Units: response, Final: true}, messages.Done, "", false},
		{"and errors before it", messages.Facts{Finish: messages.FinishComplete, Units: response, Final: true, Errors: rejected}, messages.Done, "", false},
		{"a breach", messages.Facts{Finish: messages.FinishComplete, Units: response, Final: true, Breach: messages.ErrTimeout}, messages.Halt, messages.ErrTimeout, false},
		{"the transport broke", messages.Facts{Finish: messages.FinishError, Units: response}, messages.Halt, messages.ErrModel, false},
		{"cancelled", messages.Facts{Finish: messages.FinishCancelled}, messages.Halt, messages.ErrCancelled, false},
		{"a response that is not final", messages.Facts{Finish: messages.FinishComplete, Units: response}, messages.Continue, "", false},
		{"cut at the length", messages.Facts{Finish: messages.FinishLength, Units: response}, messages.Continue, "", false},
		{"an action", messages.Facts{Finish: messages.FinishComplete, Calls: call}, messages.Continue, "", false},
		{"an action after an idle turn", messages.Facts{Finish: messages.FinishComplete, Calls: call, State: []byte(idle)}, messages.Continue, "", false},
		{"a response after an idle turn", messages.Facts{Finish: messages.FinishComplete, Units: response, State: []byte(idle)}, messages.Continue, "", false},
		{"talk", messages.Facts{Finish: messages.FinishComplete, Units: talk}, messages.Continue, "", true},
		{"nothing", messages.Facts{Finish: messages.FinishComplete}, messages.Continue, "", true},
		{"a rejected action", messages.Facts{Finish: messages.FinishComplete, Errors: rejected}, messages.Continue, "", true},
		{"talk again", messages.Facts{Finish: messages.FinishComplete, Units: talk, State: []byte(idle)}, messages.Halt, messages.ErrNoProgress, false},
		{"rejected again", messages.Facts{Finish: messages.FinishComplete, Errors: rejected, State: []byte(idle)}, messages.Halt, messages.ErrNoProgress, false},
	} {
		v := Dialect{}.Decide(c.f)
		if v.Decision != c.want || v.Code != c.code || v.Token != -1 || (string(v.State) == idle) != c.idle {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestDigest(t *testing.T) {
	out, scr := Dialect{}.Digest(messages.Facts{
		Units: []messages.Unit{{Kind: messages.ThoughtUnit, Text: "never"}, {Kind: messages.ResponseUnit, Text: "a \r\nb\n"}, {Kind: messages.TextUnit, Text: "nor this"}},
		Calls: []messages.Call{{Name: "t", Args: `{"a":1}`, State: messages.ActionOK, Value: "2"}},
	})
	if string(out) != "a\nb\nt {\"a\":1}" || string(scr) != "ok 2" {
		t.Errorf("%q, %q", out, scr)
	}
}

func TestTraits(t *testing.T) {
	if tr := (Dialect{}).Traits(); !tr.InStreamActions || tr.Carry || tr.GuardFinal || tr.AppendOnly || tr.MaxTurns != 10 || tr.Busy != messages.Enqueue || (Dialect{}).Name() != "cortex" {
		t.Errorf("%+v", tr)
	}
}

// Two decoders of one dialect share nothing.
func TestDecodersAreApart(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	a, b := compose(r), compose(r)
	wantA, wantB := decode(t, Dialect{}, messages.FinishComplete, a).exact, decode(t, Dialect{}, messages.FinishComplete, b).exact
	done := make(chan [2]string)
	for range 4 {
		go func() {
			done <- [2]string{decode(t, Dialect{}, messages.FinishComplete, a).exact, decode(t, Dialect{}, messages.FinishComplete, b).exact}
		}()
	}
	for range 4 {
		if got := <-done; got != [2]string{wantA, wantB} {
			t.Errorf("%q and %q: %q", a, b, got)
		}
	}
}
