package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// allowed are the licences under which a module may be linked: each lets the command be
// passed on under Apache 2.0 with its text beside it.
var allowed = []string{
	"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT",
	"blessing", // SQLite's dedication to the public domain
}

// omitted are files that say nothing of what is linked, by module and file, each with the
// reason.
var omitted = map[string]string{
	"modernc.org/memory LICENSE-LOGO":         "of a picture in its repository",
	"modernc.org/sqlite LICENSE-3RD-PARTY.md": "sums up its whole module graph, tests too; what is linked has texts of its own here",
	"modernc.org/sqlite LICENSE-SQLITE_VEC":   "of a package that is not linked",
}

// exceptions are licences outside the list that a file names without binding what is
// linked, by module, file and licence, each with the reason.
var exceptions = map[string]string{
	"github.com/modelcontextprotocol/go-sdk LICENSE CC-BY": "of its documentation; the code is under MIT and Apache-2.0",
}

// marks are what a licence says and no other does, in lower case with single blanks. A
// text may carry several. Those that are not allowed are here so that a text that names
// one is refused, also beside an allowed one.
var marks = []struct{ licence, mark string }{
	{"Apache-2.0", "apache license version 2.0, january 2004"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"BSD-3-Clause", "to endorse or promote products derived from"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce the above"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"blessing", "sqlite is public domain"},
	{"CC-BY", "creative commons attribution"},
	{"CC-BY-SA", "attribution-sharealike"},
	{"CC-BY-NC", "noncommercial"},
	{"CC0-1.0", "cc0 1.0"},
	{"Unlicense", "this is free and unencumbered software"},
	{"MPL", "mozilla public license"},
	{"EPL", "eclipse public license"},
	{"CDDL", "common development and distribution license"},
	{"GPL", "gnu general public license"},
	{"LGPL", "lesser general public license"},
	{"LGPL", "library general public license"},
	{"AGPL", "affero general public license"},
	{"SSPL", "server side public license"},
	{"BUSL", "business source license"},
	{"EUPL", "european union public licence"},
	{"Elastic-2.0", "elastic license"},
	{"Commons-Clause", "commons clause"},
}

// licencesOf names the licences that a text carries, sorted; none when it carries no
// known one.
func licencesOf(body string) []string {
	// Comment signs and rules of Markdown are no words.
	words := strings.Join(strings.Fields(strings.NewReplacer("#", " ", "*", " ", "//", " ", "`", " ", ">", " ").Replace(strings.ToLower(body))), " ")
	var ids []string
	for _, m := range marks {
		if strings.Contains(words, m.mark) && !slices.Contains(ids, m.licence) {
			ids = append(ids, m.licence)
		}
	}
	// The third clause is what makes three of two. With both in one text the longer counts.
	if slices.Contains(ids, "BSD-3-Clause") {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "BSD-2-Clause" })
	}
	slices.Sort(ids)
	return ids
}

// licences are those of a module's texts together, sorted, without the exceptions.
func (m module) licences() []string {
	var ids []string
	for _, t := range m.texts {
		for _, id := range t.licences {
			if exceptions[m.path+" "+t.file+" "+id] == "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// judge refuses modules without a licence, and licences outside the list.
func judge(modules []module) error {
	var errs []error
	for _, m := range modules {
		if len(m.licences()) == 0 {
			errs = append(errs, fmt.Errorf("%s %s: no known licence among its %d texts", m.path, m.version, len(m.texts)))
		}
		for _, t := range m.texts {
			if len(t.licences) == 0 && !isNotice(t.file) {
				errs = append(errs, fmt.Errorf("%s %s: %s carries no known licence", m.path, m.version, t.file))
			}
			for _, id := range t.licences {
				if !slices.Contains(allowed, id) && exceptions[m.path+" "+t.file+" "+id] == "" {
					errs = append(errs, fmt.Errorf("%s %s: %s carries %s, which is not on the list of allowed licences", m.path, m.version, t.file, id))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// isNotice reports whether a file says whose the work is, beside a licence elsewhere.
func isNotice(file string) bool {
	return strings.HasPrefix(strings.ToLower(path.Base(file)), "notice")
}

const rule = "================================================================================\n"

// noticeOf writes NOTICE: the modules with their licences, then each text once, under the
// modules and files that have it.
func noticeOf(modules []module) ([]byte, error) {
	if err := judge(modules); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("stile\n\nLicensed under the Apache License, Version 2.0: see LICENSE.\n\n" +
		"The command stile has the following software of others in it, under the licences\n" +
		"named here, whose texts follow. A copy of the command goes with a copy of this file.\n\n" +
		"Made by make notice from what is linked; std is Go's own library and runtime.\n\n")
	groups := map[string][]string{}
	var order []string
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s: %s\n", strings.TrimSpace(m.path+" "+m.version), strings.Join(m.licences(), ", "))
		for _, t := range m.texts {
			if groups[t.body] == nil {
				order = append(order, t.body)
			}
			groups[t.body] = append(groups[t.body], m.path+": "+t.file)
		}
	}
	for _, body := range order {
		b.WriteString("\n" + rule)
		for _, who := range groups[body] {
			b.WriteString(who + "\n")
		}
		b.WriteString(rule + "\n" + body)
	}
	return b.Bytes(), nil
}
