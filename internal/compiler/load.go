package compiler

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Load reads a manifest's file, and the definitions and agents that it imports from
// files beside it. It may name a dialect of the product or one of dialects. All mistakes
// are reported at once, each with file, line and key.
func Load(path string, dialects []parse.Dialect) (*Definition, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot read the manifest", Cause: err}
	}
	m, err := manifest.ParseWith(path, data, os.LookupEnv, mistakes, names(dialects)...)
	if err != nil {
		return nil, err
	}
	a := &Definition{Manifest: m, Dir: filepath.Dir(path), Files: []string{path}}
	return a, a.define(names(dialects))
}

// readFrom notes for an agent, and for those that it runs, what they were read from.
func (a *Definition) readFrom(files []string) {
	a.Files = files
	for _, child := range a.Agents {
		child.readFrom(files)
	}
}

// define reads the definitions that the manifest imports and does not hold, from the
// agent's folder. All mistakes are reported at once.
func (a *Definition) define(dialects []string) error {
	g := gatherer{dialects: dialects}
	defer func() { a.readFrom(append(a.Files, g.read...)) }()
	if !g.wanting(a.Manifest) {
		return nil
	}
	dir, err := os.OpenRoot(a.Dir)
	if err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "import", Detail: "cannot open the agent's folder", Cause: files.Cause(err)}
	}
	defer dir.Close()
	g.dir = dir
	g.gather(a, a.Manifest, ".", nil)
	return errors.Join(g.found...)
}

// gatherer reads the files of an agent and of those that it imports.
type gatherer struct {
	dir      *os.Root
	dialects []string
	agents   int // read so far
	found    []error
	read     []string // files, so far
}

func (g *gatherer) wanting(m *manifest.Manifest) bool {
	return len(m.Wants()) > 0 || needsFiles(m) || m.OutputFile() != "" || slices.ContainsFunc(m.Define.Agents, func(c manifest.Manifest) bool { return g.wanting(&c) })
}

// gather fills in what a manifest imports. in is its folder under the agent's, within
// the files that lead to it. The recursion is as deep as agents nest.
func (g *gatherer) gather(a *Definition, m *manifest.Manifest, in string, within []string) {
	if m.OutputFile() != "" {
		err := shapeAnswer(m, func(name string) ([]byte, error) { return g.some(path.Join(in, name)) })
		if err != nil {
			g.found = append(g.found, err)
		}
	}
	for i := range m.Define.Agents { // those inside the manifest share its folder
		child := &Definition{Manifest: &m.Define.Agents[i], Dir: g.folder(in)}
		g.gather(child, child.Manifest, in, within)
		a.Agents = append(a.Agents, child)
	}
	for _, w := range m.Wants() {
		file := path.Join(in, w.File)
		data, err := g.some(file)
		switch {
		case w.Host && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			g.found = append(g.found, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonMissing, Field: w.Field, File: file, Detail: "cannot read the definition of " + cmp.Or(w.Name, w.File), Cause: files.Cause(err)})
		case w.Kind == agentKind:
			g.agent(a, m, w, file, data, within)
		default:
			if err := m.Adopt(w, file, data, os.LookupEnv); err != nil {
				g.found = append(g.found, err)
			}
		}
	}
	if needsFiles(m) { // those of llms that were adopted, too
		g.found = append(g.found, instruct(m, func(name string) ([]byte, error) { return g.some(path.Join(in, name)) })...)
	}
}

// agent reads the manifest of an agent that m imports. Its own files are looked for
// beside it.
func (g *gatherer) agent(a *Definition, m *manifest.Manifest, w manifest.Wanted, file string, data []byte, within []string) {
	fault := func(format string, args ...any) {
		g.found = append(g.found, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: w.Field, File: file, Detail: fmt.Sprintf(format, args...)})
	}
	if slices.Contains(within, file) {
		fault("the agent calls itself: %s", strings.Join(append(within[slices.Index(within, file):], file), " > "))
		return
	}
	if len(within) >= manifest.MaxAgentDepth {
		fault("agents nest at most %d deep", manifest.MaxAgentDepth)
		return
	}
	if g.agents++; g.agents > manifest.MaxAgents {
		if g.agents == manifest.MaxAgents+1 {
			fault("an agent has at most %d agents, all depths together", manifest.MaxAgents)
		}
		return
	}
	child, err := manifest.ParseEnv(file, data, os.LookupEnv, g.dialects...)
	if err != nil {
		g.found = append(g.found, err)
		return
	}
	own := &Definition{Manifest: child, Dir: g.folder(path.Dir(file))}
	before := len(g.found)
	g.gather(own, child, path.Dir(file), append(within[:len(within):len(within)], file))
	if len(g.found) > before {
		return
	}
	if err := m.AdoptAgent(w, file, child); err != nil {
		g.found = append(g.found, err)
		return
	}
	a.Agents = append(a.Agents, own)
}

func (g *gatherer) folder(in string) string {
	return filepath.Join(g.dir.Name(), filepath.FromSlash(in))
}

// agentKind is the kind of manifests.
const agentKind = "Agent"

// some reads a file of the agent's folder, and notes it.
func (g *gatherer) some(name string) ([]byte, error) {
	data, err := readSome(g.dir, name)
	if err == nil {
		g.read = append(g.read, g.folder(name))
	}
	return data, err
}

// readSome reads a file of a folder up to one byte more than a manifest may have.
func readSome(dir *os.Root, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, manifest.MaxFileBytes+1))
}
