// Command lint says what in the module's code breaks a rule that a program can check:
// the analyzers of go vet and of staticcheck (staticcheck.conf, in the root, says which
// are off), errcheck, errorlint and exhaustive.
//
// It is a module of its own, so that none of this gets into the go.sum of who imports
// stile. It is this rather than golangci-lint because that one has 1,222 packages to
// compile and this 518.
package main

import (
	_ "embed"
	"go/ast"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// unchecked names the functions whose error says nothing, each with the reason.
//
//go:embed errcheck.txt
var unchecked []byte

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "lint")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list := filepath.Join(dir, "errcheck.txt")
	if err := os.WriteFile(list, unchecked, 0o600); err != nil {
		return err
	}
	if err := errcheck.Analyzer.Flags.Set("exclude", list); err != nil {
		return err
	}
	whole, err := wholeSwitches()
	if err != nil {
		return err
	}
	cmd := lintcmd.NewCommand("lint")
	cmd.ParseFlags(os.Args[1:])
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(vet.Suite...)
	cmd.AddBareAnalyzers(uncheckedErrors(), errorlint.NewAnalyzer(), whole)
	if status := cmd.Execute(); status != 0 {
		os.RemoveAll(dir)
		os.Exit(status)
	}
	return nil
}

// uncheckedErrors is errcheck for what is no test: what a test does not look at, it does
// not test, and most of it is a Close at its end.
func uncheckedErrors() *analysis.Analyzer {
	a := *errcheck.Analyzer
	a.Run = func(pass *analysis.Pass) (any, error) {
		p := *pass
		p.Files = slices.DeleteFunc(slices.Clone(pass.Files), func(f *ast.File) bool {
			return strings.HasSuffix(pass.Fset.File(f.Pos()).Name(), "_test.go")
		})
		return errcheck.Analyzer.Run(&p)
	}
	return &a
}
