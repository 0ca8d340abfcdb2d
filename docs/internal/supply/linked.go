package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// platforms are those that binaries are made for. The modules differ by a few.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// module is one that has a package in the command.
type module struct {
	path, version string
	texts         []text
}

// text is a file of a module that says under which terms it may be passed on.
type text struct {
	file     string // relative to the module, with slashes
	body     string
	licences []string // SPDX identifiers; none for a file that is a notice alone
}

// standard stands for what Go itself puts into a binary. Its licence is that of
// golang.org/x/sys to the byte, and is taken from there: not every distribution of Go
// has the file.
const (
	standard     = "std"
	standardFrom = "golang.org/x/sys"
)

// terms names files with terms. AUTHORS and PATENTS are not asked for by any licence.
var terms = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice)([-._].*)?$`)

// linked returns the modules, sorted by path, that have packages in the command at pkg: on
// any of the platforms, with their texts. The main module is not among them.
func linked(dir, pkg string) ([]module, error) {
	type found struct{ version, dir string }
	modules := map[string]found{}
	folders := map[string]map[string]bool{} // module → folders of its packages
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		cmd := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", pkg)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list on %s: %w", platform, err)
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir      string
				Standard bool
				Module   *struct {
					Path, Version, Dir string
					Main               bool
					Replace            *struct{ Path string }
				}
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list on %s: %w", platform, err)
			}
			if p.Standard || p.Module == nil || p.Module.Main {
				continue
			}
			if p.Module.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s: what is linked would not be what go.sum pins", p.Module.Path, p.Module.Replace.Path)
			}
			modules[p.Module.Path] = found{p.Module.Version, p.Module.Dir}
			if folders[p.Module.Path] == nil {
				folders[p.Module.Path] = map[string]bool{}
			}
			// A package may have terms of its own, and so may each folder above it.
			for d := p.Dir; strings.HasPrefix(d, p.Module.Dir); d = filepath.Dir(d) {
				folders[p.Module.Path][d] = true
			}
		}
	}
	var all []module
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := module{path: path, version: modules[path].version}
		for _, folder := range slices.Sorted(maps.Keys(folders[path])) {
			texts, err := textsIn(modules[path].dir, folder)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			m.texts = append(m.texts, slices.DeleteFunc(texts, func(t text) bool { return omitted[path+" "+t.file] != "" })...)
		}
		all = append(all, m)
		if path == standardFrom {
			all = append(all, module{path: standard, texts: m.texts})
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// textsIn reads the files with terms of one folder of the module at dir.
func textsIn(dir, folder string) ([]text, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var texts []text
	for _, e := range entries {
		if !e.Type().IsRegular() || !terms.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(dir, filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		t := text{file: filepath.ToSlash(name), body: tidy(string(body))}
		t.licences = licencesOf(t.body)
		texts = append(texts, t)
	}
	return texts, nil
}

// tidy makes equal what differs in ends of lines and blanks at their ends alone.
func tidy(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(s, "\ufeff")) {
		b.WriteString(strings.TrimRight(line, " \t\r\n"))
		b.WriteByte('\n')
	}
	return strings.Trim(b.String(), "\n") + "\n"
}
