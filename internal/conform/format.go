package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// A format is one shape of vector file.
type format struct {
	name string
	// match recognises a document by its content.
	match func(*document) bool
	// cases lists what is to be judged. Its error concerns the whole file, such
	// as a table of keys that makes no sense. nil: not in this release.
	cases func(*document) ([]testCase, error)
}

// formats is every format there is. The first that matches a document is its
// format; a new one is a row here and a file beside this one.
var formats = []format{
	{"envelopes", func(d *document) bool { return d.has("expect") && (d.has("input") || d.has("input_parts")) }, envelopeCases},
	{"tokens", func(d *document) bool { return d.has("line") && d.has("context") }, tokenCases},
	{"turns", func(d *document) bool { return d.has("output_lines") }, turnCases},
	{"progress", func(d *document) bool { return d.list("digests") || d.list("sequences") }, progressCases},
	{"templates", func(d *document) bool { return d.has("template") }, templateCases},
	{"expressions", func(d *document) bool { return d.has("expr") }, expressionCases},
	{"transforms", func(d *document) bool { return d.has("steps") && d.has("input") }, transformCases},
	{"jcs numbers", func(d *document) bool { return d.has("ieee") }, numberCases},
	{"jcs documents", func(d *document) bool {
		return d.has("input") && (d.has("output") || d.has("error")) && !d.has("visible")
	}, documentCases},
	{publishedFormat, func(*document) bool { return false }, nil}, // folders, by their shape
	{"neuroscript", func(d *document) bool { return d.has("program") }, programCases},
	{"streaming", func(d *document) bool { return d.has("input") && d.has("events") }, streamingCases},
	{"kitsu", func(d *document) bool { return d.has("input") && d.has("visible") }, kitsuCases},
	{"cogency", func(d *document) bool {
		return d.list("parse") || d.list("progress") || d.list("turn") || d.list("assemble")
	}, cogencyCases},
}

// publishedFormat is found by recognising a folder, not a document.
const publishedFormat = "jcs published"

// formatVersion is the format member of the files of this release.
const formatVersion = "1"

// recognise finds the format of a document. A format member that names a format
// ("stile-kitsu/1") is believed before the shape of the cases is.
func recognise(d *document) (int, *messages.Error) {
	version := d.members["format"]
	if version.Kind() == '"' {
		var name string
		if err := json.Unmarshal(version, &name); err != nil {
			return 0, faultOf(err)
		}
		short, rest, _ := strings.Cut(strings.TrimPrefix(name, "stile-"), "/")
		f := slices.IndexFunc(formats, func(f format) bool { return f.name == short && rest == formatVersion })
		if f < 0 {
			return 0, &messages.Error{Code: messages.ErrConfig, Field: "format", Detail: fmt.Sprintf("unknown format %q", name)}
		}
		return f, nil
	}
	f := slices.IndexFunc(formats, func(f format) bool { return f.match(d) })
	if f < 0 {
		return 0, messages.Errorf(messages.ErrConfig, "unknown format: %s", d.describe())
	}
	if version != nil && string(version) != formatVersion {
		return 0, &messages.Error{Code: messages.ErrConfig, Field: "format", Detail: fmt.Sprintf("version %s of format %s is not in this release", version, formats[f].name)}
	}
	return f, nil
}

// A document is a vector file, opened one level deep: either an array of cases,
// or an object with members, one of which may be the array of cases.
type document struct {
	members map[string]jsontext.Value // of an object
	listed  []jsontext.Value          // the cases
	first   map[string]jsontext.Value // the first case
}

// open reads a document. Repeated names and bytes that are not UTF-8 are refused:
// a case must not mean different things to different readers.
func open(b []byte) (*document, *messages.Error) {
	d := new(document)
	var whole jsontext.Value
	if err := json.Unmarshal(b, &whole); err != nil {
		return nil, faultOf(err)
	}
	list := whole
	if whole.Kind() == '{' {
		if err := json.Unmarshal(whole, &d.members); err != nil {
			return nil, faultOf(err)
		}
		list = d.members["cases"]
	}
	if list.Kind() != '[' {
		return d, nil
	}
	if err := json.Unmarshal(list, &d.listed); err != nil {
		return nil, faultOf(err)
	}
	if len(d.listed) > 0 && d.listed[0].Kind() == '{' {
		if err := json.Unmarshal(d.listed[0], &d.first); err != nil {
			return nil, faultOf(err)
		}
	}
	return d, nil
}

// has reports whether the cases have a member, by the first of them.
func (d *document) has(member string) bool { _, ok := d.first[member]; return ok }

// list reports whether the object has an array of this name.
func (d *document) list(member string) bool { return d.members[member].Kind() == '[' }

// describe describes a document of an unknown format.
func (d *document) describe() string {
	names := func(m map[string]jsontext.Value) string {
		all := make([]string, 0, len(m))
		for name := range m {
			all = append(all, name)
		}
		slices.Sort(all)
		if len(all) > 12 {
			all = append(all[:12], "…")
		}
		return strings.Join(all, ", ")
	}
	switch {
	case len(d.first) > 0:
		return "cases with the members " + names(d.first)
	case len(d.listed) > 0:
		return "an array whose first element is no case"
	case d.members != nil:
		return "an object without cases, with the members " + names(d.members)
	}
	return "no case in it"
}

// each makes one test case of every raw one. The name is the member of this name,
// or the position counted from 1.
func each(raws []jsontext.Value, member, prefix string, judge func(jsontext.Value) (verdict, error)) []testCase {
	all := make([]testCase, len(raws))
	for i, raw := range raws {
		all[i] = testCase{
			name:  prefix + nameOf(raw, member, i),
			judge: func() (verdict, error) { return judge(raw) },
		}
	}
	return all
}

func nameOf(raw jsontext.Value, member string, i int) string {
	var name string
	var m map[string]jsontext.Value
	if json.Unmarshal(raw, &m) != nil || m[member] == nil || json.Unmarshal(m[member], &name) != nil || name == "" {
		return fmt.Sprintf("#%d", i+1)
	}
	return name
}

// decode reads one case.
func decode(raw jsontext.Value, into any) error {
	if raw.Kind() != '{' {
		return malformed("", "a case is an object")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return faultOf(err)
	}
	return nil
}
