// Command supply says what of others is linked into the command stile, and under which
// terms: NOTICE with the licences, and a bill of materials.
//
// What is linked is what the Go tool says of ./cmd/stile on every platform below, with
// the SDKs of vendors; texts come from the modules as go.sum pins them. So no network is
// needed once the modules are there, and two runs give the same bytes.
//
// It is not a tool of others because those that were tried took the texts for licences
// that they are not (ISC for 0BSD, the Go Authors' BSD for another, MIT for CC-BY), or
// left out NOTICE files, which Apache 2.0 asks for.
//
//	go run ./docs/internal/supply -notice        write NOTICE
//	go run ./docs/internal/supply -check         compare NOTICE with what is linked
//	go run ./docs/internal/supply -sbom BINARY   CycloneDX of a built command, to standard output
//	go run ./docs/internal/supply -outdated      which modules of docs/dependencies.md have a newer version
package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// root is the folder of the module seen from where make runs this.
const root = "."

func main() {
	notice := flag.Bool("notice", false, "write NOTICE")
	check := flag.Bool("check", false, "fail unless NOTICE is what -notice would write")
	sbom := flag.String("sbom", "", "print the bill of materials of this binary")
	version := flag.String("version", "", "version of the main module in the bill of materials, where the binary has none")
	old := flag.Bool("outdated", false, "print which modules have a newer version")
	flag.Parse()
	if err := run(os.Stdout, *notice, *check, *old, *sbom, *version); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

// parts are what of others is in the command: modules of Go, and libraries of the console.
func parts(root string) ([]module, error) {
	modules, err := linked(root, "./cmd/stile")
	if err != nil {
		return nil, err
	}
	more, err := embedded(root)
	return append(modules, more...), err
}

func run(out io.Writer, notice, check, old bool, binary, version string) error {
	switch {
	case notice, check:
		modules, err := parts(root)
		if err != nil {
			return err
		}
		text, err := noticeOf(modules)
		if err != nil {
			return err
		}
		file := filepath.Join(root, "NOTICE")
		if notice {
			return os.WriteFile(file, text, 0o644)
		}
		have, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, text) {
			return errors.New("NOTICE is not what the linked modules say: make notice, and review its diff")
		}
		return nil
	case old:
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			return err
		}
		rows, err := rowsOf(string(text))
		if err != nil {
			return err
		}
		return outdated(out, rows)
	case binary != "":
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return err
		}
		modules, err := parts(root)
		if err != nil {
			return err
		}
		text, err := billOf(info, version, modules)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	return errors.New("one of -notice, -check, -sbom and -outdated says what to do")
}
