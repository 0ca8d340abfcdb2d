package conform

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

const (
	echoCase = `{"name":"echo","program":"command\n  emit tool.test.echo(\"hi\")\nendcommand\n","emits":["hi"],"whispers":[],"outcome":"ok"}`
	badCase  = `{"name":"twice","program":"command\n  emit 1\n  whisper self, \"a\\tb\"\n  fail \"stop\"\nendcommand\n","emits":["2"],"whispers":[],"outcome":"error","error_kind":"type"}`
	leftCase = `{"name":"other","program":"command\n","emits":[],"whispers":[],"outcome":"ok","ns_a":"differs","ns_a_note":"elsewhere"}`
)

// The whole report of a folder with one of everything.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"vectors/README.md":        "# Notes\n",
		"vectors/NOTICE":           "whose it is\n",
		"vectors/.cache":           "x",
		"vectors/a.json":           "[" + echoCase + "," + badCase + "," + leftCase + "]",
		"vectors/later.json":       `{"format":"stile-jcs published/1"}`,
		"vectors/sub/strange.json": `{"cases":[{"name":"a","question":1,"answer":42}]}`,
		"vectors/sub/torn.json":    `[{"name":"a",`,
		"vectors/sub/jcs.dat":      `[{"name":"a","input":"eyB9","output":"e30="},{"name":"b","input":"e30=","output":"?"},{"name":"c","input":"e30="}]`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	s, err := Run(t.Context(), &out, []string{"vectors", "nowhere.json"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `note  vectors/.cache: ignored, a hidden file
note  vectors/NOTICE: ignored, a note
note  vectors/README.md: ignored, a note
FAIL  vectors/a.json: twice
      expected error type, emits ["2"]
      got      error fail, emits ["1"], whisper to "self" "a\tb": line 4:3: code 1: stop
FAIL  vectors/a.json: neuroscript: 1 passed, 1 failed, 1 not counted (ns_a: differs)
error vectors/later.json: ERR_CONFIG: format jcs published is not in this release
FAIL  vectors/sub/jcs.dat: b
      expected a case of format jcs documents
      got      malformed: output: ERR_CONFIG: a string does not fit here: illegal base64 data at input byte 0
FAIL  vectors/sub/jcs.dat: c
      expected a case of format jcs documents
      got      malformed: error: ERR_CONFIG: a case has either a canonical text or an error
FAIL  vectors/sub/jcs.dat: jcs documents: 1 passed, 2 failed
error vectors/sub/strange.json: ERR_CONFIG: unknown format: cases with the members answer, name, question
error vectors/sub/torn.json: ERR_CONFIG at byte 13: not a strict JSON document: unexpected EOF
error nowhere.json: ERR_CONFIG: cannot be read: no such file or directory
2 passed, 3 failed
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.Passed != 2 || s.Failed != 3 || s.LeftOut != 1 || s.Unsupported != 3 || s.Ignored != 3 || len(s.Problems) != 4 || s.OK() {
		t.Errorf("%+v", s)
	}
	wantFormats := []Count{
		{Format: "jcs documents", Files: 1, Passed: 1, Failed: 2},
		{Format: "neuroscript", Files: 1, Passed: 1, Failed: 1, LeftOut: 1},
	}
	if !slices.Equal(s.Formats, wantFormats) {
		t.Errorf("%+v", s.Formats)
	}
	for _, p := range s.Problems {
		var e *messages.Error
		if !errors.As(p, &e) || e.Code != messages.ErrConfig || e.File == "" {
			t.Errorf("%#v", p)
		}
	}
}

func TestRecognise(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"cases":[{"input":"","expect":{"ok":true}}]}`, "envelopes"},
		{`{"cases":[{"input_parts":[],"expect":{"ok":true}}],"format":1}`, "envelopes"},
		{`[{"line":"","context":{}}]`, "tokens"},
		{`{"keys":[],"cases":[{"output_lines":[]}]}`, "turns"},
		{`{"sequences":[]}`, "progress"},
		{`{"digests":[]}`, "progress"},
		{`[{"ieee":"0","json":"0"}]`, "jcs numbers"},
		{`[{"input":"","output":""}]`, "jcs documents"},
		{`[{"input":"","error":true}]`, "jcs documents"},
		{`{"cases":[{"program":""}]}`, "neuroscript"},
		{`{"cases":[{"id":"a","input":"","events":[]}]}`, "streaming"},
		{`{"format":"stile-streaming/1","cases":[]}`, "streaming"},
		{`{"cases":[{"id":"a","input":"","visible":"","error":"x"}]}`, "kitsu"},
		{`{"readme":[],"parse":[],"progress":[],"turn":[],"assemble":[]}`, "cogency"},
		{`{"format":"stile-streaming/2","cases":[]}`, `format: ERR_CONFIG: unknown format "stile-streaming/2"`},
		{`{"format":"stile-novel/1","cases":[]}`, `format: ERR_CONFIG: unknown format "stile-novel/1"`},
		{`{"format":2,"cases":[{"program":""}]}`, "format: ERR_CONFIG: version 2 of format neuroscript is not in this release"},
		{`{"cases":[]}`, "ERR_CONFIG: unknown format: an object without cases, with the members cases"},
		{`[]`, "ERR_CONFIG: unknown format: no case in it"},
		{`[1]`, "ERR_CONFIG: unknown format: an array whose first element is no case"},
		{`42`, "ERR_CONFIG: unknown format: no case in it"},
	} {
		d, fault := open([]byte(c.text))
		if fault != nil {
			t.Fatalf("%s: %v", c.text, fault)
		}
		f, fault := recognise(d)
		got := formats[f].name
		if fault != nil {
			got = fault.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

// What is wrong with a case or a file is said, with its place, and is never a pass.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`[{"input":"","expect":{"ok":true}},7]`, "#2\n      expected a case of format envelopes\n      got      malformed: ERR_CONFIG: a case is an object"},
		{`[{"input":"?","expect":{"ok":true}}]`, "malformed: input: ERR_CONFIG: a string does not fit here"},
		{`[{"input":"","input_parts":[],"expect":{"ok":true}}]`, "malformed: input: ERR_CONFIG: beside input_parts"},
		{`[{"input_parts":[{"b64":"YQ==","times":-1}],"expect":{"ok":true}}]`, "malformed: input_parts.0: ERR_CONFIG: an input is at most 16777216 bytes"},
		{`[{"input_parts":[{"b64":"YQ==","times":1},{"b64":"YWE=","times":9223372036854775807}],"expect":{"ok":true}}]`, "malformed: input_parts.1: ERR_CONFIG"},
		{`[{"input":"","expect":{"ok":false}}]`, "malformed: expect: ERR_CONFIG: a result is ok, or not ok with an error"},
		{`[{"input":"","expect":null}]`, "malformed: expect: ERR_CONFIG: missing"},
		{`[{"input":"","expect":{"ok":true},"accept":[{"error":"any"}]}]`, "malformed: expect: ERR_CONFIG: a result"},
		{`[{"input":"","expect":{"ok":true,"sections":{"OUTPUT":{"len":1}}}}]`, "malformed: expect.sections.OUTPUT: ERR_CONFIG"},
		{`[{"line":"x","context":{}}]`, "malformed: expect: ERR_CONFIG: missing"},
		{`[{"line":"x","context":{},"expect":{"valid":true}}]`, "malformed: context.now: ERR_CONFIG: missing"},
		{`[{"line":"x","context":null,"expect":{"valid":true}}]`, "malformed: context.now: ERR_CONFIG: missing"},
		{`[{"line":"x","context":{"now":1,"kids":["k"]},"expect":{"valid":true}}]`, `malformed: context.kids: ERR_CONFIG: key "k" is not listed in keys`},
		{`[{"line":null,"context":{"now":1},"expect":{"valid":true}}]`, "malformed: line: ERR_CONFIG: missing"},
		{`[{"line":"x","context":{"now":1},"expect":{"valid":false}}]`, "malformed: expect: ERR_CONFIG: a result"},
		{`{"keys":[{"kid":"k","alg":"none"}],"cases":[{"line":"x","context":{}}]}`, `error some.vectors: keys.k.alg: ERR_CONFIG: unknown algorithm "none"`},
		{`{"keys":[{"kid":"k","alg":"EdDSA","seed":"=="}],"cases":[{"line":"x","context":{}}]}`, "error some.vectors: keys.k.seed: ERR_CONFIG: not unpadded base64url"},
		{`{"keys":[{"kid":"k","alg":"EdDSA","seed":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","public":"AA"}],"cases":[{"output_lines":[]}]}`, "error some.vectors: keys.k.public: ERR_CONFIG: not the public half of seed"},
		{`{"keys":[{"kid":"k","alg":"HS256","secret":"AA"}],"cases":[{"output_lines":[]}]}`, "error some.vectors: "},
		{`{"keys":7,"cases":[{"output_lines":[]}]}`, "error some.vectors: keys: ERR_CONFIG: a number does not fit here"},
		{`[{"output_lines":[],"context":{"now":1},"expect":{"decision":"PERHAPS"}}]`, "malformed: expect.decision: ERR_CONFIG"},
		{`[{"output_lines":[],"context":{"now":1},"expect":{"decision":"HALT"}}]`, "malformed: expect.reason: ERR_CONFIG: HALT has a reason"},
		{`[{"output_lines":[],"context":{"now":1},"expect":{"decision":"DONE","reason":"ERR_QUOTA"}}]`, "malformed: expect.reason: ERR_CONFIG: only HALT"},
		{`[{"output_lines":null,"context":{"now":1}}]`, "malformed: output_lines: ERR_CONFIG: missing"},
		{`{"digests":[{"output":"x"}]}`, "malformed: digest_literal: ERR_CONFIG: missing"},
		{`{"digests":[{"digest_literal":"x"}]}`, "malformed: output: ERR_CONFIG: missing"},
		{`{"sequences":[{"n":2}]}`, "malformed: fires_at: ERR_CONFIG: missing"},
		{`{"sequences":[{"n":2,"fires_at":0}]}`, "malformed: turns: ERR_CONFIG: missing"},
		{`{"sequences":[{"fires_at":0}]}`, "malformed: n: ERR_CONFIG: missing"},
		{`{"sequences":[]}`, "error some.vectors: ERR_CONFIG: no case in it"},
		{`{"sequences":7,"digests":[]}`, "error some.vectors: sequences: ERR_CONFIG: a number does not fit here"},
		{`[{"ieee":"00","json":"0"}]`, "malformed: ieee: ERR_CONFIG"},
		{`[{"ieee":"0000000000000000","json":"0","error":true}]`, "malformed: error: ERR_CONFIG"},
		{`[{"ieee":"0000000000000000","error":false}]`, "malformed: error: ERR_CONFIG"},
		{`[{"input":null,"output":"e30="}]`, "malformed: input: ERR_CONFIG: missing"},
		{`[{"program":null,"emits":[],"whispers":[],"outcome":"ok"}]`, "malformed: program: ERR_CONFIG: missing"},
		{`[{"program":"","emits":[],"whispers":[],"outcome":"okay"}]`, "malformed: outcome: ERR_CONFIG"},
		{`[{"program":"","whispers":[],"outcome":"ok"}]`, "malformed: emits: ERR_CONFIG: missing"},
		{`[{"program":"","emits":[],"outcome":"ok"}]`, "malformed: whispers: ERR_CONFIG: missing"},
		{`[{"program":"","emits":[],"whispers":[],"outcome":"ok","error_kind":"type"}]`, "malformed: error_kind: ERR_CONFIG"},
		{`[{"program":"","program":""}]`, "error some.vectors: ERR_CONFIG at byte 15: not a strict JSON document: duplicate"},
		{"[{\"program\":\"\xff\"}]", "error some.vectors: ERR_CONFIG at byte"},
		{`[] []`, "error some.vectors: ERR_CONFIG at byte 3: not a strict JSON document"},
		{``, "error some.vectors: ERR_CONFIG at byte 0: not a strict JSON document"},
	} {
		s, report := runFile(t, "some.vectors", []byte(c.text))
		if !strings.Contains(report, c.want) || s.OK() || s.Failed+len(s.Problems) == 0 {
			t.Errorf("%s: %+v\n%s\nwant %s", c.text, s, report, c.want)
		}
	}
}

