package conform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// object is a case as the tests change it.
type object = map[string]any

func (d *mutant) cases(t testing.TB) []object {
	t.Helper()
	var list []any
	for _, member := range []string{"cases", "digests", "sequences"} {
		if top, ok := d.doc.(object); ok && top[member] != nil {
			list = append(list, top[member].([]any)...)
		}
	}
	if top, ok := d.doc.([]any); ok {
		list = top
	}
	all := make([]object, len(list))
	for i, c := range list {
		all[i] = c.(object)
	}
	if len(all) == 0 {
		t.Fatal("no case in it")
	}
	return all
}

// mutant is a vector file to be changed.
type mutant struct{ doc any }

func loadMutant(t testing.TB, name string) *mutant {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(readVector(t, name)))
	d.UseNumber()
	m := new(mutant)
	if err := d.Decode(&m.doc); err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs the changed file under a name that says nothing.
func (d *mutant) run(t testing.TB) (Summary, string) {
	t.Helper()
	b, err := json.Marshal(d.doc)
	if err != nil {
		t.Fatal(err)
	}
	return runFile(t, "some.vectors", b)
}

func runFile(t testing.TB, name string, b []byte) (Summary, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := Run(t.Context(), &out, []string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, strings.ReplaceAll(out.String(), path, name)
}

// failures lists the names of failed cases in a report.
func failures(report string) []string {
	var names []string
	for line := range strings.Lines(report) {
		if rest, ok := strings.CutPrefix(line, "FAIL  some.vectors: "); ok && !strings.Contains(line, " passed, ") {
			names = append(names, strings.TrimSuffix(rest, "\n"))
		}
	}
	return names
}

func expect(c object) object { return c["expect"].(object) }

func with(members object, member string, value any) {
	if value == nil {
		delete(members, member)
		return
	}
	members[member] = value
}

// Each mutation changes one member of the first case it applies to, and exactly
// that case must fail. apply reports whether it applies.
var mutations = []struct {
	name, file string
	apply      func(c object) bool
}{
	{"envelope input", "envelopes.json", func(c object) bool {
		b, err := base64.StdEncoding.DecodeString(fmt.Sprint(c["input"]))
		if err != nil || expect(c)["ok"] != true {
			return false
		}
		c["input"] = base64.StdEncoding.EncodeToString(bytes.Replace(b, []byte("END>>>"), []byte("EMD>>>"), 1))
		return true
	}},
	{"envelope part", "envelopes.json", func(c object) bool {
		if c["name"] != "output-line-at-8192" {
			return false
		}
		c["input_parts"].([]any)[1].(object)["times"] = 8193
		return true
	}},
	{"envelope ok", "envelopes.json", func(c object) bool {
		ok := expect(c)["ok"] == true && c["accept"] == nil
		if ok {
			c["expect"] = object{"ok": false, "error": "any"}
		}
		return ok
	}},
	{"envelope error", "envelopes.json", func(c object) bool {
		ok := expect(c)["ok"] == false && c["accept"] == nil
		if ok {
			c["expect"] = object{"ok": true}
		}
		return ok
	}},
	{"envelope code", "envelopes.json", func(c object) bool {
		ok := expect(c)["error"] == "ERR_ENV_ORDER" && c["accept"] == nil
		if ok {
			expect(c)["error"] = "ERR_ENV_SIZE"
		}
		return ok
	}},
	{"envelope body", "envelopes.json", func(c object) bool {
		if s, _ := expect(c)["sections"].(object); s != nil && s["OUTPUT"] != nil && c["accept"] == nil {
			s["OUTPUT"] = "eA=="
			return true
		}
		return false
	}},
	{"envelope section missing", "envelopes.json", func(c object) bool {
		if s, _ := expect(c)["sections"].(object); s != nil && s["OUTPUT"] != nil && c["accept"] == nil {
			delete(s, "OUTPUT")
			return true
		}
		return false
	}},
	{"envelope section too many", "envelopes.json", func(c object) bool {
		if s, _ := expect(c)["sections"].(object); s != nil && s["OUTPUT"] == nil && c["accept"] == nil {
			s["OUTPUT"] = ""
			return true
		}
		return false
	}},
	{"envelope long body", "envelopes.json", longBody("len", json.Number("1"))},
	{"envelope long body hash", "envelopes.json", longBody("sha256", strings.Repeat("0", 64))},
	{"envelope lint missing", "envelopes.json", func(c object) bool {
		ok := expect(c)["lints"] != nil && c["accept"] == nil
		with(expect(c), "lints", nil)
		return ok
	}},
	{"envelope lint too many", "envelopes.json", func(c object) bool {
		ok := expect(c)["ok"] == true && expect(c)["lints"] == nil && c["accept"] == nil
		if ok {
			expect(c)["lints"] = []any{"LINT_DUP_SECTION_IGNORED"}
		}
		return ok
	}},

	{"token line", "tokens.json", func(c object) bool {
		if expect(c)["valid"] != true || c["accept"] != nil {
			return false
		}
		c["line"] = strings.Replace(c["line"].(string), ".", ".A", 1)
		return true
	}},
	{"token action", "tokens.json", validToken("action", "abort")},
	{"token jti", "tokens.json", validToken("jti", "other")},
	{"token jti missing", "tokens.json", validToken("jti", nil)},
	{"token now", "tokens.json", tokenContext("now", json.Number("1967225600"))},
	{"token sid", "tokens.json", tokenContext("session_id", "another")},
	{"token turn", "tokens.json", tokenContext("turn_index", json.Number("4"))},
	{"token nonce", "tokens.json", tokenContext("turn_nonce", "AAAAAAAAAAAAAAAAAAAAAA")},
	{"token kids", "tokens.json", tokenContext("kids", []any{"ed-visible-none"})},
	{"token error", "tokens.json", func(c object) bool {
		ok := expect(c)["error"] == "ERR_TOKEN_SCOPE" && c["accept"] == nil
		if ok {
			expect(c)["error"] = "ERR_TOKEN_TTL"
		}
		return ok
	}},
	{"token valid", "tokens.json", func(c object) bool {
		ok := expect(c)["valid"] == true && c["accept"] == nil
		if ok {
			c["expect"] = object{"valid": false, "error": "any"}
		}
		return ok
	}},
	{"token seen", "tokens.json", func(c object) bool {
		ok := expect(c)["valid"] == true && c["accept"] == nil
		if ok {
			c["context"].(object)["seen_jti"] = []any{expect(c)["jti"]}
		}
		return ok
	}},

	{"turn lines", "turns.json", func(c object) bool {
		if expect(c)["decision"] != "DONE" || c["accept"] != nil {
			return false
		}
		c["output_lines"] = append([]any{"one more line"}, c["output_lines"].([]any)...)
		return true
	}},
	{"turn decision", "turns.json", decided("decision", "CONTINUE")},
	{"turn jti", "turns.json", decided("jti", "other")},
	{"turn jti missing", "turns.json", decided("jti", nil)},
	{"turn line", "turns.json", decided("line", json.Number("7"))},
	{"turn line missing", "turns.json", decided("line", nil)},
	{"turn lint", "turns.json", decided("lints", []any{"LINT_MULTI_TOKENS", "LINT_DUP_SECTION_IGNORED"})},
	{"turn reason", "turns.json", halted("reason", "ERR_TIMEOUT")},
	{"turn reasons", "turns.json", halted("reason_any", []any{"ERR_TIMEOUT", "ERR_QUOTA"})},

	{"digest", "progress.json", func(c object) bool {
		s, ok := c["digest_literal"].(string)
		if ok {
			c["digest_literal"] = strings.Map(func(r rune) rune {
				if r == '0' {
					return '1'
				}
				return r
			}, s)
		}
		return ok && c["digest_literal"] != s
	}},
	{"digest output", "progress.json", func(c object) bool {
		c["output"] = "another line\n"
		return true
	}},
	{"digest scratch", "progress.json", func(c object) bool {
		c["scratch"] = "another line\n"
		return true
	}},
	{"fires late", "progress.json", fires(func(c object) { c["fires_at"] = json.Number("9") })},
	{"fires never", "progress.json", fires(func(c object) { c["fires_at"] = json.Number("0") })},
	{"fires after more", "progress.json", fires(func(c object) { c["n"] = json.Number("8") })},
	{"fires on progress", "progress.json", fires(func(c object) { c["turns"].([]any)[1].(object)["scratch"] = "new\n" })},

	{"number", "jcs/numbers.json", func(c object) bool { with(c, "json", "1e+00"); return true }},
	{"number bits", "jcs/numbers.json", func(c object) bool { with(c, "ieee", "4024000000000001"); return true }},
	{"number refused", "jcs/numbers.json", func(c object) bool {
		with(c, "error", true)
		with(c, "json", nil)
		return true
	}},
	{"number not refused", "jcs/numbers.json", func(c object) bool {
		ok := c["error"] != nil
		if ok {
			with(c, "error", nil)
			with(c, "json", "0")
		}
		return ok
	}},
	{"document output", "jcs/documents.json", func(c object) bool { with(c, "output", "e30x"); return true }},
	{"document input", "jcs/documents.json", func(c object) bool { with(c, "input", "e30x"); return true }},
	{"document valid", "jcs/invalid.json", func(c object) bool { with(c, "input", "e30="); return true }},

	{"program", "neuroscript/operators.json", plainProgram("program", "command\nendcommand\n")},
	{"program emit", "neuroscript/operators.json", plainProgram("emits", []any{"other"})},
	{"program emit too many", "neuroscript/operators.json", plainProgram("emits", []any{"other", "other", "x"})},
	{"program no emit", "neuroscript/operators.json", plainProgram("emits", []any{})},
	{"program whisper", "neuroscript/operators.json", plainProgram("whispers", []any{object{"target": "self", "text": "x"}})},
	{"program outcome", "neuroscript/operators.json", plainProgram("outcome", "error")},
	{"program kind", "neuroscript/operators.json", func(c object) bool {
		ok := c["error_kind"] == "type" && c["ns_a"] == nil
		if ok {
			c["error_kind"] = "bounds"
		}
		return ok
	}},
	{"program succeeds", "neuroscript/operators.json", func(c object) bool {
		ok := c["error_kind"] != nil && c["ns_a"] == nil
		if ok {
			delete(c, "error_kind")
			c["outcome"] = "ok"
		}
		return ok
	}},
	{"program syntax", "neuroscript/control.json", func(c object) bool {
		ok := c["error_kind"] == "syntax" && c["ns_a"] == nil
		if ok {
			c["error_kind"] = "type"
		}
		return ok
	}},
	{"program differs no more", "neuroscript/control.json", func(c object) bool {
		ok := c["ns_a"] != nil && c["outcome"] == "error"
		if ok {
			delete(c, "ns_a")
		}
		return ok
	}},
	{"program library", "neuroscript/functions.json", func(c object) bool {
		ok := c["library"] != nil && c["outcome"] == "ok"
		if ok {
			delete(c, "library")
		}
		return ok
	}},
}

func longBody(member string, value any) func(object) bool {
	return func(c object) bool {
		s, _ := expect(c)["sections"].(object)
		for _, body := range s {
			if long, ok := body.(object); ok && c["accept"] == nil {
				long[member] = value
				return true
			}
		}
		return false
	}
}

func validToken(member string, value any) func(object) bool {
	return func(c object) bool {
		ok := expect(c)["valid"] == true && c["accept"] == nil
		if ok {
			with(expect(c), member, value)
		}
		return ok
	}
}

func tokenContext(member string, value any) func(object) bool {
	return func(c object) bool {
		ok := expect(c)["valid"] == true && c["accept"] == nil
		if ok {
			c["context"].(object)[member] = value
		}
		return ok
	}
}

func decided(member string, value any) func(object) bool {
	return func(c object) bool {
		ok := expect(c)["decision"] == "DONE" && c["accept"] == nil
		if ok {
			with(expect(c), member, value)
		}
		return ok
	}
}

func halted(member string, value any) func(object) bool {
	return func(c object) bool {
		ok := expect(c)[member] != nil && c["accept"] == nil
		if ok {
			expect(c)[member] = value
		}
		return ok
	}
}

func fires(change func(object)) func(object) bool {
	return func(c object) bool {
		ok := c["fires_at"] == json.Number("3") && c["n"] == json.Number("3") && len(c["turns"].([]any)) == 3
		if ok {
			change(c)
		}
		return ok
	}
}

func plainProgram(member string, value any) func(object) bool {
	return func(c object) bool {
		ok := c["outcome"] == "ok" && c["ns_a"] == nil
		if ok {
			c[member] = value
		}
		return ok
	}
}

func TestMutatedVectorFails(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			whole := loadMutant(t, m.file)
			clean, _ := whole.run(t)
			if clean.Failed != 0 || clean.Passed == 0 {
				t.Fatalf("before the mutation: %+v", clean)
			}
			all := whole.cases(t)
			i := slices.IndexFunc(all, m.apply)
			if i < 0 {
				t.Fatal("the mutation applies to no case")
			}
			got, report := whole.run(t)
			name := fmt.Sprint(all[i]["name"])
			switch m.file {
			case "progress.json":
				if all[i]["fires_at"] != nil {
					name = "sequence " + name
				} else {
					name = "digest " + name
				}
			case "jcs/numbers.json":
				name = fmt.Sprint(all[i]["ieee"])
			}
			if failed := failures(report); len(failed) != 1 || failed[0] != name {
				t.Errorf("failed %q, want %q alone", failed, name)
			}
			if got.Failed != 1 || got.OK() || !strings.HasSuffix(report, fmt.Sprintf("\n%d passed, 1 failed\n", got.Passed)) {
				t.Errorf("%+v\n%s", got, report)
			}
			if strings.Contains(report, "malformed") {
				t.Errorf("the mutant was not judged:\n%s", report)
			}
		})
	}
}

