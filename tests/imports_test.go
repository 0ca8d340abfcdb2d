package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed14be6753/stile"

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Imports    []string // of files that are no tests
}

func goList(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %v: %s", args, exit.Stderr)
		}
		t.Fatal(err)
	}
	return out
}

func packages(t *testing.T) []listed {
	t.Helper()
	var all []listed
	dec := json.NewDecoder(bytes.NewReader(goList(t, "-json=ImportPath,Imports", "./...")))
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layers of docs/spec/design.md §3, lowest first. A package belongs to the first whose
// pattern fits; a pattern that ends in /... means the folder and all in it.
var layers = []struct {
	name  string
	rooms []string
}{
	{"text", []string{"internal/jsonstring", "internal/clip", "internal/visible", "internal/textdiff"}},
	{"words", []string{"messages"}},
	{"pure", []string{"parse/...", "crypto/...", "internal/turn", "internal/turn/driver", "internal/plan", "internal/neuroscript/...", "internal/prompt", "internal/compare", "internal/native", "internal/resume", "internal/answer", "internal/budget", "internal/jsonvalue", "internal/expr", "internal/transform", "internal/lease", "internal/board", "internal/share"}},
	{"ports", []string{"llm/...", "tools/...", "feeds/...", "journal/...", "internal/telemetry", "manifest", "internal/replay", "internal/rehearse", "internal/eval", "internal/proof", "internal/groupcommit", "internal/specimen", "internal/board/boardtest", "internal/share/sharetest", "internal/confine", "internal/files", "internal/audit", "internal/retry", "internal/schema", "internal/zone", "internal/publicnet", "internal/webhook", "internal/postgrestest", "internal/wiretest"}},
	{"shells", []string{"internal/calls", "supervisor", "actors/...", "internal/hub", "internal/compiled", "internal/intake", "internal/pool", "internal/load", "internal/wake", "internal/program", "internal/history", "internal/reply", "internal/attempt", "internal/relics", "internal/feedvalues", "internal/directory", "internal/talk", "internal/membership"}},
	{"assembly", []string{"internal/compiler", "internal/delegate", "internal/learn", "internal/follow", "internal/simple", "internal/livestore", "internal/keyfile", "internal/backup", "internal/fork", "internal/erase"}},
	{"facade", []string{""}},
	{"doors", []string{"host/...", "clients/...", "bench/...", "internal/promptview", "internal/certtest", "internal/pagetest", "examples", "stiletest"}},
	{"proofs", []string{"internal/sim", "internal/conform"}},
	{"command", []string{"cmd/..."}},
	{"outside", []string{"tests/...", "examples/...", "docs/..."}}, // as an embedder would
}

// room is a package's path in the module; ok is false for foreign ones.
func room(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func within(pattern, room string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return room == folder || strings.HasPrefix(room, folder+"/")
	}
	return room == pattern
}

func withinAny(room string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return within(p, room) })
}

func layerOf(room string) string {
	for _, l := range layers {
		if withinAny(room, l.rooms...) {
			return l.name
		}
	}
	return ""
}

// edge forbids imports, with the reason. from names layers in angle brackets, or
// rooms; to names layers, rooms (with a leading ./), packages from elsewhere, or
// *foreign* for all that come neither from here nor from the standard library.
type edge struct {
	from   []string
	to     []string
	except []string // what to does not mean
	reason string
}

// foreign to the module, by purpose.
var (
	outsideWorld = []string{"os/...", "net/...", "log/...", "syscall", "time/tzdata", "math/rand/...", "crypto/rand", "database/sql/...", "sync/...", "go.uber.org/zap/..."}
	protoactor   = "github.com/asynkron/protoactor-go/..."
)

// adapterless are all rooms but the adapters of providers and the command.
var adapterless = []string{
	"<words>", "<pure>", "<shells>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<outside>",
	"manifest", "tools/...", "feeds/...", "journal/...", "internal/...", "llm", "llm/scripted", "llm/llmtest",
}