// Members that a format calls optional may be absent, further ones present.
func TestOptionalMembers(t *testing.T) {
	for _, text := range []string{
		`[{"input":"","expect":{"ok":false,"error":"any"},"later":[1],"upstream":{}}]`,
		`[{"input":"","expect":{"ok":true},"accept":[{"ok":true,"lints":["X"]},{"ok":false,"error":"any"}]}]`,
		`[{"line":"x","context":{"now":1},"expect":{"valid":false,"error":"ERR_TOKEN_PARSE"},"strength":"open"}]`,
		`[{"line":"x","context":{"now":1},"expect":{"valid":true},"accept":[{"valid":false,"error":"ERR_TOKEN_PARSE"}]}]`,
		`[{"output_lines":[],"context":{"now":1},"expect":{"decision":"HALT","reason":"ERR_TOKEN_MISSING"}}]`,
		`[{"output_lines":[],"context":{"now":1},"expect":{"decision":"HALT","reason":"ERR_QUOTA","reason_any":["ERR_TOKEN_MISSING"],"line":-1,"lints":[]}}]`,
		`[{"output_lines":["x"],"context":{"now":1},"expect":{"decision":"DONE","jti":"a","line":0},"accept":[{"decision":"HALT","reason":"ERR_TOKEN_MISSING","line":-1}]}]`,
		`{"digests":[{"output":"","digest_literal":"A038735CA1CCA6BB4BC227DE996B9FE097F0573B6C5C16FB4B71F9B3E8A52F26"}]}`,
		`{"digests":[{"output":"","digest_literal":"x","accept":["a038735ca1cca6bb4bc227de996b9fe097f0573b6c5c16fb4b71f9b3e8a52f26"]}]}`,
		`{"sequences":[{"n":2,"turns":[{"output":"a"},{"output":"a"}],"fires_at":2}]}`,
		`[{"ieee":"8000000000000000","json":"x","accept":["0"]}]`,
		`[{"input":"MQ==","output":"Mg==","accept":["MQ=="]}]`,
		`[{"input":"eA==","error":"why"}]`,
		`[{"program":"command\nendcommand","emits":["a"],"whispers":[],"outcome":"ok","accept":[{"emits":[],"whispers":[],"outcome":"ok"}]}]`,
		`[{"program":"command\nfail 1\nendcommand","emits":[],"whispers":[],"outcome":"error"}]`,
		`[{"program":"command\nclear_error\nendcommand","emits":[],"whispers":[],"outcome":"error","error_kind":"clear_violation"}]`,
		`[{"program":"command\nwhile true\nendwhile\nendcommand","emits":[],"whispers":[],"outcome":"error","error_kind":"resource"}]`,
		`[{"library":"func","program":"command\nendcommand","emits":[],"whispers":[],"outcome":"error","error_kind":"syntax"}]`,
		`[{"library":"func f() means\n on error do\n return 1\n endon\n fail 1\nendfunc","program":"command\ncall f()\nendcommand","emits":[],"whispers":[],"outcome":"error","error_kind":"return_violation"}]`,
	} {
		if s, report := runFile(t, "some.vectors", []byte(text)); !s.OK() || s.Passed != 1 {
			t.Errorf("%s\n%s", text, report)
		}
	}
}

