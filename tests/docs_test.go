// What holds the documentation true stands in a package of its own: it shares no
// helper with the proofs beside it.
package tests_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/seed14be6753/stile/bench/workload"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/web"
	"github.com/seed14be6753/stile/tools/workspace"
)

// read returns a file of the repository; its path is relative to the root.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pages lists the documentation, relative to the root.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "tests/testdata" || path == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(all, "README.md") || !slices.Contains(all, "docs/reference/README.md") {
		t.Fatalf("the documentation is not here: %v", all)
	}
	return all
}

// section returns what stands under a heading, up to the next one of its level or a
// higher one.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, body, ok := strings.Cut(read(t, page), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	level := strings.Count(strings.Fields(heading)[0], "#")
	var out []string
	for line := range strings.SplitSeq(body, "\n") {
		if h := headingOf(line); h > 0 && h <= level {
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func headingOf(line string) int {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n == 0 || n == len(line) || line[n] != ' ' {
		return 0
	}
	return n
}

// rows returns the tables of a text by the code in their first cell; several codes in
// one cell share the row.
func rows(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for _, m := range codeSpan.FindAllStringSubmatch(cells[0], -1) {
			all[m[1]] = cells
		}
	}
	return all
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// same compares what the documentation lists with what there is.
func same(t *testing.T, what string, documented, there []string) {
	t.Helper()
	for _, s := range there {
		if !slices.Contains(documented, s) {
			t.Errorf("%s %s is not documented", what, s)
		}
	}
	for _, s := range documented {
		if !slices.Contains(there, s) {
			t.Errorf("%s %s is documented and does not exist", what, s)
		}
	}
	if len(there) == 0 {
		t.Errorf("there is no %s at all; the test looks in the wrong place", what)
	}
}

func keys[V any](m map[string]V) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func TestDocsCodes(t *testing.T) {
	table := rows(strings.Split(section(t, "docs/reference/codes.md", "## Codes"), "### Reasons")[0])
	var there []string
	for _, c := range messages.Codes() {
		there = append(there, string(c.Code))
		row := table[string(c.Code)]
		if row == nil {
			continue // reported below
		}
		want := []string{"`" + string(c.Code) + "`", c.Meaning}
		if strings.HasPrefix(string(c.Code), "ERR_") {
			again := map[bool]string{true: "yes", false: "no"}[c.Retryable]
			want = []string{want[0], "`" + c.Layer + "`", strconv.Itoa(c.HTTP), again, c.Acts, c.Meaning}
		}
		if !slices.Equal(row, want) {
			t.Errorf("%s: the row is %q, want %q", c.Code, row, want)
		}
	}
	same(t, "code", keys(table), there)
}

// The keys of the schema, and the defaults where the table gives one.
func TestDocsManifest(t *testing.T) {
	table := rows(section(t, "docs/reference/manifest.md", "## Keys"))
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, "manifest/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var there []string
	var walk func(path string, s map[string]any)
	walk = func(path string, s map[string]any) {
		props, _ := s["properties"].(map[string]any)
		for _, k := range keys(props) {
			p := props[k].(map[string]any)
			there = append(there, path+k)
			walk(path+k+".", p)
			if items, ok := p["items"].(map[string]any); ok {
				walk(path+k+"[].", items)
			}
		}
	}
	walk("", schema)
	same(t, "manifest key", keys(table), there)

	// A manifest that spells every documented default is the default manifest.
	var doc map[string]any
	if err := json.Unmarshal(manifest.Default("aeiou").Canonical(), &doc); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("dialect: aeiou\n")
	spelt := map[string][]string{}
	for _, path := range keys(table) {
		row := table[path]
		if len(row) < 3 || row[1] == "" || row[1] == "empty" {
			if v := at(doc, path); v != nil && len(row) == 3 && path != "dialect" && !vacant(v) {
				t.Errorf("%s has the default %v, and the table gives none", path, v)
			}
			continue
		}
		value := strings.Trim(row[1], "`")
		if path == "quotas.cost_usd" {
			value = strconv.Quote(value)
		}
		group, key, nested := strings.Cut(path, ".")
		if !nested {
			fmt.Fprintf(&file, "%s: %s\n", path, value)
			continue
		}
		spelt[group] = append(spelt[group], key+": "+value)
	}
	for _, group := range keys(spelt) {
		fmt.Fprintf(&file, "%s: {%s}\n", group, strings.Join(spelt[group], ", "))
	}
	m, err := manifest.Parse("defaults", []byte(file.String()))
	if err != nil {
		t.Fatalf("the documented defaults do not parse: %v\n%s", err, &file)
	}
	if got, want := m.Canonical(), manifest.Default("aeiou").Canonical(); !bytes.Equal(got, want) {
		t.Errorf("the documented defaults give\n%s\nand the defaults are\n%s", got, want)
	}
}

// at finds a value by its path.
func at(doc map[string]any, path string) any {
	group, rest, nested := strings.Cut(path, ".")
	if !nested {
		return doc[path]
	}
	inner, _ := doc[group].(map[string]any)
	return at(inner, rest)
}

// vacant reports whether v is a group of keys, or a list or map with nothing in it.
func vacant(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

// Every command has a section that names its flags and no others. The help texts are
// golden files of cmd/stile.
func TestDocsCommands(t *testing.T) {
	text := section(t, "docs/reference/commands.md", "## Commands")
	var documented, there []string
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			documented = append(documented, name)
		}
	}
	files, err := filepath.Glob("../cmd/stile/testdata/help/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	flagName := regexp.MustCompile(`--[a-z][a-z-]*`)
	for _, path := range files {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".txt"), "-", " ")
		if name == "stile" {
			continue
		}
		there = append(there, name)
		if !slices.Contains(documented, name) {
			continue // reported below
		}
		help, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(help), "\nFlags:\n")
		var flags []string
		for line := range strings.SplitSeq(table, "\n") {
			if f := flagName.FindString(line); f != "" && f != "--help" && strings.HasPrefix(strings.TrimLeft(line, " "), f) {
				flags = append(flags, f)
			}
		}
		body := section(t, "docs/reference/commands.md", "### "+name)
		var named []string
		if _, list, ok := strings.Cut(body, "Flags: "); ok {
			for _, m := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(list, -1) {
				named = append(named, m[1])
			}
		}
		slices.Sort(flags)
		slices.Sort(named)
		if !slices.Equal(flags, named) {
			t.Errorf("%s has the flags %v, documented are %v", name, flags, named)
		}
	}
	same(t, "command", documented, there)
}