// With every expectation turned to its opposite nothing passes any more.
func TestEveryCaseCanFail(t *testing.T) {
	opposite := func(c object) {
		delete(c, "accept")
		switch e, _ := c["expect"].(object); {
		case e["ok"] == true, e["valid"] == true:
			c["expect"] = object{"ok": false, "valid": false, "error": "any"}
		case e["ok"] == false:
			c["expect"] = object{"ok": true}
		case e["valid"] == false:
			c["expect"] = object{"valid": true, "action": "done", "jti": "x"}
		case e["decision"] == "HALT":
			c["expect"] = object{"decision": "DONE", "line": 0, "jti": "x"}
		case e["decision"] != nil:
			c["expect"] = object{"decision": "HALT", "reason": "ERR_TOKEN_MISSING"}
		case c["digest_literal"] != nil:
			c["digest_literal"] = c["digest"].(string)[1:] + "0"
		case c["fires_at"] != nil:
			c["fires_at"] = 100
		case c["error"] != nil:
			delete(c, "error")
			c["json"], c["output"] = "0", "e30="
		case c["json"] != nil:
			c["json"] = c["json"].(string) + "0"
		case c["output"] != nil:
			c["output"] = "eA=="
		case c["emits"] != nil:
			c["emits"] = append(c["emits"].([]any), "x")
		}
	}
	for _, file := range []string{
		"envelopes.json", "tokens.json", "turns.json", "progress.json", "jcs/numbers.json", "jcs/documents.json", "jcs/invalid.json",
		"neuroscript/builtins.json", "neuroscript/collections.json", "neuroscript/control.json", "neuroscript/functions.json",
		"neuroscript/literals.json", "neuroscript/operators.json", "neuroscript/tools.json",
	} {
		m := loadMutant(t, file)
		all := m.cases(t)
		for _, c := range all {
			opposite(c)
		}
		s, report := m.run(t)
		if s.Passed != 0 || s.Failed+s.LeftOut != len(all) || strings.Contains(report, "malformed") {
			t.Errorf("%s: %d passed, %d failed, %d not counted\n%s", file, s.Passed, s.Failed, s.LeftOut, report)
		}
	}
}

func TestMutatedPublishedDocumentFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir string) error
		want   string
	}{
		{"output", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "output", "weird.json"), []byte("{}"), 0o600)
		}, "spells other bytes"},
		{"outhex", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "outhex", "weird.txt"), []byte("7b 7d\n"), 0o600)
		}, "spells other bytes"},
		{"hex", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "outhex", "weird.txt"), []byte("7b 7"), 0o600)
		}, "not hexadecimal"},
		{"input", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "input", "weird.json"), []byte(` { } `), 0o600)
		}, `got      "{}"`},
		{"missing output", func(dir string) error { return os.Remove(filepath.Join(dir, "output", "weird.json")) }, "output: ERR_CONFIG: no document of this name"},
		{"missing input", func(dir string) error { return os.Remove(filepath.Join(dir, "input", "weird.json")) }, "input: ERR_CONFIG: no document of this name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, part := range publishedParts {
				if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(vectors+"/jcs/"+part)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			s, err := Run(t.Context(), &out, []string{dir}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if s.Passed != 5 || s.Failed != 1 || !strings.Contains(out.String(), ": weird\n") || !strings.Contains(out.String(), c.want) {
				t.Errorf("%+v\n%s", s, out.String())
			}
		})
	}
}