func TestEveryKindOfProgramError(t *testing.T) {
	for kind, statement := range map[string]string{
		"syntax": "emit", "type": "emit nil + 1", "bounds": "emit [1][1]", "division_by_zero": "emit 1 / 0", "count_mismatch": "set a, b = [1]",
		"must_failed": "must 0", "fail": `fail "x"`, "arg_mismatch": "emit tool.test.echo(nil)", "func_not_found": "emit nope()",
		"tool_not_found": "emit tool.test.nope()", "tool_failed": `call tool.test.boom("x")`, "resource": `emit "a" * 1000000000`,
		"code_17": "emit 1e300 * 1e300", "ERR_ENV_SIZE": `emit "a" * 9000`,
	} {
		got := runProgram("", "command\n"+statement+"\nendcommand\n")
		if got.kind != kind || got.fault == nil {
			t.Errorf("%s: got %s", statement, got)
		}
	}
}

func TestNothingToRun(t *testing.T) {
	var out bytes.Buffer
	if _, err := Run(t.Context(), &out, nil, Options{}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("no path: %v", err)
	}
	if _, err := Run(t.Context(), &out, []string{"x"}, Options{FileBytes: -1}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a negative limit: %v", err)
	}
	s, err := Run(t.Context(), &out, []string{t.TempDir()}, Options{})
	if err != nil || s.OK() || !strings.HasSuffix(out.String(), "error ERR_CONFIG: no case was found\n0 passed, 0 failed\n") {
		t.Errorf("an empty folder: %+v, %v, %q", s, err, out.String())
	}
	// Cases that are not counted are no success either.
	if s, report := runFile(t, "some.vectors", []byte("["+leftCase+"]")); s.OK() || len(s.Problems) != 0 || s.LeftOut != 1 {
		t.Errorf("%+v\n%s", s, report)
	}
}