func TestDocsExitStatus(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "cmd/stile/testdata/help/stile.txt"), "Exit status:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var want []string
	for line := range strings.SplitSeq(list, "\n") {
		n, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		want = append(want, "| "+n+" | "+strings.TrimSpace(meaning)+" |")
	}
	table := section(t, "docs/reference/codes.md", "## Exit status")
	for _, row := range want {
		if !strings.Contains(table, row+"\n") {
			t.Errorf("the table has no row %s", row)
		}
	}
	if got := strings.Count(table, "\n| ") - 2; got != len(want) {
		t.Errorf("the table has %d rows, the command has %d exit statuses", got, len(want))
	}
}

func TestDocsTools(t *testing.T) {
	dir, err := workspace.NewFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	there := []string{"aeiou.magic(kind, payload, opts?)"}
	table := rows(section(t, "docs/reference/tools.md", "## The tools"))
	for _, x := range catalog.Standard() {
		name := x.Name + catalog.Signature(&x)
		there = append(there, name)
		if row := table[name]; row != nil && row[1] != x.Description {
			t.Errorf("%s: documented as %q, described to models as %q", name, row[1], x.Description)
		}
	}
	folder, err := workspace.Open(t.TempDir(), workspace.AccessSandbox)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	built := slices.Concat(dir.Tools(), folder.Tools(), []tools.Tool{catalog.TimeNow(time.Now), catalog.SessionOutput(nil), catalog.DemoPanic(), workspace.DeclareShell(0), web.Scrape(), web.Search(nil)})
	for _, x := range built {
		name := x.Name + catalog.Signature(&x)
		there = append(there, name)
		if row := table[name]; row != nil && row[1] != string(x.Class) {
			t.Errorf("%s: documented as %s, it is %s", name, row[1], x.Class)
		}
	}
	same(t, "tool", keys(table), there)
}

