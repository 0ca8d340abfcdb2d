package attacks

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notProduct are folders whose packages no host runs: tests, proofs, tools of this project.
var notProduct = []string{
	"bench", "docs", "examples", "tests", "clients", "internal/kubecheck", "internal/lint", "internal/sim", "internal/conform", "internal/certtest", "internal/pagetest", "internal/postgrestest", "internal/wiretest",
	"journal/journaltest", "internal/specimen", "llm/llmtest", "parse/internal/parsetest", "tools/internal/toolstest", "cmd", "bin",
}

// keeps names the kind of a type that keeps something under a key or hands it on: a map, a
// cache, a pool, a table of calls in flight. "" is none.
func keeps(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.MapType:
		return "map"
	case *ast.ArrayType:
		return keeps(t.Elt)
	case *ast.StarExpr:
		return keeps(t.X)
	case *ast.IndexExpr:
		if k := keeps(t.X); k != "" {
			return k
		}
		return keeps(t.Index)
	case *ast.IndexListExpr:
		return keeps(t.X)
	case *ast.SelectorExpr:
		pkg, ok := t.X.(*ast.Ident)
		if !ok {
			return ""
		}
		switch name := pkg.Name + "." + t.Sel.Name; {
		case name == "sync.Map", name == "sync.Pool", name == "singleflight.Group":
			return name
		case strings.Contains(strings.ToLower(pkg.Name), "lru"), strings.Contains(pkg.Name, "ristretto"), strings.Contains(t.Sel.Name, "Cache"), strings.Contains(t.Sel.Name, "Pool"):
			return name
		}
	}
	return ""
}

// made is keeps of a value.
func made(e ast.Expr) string {
	switch v := e.(type) {
	case *ast.CompositeLit:
		if v.Type != nil {
			return keeps(v.Type)
		}
	case *ast.UnaryExpr:
		return made(v.X)
	case *ast.CallExpr:
		if id, ok := v.Fun.(*ast.Ident); ok && (id.Name == "make" || id.Name == "new") && len(v.Args) > 0 {
			return keeps(v.Args[0])
		}
		if sel, ok := v.Fun.(*ast.SelectorExpr); ok && (strings.HasPrefix(sel.Sel.Name, "New") || strings.Contains(sel.Sel.Name, "Cache")) {
			return keeps(&ast.SelectorExpr{X: sel.X, Sel: ast.NewIdent(strings.TrimPrefix(sel.Sel.Name, "New"))})
		}
	}
	return ""
}

// structures are what keeps something, in all that a host runs: fields of types, and
// variables of packages. The name is package.Type.field or package.variable; the value is
// its kind.
func structures(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || slices.Contains(notProduct, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(rel))
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for i, name := range s.Names {
						kind := ""
						if s.Type != nil {
							kind = keeps(s.Type)
						} else if i < len(s.Values) {
							kind = made(s.Values[i])
						}
						if kind != "" {
							all[room+" "+name.Name] = kind
						}
					}
				case *ast.TypeSpec:
					if kind := keeps(s.Type); kind != "" {
						all[room+" "+s.Name.Name] = kind
					}
					fields(all, room+" "+s.Name.Name, s.Type)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func fields(all map[string]string, name string, e ast.Expr) {
	s, ok := e.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			if kind := keeps(f.Type); kind != "" {
				all[name+"."+n.Name] = kind
			}
			fields(all, name+"."+n.Name, f.Type)
		}
		if len(f.Names) == 0 {
			if kind := keeps(f.Type); kind != "" {
				all[name+"."+kind] = kind
			}
		}
	}
}

// lives are how long what a structure keeps may stay in it.
var lives = []string{"fixed", "call", "session", "host"}

// Every structure that keeps something has a row that says how long, and those that live
// across sessions what keeps tenants apart in them, with a test that holds it.
func TestSharedStructures(t *testing.T) {
	there := structures(t)
	tests := testNames(t)
	f, err := os.Open(filepath.Join("testdata", "shared.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := map[string]bool{}
	shared := 0
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		if in.Text() == "" || strings.HasPrefix(in.Text(), "#") {
			continue
		}
		parts := strings.Split(in.Text(), " | ")
		name := parts[0]
		if rows[name] {
			t.Errorf("line %d: %s is there twice", n, name)
		}
		rows[name] = true
		switch {
		case there[name] == "":
			t.Errorf("line %d: %s is no structure of the product any more", n, name)
		case len(parts) < 2 || !slices.Contains(lives, parts[1]):
			t.Errorf("line %d: %s lives as one of %q", n, name, lives)
		case parts[1] != "host":
		case len(parts) != 4 || parts[2] == "":
			t.Errorf("line %d: %s lives across sessions: say its key, and a test", n, name)
		default:
			shared++
			for test := range strings.SplitSeq(parts[3], ", ") {
				if !tests[test] {
					t.Errorf("line %d: %s is held by %s, which is no test", n, name, test)
				}
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !rows[name] {
			t.Errorf("%s, a %s, has no row in testdata/shared.txt: say how long it lives, and if it lives across sessions what keeps tenants apart in it", name, there[name])
		}
	}
	if len(there) < 100 || shared < 40 {
		t.Errorf("%d structures, %d of them shared: the search finds too few", len(there), shared)
	}
	t.Logf("%d structures, %d of them shared", len(there), shared)
}

// testNames are all tests of the project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2, d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			all[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