func TestFileBytes(t *testing.T) {
	text := []byte("[" + echoCase + "]")
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit int
		ok    bool
	}{{len(text), true}, {len(text) - 1, false}} {
		var out bytes.Buffer
		s, err := Run(t.Context(), &out, []string{path}, Options{FileBytes: int64(c.limit)})
		if err != nil || s.OK() != c.ok || !c.ok && !strings.Contains(out.String(), fmt.Sprintf("larger than %d bytes", c.limit)) {
			t.Errorf("%d: %+v, %v\n%s", c.limit, s, err, out.String())
		}
	}
}

// Links to files are followed, links to folders only from the command line.
func TestLinks(t *testing.T) {
	real, dir := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(real, "a.json"), []byte("["+echoCase+"]"), 0o600),
		os.Symlink(filepath.Join(real, "a.json"), filepath.Join(dir, "file")),
		os.Symlink(dir, filepath.Join(dir, "circle")),
		os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "nowhere")),
		os.Symlink(real, filepath.Join(real, "..", "entry")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	s, err := Run(t.Context(), &out, []string{dir}, Options{})
	if err != nil || s.Passed != 1 || len(s.Problems) != 2 || !strings.Contains(out.String(), "circle: ERR_CONFIG: a symbolic link to a folder is not followed") ||
		!strings.Contains(out.String(), "nowhere: ERR_CONFIG: cannot be read: no such file") {
		t.Errorf("%+v, %v\n%s", s, err, out.String())
	}
	out.Reset()
	if s, err := Run(t.Context(), &out, []string{filepath.Join(real, "..", "entry")}, Options{}); err != nil || !s.OK() || s.Passed != 1 {
		t.Errorf("%+v, %v\n%s", s, err, out.String())
	}
	out.Reset()
	if s, err := Run(t.Context(), &out, []string{os.DevNull}, Options{}); err != nil || s.OK() || !strings.Contains(out.String(), "not a regular file") {
		t.Errorf("%+v, %v\n%s", s, err, out.String())
	}
}

