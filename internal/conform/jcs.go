package conform

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/messages"
)

// canonicalText is a canonical form, or "" for an input that must be refused: no
// JSON text is empty.
type canonicalText string

func (c canonicalText) String() string {
	if c == "" {
		return "refused"
	}
	return quoted([]byte(c))
}

// canonicalGot is what canonicalising gave.
type canonicalGot struct {
	out []byte
	err error
}

func canonicalize(input []byte) canonicalGot {
	out, err := token.Canonicalize(input)
	return canonicalGot{out, err}
}

func (g canonicalGot) matches(w canonicalText) bool {
	if g.err != nil {
		return w == ""
	}
	return w != "" && string(g.out) == string(w)
}

func (g canonicalGot) String() string {
	if g.err != nil {
		return "refused: " + g.err.Error()
	}
	return quoted(g.out)
}

type numberCase struct {
	IEEE   string         `json:"ieee"` // 16 hex digits
	JSON   string         `json:"json"`
	Error  jsontext.Value `json:"error"`
	Accept []string       `json:"accept"`
}

func numberCases(d *document) ([]testCase, error) {
	return each(d.listed, "ieee", "", judgeNumber), nil
}

// judgeNumber writes the double in several ways, since a canonicaliser never sees
// bits, and wants the same text for all of them.
func judgeNumber(raw jsontext.Value) (verdict, error) {
	var c numberCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	bits, err := strconv.ParseUint(c.IEEE, 16, 64)
	if err != nil || len(c.IEEE) != 16 {
		return verdict{}, malformed("ieee", "%q is not 16 hexadecimal digits", c.IEEE)
	}
	wants, err := wanted(c.JSON, c.Error, c.Accept)
	if err != nil {
		return verdict{}, err
	}
	f := math.Float64frombits(bits)
	spellings := []string{strconv.FormatFloat(f, 'e', -1, 64)}
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		spellings = append(spellings, strconv.FormatFloat(f, 'f', -1, 64), strconv.FormatFloat(f, 'e', 40, 64))
	}
	var v verdict
	for _, s := range spellings {
		got := canonicalize([]byte(s))
		if v = compare(got, got.matches, wants); !v.pass {
			break
		}
	}
	return v, nil
}

type jsonCase struct {
	Input  *[]byte        `json:"input"`
	Output []byte         `json:"output"`
	Error  jsontext.Value `json:"error"`
	Accept [][]byte       `json:"accept"`
}

func documentCases(d *document) ([]testCase, error) {
	return each(d.listed, "name", "", judgeDocument), nil
}

func judgeDocument(raw jsontext.Value) (verdict, error) {
	var c jsonCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Input == nil {
		return verdict{}, malformed("input", "missing")
	}
	accept := make([]string, len(c.Accept))
	for i, a := range c.Accept {
		accept[i] = string(a)
	}
	wants, err := wanted(string(c.Output), c.Error, accept)
	if err != nil {
		return verdict{}, err
	}
	got := canonicalize(*c.Input)
	return compare(got, got.matches, wants), nil
}

// wanted reads an expectation that is either a text or an error. The error's
// content, true or some words, is not compared.
func wanted(text string, refusal jsontext.Value, accept []string) ([]canonicalText, error) {
	refused := refusal != nil && refusal.Kind() != 'n' && refusal.Kind() != 'f'
	if refused == (text != "") {
		return nil, malformed("error", "a case has either a canonical text or an error")
	}
	wants := []canonicalText{canonicalText(text)}
	for _, a := range accept {
		wants = append(wants, canonicalText(a))
	}
	return wants, nil
}

// publishedParts are the subfolders of the documents that the project
// json-canonicalization publishes: the same names in each.
var publishedParts = [3]string{"input", "output", "outhex"}

// publishedFolders recognises a folder of published documents by its shape, input
// beside at least one kind of answer, and gives the subfolders that are taken.
func publishedFolders(path string) []string {
	var found []string
	for _, part := range publishedParts {
		sub := filepath.Join(path, part)
		if info, err := os.Stat(sub); err == nil && info.IsDir() {
			found = append(found, sub)
		}
	}
	if len(found) < 2 || filepath.Base(found[0]) != publishedParts[0] {
		return nil
	}
	return found
}

// published runs a folder of published documents. Every name that stands in one
// of its parts is a case.
func (r *run) published(ctx context.Context, path string) {
	var names []string
	parts := map[string]map[string]string{} // part, then name without extension, to file
	for _, sub := range publishedFolders(path) {
		entries, err := os.ReadDir(sub)
		if err != nil {
			r.unreadable(sub, err)
			return
		}
		files := map[string]string{}
		for _, e := range entries {
			file := filepath.Join(sub, e.Name())
			if hidden(e.Name()) {
				r.ignored(file, "a hidden file")
				continue
			}
			name := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
			if files[name] != "" {
				name = e.Name()
			}
			files[name] = file
			names = append(names, name)
		}
		parts[filepath.Base(sub)] = files
	}
	slices.Sort(names)
	var all []testCase
	for _, name := range slices.Compact(names) {
		all = append(all, testCase{name, func() (verdict, error) { return r.judgePublished(name, parts) }})
	}
	f := slices.IndexFunc(formats, func(f format) bool { return f.name == publishedFormat })
	if len(all) == 0 {
		r.problem(&messages.Error{Code: messages.ErrConfig, File: path, Detail: "no document in it"})
		return
	}
	r.cases(ctx, path, f, all)
}

// judgePublished wants the bytes of output and those that outhex spells, which
// must agree.
func (r *run) judgePublished(name string, parts map[string]map[string]string) (verdict, error) {
	content := map[string][]byte{}
	for _, part := range publishedParts {
		files, ok := parts[part]
		if !ok {
			continue
		}
		if files[name] == "" {
			return verdict{}, malformed(part, "no document of this name")
		}
		b, fault := r.read(files[name])
		if fault != nil {
			return verdict{}, fault
		}
		content[part] = b
	}
	want, ok := content["output"]
	if text, spelled := content["outhex"]; spelled {
		b, err := hex.DecodeString(string(bytes.Join(bytes.Fields(text), nil)))
		if err != nil {
			return verdict{}, malformed("outhex", "not hexadecimal: %v", err)
		}
		if ok && !bytes.Equal(b, want) {
			return verdict{}, malformed("outhex", "spells other bytes than output holds")
		}
		want = b
	}
	if len(want) == 0 {
		return verdict{}, malformed("output", "%s", fmt.Sprintf("%s is empty", name))
	}
	got := canonicalize(content["input"])
	return compare(got, got.matches, []canonicalText{canonicalText(want)}), nil
}