var forbidden = []edge{
	{
		from: []string{"<text>"}, to: append([]string{"<text>", "<words>", "<pure>", "<ports>", "<shells>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<command>", "<outside>", "*foreign*"}, outsideWorld...),
		reason: "any room may import them, and so imports nothing with them",
	},
	{
		from: []string{"<words>"}, to: []string{"<pure>", "<ports>", "<shells>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<command>", "<outside>"},
		reason: "words are what all rooms say to each other, so they know none of them",
	},
	{
		from: []string{"<words>"}, to: []string{"*foreign*"}, except: []string{"github.com/google/uuid"},
		reason: "a package that imports messages imports all that messages imports",
	},
	{
		from: []string{"<pure>"}, to: []string{"<ports>", "<shells>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<command>", "<outside>"},
		reason: "pure rooms decide and act on nothing",
	},
	{
		from: []string{"<pure>"}, to: outsideWorld, except: []string{"sync", "sync/atomic"},
		reason: "a pure room does no I/O, writes no log and draws no randomness: the same inputs give the same outputs",
	},
	{
		from: []string{"<pure>"}, to: []string{"*foreign*"},
		except: []string{"github.com/google/uuid", "github.com/gowebpki/jcs", "github.com/go-json-experiment/json/...", "golang.org/x/crypto/...", "github.com/oasisprotocol/curve25519-voi/...", "github.com/dgraph-io/ristretto/..."},
		reason: "pure rooms stand on a short list of pure libraries",
	},
	{from: []string{"internal/turn"}, to: []string{"./parse/...", "./crypto/...", "./internal/neuroscript/...", "./internal/prompt"}, reason: "the machine knows no dialect, token or language by name (edge allowed: plan)"},
	{from: []string{"internal/turn"}, to: []string{"./internal/turn/driver"}, reason: "the machine does not know who drives it"},
	{from: []string{"internal/turn/driver"}, to: []string{"./parse/...", "./crypto/...", "./internal/neuroscript/...", "./internal/prompt"}, reason: "what drives the machine knows no more than the machine (edges allowed: turn, plan)"},
	{from: []string{"parse"}, to: []string{"./parse/aeiou", "./parse/plain", "./parse/kitsu", "./parse/cortex", "./parse/cogency"}, reason: "the registry is filled by the facade"},
	{from: []string{"internal/jsonvalue", "internal/expr", "internal/transform"}, to: []string{"<words>", "./crypto/...", "./internal/turn", "./internal/plan", "./internal/neuroscript/...", "./internal/prompt"}, reason: "values, conditions and steps are functions of texts (edges allowed: parse/scan, internal/jsonvalue)"},
	{from: []string{"parse/..."}, to: []string{"./crypto/...", "./internal/turn", "./internal/plan", "./internal/neuroscript/...", "./internal/prompt"}, reason: "a dialect is a codec and judges facts; verification, language and machine are others' (edges allowed: parse, parse/scan)"},
	{from: []string{"parse/aeiou"}, to: []string{"./parse/plain", "./parse/kitsu", "./parse/cortex", "./parse/cogency"}, reason: "dialects do not know each other"},
	{from: []string{"parse/kitsu"}, to: []string{"./parse/aeiou", "./parse/plain", "./parse/cortex", "./parse/cogency"}, reason: "dialects do not know each other"},
	{from: []string{"parse/plain"}, to: []string{"./parse/aeiou", "./parse/kitsu", "./parse/cortex", "./parse/cogency"}, reason: "dialects do not know each other"},
	{from: []string{"parse/cortex"}, to: []string{"./parse/plain", "./parse/aeiou", "./parse/kitsu", "./parse/cogency"}, reason: "dialects do not know each other"},
	{from: []string{"parse/cogency"}, to: []string{"./parse/plain", "./parse/aeiou", "./parse/kitsu", "./parse/cortex"}, reason: "dialects do not know each other"},
	{from: []string{"parse/scan"}, to: []string{"./parse", "./parse/plain", "./parse/aeiou", "./parse/cortex", "./parse/kitsu", "./parse/cogency", "<words>"}, reason: "the scanner knows bytes, not what a dialect makes of them"},
	{from: []string{"crypto/token"}, to: []string{"./crypto/keyring", "./parse/...", "./internal/turn", "./internal/plan", "./internal/neuroscript/...", "./internal/prompt"}, reason: "keys reach the verifier through an interface of its own"},
	{from: []string{"crypto/keyring"}, to: []string{"./crypto/token", "./parse/...", "./internal/turn", "./internal/plan", "./internal/neuroscript/...", "./internal/prompt"}, reason: "keys sign bytes and do not know what for"},
	{from: []string{"internal/neuroscript/..."}, to: []string{"./crypto/...", "./parse/...", "./internal/turn", "./internal/plan", "./internal/prompt"}, reason: "the language reaches nothing but its tools"},
	{from: []string{"internal/neuroscript/syntax"}, to: []string{"./internal/neuroscript"}, reason: "syntax is below the interpreter"},
	{from: []string{"internal/prompt"}, to: []string{"./crypto/...", "./parse/aeiou", "./parse/plain", "./parse/kitsu", "./parse/cortex", "./parse/cogency", "./parse/profile", "./parse/scan", "./internal/turn", "./internal/plan", "./internal/neuroscript/..."}, reason: "prompt declares the small interface of a dialect that it needs (edge allowed: parse, for the table of markers)"},
	{from: []string{"internal/plan"}, to: []string{"./crypto/...", "./parse/...", "./internal/turn", "./internal/neuroscript/...", "./internal/prompt"}, reason: "the dependency graph is a value"},
	{
		from: []string{"<ports>"}, to: []string{"<shells>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<command>", "<outside>"},
		reason: "a port is used by the shells and does not know them",
	},
	{from: []string{"llm/..."}, to: []string{"./tools/...", "./feeds/...", "./journal/...", "./internal/telemetry", "./manifest"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"tools/..."}, to: []string{"./llm/...", "./feeds/...", "./journal/...", "./internal/telemetry", "./manifest"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"tools"}, to: []string{"./tools/catalog", "./tools/mcp", "./tools/sql/...", "./tools/web", "./tools/workspace", "./internal/confine", "./internal/plan", "./parse/..."}, reason: "what a tool is does not depend on who calls it, nor on the tools there are"},
	{from: []string{"tools/internal/seam", "tools/internal/standard", "tools/internal/address"}, to: []string{"./tools/catalog", "./tools/mcp", "./tools/sql/...", "./tools/web", "./tools/workspace"}, reason: "what the rooms of tools share is below them"},
	{from: []string{"tools/catalog"}, to: []string{"./tools/mcp", "./tools/sql/...", "./tools/web", "./tools/workspace"}, reason: "what calls a tool does not depend on the tools there are (edges allowed: internal/clip, internal/confine)"},
	{from: []string{"internal/confine"}, to: []string{"<pure>", "./tools", "./tools/catalog", "./tools/mcp", "./tools/sql/...", "./tools/web", "./tools/workspace"}, reason: "programs are held the same way for every caller"},
	{from: []string{"tools/web", "tools/workspace"}, to: []string{"./tools/mcp", "./tools/sql/..."}, reason: "kinds of tools do not know each other"},
	{from: []string{"tools/web"}, to: []string{"./tools/workspace", "./internal/confine"}, reason: "what reaches the network touches no file and starts no program"},
	{from: []string{"feeds/..."}, to: []string{"./llm/...", "./tools/...", "./journal/...", "./internal/telemetry", "./manifest"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"journal/...", "internal/replay", "internal/proof", "internal/groupcommit"}, to: []string{"./llm/...", "./tools/...", "./feeds/...", "./internal/telemetry", "./manifest"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"internal/telemetry"}, to: []string{"./llm/...", "./tools/...", "./feeds/...", "./journal/...", "./manifest"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"manifest"}, to: []string{"./llm/...", "./tools/...", "./feeds/...", "./journal/...", "./internal/telemetry"}, reason: "ports never import each other: the facade wires"},
	{from: []string{"internal/proof"}, to: []string{"<pure>"}, reason: "what is signed is words; keys come in as an interface"},
	{
		from: []string{"journal", "journal/memory", "journal/sqlite", "journal/internal/sqlstore", "journal/journaltest"}, to: []string{"<pure>"},
		reason: "records are words; internal/replay alone runs the pure rooms again",
	},
	{from: []string{"journal/internal/sqlstore"}, to: []string{"github.com/jackc/...", "modernc.org/..."}, reason: "what stores have in common knows no driver"},
	{
		from: []string{"manifest"}, to: []string{"<pure>"}, except: []string{"./internal/plan", "./parse/cortex"},
		reason: "manifests are words; plan says what their $references mean and whether a workflow has a cycle, parse/cortex whether a template of actions is one",
	},
	{from: []string{"<assembly>"}, to: []string{"<facade>", "<doors>", "<proofs>", "<command>", "<outside>"}, reason: "the facade puts the parts together, and no part knows the whole"},
	{from: []string{"internal/follow", "internal/simple", "internal/livestore", "internal/keyfile", "internal/backup", "internal/fork"}, to: []string{"./actors/...", "./internal/compiler", "./internal/delegate", "./internal/learn", "./internal/erase"}, reason: "what reads and writes a journal needs no actor and no agent (edge allowed: internal/hub)"},
	{from: []string{"internal/compiler"}, to: []string{"./actors/...", "./internal/delegate", "./internal/learn", "./internal/follow", "./internal/livestore", "./internal/erase"}, reason: "the compiler runs no session: what does comes in through its Env"},
	{from: []string{"<shells>"}, to: []string{"<facade>", "<assembly>", "<doors>", "<proofs>", "<command>", "<outside>"}, reason: "shells are wired by the facade"},
	{from: []string{"supervisor"}, to: []string{"./actors/..."}, reason: "strategies are values that the shells use"},
	{from: []string{"internal/compiled"}, to: []string{"./supervisor", "./actors/...", "./internal/hub", protoactor}, reason: "an agent is a value, and what runs it is above it"},
	{from: []string{"internal/intake", "internal/pool"}, to: []string{"<words>", "<pure>", "<ports>", "<shells>", protoactor}, reason: "bytes and functions are counted and run, whatever they are"},
	{from: []string{"internal/load", "internal/wake", "internal/program", "internal/history", "internal/reply", "internal/attempt", "internal/relics", "internal/feedvalues"}, to: []string{"./actors/...", "./internal/hub", protoactor}, reason: "what an actor has done is tested without one (edge allowed: supervisor, for Guard)"},
	{from: []string{"internal/membership"}, to: []string{"<ports>", "<shells>"}, reason: "who has a session does not depend on what a session does, nor on where leases are kept"},
	{from: []string{"internal/directory"}, to: []string{"<pure>", "<ports>", "./supervisor", "./actors/...", "./internal/hub", "./internal/load", "./internal/wake"}, reason: "who is where does not depend on what a session does"},
	{from: []string{"internal/hub"}, to: []string{"<pure>", "<ports>", "./supervisor", "./actors/internal/mailbox", protoactor}, reason: "what is published is words, and who hears it keeps no actor awake"},
	{from: []string{"actors/internal/mailbox"}, to: []string{"<words>", "<pure>", "<ports>", "./supervisor", "./internal/hub", "./internal/load", "./internal/wake", "./internal/program", "./internal/history", "./internal/reply", "./internal/attempt", "./internal/relics", "./internal/feedvalues", "./internal/directory", "./internal/compiled"}, reason: "a mailbox does not know what it carries"},
	{from: []string{"<facade>"}, to: []string{"<doors>", "<proofs>", "<command>", "<outside>"}, reason: "the facade is what they import"},
	{from: []string{"<facade>", "<assembly>"}, to: []string{"./journal/postgres", "github.com/jackc/..."}, reason: "a database client comes in through Config.Store alone: a program with SQLite links none"},
	{
		from: adapterless, to: []string{"./llm/openai", "./llm/anthropic", "./llm/gemini", "./llm/internal/wire"},
		reason: "vendor SDKs are heavy: the command alone imports their adapters, and gives them to the facade as Config.Providers",
	},
	{
		from: append([]string{"<command>"}, adapterless...), to: []string{"github.com/openai/...", "github.com/anthropics/...", "google.golang.org/genai/..."},
		reason: "a vendor's SDK is its adapter's to know",
	},
	{
		from: []string{"<words>", "<pure>", "<shells>", "<assembly>", "<facade>", "host", "host/access", "host/internal/page", "clients/...", "bench/...", "<proofs>", "<command>", "tools", "tools/catalog", "tools/internal/...", "internal/confine", "tools/sql/...", "tools/web", "tools/workspace", "llm/...", "feeds/...", "journal/...", "manifest", "internal/telemetry"},
		to:   []string{"github.com/modelcontextprotocol/..."}, reason: "the SDK of MCP is tools/mcp's and host/mcp's to know",
	},
	{from: []string{"llm/openai"}, to: []string{"./llm/anthropic", "./llm/gemini", "github.com/anthropics/...", "google.golang.org/genai/..."}, reason: "adapters do not know each other"},
	{from: []string{"llm/anthropic"}, to: []string{"./llm/openai", "./llm/gemini", "github.com/openai/...", "google.golang.org/genai/..."}, reason: "adapters do not know each other"},
	{from: []string{"llm/gemini"}, to: []string{"./llm/openai", "./llm/anthropic", "github.com/openai/...", "github.com/anthropics/..."}, reason: "adapters do not know each other"},
	{
		from: []string{"<doors>"}, to: []string{"<pure>", "<ports>", "<shells>", "<assembly>", "<proofs>", "<command>", "<outside>"},
		except: []string{"./internal/audit", "./internal/answer", "./internal/board", "./internal/budget", "./internal/files", "./internal/share", "./internal/webhook"},
		reason: "a door translates; what it may do is the facade's to say (edges allowed: internal/audit, for its own log; internal/answer, the one rule of what a run said; internal/board, where hosts of a cluster keep tokens; internal/budget, the one of what it cost; internal/files, for files that are whole or not there; internal/share, the one of what hosts have of a limit; internal/webhook, which sends what it tells)",
	},
	{
		from: []string{"host/internal/responses"}, to: append([]string{"<facade>", "<doors>", "*foreign*"}, outsideWorld...), except: []string{"github.com/google/uuid"},
		reason: "a protocol is translated without sessions and without a network: the host serves it",
	},
	{
		from: []string{"host/internal/conns"}, to: []string{"<words>", "<facade>", "<doors>", "*foreign*"}, except: []string{"golang.org/x/time/rate"},
		reason: "connections are bounded before anything is known of who calls, and for what",
	},
	{from: []string{"internal/promptview"}, to: []string{"<doors>"}, reason: "what the host and the command share is below both"},
	{
		from: []string{"<proofs>"}, to: []string{"./llm/...", "./tools/...", "./feeds/...", "./internal/telemetry", "./manifest", "<shells>", "<assembly>", "<facade>", "<doors>", "<command>", "<outside>"},
		reason: "proofs check the pure rooms and the journal against the specification",
	},
	{from: []string{"<command>"}, to: []string{"<shells>", "<assembly>", protoactor}, reason: "the command drives the facade and must not reach around it"},
	{from: []string{"<outside>"}, to: []string{"<shells>", "<assembly>"}, reason: "embedders see the facade"},
	{
		from: []string{"<words>", "<pure>", "<ports>", "<assembly>", "<facade>", "<doors>", "<proofs>", "<command>", "<outside>"}, to: []string{protoactor},
		reason: "the actor library is supervisor's and actors' to know",
	},
}