func TestPanicEndsTheCaseAlone(t *testing.T) {
	testTools["test.panic"] = testTools["test.none"]
	defer delete(testTools, "test.panic")
	broken := *testTools["test.none"]
	broken.Func = nil // calling it panics
	testTools["test.panic"] = &broken
	text := `[{"name":"bang","program":"command\n  emit tool.test.panic()\nendcommand\n","emits":[],"whispers":[],"outcome":"ok"},` + echoCase + `]`
	s, report := runFile(t, "some.vectors", []byte(text))
	if s.Passed != 1 || s.Failed != 1 || !strings.Contains(report, "FAIL  some.vectors: bang\n      expected an answer\n      got      panic: runtime error") {
		t.Errorf("%+v\n%s", s, report)
	}
}

// A run that is called off ends between two cases, with the reason and without the
// last line of a run that came to its end.
func TestRunIsCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	r := &run{out: bufio.NewWriter(&out), limit: 1 << 20, counts: make([]Count, len(formats))}
	judged := 0
	second := func() (verdict, error) {
		judged++
		cancel()
		return verdict{pass: true}, nil
	}
	first := func() (verdict, error) { judged++; return verdict{pass: true}, nil }
	r.cases(ctx, "a", 0, []testCase{{"first", first}, {"second", second}, {"third", first}})
	if judged != 2 || r.sum.Passed != 0 {
		t.Errorf("%d were judged, %+v", judged, r.sum)
	}
	s, err := Run(ctx, &out, []string{vectors, vectors + "/kitsu.json"}, Options{})
	if !errors.Is(err, context.Canceled) || s.Passed != 0 || out.Len() != 0 {
		t.Errorf("%+v, %v\n%s", s, err, out.String())
	}
}

