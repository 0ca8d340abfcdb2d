package aeiou

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// referenceUserdata is §4 by the library, slowly: does b satisfy the schema?
func referenceUserdata(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))
	if d.PeekKind() != '{' {
		return errors.New("no object")
	}
	seen := map[string]jsontext.Kind{}
	name, done := "", false
	for n := 0; ; n++ {
		tok, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if d.StackDepth() > MaxUserdataDepth {
			return errors.New("deep")
		}
		if done {
			return errors.New("more")
		}
		done = d.StackDepth() == 0
		if d.StackDepth() == 1 && n > 0 {
			if _, count := d.StackIndex(1); count%2 == 1 {
				name = tok.String()
				if seen[name] = d.PeekKind(); d.PeekKind() == 0 {
					return errors.New("no value")
				}
			}
		}
	}
	if k, ok := seen["brief"]; ok && k != '"' {
		return errors.New("brief")
	}
	if seen["subject"] != '"' || seen["fields"] != '{' {
		return errors.New("members")
	}
	return nil
}

func nested(n int) string { // objects and arrays, n deep with the outer object
	s := ""
	for i := 1; i < n; i++ {
		if i%2 == 0 {
			s += `[`
		} else {
			s += `{"a":`
		}
	}
	s += "1"
	for i := n - 1; i > 0; i-- {
		if i%2 == 0 {
			s += `]`
		} else {
			s += `}`
		}
	}
	return `{"subject":"","fields":` + s + `}`
}

