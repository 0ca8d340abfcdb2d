package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

var top = filepath.Join("..", "..", "..")

func read(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

func required(t *testing.T, dir string) []requirement {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(top, filepath.FromSlash(dir))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct{ Require []requirement }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	return mod.Require
}

var pinned = regexp.MustCompile(`([@a-zA-Z][-\w./]*)@(v?\d[-\w.]*)`)

// Every module that go.mod names, and every pin of the Makefile, has a row with its
// version and a reason, and no row is of something else.
func TestDependenciesPage(t *testing.T) {
	want := map[[2]string]bool{} // path and version; two sets of packages may have one in two versions
	for _, dir := range []string{".", "internal/lint", "internal/kubecheck"} {
		for _, r := range required(t, dir) {
			if !r.Indirect {
				want[[2]string{r.Path, r.Version}] = true
			}
		}
	}
	for line := range strings.Lines(read(t, "Makefile")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, m := range pinned.FindAllStringSubmatch(line, -1) {
			want[[2]string{m[1], m[2]}] = true
		}
	}
	if len(want) < 50 {
		t.Fatalf("%d modules and packages found", len(want))
	}
	rows, err := rowsOf(read(t, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		at := [2]string{r.path, r.version}
		if !want[at] {
			t.Errorf("%s: %s %s has a row and is not required by go.mod or Makefile, or has two", page, r.path, r.version)
		}
		delete(want, at)
	}
	for at := range want {
		t.Errorf("%s: %s %s has no row", page, at[0], at[1])
	}
}

func TestRowsOfADependencyHaveAReason(t *testing.T) {
	for _, line := range []string{
		"| `example.org/a` | v1.0.0 | tests | |",
		"| `example.org/a` | v1.0.0 | | newest |",
		"| `example.org/a` | v1.0.0 | newest |",
	} {
		if rows, err := rowsOf(line + "\n"); err == nil {
			t.Errorf("%s: taken as %v", line, rows)
		}
	}
}

// NOTICE has the versions of go.mod. That it has all that is linked is make notice-check's.
func TestNoticeHasTheVersions(t *testing.T) {
	versions := map[string]string{}
	for _, r := range required(t, ".") {
		versions[r.Path] = r.Version
	}
	n := 0
	for line := range strings.Lines(read(t, "NOTICE")) {
		if !strings.HasPrefix(line, "  ") {
			if n > 0 {
				break
			}
			continue
		}
		entry, _, _ := strings.Cut(strings.TrimSpace(line), ": ")
		path, version, _ := strings.Cut(entry, " ")
		if strings.HasPrefix(path, fromNPM) { // host/internal/page has the versions of these
			continue
		}
		if path != standard && versions[path] != version {
			t.Errorf("NOTICE has %s %s, go.mod %q: make notice", path, version, versions[path])
		}
		n++
	}
	if n < 90 {
		t.Errorf("NOTICE names %d modules", n)
	}
}

const (
	mit  = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software\n"
	bsd2 = "Redistributions in binary form must reproduce the above copyright\nnotice\n"
	bsd3 = bsd2 + "Neither the name of X may be used to endorse or promote\n// products derived from this software\n"
	gpl  = "GNU GENERAL PUBLIC LICENSE\nVersion 3\n"
)

func TestLicencesOf(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{mit, "MIT"},
		{bsd2, "BSD-2-Clause"},
		{bsd3, "BSD-3-Clause"},
		{mit + bsd2, "BSD-2-Clause MIT"},
		{"## GNU  Lesser\n*General* Public License", "LGPL"},
		{gpl + mit, "GPL MIT"},
		{"SQLite Is Public Domain", "blessing"},
		{"All rights reserved.", ""},
	} {
		if got := strings.Join(licencesOf(c.body), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.body, got, c.want)
		}
	}
}