func TestDocsDecisionLog(t *testing.T) {
	var line bytes.Buffer
	d := &messages.TurnDecided{
		TurnIndex: 1, Decision: messages.Halt, Reason: messages.ErrTokenTTL, KID: "k", JTI: "j", GasUsed: 1, Verification: "v", Repair: true,
		Lints: []messages.Code{messages.LintMultiTokens}, Failures: []string{"f"},
	}
	if err := telemetry.NewDecisionLog(&line).Write(&messages.Record{SID: "a:b:c", TS: time.Unix(0, 0), Body: d}); err != nil {
		t.Fatal(err)
	}
	var there map[string]any
	if err := json.Unmarshal(line.Bytes(), &there); err != nil {
		t.Fatal(err)
	}
	same(t, "field of the decision log", keys(rows(section(t, "docs/reference/metrics.md", "## Decision log"))), keys(there))
}

func TestDocsMetrics(t *testing.T) {
	m := telemetry.NewMetrics()
	// A family shows itself when it has a child.
	m.ObserveRecord("a", &messages.Record{Body: &messages.TurnDecided{
		Decision: messages.Halt, Reason: messages.ErrTokenTTL, Repair: true, Failures: []string{"f"}, Lints: []messages.Code{messages.LintMultiTokens},
	}})
	m.ObserveRecord("a", &messages.Record{Body: &messages.Control{What: messages.ControlBreach, Name: "GAS"}})
	for _, b := range []messages.Body{
		&messages.RunEnd{}, &messages.ModelFallback{}, &messages.ModelReply{Usage: messages.Usage{Input: 1}, CostUSD: 1}, &messages.ActionApproval{Approval: "q"},
		&messages.ActionDeclared{ID: "a", Name: "t"}, &messages.ActionStarted{ID: "a"}, &messages.ActionEnded{ID: "a"},
	} {
		m.ObserveRecord("a", &messages.Record{Body: b})
	}
	m.ModelCalled(telemetry.ModelCall{First: 1})
	m.ModelSession(messages.SessionConnected, "")
	m.Request("GET", "r", 200, 1)
	m.Refused("ERR_BUSY", "RUNS")
	m.JournalFile("x")
	m.SessionsWaiting(func() float64 { return 1 })
	m.WebhookCounted("ci", "delivered")
	m.WebhookTook("ci", 1)
	m.WebhookWaiting("ci", 1)
	m.Cluster("claimed")
	m.Profile("learned")
	m.ToolsChanged("notes", 1)
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems { // those of promtool check metrics
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	table := rows(strings.Split(section(t, "docs/reference/metrics.md", "## Metrics"), "### Limits")[0])
	var there []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "stile_") {
			continue
		}
		there = append(there, f.GetName())
		row := table[f.GetName()]
		if row == nil {
			continue // reported below
		}
		if kind := strings.ToLower(f.GetType().String()); row[1] != kind {
			t.Errorf("%s is a %s, documented as %s", f.GetName(), kind, row[1])
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			if !strings.Contains(row[2], "`"+l.GetName()+"`") {
				t.Errorf("%s has the label %s, documented are %s", f.GetName(), l.GetName(), row[2])
			}
		}
	}
	same(t, "metric", keys(table), there)

	same(t, "limit", keys(rows(section(t, "docs/reference/metrics.md", "### Limits"))), messages.Limits())
}