func TestCuts(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100, 2048, 2049, 3000, 5000, 100_000, 1 << 20} {
		all := cuts(n)
		if len(all) == 0 || all[0] != 0 || all[len(all)-1] != n || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("%d: %v", n, all)
		}
		if n*n <= cutBytes && len(all) != n+1 {
			t.Errorf("%d: %d places, want all", n, len(all))
		}
		if n > 1 && !slices.Contains(all, n-1) {
			t.Errorf("%d: the last byte stays with the others", n)
		}
		if int64(len(all))*int64(n) > 3*cutBytes+3*int64(n) {
			t.Errorf("%d: %d places", n, len(all))
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriterError(t *testing.T) {
	if s, err := Run(t.Context(), full{}, []string{vectors}, Options{}); err == nil || err.Error() != "no space" || s.Passed == 0 {
		t.Errorf("%+v, %v", s.Passed, err)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain “text” \"q\" \\": "plain “text” \"q\" \\",
		"a\x1b[31mb\n\"":        `a\x1b[31mb\n"`,
		"right\u202eleft":       `right\u202eleft`,
		"bad\xff":               `bad\xff`,
	} {
		if got := visible(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("é", shownBytes)
	if got := visible(long); len(got) > shownBytes+40 || !strings.HasSuffix(got, fmt.Sprintf("é… (%d bytes)", len(long))) {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-40:])
	}
	for n := shownBytes - 1; n < shownBytes+8; n++ {
		if got := quoted(bytes.Repeat([]byte{0x80}, n)); !strings.HasPrefix(got, `"\x80`) {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// One file that could not be run spoils a run in which every case passed.
func TestProblemIsNoSuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(path, []byte("["+echoCase+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := Run(t.Context(), &out, []string{path, path + ".gone"}, Options{})
	if err != nil || s.OK() || s.Passed != 1 || s.Failed != 0 || !strings.HasSuffix(out.String(), "\n1 passed, 0 failed\n") {
		t.Errorf("%+v, %v\n%s", s, err, out.String())
	}
}

func TestTestTools(t *testing.T) {
	for call, want := range map[string]string{
		`echo([1, {"a": nil}])`:  `[1, {"a": nil}]`,
		`ADD("2", 0.5)`:          "2.5",
		`greet("you")`:           "hello, you",
		`greet("you", nil)`:      "hello, you",
		`greet("you", "")`:       ", you",
		`Greet("you", "hi")`:     "hi, you",
		`none()`:                 "",
		`pair()`:                 `[1, "two"]`,
		`record("7")`:            `{"id": 7, "tags": ["x", "y"]}`,
		`record(7.5)`:            "arg_mismatch",
		`add(1, "x")`:            "arg_mismatch",
		`greet()`:                "arg_mismatch",
		`boom("loud")`:           "tool_failed",
		`record({"id": 1}["x"])`: "arg_mismatch",
	} {
		got := runProgram("", "command\nemit tool.test."+call+"\nendcommand")
		if len(got.emits) == 1 && got.emits[0] != want || len(got.emits) == 0 && got.kind != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
}