func (e *edge) leaves(room string) bool {
	return slices.ContainsFunc(e.from, func(f string) bool { return f == "<"+layerOf(room)+">" || within(f, room) })
}

func (e *edge) meets(importPath string) bool {
	target, own := room(importPath)
	fits := func(pattern string) bool {
		switch {
		case pattern == "*foreign*":
			return !own && strings.Contains(strings.Split(importPath, "/")[0], ".")
		case strings.HasPrefix(pattern, "<"):
			return own && pattern == "<"+layerOf(target)+">"
		case strings.HasPrefix(pattern, "./"):
			return own && within(pattern[2:], target)
		}
		return !own && within(pattern, importPath)
	}
	if slices.ContainsFunc(e.except, fits) {
		return false
	}
	return slices.ContainsFunc(e.to, fits)
}

// No package imports what the table forbids, and every package has a layer.
func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name, ok := room(p.ImportPath)
		if !ok {
			continue
		}
		if layerOf(name) == "" {
			t.Errorf("%s belongs to no layer of docs/spec/design.md §3", p.ImportPath)
		}
		for _, imported := range p.Imports {
			for i := range forbidden {
				if e := &forbidden[i]; e.leaves(name) && e.meets(imported) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, e.reason)
				}
			}
		}
	}
}

// The actors stay thin shells: what can be decided or done without one leaves the room. The bound
// counts every line of code in the folder, its mailboxes among them, and no test.
func TestActorsAreThin(t *testing.T) {
	const most = 3000
	lines := 0
	err := filepath.WalkDir("../actors", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		lines += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines == 0 || lines > most {
		t.Errorf("actors has %d lines, and %d at most are allowed: what is a job of its own gets a room of its own (docs/spec/design.md §3)", lines, most)
	}
}

// otherEnds are words for an end beside Close, Stop and Drain (docs/style.md, 8).
var otherEnds = regexp.MustCompile(`^(?i:shut|leave|release|retire|goodbye|dismiss|quit|terminate|teardown|dispose|abandon|destroy|settleDown)`)

// declaredFunc is the name of a function or method where it is declared.
var declaredFunc = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)`)

// lasting are rooms beside the shells and the facade whose values live until they are ended.
var lasting = []string{"feeds", "host/...", "internal/confine", "internal/livestore", "journal/..."}

// What ends in the actors, the other shells, the facade and the rooms with lasting values is
// closed, stopped or drained.
func TestWordsForEnds(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		name, ok := room(p.ImportPath)
		if layer := layerOf(name); !ok || layer != "shells" && layer != "facade" && !withinAny(name, lasting...) {
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declaredFunc.FindAllSubmatch(text, -1) {
				if seen++; otherEnds.Match(m[1]) {
					t.Errorf("%s: %s is another word for Close, Stop or Drain (docs/style.md)", file, m[1])
				}
			}
		}
	}
	if seen < 500 {
		t.Errorf("%d functions were looked at", seen)
	}
}

// The table itself: it catches what it is there for, and lets through what docs/spec/design.md
// names as allowed.
func TestImportTable(t *testing.T) {
	refused := func(from, to string) bool {
		return slices.ContainsFunc(forbidden, func(e edge) bool { return e.leaves(from) && e.meets(to) })
	}
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"internal/jsonstring", "unicode/utf8", false},
		{"internal/jsonstring", module + "/messages", true},
		{"internal/clip", "os", true},
		{"internal/visible", module + "/messages", true},
		{"parse/scan", module + "/internal/jsonstring", false},
		{"journal", module + "/internal/jsonstring", false},
		{"internal/turn", "os", true},
		{"internal/turn", "net/http", true},
		{"internal/turn", "log/slog", true},
		{"internal/turn", "math/rand/v2", true},
		{"internal/turn", "time", false},
		{"internal/turn", module + "/internal/plan", false},
		{"internal/turn", module + "/parse/aeiou", true},
		{"internal/turn", module + "/messages", false},
		{"parse/aeiou", module + "/parse", false},
		{"parse/aeiou", module + "/parse/scan", false},
		{"parse/aeiou", module + "/parse/plain", true},
		{"parse/cortex", module + "/parse/scan", false},
		{"parse/cortex", module + "/parse", false},
		{"parse/cortex", module + "/parse/aeiou", true},
		{"parse/scan", module + "/parse", true},
		{"parse/scan", module + "/messages", true},
		{"parse/aeiou", module + "/crypto/token", true},
		{"parse/kitsu", module + "/parse/cortex", true},
		{"parse/kitsu", module + "/parse/scan", false},
		{"crypto/keyring", "golang.org/x/crypto/scrypt", false},
		{"internal/neuroscript", module + "/internal/neuroscript/syntax", false},
		{"internal/neuroscript/syntax", module + "/internal/neuroscript", true},
		{"internal/prompt", protoactorOf("actor"), true},
		{"messages", "github.com/google/uuid", false},
		{"messages", module + "/internal/turn", true},
		{"llm", module + "/tools", true},
		{"llm", "net/http", false},
		{"tools", module + "/internal/neuroscript", false},
		{"tools", module + "/tools/internal/seam", false},
		{"tools", module + "/tools/catalog", true},
		{"tools", module + "/tools/workspace", true},
		{"tools/catalog", module + "/tools", false},
		{"tools/catalog", module + "/internal/confine", false},
		{"tools/catalog", module + "/tools/workspace", true},
		{"tools/internal/standard", module + "/tools/catalog", true},
		{"internal/confine", module + "/tools", true},
		{"internal/confine", module + "/messages", false},
		{"tools/web", module + "/internal/confine", true},
		{"tools/workspace", module + "/internal/confine", false},
		{"internal/replay", module + "/internal/turn", false},
		{"internal/replay", module + "/parse/aeiou", false},
		{"journal/sqlite", module + "/internal/turn", true},
		{"internal/replay", module + "/tools", true},
		{"manifest", module + "/messages", false},
		{"manifest", module + "/llm", true},
		{"actors", module + "/journal", false},
		{"actors", module, true},
		{"supervisor", protoactorOf("actor"), false},
		{"supervisor", module + "/actors", true},
		{"", module + "/actors", false},
		{"", module + "/llm/openai", true},
		{"", module + "/llm/internal/wire", true},
		{"actors", module + "/llm/gemini", true},
		{"llm", module + "/llm/internal/wire", true},
		{"llm/scripted", "github.com/openai/openai-go/v3", true},
		{"bench", module + "/llm/anthropic", true},
		{"examples/x", module + "/llm/openai", true},
		{"llm/openai", module + "/llm/internal/wire", false},
		{"llm/openai", "github.com/openai/openai-go/v3/responses", false},
		{"llm/openai", "github.com/anthropics/anthropic-sdk-go", true},
		{"llm/gemini", "google.golang.org/genai", false},
		{"llm/gemini", module + "/llm/openai", true},
		{"cmd/stile", module + "/llm/openai", false},
		{"cmd/stile", "github.com/openai/openai-go/v3", true},
		{"", protoactorOf("actor"), true},
		{"", module + "/llm/scripted", false},
		{"host", module, false},
		{"host", module + "/messages", false},
		{"host", module + "/journal", true},
		{"host/internal/responses", "net/http", true},
		{"host/internal/responses", module, true},
		{"host/internal/responses", module + "/messages", false},
		{"host", module + "/actors", true},
		{"host", protoactorOf("cluster"), true},
		{"internal/conform", module + "/internal/turn", false},
		{"internal/conform", module + "/journal", false},
		{"internal/conform", module + "/actors", true},
		{"internal/conform", module + "/tools", true},
		{"cmd/stile", module + "/actors", true},
		{"cmd/stile", module + "/supervisor", true},
		{"cmd/stile", protoactorOf("actor"), true},
		{"cmd/stile", module + "/internal/conform", false},
		{"cmd/stile", module + "/journal", false},
		{"tools", protoactorOf("actor"), true},
		{"tools", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"tools/mcp", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"tools/mcp", module + "/tools", false},
		{"tools/mcp", module + "/tools/catalog", false},
		{"tools/mcp", module + "/llm", true},
	} {
		if got := refused(c.from, c.to); got != c.refused {
			t.Errorf("%s → %s: refused %v, want %v", path.Join(module, c.from), c.to, got, c.refused)
		}
	}
	for _, e := range forbidden {
		if e.reason == "" || len(e.from) == 0 || len(e.to) == 0 {
			t.Errorf("edge %v → %v has no reason", e.from, e.to)
		}
	}
}

func protoactorOf(name string) string { return strings.TrimSuffix(protoactor, "...") + name }

// modernc.org/sqlite is generated against one version of its libc and breaks in
// quiet ways with another: go.mod must name the very version that sqlite's own
// go.mod names.
func TestSQLiteAndLibcBelongTogether(t *testing.T) {
	var sqlite, libc struct{ Version, GoMod string }
	for name, to := range map[string]any{"modernc.org/sqlite": &sqlite, "modernc.org/libc": &libc} {
		if err := json.Unmarshal(goList(t, "-m", "-json", name), to); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.ReadFile(sqlite.GoMod)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for line := range strings.Lines(string(own)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == "modernc.org/libc" {
			want = fields[1]
		}
	}
	if want == "" {
		t.Fatal("the go.mod of modernc.org/sqlite names no libc")
	}
	if libc.Version != want {
		t.Errorf("modernc.org/sqlite %s wants modernc.org/libc %s, go.mod pairs it with %s", sqlite.Version, want, libc.Version)
	}
}