var userdataSamples = []struct {
	in     string
	offset int64 // of the refusal, -1 when accepted
}{
	{goodUserdata, -1},
	{" \t\r\n" + goodUserdata + " \t\r\n", -1},
	{`{"subject":"","brief":"","fields":{"a":[1,-0,0.5,1e3,1E+2,1e-2,true,false,null,{},[]]},"x":null}`, -1},
	{`{"\u0073ubject":"s","fie\u006Cds":{}}`, -1},
	{`{"subject":"\"\\\/\b\f\n\r\t\u0000\ud83d\ude80é","fields":{}}`, -1},
	{`{"subject":"` + "\u007f\u2028" + `","fields":{}}`, -1},
	{`{"subject":"s","fields":{},"Subject":1,"FIELDS":2}`, -1},
	{`{"subject":"s","fields":{"a":1,"A":1,"a ":1,"":1}}`, -1},
	{`{"subject":"s","fields":{"a":{"a":{"a":1}}}}`, -1},
	{nested(MaxUserdataDepth), -1},
	{"", 0},
	{" ", 1},
	{"{", 1},
	{"[]", 0},
	{`"x"`, 0},
	{"null", 0},
	{"{}", 0},
	{bom + goodUserdata, 0},
	{`{"subject":"s"}`, 0},
	{`{"fields":{}}`, 0},
	{`{"subject":1,"fields":{}}`, 11},
	{`{"subject":null,"fields":{}}`, 11},
	{`{"subject":["a"],"fields":{}}`, 11},
	{`{"subject":"s","fields":[]}`, 24},
	{`{"subject":"s","fields":null}`, 24},
	{`{"subject":"s","fields":"{}"}`, 24},
	{`{"brief":null,"subject":"s","fields":{}}`, 9},
	{`{"br\u0069ef":7,"subject":"s","fields":{}}`, 14},
	{`{"subject":"s","fields":{},}`, 27},
	{`{"subject":"s","fields":{}`, 26},
	{`{"subject":"s" "fields":{}}`, 15},
	{`{"subject"="s","fields":{}}`, 10},
	{`{subject:"s","fields":{}}`, 1},
	{`{'subject':"s","fields":{}}`, 1},
	{`{"subject":"s","fields":{}}{}`, 27},
	{goodUserdata + " tail", 28},
	{`{"subject":"s", // c` + "\n" + `"fields":{}}`, 16},
	{`{"subject":"s","fields":{"a":[1,]}}`, 32},
	{`{"subject":"s","fields":{"a":[,1]}}`, 30},
	{`{"subject":"s","fields":{"a":[1 2]}}`, 32},
	{`{"subject":"s","fields":{"a":[1}}`, 31},
	{`{"subject":"s","fields":{"a":}}`, 29},
	{`{"subject":"s","fields":{"a"}}`, 28},
	{`{"subject":"s","fields":{,}}`, 25},
	{`{"subject":"a` + "\n" + `b","fields":{}}`, 13},
	{`{"subject":"\x41","fields":{}}`, 12},
	{`{"subject":"\u12g4","fields":{}}`, 12},
	{`{"subject":"\u12`, 12},
	{`{"subject":"a\`, 13},
	{`{"subject":"\ud800","fields":{}}`, 12},
	{`{"subject":"\udc00","fields":{}}`, 12},
	{`{"subject":"\ud800\ud800","fields":{}}`, 12},
	{`{"subject":"\udc00\udc00","fields":{}}`, 12},
	{`{"subject":"\ud800\ue000","fields":{}}`, 12},
	{`{"subject":"\ud800\uffff","fields":{}}`, 12},
	{"{\"subject\":\"\x1f\",\"fields\":{}}", 12},
	{`{"subject":"\ud800\n","fields":{}}`, 12},
	{`{"subject":"s","fields":{"\uDBFFx":1}}`, 26},
	{`{"subject":"a","subject":"b","fields":{}}`, 15},
	{`{"subject":"a","fields":{},"\u0066ields":{}}`, 27},
	{`{"subject":"s","fields":{"k":{"x":1,"y":2,"x":3}}}`, 42},
	{`{"subject":"s","fields":{"é":1,"\u00e9":2}}`, 32},
	{`{"subject":"s","fields":{"a":01}}`, 30},
	{`{"subject":"s","fields":{"a":+1}}`, 29},
	{`{"subject":"s","fields":{"a":.5}}`, 29},
	{`{"subject":"s","fields":{"a":5.}}`, 31},
	{`{"subject":"s","fields":{"a":1e}}`, 31},
	{`{"subject":"s","fields":{"a":-}}`, 30},
	{`{"subject":"s","fields":{"a":NaN}}`, 29},
	{`{"subject":"s","fields":{"a":tru}}`, 29},
	{`{"subject":"s","fields":{"a":nulL}}`, 29},
	{nested(MaxUserdataDepth + 1), 214},
	{"{\"subject\":\"\xff\",\"fields\":{}}", 12},
	{"{\"subject\":\"s\",\"fields\":{}}\x00", 27},
}

func TestCheckUserdata(t *testing.T) {
	for _, c := range userdataSamples {
		err := CheckUserdata([]byte(c.in))
		if ref := referenceUserdata([]byte(c.in)); (err == nil) != (ref == nil) {
			t.Errorf("%.80q: %v, the reference says %v", c.in, err, ref)
		}
		if c.offset < 0 {
			if err != nil {
				t.Errorf("%.80q: %v", c.in, err)
			}
			continue
		}
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrUserdataSchema || e.Offset != c.offset || e.Line != 1+strings.Count(c.in[:e.Offset], "\n") {
			t.Errorf("%.80q: %v, want offset %d", c.in, err, c.offset)
		}
	}
	if err, ok := errors.AsType[*messages.Error](CheckUserdata([]byte("\xff"))); !ok || err.Reason != "NON_UTF8" {
		t.Errorf("not UTF-8: %v", err)
	}
	if err := CheckUserdata(bytes.Repeat([]byte{' '}, MaxSectionBytes+1)); messages.CodeOf(err) != messages.ErrEnvSize {
		t.Errorf("too big: %v", err)
	}
}

// Objects wider than the pairwise comparison, with and without a repetition,
// spelled plainly or by an escape.
func TestWideObjects(t *testing.T) {
	for _, n := range []int{fewNames - 1, fewNames, fewNames + 1, 33, 1000} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"name%d":%d,`, i*7919%n, i)
		}
		open, rest := `{"subject":"s","fields":{`+b.String(), `}}`
		if err := CheckUserdata([]byte(open + `"z":0` + rest)); err != nil {
			t.Errorf("%d names: %v", n, err)
		}
		for _, again := range []string{`"name3":0`, `"n\u0061me3":0`, `"name0":0`, fmt.Sprintf(`"name%d":0`, n-1)} {
			err := CheckUserdata([]byte(open + again + rest))
			var e *messages.Error
			if !errors.As(err, &e) || e.Offset != int64(len(open)) {
				t.Errorf("%d names and %s: %v, want offset %d", n, again, err, len(open))
			}
		}
	}
}