// Every kind of record, and every member of its body, as messages/record.go has them.
func TestDocsRecords(t *testing.T) {
	table := rows(section(t, "docs/records.md", "## Kinds"))
	file, err := parser.ParseFile(token.NewFileSet(), "../messages/record.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}     // constant → value
	members := map[string][]string{} // struct → JSON names
	bodies := map[string]string{}    // struct → constant
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if id, ok := s.Type.(*ast.Ident); ok && id.Name == "Kind" {
						kinds[s.Names[0].Name], _ = strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
					}
				case *ast.TypeSpec:
					if st, ok := s.Type.(*ast.StructType); ok {
						members[s.Name.Name] = jsonNames(st)
					}
				}
			}
		case *ast.FuncDecl:
			if d.Name.Name != "Kind" || d.Recv == nil {
				continue
			}
			name := d.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name
			if id, ok := d.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.Ident); ok {
				bodies[name] = id.Name
			}
		}
	}
	var there []string
	for _, v := range kinds {
		there = append(there, v)
	}
	same(t, "record kind", keys(table), there)
	check := func(kind, body string) {
		row := table[kind]
		if row == nil {
			return // reported above
		}
		for _, m := range members[body] {
			if !strings.Contains(row[2], "`"+m+"`") {
				t.Errorf("%s: its member %s is not documented", kind, m)
			}
		}
	}
	for body, constant := range bodies {
		check(kinds[constant], body)
	}
	for _, kind := range []string{"response", "thought", "text"} {
		check(kind, "UnitText")
	}
	if len(bodies) < 15 {
		t.Errorf("only %d bodies were found", len(bodies))
	}
}

func jsonNames(st *ast.StructType) (names []string) {
	for _, f := range st.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func TestDocsScriptErrors(t *testing.T) {
	table := section(t, "docs/neuroscript.md", "## Errors")
	for _, n := range []int{
		neuroscript.CodeFail, neuroscript.CodeFuncNotFound, neuroscript.CodeToolNotFound, neuroscript.CodeArgument, neuroscript.CodeMust,
		neuroscript.CodeInternal, neuroscript.CodeType, neuroscript.CodeBounds, neuroscript.CodeReturnViolation, neuroscript.CodeDivZero,
		neuroscript.CodeEvaluation, neuroscript.CodeToolFailed, neuroscript.CodeCount, neuroscript.CodeInvalid, neuroscript.CodeReadOnly, neuroscript.CodeDenied,
	} {
		if !strings.Contains(table, fmt.Sprintf("\n| %d | ", n)) {
			t.Errorf("script error %d is not documented", n)
		}
	}
}

// block is a fenced piece of a page.
type block struct {
	page, lang, text string
	line             int
}

func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	var open *block
	for i, line := range strings.Split(read(t, page), "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{page: page, lang: line[3:], line: i + 1}
		case open != nil && line == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block is not closed", page, open.line)
	}
	return all
}

// flush drops the indentation, so that a snippet and the function it comes from
// compare.
func flush(code string) string {
	var out []string
	for line := range strings.SplitSeq(code, "\n") {
		out = append(out, strings.TrimLeft(line, "\t"))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// Every snippet is code that something compiles, parses or runs.
func TestDocsSnippets(t *testing.T) {
	example := flush(read(t, "example_test.go"))
	examples := example + "\n" + flush(read(t, "tests/docs_examples_test.go")) + "\n" + flush(read(t, "tests/docs_provider_test.go")) + "\n" + flush(read(t, "example_restart_test.go")) + "\n" + flush(read(t, "example_lists_test.go")) + "\n" + flush(read(t, "example_answer_test.go")) + "\n" + flush(read(t, "example_stream_test.go")) + "\n" + flush(read(t, "example_approval_test.go")) + "\n" + flush(read(t, "host/example_test.go")) + "\n" + flush(read(t, "stiletest/example_test.go")) + "\n" + flush(read(t, "llm/llmtest/provider_test.go"))
	found := map[string]int{}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/spec/") {
			continue // a specification shows grammars, sketches and what is refused
		}
		for _, b := range blocks(t, page) {
			where := fmt.Sprintf("%s:%d", b.page, b.line)
			found[b.lang]++
			switch b.lang {
			case "go":
				in := examples
				if page == "README.md" {
					in = example
				}
				if !strings.Contains(in, flush(b.text)) {
					t.Errorf("%s: no example holds this code", where)
				}
			case "yaml":
				_, err := manifest.Parse(where, []byte(b.text))
				if page == "docs/bench-format.md" {
					_, err = workload.Parse(where, []byte(b.text))
				}
				if err != nil {
					t.Errorf("%s: %v", where, err)
				}
			case "jsonl":
				if _, err := scripted.Parse(where, []byte(b.text)); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			case "neuroscript":
				if _, err := neuroscript.NewCache(1 << 20).Compile([]byte(b.text)); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			case "js":
				if !strings.Contains(read(t, "clients/js/test/client.test.js"), `"`+page+`"`) {
					t.Errorf("%s: the client's tests do not run the examples of this page", where)
				}
			case "":
			default:
				t.Errorf("%s: no test checks %s", where, b.lang)
			}
		}
	}
	for _, lang := range []string{"go", "yaml", "jsonl", "neuroscript"} {
		if found[lang] == 0 {
			t.Errorf("there is no snippet of %s", lang)
		}
	}
	// The README shows the whole body of the example.
	_, body, _ := strings.Cut(example, "func Example() {\n")
	body = strings.TrimSuffix(strings.TrimSpace(body), "\n}")
	readme := slices.DeleteFunc(blocks(t, "README.md"), func(b block) bool { return b.lang != "go" })
	if len(readme) == 0 || flush(readme[0].text) != body {
		t.Errorf("the README's example is not the body of Example:\n%s", body)
	}
}