func moduleWith(file, body string) module {
	return module{path: "example.org/m", version: "v1.0.0", texts: []text{{file: file, body: body, licences: licencesOf(body)}}}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct{ file, body, want string }{
		{"LICENSE", mit, ""},
		{"LICENSE", gpl, "LICENSE carries GPL, which is not on the list"},
		{"LICENSE", mit + gpl, "LICENSE carries GPL, which is not on the list"},
		{"NOTICE", "parts are under the Mozilla Public License", "NOTICE carries MPL"},
		{"LICENSE", "Do no evil.", "no known licence among its 1 texts"},
		{"NOTICE", "Copyright X.", "no known licence among its 1 texts"},
	} {
		_, err := noticeOf([]module{moduleWith(c.file, c.body)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.body, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "example.org/m v1.0.0")):
			t.Errorf("%q: %v, want %q", c.body, err, c.want)
		}
	}
	two := moduleWith("LICENSE", mit)
	two.texts = append(two.texts, text{file: "sub/COPYING", body: "Ask me."})
	if _, err := noticeOf([]module{two}); err == nil || !strings.Contains(err.Error(), "sub/COPYING carries no known licence") {
		t.Errorf("a second text without a licence: %v", err)
	}
}

// A text that modules share is there once, and under all of them.
func TestNoticeHasATextOnce(t *testing.T) {
	a, b := moduleWith("LICENSE", tidy(mit)), moduleWith("COPYING", tidy("\ufeff\n"+strings.ReplaceAll(mit, "\n", " \r\n")))
	b.path = "example.org/n"
	out, err := noticeOf([]module{a, b})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "free of charge"); n != 1 {
		t.Errorf("the text is there %d times", n)
	}
	for _, who := range []string{"example.org/m: LICENSE\n", "example.org/n: COPYING\n"} {
		if !strings.Contains(string(out), who) {
			t.Errorf("%q is not named", who)
		}
	}
}

// The libraries of the console are named with their versions and licences.
func TestEmbedded(t *testing.T) {
	all, err := embedded(top)
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(all); err != nil {
		t.Error(err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.path)
		if m.version == "" || len(m.licences()) == 0 {
			t.Errorf("%s %s: %q", m.path, m.version, m.licences())
		}
	}
	if got, want := strings.Join(names, " "), "npm:preact npm:htm npm:uplot"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Files with terms are found in a module's root and beside its packages.
func TestTextsIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "LICENCE-MIT.txt", "Copying", "NOTICE.md", "license.go", "licensed.txt", "README", "PATENTS"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(mit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := textsIn(filepath.Dir(dir), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range texts {
		got = append(got, strings.TrimPrefix(x.file, filepath.Base(dir)+"/"))
	}
	if want := "Copying LICENCE-MIT.txt LICENSE NOTICE.md"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestBill(t *testing.T) {
	sum := bytes.Repeat([]byte{0xab}, 32)
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "example.org/main", Version: "v0.2.0"},
		Deps:      []*debug.Module{{Path: "example.org/m", Version: "v1.0.0", Sum: "h1:" + base64.StdEncoding.EncodeToString(sum)}},
		Settings:  []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "CGO_CFLAGS", Value: "-I/home/ada"}},
	}
	modules := []module{moduleWith("LICENSE", mit), {path: standard, texts: moduleWith("LICENSE", bsd3).texts}}
	out, err := billOf(info, "", modules)
	if err != nil {
		t.Fatal(err)
	}
	again, err := billOf(info, "", modules)
	if err != nil || !bytes.Equal(out, again) {
		t.Errorf("a second time it is another: %v", err)
	}
	if strings.Contains(string(out), "/home/ada") {
		t.Error("a path of the machine is in it")
	}
	var doc bill
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Metadata.Component.Purl != "pkg:golang/example.org/main@v0.2.0" || len(doc.Components) != 2 || len(doc.Dependencies) != 1 || len(doc.Dependencies[0].DependsOn) != 2 {
		t.Errorf("%s", out)
	}
	std, m := doc.Components[0], doc.Components[1]
	if std.Version != "1.26.8" || std.Licences[0].Licence.ID != "BSD-3-Clause" {
		t.Errorf("std: %+v", std)
	}
	if m.Purl != "pkg:golang/example.org/m@v1.0.0" || m.Hashes[0].Content != strings.Repeat("ab", 32) || m.Licences[0].Licence.ID != "MIT" {
		t.Errorf("m: %+v", m)
	}

	for want, spoil := range map[string]func(d *debug.Module){
		"which this tree does not link": func(d *debug.Module) { d.Version = "v1.0.1" },
		"has no sum in the binary":      func(d *debug.Module) { d.Sum = "" },
		"is replaced in the binary by":  func(d *debug.Module) { d.Replace = &debug.Module{Path: "../m"} },
	} {
		d := *info.Deps[0]
		spoil(&d)
		other := *info
		other.Deps = []*debug.Module{&d}
		if _, err := billOf(&other, "", modules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