func TestUserdataAllocations(t *testing.T) {
	in := []byte(`{"subject":"s","fields":{"a":{"b":[1,2,{"c":"d"}]},"e":"f\n"}}`)
	if n := testing.AllocsPerRun(100, func() { _ = CheckUserdata(in) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// Mutations of good documents reach deeper than random bytes.
func TestUserdataAgainstReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const alphabet = "{}[]\",:\\u0dDe8 1-+.tfn\n\xc3\xa9"
	for range 50000 {
		b := []byte(userdataSamples[r.IntN(len(userdataSamples))].in)
		for range 1 + r.IntN(3) {
			if len(b) == 0 {
				break
			}
			i := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = alphabet[r.IntN(len(alphabet))]
			case 1:
				b = append(b[:i], b[i+1:]...)
			default:
				b = append(b[:i], append([]byte{alphabet[r.IntN(len(alphabet))]}, b[i:]...)...)
			}
		}
		if err, ref := CheckUserdata(b), referenceUserdata(b); (err == nil) != (ref == nil) {
			t.Fatalf("%q: %v, the reference says %v", b, err, ref)
		}
	}
}

func TestCheckInput(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"hello", `{"subject":"message","fields":{"text":"hello"}}`},
		{"", `{"subject":"message","fields":{"text":""}}`},
		{"a\"b\\c\nd\re\tf\bg\fh\x01\x1f/<>&é🚆\u2028\x7f", `{"subject":"message","fields":{"text":"a\"b\\c\nd\re\tf\bg\fh\u0001\u001f/<>&é🚆` + "\u2028\x7f" + `"}}`},
		{markEnd + "\n" + markActions, `{"subject":"message","fields":{"text":"` + markEnd + `\n` + markActions + `"}}`},
		{goodUserdata, goodUserdata},
		{"\n " + goodUserdata + "\n", "\n " + goodUserdata + "\n"},
		{`{"\u0073ubject":"s","fields":{}}`, `{"\u0073ubject":"s","fields":{}}`},
		{`{"subject":"s"}`, `{"subject":"message","fields":{"text":"{\"subject\":\"s\"}"}}`},
		{`{"subject":"s","fields":{}`, `{"subject":"message","fields":{"text":"{\"subject\":\"s\",\"fields\":{}"}}`},
		{`{"subject":"s","fields":{}} and so on`, `{"subject":"message","fields":{"text":"{\"subject\":\"s\",\"fields\":{}} and so on"}}`},
		{`{"a":{"subject":"s","fields":{}}}`, `{"subject":"message","fields":{"text":"{\"a\":{\"subject\":\"s\",\"fields\":{}}}"}}`},
		{`["subject","fields"]`, `{"subject":"message","fields":{"text":"[\"subject\",\"fields\"]"}}`},
	} {
		in := messages.Input{Text: c.text, Key: "k", User: "u", Policy: messages.Enqueue}
		got, err := Dialect{}.CheckInput(in)
		want := messages.Input{Userdata: c.want, Key: "k", User: "u", Policy: messages.Enqueue}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %v", c.text, got, err)
		}
		if err := CheckUserdata([]byte(got.Userdata)); err != nil {
			t.Errorf("%q: what came out is refused: %v", c.text, err)
		}
		if again, err := (Dialect{}).CheckInput(got); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q: checked twice it is %+v %v", c.text, again, err)
		}
	}
}

func TestCheckInputRefuses(t *testing.T) {
	big := strings.Repeat("x", MaxSectionBytes)
	room := MaxSectionBytes - len(TextUserdata(""))
	for _, c := range []struct {
		name   string
		in     messages.Input
		code   messages.Code
		reason string
		field  string
		offset int64
	}{
		{"text not UTF-8", messages.Input{Text: "ab\xff"}, messages.ErrUserdataSchema, "NON_UTF8", "text", 2},
		{"userdata not UTF-8", messages.Input{Userdata: "{\"\xff\"}"}, messages.ErrUserdataSchema, "NON_UTF8", "userdata", 2},
		{"subject a number", messages.Input{Text: `{"subject":1,"fields":{}}`}, messages.ErrUserdataSchema, "", "text", 11},
		{"fields a list", messages.Input{Userdata: `{"subject":"s","fields":[]}`}, messages.ErrUserdataSchema, "", "userdata", 24},
		{"duplicate", messages.Input{Text: `{"subject":"s","fields":{},"fields":{}}`}, messages.ErrUserdataSchema, "", "text", 27},
		{"lone surrogate before the members", messages.Input{Text: `{"x":"\ud800","subject":"s","fields":{}}`}, messages.ErrUserdataSchema, "", "text", 6},
		{"too deep before the members", messages.Input{Text: `{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `,"subject":"s","fields":{}}`}, messages.ErrUserdataSchema, "", "text", 5 + 63},
		{"userdata is no object", messages.Input{Userdata: `hello`}, messages.ErrUserdataSchema, "", "userdata", 0},
		{"marker line", messages.Input{Userdata: "{\n" + markEnd + " \n}"}, messages.ErrEnvMarkersInvalid, "", "userdata", 2},
		{"text too big", messages.Input{Text: big + "x"}, messages.ErrEnvSize, "", "text", 0},
		{"text too big once escaped", messages.Input{Text: strings.Repeat("\n", room/2) + "xx"}, messages.ErrEnvSize, "", "text", 0},
		{"userdata too big", messages.Input{Userdata: big + "x"}, messages.ErrEnvSize, "", "userdata", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Dialect{}.CheckInput(c.in)
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != c.code || e.Reason != c.reason || e.Field != c.field || e.Offset != c.offset || !e.HasOffset || !reflect.DeepEqual(got, c.in) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := (Dialect{}).CheckInput(messages.Input{Text: strings.Repeat("x", room)}); err != nil {
		t.Errorf("a text that just fits: %v", err)
	}
	if _, err := (Dialect{}).CheckInput(messages.Input{Text: "a", Userdata: goodUserdata}); messages.CodeOf(err) != messages.ErrUserdataSchema {
		t.Errorf("both: %v", err)
	}
}