var link = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)

// Links within the repository lead to files and headings that are there.
func TestDocsLinks(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			n++
			target := page
			if u.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), u.Path))
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
					t.Errorf("%s: %s leads nowhere", page, m[1])
					continue
				}
			}
			if u.Fragment != "" && !slices.Contains(anchors(t, target), u.Fragment) {
				t.Errorf("%s: %s has no heading %s", page, target, u.Fragment)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d links were found", n)
	}
}

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	for line := range strings.SplitSeq(read(t, page), "\n") {
		n := headingOf(line)
		if n == 0 {
			continue
		}
		var b strings.Builder
		for _, r := range strings.ToLower(line[n+1:]) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				b.WriteRune(r)
			}
		}
		all = append(all, b.String())
	}
	return all
}

// specs are the specifications and the design, by name.
const specs = `aeiou|cogency|design|extensions|kitsu|model-sessions|neuroscript|streaming`

var (
	// A line that goes on in the next one, as comments and pages do.
	lineEnd = regexp.MustCompile(`[ \t]*\r?\n[ \t]*(?:(?://|--|#+)[ \t]*)?`)
	// The file and the sections: §2, §§4, 7 and §9, §§6–10, §3 rule 2.
	specReference = regexp.MustCompile("^((?:\\.\\./)*docs/)?(spec/)?([A-Za-z-]+)\\.md`?((?:,? (?:and )?§+ ?[0-9.]+(?: (?:row|rule)s? [0-9]+)?(?:(?:–|, | and )[0-9][0-9.]*)*)*)")
	sectionNumber = regexp.MustCompile(`(?:(?:row|rule)s? )?[0-9]+(?:\.[0-9]+)?`)
)

