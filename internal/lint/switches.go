package main

import (
	"errors"
	"go/ast"
	"go/token"
	"strings"

	"github.com/nishanths/exhaustive/passes/exhaustive"
	"golang.org/x/tools/go/analysis"
)

// wholeSwitches is exhaustive for the enumerations and sums of this module. A switch
// without a default is taken to mean all members when it names three quarters of them,
// or says so itself (//exhaustive:enforce): the others pick what concerns them, and a
// default that does nothing would say no more.
func wholeSwitches() (*analysis.Analyzer, error) {
	a := *exhaustive.Analyzer
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			if meansAll(pass.Files, d) {
				report(d)
			}
		}
		return exhaustive.Analyzer.Run(pass)
	}
	return &a, errors.Join(
		a.Flags.Set("check", "switch,typeswitch"),
		a.Flags.Set("typeonly", `^github[.]com/seed14be6753/stile\b`),
		a.Flags.Set("d", "true"),
	)
}

func meansAll(files []*ast.File, d analysis.Diagnostic) bool {
	_, missing, ok := strings.Cut(d.Message, " switch: ")
	if !ok {
		return true // another mistake than cases that are missing
	}
	var file *ast.File
	for _, f := range files {
		if f.FileStart <= d.Pos && d.Pos < f.FileEnd {
			file = f
		}
	}
	named := casesOf(file, d.Pos)
	if named == nil {
		return true
	}
	left := map[string]bool{} // T and *T are one
	for name := range strings.SplitSeq(missing, ", ") {
		if name = strings.TrimLeft(name, "*"); !named[name] {
			left[name] = true
		}
	}
	return len(left) > 0 && (3*len(left) <= len(named) || enforced(file, d.Pos))
}

// casesOf is what the switch at pos names; nil means that there is none.
func casesOf(file *ast.File, pos token.Pos) map[string]bool {
	var body *ast.BlockStmt
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || n.Pos() != pos {
			return n != nil && n.Pos() <= pos && pos < n.End()
		}
		switch n := n.(type) {
		case *ast.SwitchStmt:
			body = n.Body
		case *ast.TypeSwitchStmt:
			body = n.Body
		}
		return body == nil
	})
	if body == nil {
		return nil
	}
	named := map[string]bool{}
	for _, clause := range body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			named[name(e)] = true
		}
	}
	return named
}

func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return name(e.X)
	case *ast.SelectorExpr:
		return name(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// enforced reports whether the comment that ends before pos has the directive.
func enforced(file *ast.File, pos token.Pos) bool {
	for _, c := range file.Comments {
		if c.End() < pos && pos-c.End() < 64 && strings.Contains(c.List[len(c.List)-1].Text, "exhaustive:enforce") {
			return true
		}
	}
	return false
}
