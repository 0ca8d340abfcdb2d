// Command weigh prints what a binary is made of: code by module, bytes by section. It fails
// when the binary is over its bound.
//
//	go run ./docs/internal/weigh -max 56 BINARY
//
// Code is counted by the table of functions that every Go binary has, also a stripped one.
// A function that was inlined counts as its caller's, an instance of a generic function as
// its own module's. Tables that grow with the code (functions, lines, types) are about as
// large again as the code and have no owner, so a module that goes takes about twice what
// its row says.
//
// It reads ELF alone: releases for other systems are made of the same code.
package main

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/gosym"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	bound := flag.Float64("max", 0, "fail above this many MiB (1,048,576 bytes); 0 is no bound")
	rows := flag.Int("rows", 25, "modules to print, the largest first")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *bound, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

const mib = 1 << 20

func run(out io.Writer, path string, bound float64, rows int) error {
	w, err := weigh(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w.print(out, rows)
	if size := float64(w.size) / mib; bound > 0 && size > bound {
		return fmt.Errorf("%s has %.1f MiB, over its bound of %g: look at what the table names first (docs/decisions/024-a-small-binary.md)", path, size, bound)
	}
	return nil
}

// weight is what a binary is made of, in bytes.
type weight struct {
	size     int64
	modules  []share // of code, the largest first
	sections []share // of the file, the largest first
}

type share struct {
	name  string
	count int // functions; 0 for a section
	bytes int64
}

func weigh(path string) (*weight, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	w := &weight{size: st.Size()}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			w.sections = append(w.sections, share{name: s.Name, bytes: int64(s.FileSize)})
		}
	}
	slices.SortFunc(w.sections, larger)
	funcs, err := functions(f)
	if err != nil {
		return nil, err
	}
	owner := owners(info)
	at := map[string]int{}
	for i := range funcs {
		fn := &funcs[i]
		m := owner(packageOf(fn.Name))
		k, ok := at[m]
		if !ok {
			k = len(w.modules)
			at[m] = k
			w.modules = append(w.modules, share{name: m})
		}
		w.modules[k].count++
		w.modules[k].bytes += int64(fn.End - fn.Entry)
	}
	slices.SortFunc(w.modules, larger)
	return w, nil
}

func larger(a, b share) int {
	if a.bytes != b.bytes {
		return int(b.bytes - a.bytes)
	}
	return strings.Compare(a.name, b.name)
}

// functions reads the table of functions.
func functions(f *elf.File) ([]gosym.Func, error) {
	lines, text := f.Section(".gopclntab"), f.Section(".text")
	if lines == nil || text == nil {
		return nil, errors.New("no Go binary for Linux: it has no section .gopclntab")
	}
	b, err := lines.Data()
	if err != nil {
		return nil, err
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(b, text.Addr))
	if err != nil {
		return nil, err
	}
	return t.Funcs, nil
}

// packageOf is the import path in the name of a function. Type arguments may have paths and
// dots of their own.
func packageOf(fn string) string {
	fn, _, _ = strings.Cut(fn, "[")
	fn = strings.TrimPrefix(fn, "type:.eq.")
	fn = strings.TrimPrefix(fn, "type:.hash.")
	slash := strings.LastIndexByte(fn, '/') + 1
	if dot := strings.IndexByte(fn[slash:], '.'); dot >= 0 {
		fn = fn[:slash+dot]
	}
	return strings.ReplaceAll(fn, "%2e", ".") // a dot in the last element of a path
}

// owners returns the module of a package: of those in the binary the one with the longest
// path, else Go itself. The package main is the main module's.
func owners(info *buildinfo.BuildInfo) func(pkg string) string {
	mods := []string{info.Main.Path}
	for _, m := range info.Deps {
		mods = append(mods, m.Path)
	}
	return func(pkg string) string {
		own := ""
		for _, m := range mods {
			if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(own) {
				own = m
			}
		}
		switch {
		case own != "":
			return own
		case pkg == "main":
			return info.Main.Path
		}
		return "Go"
	}
}

func (w *weight) print(out io.Writer, rows int) {
	line := func(s share) {
		count := ""
		if s.count > 0 {
			count = fmt.Sprint(s.count)
		}
		fmt.Fprintf(out, "%8.2f MiB %7s  %s\n", float64(s.bytes)/mib, count, s.name)
	}
	fmt.Fprintf(out, "%8.2f MiB          in all\n\ncode by module, and its functions:\n", float64(w.size)/mib)
	rest := share{name: "others"}
	for i, s := range w.modules {
		if i < rows {
			line(s)
			continue
		}
		rest.count += s.count
		rest.bytes += s.bytes
	}
	if rest.count > 0 {
		line(rest)
	}
	fmt.Fprintln(out, "\nsections of more than 0.1 MiB:")
	for _, s := range w.sections {
		if s.bytes > mib/10 {
			line(s)
		}
	}
}