// Every reference to a specification leads to a file, and to a section that is there.
// Within docs/spec a name stands alone; elsewhere the path is spelled out.
func TestDocsSpecReferences(t *testing.T) {
	known := map[string][]string{}
	for name := range strings.SplitSeq(specs, "|") {
		known[name] = sections(read(t, "docs/spec/"+name+".md"))
		if len(known[name]) == 0 && name != "model-sessions" {
			t.Errorf("docs/spec/%s.md has no numbered section", name)
		}
	}
	n := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || path == "tests/docs_test.go":
			return nil
		case d.Name() != "Makefile" && !slices.Contains([]string{".go", ".md", ".sql", ".js", ".jsonl"}, filepath.Ext(path)):
			return nil
		}
		within := strings.HasPrefix(path, "docs/spec/")
		for _, m := range specReferences(read(t, path)) {
			folder, name, numbers := m[1]+m[2], m[3], m[4]
			there, spec := known[name]
			switch {
			case strings.HasSuffix(folder, "docs/spec/"):
				if !spec && name != "README" {
					t.Errorf("%s: %s leads nowhere", path, m[0])
				}
			case folder == "" && spec && within:
			case folder == "docs/" && name == "neuroscript", folder == "" && name == "neuroscript" && strings.HasPrefix(path, "docs/"):
				continue // the page for users
			case spec && folder != "docs/":
				t.Errorf("%s: %q does not say docs/spec/", path, m[0])
				continue
			default:
				continue
			}
			n++
			for _, number := range sectionNumber.FindAllString(numbers, -1) {
				if !strings.HasPrefix(number, "r") && !slices.Contains(there, number) {
					t.Errorf("%s: %s has no section %s", path, m[0], number)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 300 {
		t.Errorf("only %d references were found", n)
	}
}

// specReferences finds what names a page, with its sections, which may go on in the next
// lines. The expression is asked only where such a name ends: over all bytes of the
// repository it takes minutes.
func specReferences(text string) (all [][]string) {
	const page, longest = ".md", 400 // bytes, of a list of sections
	for at := 0; ; {
		i := strings.Index(text[at:], page)
		if i < 0 {
			return all
		}
		from := strings.LastIndexFunc(text[:at+i], func(r rune) bool {
			return !strings.ContainsRune("_./-", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		if from >= 0 { // the character in front
			_, size := utf8.DecodeRuneInString(text[from:])
			from += size
		}
		at += i + len(page)
		near := text[max(from, 0):min(at+longest, len(text))]
		if m := specReference.FindStringSubmatch(lineEnd.ReplaceAllString(near, " ")); m != nil {
			all = append(all, m)
		}
	}
}

// Paths that a specification gives in code are there: it refers to nothing outside the
// repository.
func TestDocsSpecPaths(t *testing.T) {
	path := regexp.MustCompile(`^([a-z]+)(?:/[A-Za-z0-9._-]+)+/?$`)
	n := 0
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/spec/") {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(read(t, page), -1) {
			p := path.FindStringSubmatch(m[1])
			if p == nil {
				continue
			}
			n++
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d paths were found", n)
	}
}

// sections returns the numbers of a specification's headings, and those of the
// extensions that streaming.md §9 numbers in a list: 9.1, 9.2 …
func sections(text string) (all []string) {
	listed := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch h := headingOf(line); {
		case h > 1:
			number := strings.TrimSuffix(strings.Fields(line[h:])[0], ".")
			if sectionNumber.FindString(number) == number {
				all, listed = append(all, number), ""
			}
			if strings.Contains(line, "Extensions") {
				listed = number
			}
		case h == 0 && listed != "":
			if number, _, ok := strings.Cut(line, ". "); ok && sectionNumber.FindString(number) == number {
				all = append(all, listed+"."+number)
			}
		}
	}
	return all
}

// Tests, packages and files that ARCHITECTURE.md names exist.
func TestDocsArchitectureNamesWhatIsThere(t *testing.T) {
	text := read(t, "ARCHITECTURE.md") + read(t, "docs/internal/invariants.md") + read(t, "docs/internal/findings.md") + read(t, "docs/benchmarks.md") + read(t, "docs/benchmarks-history.md")
	source := allTests(t)
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*`).FindAllString(text, -1) {
		if !strings.Contains(source, "func "+name) { // a benchmark may be named by its beginning
			t.Errorf("there is no %s", name)
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(section(t, "ARCHITECTURE.md", "## Rooms"), -1) {
		if !strings.Contains(m[1], "/") || strings.Contains(m[1], ".") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("there is no room %s", m[1])
		}
	}
	inside, err := os.ReadDir("../internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range inside {
		if !strings.Contains(section(t, "ARCHITECTURE.md", "## Rooms"), "`internal/"+d.Name()+"`") {
			t.Errorf("ARCHITECTURE.md does not name the room internal/%s", d.Name())
		}
		if !strings.Contains(section(t, "docs/spec/design.md", "## 3. Rooms"), d.Name()+"/") {
			t.Errorf("docs/spec/design.md §3 does not name the room internal/%s", d.Name())
		}
	}
	for _, m := range regexp.MustCompile(`\b[a-z_]+_test\.go`).FindAllString(read(t, "docs/internal/invariants.md"), -1) {
		if _, err := os.Stat(m); err != nil {
			t.Errorf("there is no %s", m)
		}
	}
}

func allTests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir // what is made there changes, and the result of these tests is kept
		case strings.HasSuffix(path, "_test.go"):
			all.WriteString(read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Every decision has a status and a date, and a row of the index that has the same.
func TestDocsDecisions(t *testing.T) {
	index := read(t, "docs/decisions/README.md")
	status := regexp.MustCompile(`^\*\*Status\.\*\* ([A-Z][a-z]+(?: by \[[0-9]{3}\]\([^)]*\))?), (2[0-9]{3}-[0-9]{2}-[0-9]{2})\.(?: .*)?$`)
	n := 0
	for _, page := range pages(t) {
		if filepath.ToSlash(filepath.Dir(page)) != "docs/decisions" || strings.HasSuffix(page, "README.md") {
			continue
		}
		n++
		lines := strings.Split(read(t, page), "\n")
		m := status.FindStringSubmatch(lines[2])
		if m == nil {
			t.Errorf("%s: its third line is no status with a date: %q", page, lines[2])
			continue
		}
		name := filepath.Base(page)
		row := fmt.Sprintf("| [%s](%s) | ", name[:3], name)
		_, rest, ok := strings.Cut(index, "\n"+row)
		rest, _, _ = strings.Cut(rest, "\n")
		if want := " | " + strings.ToLower(m[1]) + " | " + m[2] + " |"; !ok || !strings.HasSuffix(rest, want) {
			t.Errorf("the index has no row of %s that ends %q", page, want)
		}
	}
	if n < 10 {
		t.Errorf("only %d decisions were found", n)
	}
}

// Pages are in plain English, as docs/style.md has it: a sentence names the caller, the
// operator or the process, and the word has its object.
func TestDocsEnglish(t *testing.T) {
	vague := regexp.MustCompile(`\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|[Tt]ells (?:whether|what|that|who)|is none of|what is none)\b`)
	for _, page := range pages(t) {
		if page == "internal/sim/MUTATIONS.md" || page == "docs/style.md" {
			continue // names of mutations, and the rule itself
		}
		for i, line := range strings.Split(read(t, page), "\n") {
			if strings.HasPrefix(line, "| `ERR_") {
				continue // the actor of a code may be "nobody"
			}
			if m := vague.FindString(line); m != "" {
				t.Errorf("%s:%d: %q: see docs/style.md", page, i+1, m)
			}
		}
	}
}

