package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateSurface = flag.Bool("update", false, "write the numbers of the public packages into ARCHITECTURE.md")

// Bounds of what the module promises.
const (
	maxPublicPackages = 32
	maxPublicTypes    = 292 // 287 before the provider that keeps conversations, for tests, and the sealer of key files
)

// disclaimer is in the first line of the comment of a package that can be imported and
// promises nothing.
const disclaimer = " is the host's own and no part of the public API: it may change in any release."

const surfacePage = "../ARCHITECTURE.md"

// surface counts the exported types of the packages that others can import.
func surface(t *testing.T) (public, own map[string]int) {
	t.Helper()
	public, own = map[string]int{}, map[string]int{}
	dec := json.NewDecoder(bytes.NewReader(goList(t, "-json=ImportPath,Name,Dir,GoFiles", "./...")))
	for {
		var p struct {
			ImportPath, Name, Dir string
			GoFiles               []string
		}
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return public, own
		case err != nil:
			t.Fatal(err)
		}
		name, ok := room(p.ImportPath)
		if !ok || p.Name == "main" || len(p.GoFiles) == 0 || slices.Contains(strings.Split(name, "/"), "internal") {
			continue
		}
		if name == "" {
			name = p.Name
		}
		types, first := 0, ""
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			types += exportedTypes(f)
			if line, _, _ := strings.Cut(f.Doc.Text(), "\n"); strings.HasPrefix(line, "Package ") {
				first = line
			}
		}
		if first == "Package "+p.Name+disclaimer {
			own[name] = types
		} else {
			public[name] = types
		}
	}
}

// exportedTypes counts those of a file, aliases too.
func exportedTypes(f *ast.File) (n int) {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				if s.(*ast.TypeSpec).Name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

// publicRow is a line of the table: package, exported types, who needs it.
var publicRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\d+) \\| (.*) \\|\n")

// sections returns the places of the table of public packages and of the list of the others.
func sections(t *testing.T, page string) (table, list [2]int) {
	t.Helper()
	begin := strings.Index(page, "\n## Public packages\n")
	middle := strings.Index(page, "\n### No promise\n")
	if begin < 0 || middle < begin {
		t.Fatal("ARCHITECTURE.md has no section Public packages with a section No promise in it")
	}
	end := middle + 1 + strings.Index(page[middle+1:], "\n## ")
	return [2]int{begin, middle}, [2]int{middle, end}
}

// What can be imported, and how many types it exports, is written down with who needs it,
// and stays within bounds. After a change that is meant:
//
//	go test ./tests -run TestPublicPackages -update
//
// writes the numbers; a new package is then to be given its reader.
func TestPublicPackages(t *testing.T) {
	public, own := surface(t)
	b, err := os.ReadFile(surfacePage)
	if err != nil {
		t.Fatal(err)
	}
	if *updateSurface {
		b = []byte(written(t, string(b), public, own))
		if err := os.WriteFile(surfacePage, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page := string(b)
	table, list := sections(t, page)
	documented, sum := map[string]int{}, 0
	for _, m := range publicRow.FindAllStringSubmatch(page[table[0]:table[1]], -1) {
		documented[m[1]], err = strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(m[3], " ?") == "" {
			t.Errorf("the table does not say who needs %s", m[1])
		}
	}
	for name, n := range public {
		sum += n
		if was, ok := documented[name]; !ok {
			t.Errorf("%s can be imported and is not in the table: make it internal, or have the first line of its comment say that the package%s", name, disclaimer)
		} else if was != n {
			t.Errorf("%s exports %d types, and the table has %d", name, n, was)
		}
	}
	for name := range documented {
		if _, ok := public[name]; !ok {
			t.Errorf("%s is in the table and is no public package", name)
		}
	}
	if len(public) > maxPublicPackages || sum > maxPublicTypes {
		t.Errorf("%d public packages with %d exported types; %d with %d are allowed", len(public), sum, maxPublicPackages, maxPublicTypes)
	}
	if total := fmt.Sprintf("%d packages with %d exported types", len(public), sum); !strings.Contains(page[table[0]:table[1]], total) {
		t.Errorf("the section does not say %q", total)
	}
	var others []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(page[list[0]:list[1]], -1) {
		others = append(others, m[1])
	}
	slices.Sort(others)
	if want := slices.Sorted(maps.Keys(own)); !slices.Equal(others, want) {
		t.Errorf("without promise are %q, and the list has %q", want, others)
	}
}

// written is the page with what there is; who needs a package stays as it was.
func written(t *testing.T, page string, public, own map[string]int) string {
	t.Helper()
	table, list := sections(t, page)
	readers, sum := map[string]string{}, 0
	rows := publicRow.FindAllStringSubmatchIndex(page[table[0]:table[1]], -1)
	if len(rows) == 0 {
		t.Fatal("the table of public packages has no row")
	}
	text := page[table[0]:table[1]]
	for _, m := range rows {
		readers[text[m[2]:m[3]]] = text[m[6]:m[7]]
	}
	var b strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(public), func(a, b string) int { return strings.Compare(place(a), place(b)) }) {
		who, ok := readers[name]
		if !ok {
			who = "?"
		}
		sum += public[name]
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", name, public[name], who)
	}
	text = text[:rows[0][0]] + b.String() + text[rows[len(rows)-1][1]:]
	text = regexp.MustCompile(`\d+ packages with \d+ exported types`).ReplaceAllString(text, fmt.Sprintf("%d packages with %d exported types", len(public), sum))
	names := slices.Sorted(maps.Keys(own))
	return page[:table[0]] + text + "\n### No promise\n\nThese can be imported, and the first line of their comments says that they promise nothing: `" +
		strings.Join(names, "`, `") + "`.\n" + page[list[1]:]
}

// place orders the facade before its rooms.
func place(name string) string {
	if name == path.Base(module) {
		return ""
	}
	return name
}
