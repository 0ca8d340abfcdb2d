package tests

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Packages with files of one platform are complete on the others too: each name that a file
// uses of its own package is declared on every platform that compiles the file, tests
// included, as go vet of that platform would say. What is imported is not looked at, so this takes no compiler.
func TestPackagesAreWholeOnPlatforms(t *testing.T) {
	platforms := []build.Context{
		{GOOS: "linux", GOARCH: "amd64"},
		{GOOS: "linux", GOARCH: "riscv64"},
		{GOOS: "darwin", GOARCH: "arm64"},
		{GOOS: "windows", GOARCH: "amd64"},
	}
	checked := 0
	err := filepath.WalkDir("..", func(dir string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case dir != ".." && strings.HasPrefix(d.Name(), "."), d.Name() == "bin", d.Name() == "node_modules", d.Name() == "testdata":
			return filepath.SkipDir
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			return err
		}
		apart := false
		for i := range platforms {
			platforms[i].Compiler = "gc"
			for _, name := range names {
				ok, err := platforms[i].MatchFile(dir, filepath.Base(name))
				if err != nil {
					return err
				}
				apart = apart || !ok
			}
		}
		if !apart {
			return nil
		}
		checked++
		fset, files := token.NewFileSet(), map[string]*ast.File{}
		for _, name := range names {
			if files[name], err = parser.ParseFile(fset, name, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		// What is missing on the first one as well is the name of an import, which is not known.
		var everywhere []string
		for i := range platforms {
			missing, err := undeclared(&platforms[i], fset, files)
			if err != nil {
				return err
			}
			if i == 0 {
				everywhere = missing
			}
			for _, m := range missing {
				if !slices.Contains(everywhere, m) {
					t.Errorf("%s/%s: %s", platforms[i].GOOS, platforms[i].GOARCH, m)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 {
		t.Errorf("%d packages were looked at", checked)
	}
}

// undeclared returns the names that files of a folder use and that their package does not have
// on a platform, each with its place.
func undeclared(on *build.Context, fset *token.FileSet, files map[string]*ast.File) (missing []string, err error) {
	packages := map[string][]*ast.File{}
	for name, f := range files {
		ok, err := on.MatchFile(filepath.Dir(name), filepath.Base(name))
		if err != nil {
			return nil, err
		}
		if ok {
			packages[f.Name.Name] = append(packages[f.Name.Name], f)
		}
	}
	// A name of another package has a dot.
	local := regexp.MustCompile(`^undefined: [^.]+$`)
	for name, all := range packages {
		cfg := types.Config{Importer: nothing{}, FakeImportC: true, Error: func(err error) {
			if e := (types.Error{}); errors.As(err, &e) && local.MatchString(e.Msg) {
				missing = append(missing, fset.Position(e.Pos).String()+": "+e.Msg)
			}
		}}
		_, _ = cfg.Check(name, fset, all, nil) // what is imported has errors
	}
	return missing, nil
}

// nothing imports packages without their content.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	name := filepath.Base(path)
	if regexp.MustCompile(`^v\d+$`).MatchString(name) {
		name = filepath.Base(filepath.Dir(path))
	}
	p := types.NewPackage(path, name)
	p.MarkComplete()
	return p, nil
}