// The last cell of a benchmark's row names what runs it, and the package it is in.
func TestDocsBenchmarks(t *testing.T) {
	source := allTests(t)
	n := 0
	for line := range strings.SplitSeq(read(t, "docs/benchmarks.md"), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 5 {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			n++
			switch name := m[1]; {
			case strings.HasPrefix(name, "./"):
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(name))); err != nil {
					t.Errorf("%s: there is no package %s", cells[0], name)
				}
			case strings.HasPrefix(name, "-") || strings.Contains(name, "="):
			case !regexp.MustCompile(`func Benchmark\w*` + strings.Replace(name, "$", `\(`, 1)).MatchString(source):
				t.Errorf("%s: there is no benchmark %s", cells[0], name)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d names were found", n)
	}
}

// The picture of the README is made from a run of the tour.
func TestDocsPicture(t *testing.T) {
	svg := read(t, "docs/tour.svg")
	if !strings.HasPrefix(svg, "<!-- Made by docs/internal/termsvg") {
		t.Error("docs/tour.svg does not name what made it")
	}
	for _, part := range []string{"$\u00a0make\u00a0run", "research", "file.read", "DONE", "HALT", "ERR_QUOTA/GAS"} {
		if !strings.Contains(svg, part) {
			t.Errorf("docs/tour.svg does not show %q", part)
		}
	}
	if width := regexp.MustCompile(`<svg [^>]*width="([0-9]+)"`).FindStringSubmatch(svg); width == nil || len(width[1]) != 3 || width[1] > "640" {
		t.Errorf("docs/tour.svg is too wide: %q", width)
	}
}
