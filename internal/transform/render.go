package transform

import (
	"regexp"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// markdown renders a value as a table, a list or a text.
func (r *run) markdown(v string) string {
	o := output{run: r}
	between := ""
	switch kind := jsonvalue.Kind(v); {
	case kind == jsonvalue.Array && tabular(v):
		r.table(&o, v)
	case kind == jsonvalue.Array:
		for item := range jsonvalue.Items(v) {
			o.add(between, "- ", oneLine(jsonvalue.Text(item)))
			between = "\n"
		}
	case kind == jsonvalue.Object:
		for name, value := range jsonvalue.Members(v) {
			o.add(between, "- **", oneLine(jsonvalue.Meant(name)), "**: ", oneLine(jsonvalue.Text(value)))
			between = "\n"
		}
	default:
		o.add(jsonvalue.Text(v))
	}
	return o.value()
}

// tabular reports whether an array is of objects that are not empty and have scalars alone.
func tabular(v string) bool {
	rows := 0
	for item := range jsonvalue.Items(v) {
		if rows++; jsonvalue.Kind(item) != jsonvalue.Object || item == "{}" {
			return false
		}
		for _, value := range jsonvalue.Members(item) {
			if !jsonvalue.Scalar(value) {
				return false
			}
		}
	}
	return rows > 0
}

// table writes an array of objects: a column for each name that one of them has.
func (r *run) table(o *output, v string) {
	seen := map[string]bool{}
	var columns []string
	for item := range jsonvalue.Items(v) {
		for name := range jsonvalue.Members(item) {
			if !seen[name] {
				seen[name] = true
				columns = append(columns, name)
			}
		}
	}
	slices.SortFunc(columns, jsonvalue.Before)
	for _, name := range columns {
		o.add("| ", cell(jsonvalue.Meant(name)), " ")
	}
	o.add("|\n", strings.Repeat("| --- ", len(columns)), "|")
	row := map[string]string{}
	for item := range jsonvalue.Items(v) {
		clear(row)
		for name, value := range jsonvalue.Members(item) {
			row[name] = value
		}
		o.add("\n")
		for _, name := range columns {
			text := ""
			if value := row[name]; value != "" && jsonvalue.Kind(value) != jsonvalue.Null {
				text = cell(jsonvalue.Text(value))
			}
			o.add("| ", text, " ")
		}
		o.add("|")
		if r.why != "" {
			return
		}
	}
}

func cell(text string) string { return strings.ReplaceAll(oneLine(text), "|", `\|`) }

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

func oneLine(text string) string { return lineEnds.Replace(text) }

// yaml renders a value in block style.
func (r *run) yaml(v string) string {
	o := output{run: r}
	r.block(&o, v, 0)
	return o.value()
}

// block writes a value whose first line begins where o is, and whose others stand at a depth.
func (r *run) block(o *output, v string, depth int) {
	indent := "\n" + strings.Repeat("  ", depth)
	between := ""
	switch kind := jsonvalue.Kind(v); {
	case kind == jsonvalue.Array && v != "[]":
		for item := range jsonvalue.Items(v) {
			if r.why != "" {
				return
			}
			o.add(between, "- ")
			r.block(o, item, depth+1)
			between = indent
		}
	case kind == jsonvalue.Object && v != "{}":
		for name, value := range jsonvalue.Members(v) {
			if r.why != "" {
				return
			}
			o.add(between, scalar(name), ":")
			if jsonvalue.Scalar(value) || value == "[]" || value == "{}" {
				o.add(" ")
			} else {
				o.add(indent, "  ")
			}
			r.block(o, value, depth+1)
			between = indent
		}
	default:
		o.add(scalar(v))
	}
}

// plain is what a text may be to stand in YAML without quotes, but for words that mean
// something else there.
var plain = regexp.MustCompile(`\A[A-Za-z_]([A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?\z`)

var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

func scalar(v string) string {
	if jsonvalue.Kind(v) != jsonvalue.String {
		return jsonvalue.Canonical(v)
	}
	text := jsonvalue.Meant(v)
	if plain.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return v
}
