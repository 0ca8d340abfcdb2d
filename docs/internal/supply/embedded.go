package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fromNPM stands in front of the names of libraries that browsers run. They are in the binary,
// and no module of Go.
const fromNPM = "npm:"

// embeddedTerms has the licences of the console's libraries, each behind a line with name and
// version, as vendor/fetch.sh writes them.
const embeddedTerms = "host/internal/page/vendor/LICENSES"

var embeddedHead = regexp.MustCompile(`(?m)^== (\S+) (\S+)\n`)

// embedded lists the libraries that the binary serves to browsers.
func embedded(root string) (all []module, err error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(embeddedTerms)))
	if err != nil {
		return nil, err
	}
	s := string(b)
	heads := embeddedHead.FindAllStringSubmatchIndex(s, -1)
	for i, at := range heads {
		end := len(s)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		body := tidy(s[at[1]:end])
		all = append(all, module{path: fromNPM + s[at[2]:at[3]], version: s[at[4]:at[5]], texts: []text{{file: "LICENSE", body: body, licences: licencesOf(body)}}})
	}
	if len(all) == 0 {
		return nil, errors.New(embeddedTerms + " names no library")
	}
	return all, nil
}

// isEmbedded reports whether a module is one of browsers.
func isEmbedded(m module) bool { return strings.HasPrefix(m.path, fromNPM) }
