package conform

import (
	"bufio"
	"bytes"
	"testing"
)

// FuzzFile gives arbitrary bytes as a vector file: whatever they are, every case
// is counted once, nothing panics, and an unjudged file is a problem.
func FuzzFile(f *testing.F) {
	for _, name := range []string{"jcs/documents.json", "jcs/invalid.json", "neuroscript/builtins.json", "streaming.json"} {
		f.Add(readVector(f, name))
	}
	for _, s := range []string{
		"[" + echoCase + "," + badCase + "," + leftCase + "]",
		`{"keys":[{"kid":"k","alg":"Ed25519","seed":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}],"cases":[{"line":"x","context":{"now":1,"kids":["k"]},"expect":{"valid":true}}]}`,
		`[{"output_lines":["<<<NSMAG:V3:"],"context":{"now":1},"expect":{"decision":"HALT","reason_any":["ERR_TOKEN_PARSE"]},"accept":[]}]`,
		`[{"input_parts":[{"b64":"YQ==","times":3}],"expect":{"ok":true,"sections":{"OUTPUT":{"len":1,"sha256":""}},"lints":[]}}]`,
		`{"digests":[{"output":"","digest_literal":"a"}],"sequences":[{"n":3,"turns":[{"output":"a"}],"fires_at":0}]}`,
		`[{"ieee":"7ff0000000000000","error":true}]`,
		`[{"input":"<action>{\"name\":\"t\"}</action>","events":[{"ev":"action"}]}]`, `{"format":"stile-kitsu/1"}`, `[1]`, `{"format":{}}`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, fault := open(b)
		if fault != nil {
			if fault.Code == "" || fault.Error() == "" {
				t.Fatalf("%#v", fault)
			}
			return
		}
		i, fault := recognise(d)
		if fault != nil || formats[i].cases == nil {
			return
		}
		all, err := formats[i].cases(d)
		if err != nil {
			return
		}
		var out bytes.Buffer
		r := &run{out: bufio.NewWriter(&out), limit: 1 << 20, counts: make([]Count, len(formats))}
		r.cases(t.Context(), "fuzzed", i, all)
		if err := r.out.Flush(); err != nil {
			t.Fatal(err)
		}
		if r.panics > 0 {
			t.Fatalf("a case panicked:\n%s", out.String())
		}
		if n := r.sum.Passed + r.sum.Failed + r.sum.LeftOut; n != len(all) || n == 0 {
			t.Fatalf("%d cases counted of %d", n, len(all))
		}
		for _, c := range out.String() {
			if c < ' ' && c != '\n' {
				t.Fatalf("an unprintable character in %q", out.String())
			}
		}
	})
}
