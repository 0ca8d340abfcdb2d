package cortex

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// Calls in formats that models know from elsewhere: JSON of a function call, tags and marks of
// vendors, lines of ReAct. They do not run, and they are not answers either.

// marks are the beginnings of lines of such calls.
var marks = [][]byte{
	[]byte("<tool_call"), []byte("<tool_use"), []byte("<tool_code"), []byte("<function="), []byte("<function_call"), []byte("<function "),
	[]byte("<invoke "), []byte("<|python_tag|>"), []byte("<|tool"), []byte("<｜tool"), []byte("<|action_start|>"),
	[]byte("<start_function_call>"), []byte("[TOOL_CALLS]"), []byte("[TOOL_REQUEST]"), []byte("functools["), []byte("✿FUNCTION✿"),
}

var (
	react  = regexp.MustCompile(`(?m)^[ \t]*(?:\*\*)?Action(?:\*\*)?:[ \t]*\S.*\n(?s:.*?)^[ \t]*(?:\*\*)?Action Input(?:\*\*)?:`)
	python = regexp.MustCompile(`^\[[A-Za-z_][\w.]*\([^\n]*\)\]$`)
)

// foreign reports whether a text is such a call, or ends in one. A call with text after it is an
// example. One at the end is a mistake, unless the model was warned about it before (warned)
// and wrote the same again: then it is the answer.
func foreign(text []byte, fenced []codeFence, warned bool) bool {
	core := trim(text)
	if callShaped(core) || marked(core) || python.Match(core) {
		return true
	}
	behind := 0 // the last fence
	for _, f := range fenced {
		alone := len(trim(text[:f.begin])) == 0
		last := len(trim(text[f.end:])) == 0
		word := trim(text[f.begin:f.from])
		if inner := trim(text[f.from:f.to]); last && (alone || !warned) && (callShaped(inner) || marked(inner) || bytes.HasSuffix(word, []byte("tool_code"))) {
			return true
		}
		behind = f.end
	}
	if warned {
		return false
	}
	rest := text[behind:]
	if react.Match(rest) {
		return true
	}
	for line := range bytes.SplitSeq(rest, []byte{'\n'}) {
		if marked(trimLeft(line)) {
			return true
		}
	}
	i := bytes.LastIndex(rest, []byte("\n{"))
	return i >= 0 && callShaped(trim(rest[i:]))
}

func marked(text []byte) bool {
	for _, m := range marks {
		if bytes.HasPrefix(text, m) {
			return true
		}
	}
	return false
}

// callShaped reports whether a text is JSON that calls a function, or begins like it.
func callShaped(text []byte) bool {
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return false
	}
	j := scan.JSON{Commas: true, Controls: true, Keep: 1}
	if text[0] == '[' {
		j.Keep = 2
	}
	n := j.Write(text)
	if n < len(text) || !j.End() {
		return broken.Match(text)
	}
	normal := j.Bytes()
	name, arguments := false, false
	for _, m := range j.Members() {
		if m.ValueEnd == 0 {
			continue
		}
		v := normal[m.Value:m.ValueEnd]
		switch string(normal[m.Key:m.KeyEnd]) {
		case `"tool_calls"`, `"function_call"`, `"tool_call"`:
			return true
		case `"name"`, `"tool"`, `"function"`, `"tool_name"`, `"function_name"`, `"action"`:
			name = name || v[0] == '"' || v[0] == '{'
		case `"arguments"`, `"parameters"`, `"args"`, `"input"`, `"params"`, `"action_input"`, `"tool_input"`:
			arguments = arguments || v[0] == '{' || v[0] == '"'
		}
	}
	return name && arguments
}

// broken is the beginning of a call that is not valid JSON.
var broken = regexp.MustCompile(`^[\[{\s]*["'](?:name|tool|function|tool_name|action|type)["']\s*:\s*["'][\w.]+["']\s*,\s*["'](?:name|arguments|parameters|args|input|action_input|function)["']\s*:`)

// otherCase reads blocks whose tags are not in lower case, in a reply without other blocks. A
// response is accepted, an action reported as an error. It returns false if there are none.
func (d *decoder) otherCase(text []byte, at int64, fenced []codeFence, complete bool) bool {
	if d.top.mended {
		return false
	}
	if outside(text, fenced, action) != nil {
		d.whole(messages.TextUnit, text, at, d.off, false, true)
		d.fault(d.told(TagCase, at))
		return true
	}
	opener := outside(text, fenced, response)
	if opener == nil || !d.forgives(parse.HabitCase) {
		return false
	}
	final := d.defaultFinal && !partial.Match(text[opener[0]:opener[1]])
	inner := text[opener[1]:]
	if ends := responseEnd.FindAllIndex(inner, -1); ends != nil {
		inner = inner[:ends[len(ends)-1][0]]
	} else if !complete || !d.forgives(parse.HabitClosing) {
		final, complete = false, false
	}
	d.whole(messages.TextUnit, text[:opener[0]], at, d.off, false, true)
	d.forgave(parse.HabitCase, at)
	d.whole(messages.ResponseUnit, inner, at+int64(opener[1]), d.off, final, complete)
	return true
}

// outside returns the first match outside all code fences; nil without one.
func outside(text []byte, fenced []codeFence, what *regexp.Regexp) []int {
	for _, at := range what.FindAllIndex(text, -1) {
		in := func(f codeFence) bool { return f.from <= at[0] && at[0] < f.to }
		if !slices.ContainsFunc(fenced, in) {
			return at
		}
	}
	return nil
}

var (
	action      = regexp.MustCompile(`(?im)^[ \t]*<action(?:[ \t][^<>\n]*)?>`)
	response    = regexp.MustCompile(`(?im)^[ \t]*<response(?:[ \t][^<>\n]*)?>`)
	responseEnd = regexp.MustCompile(`(?i)</response[ \t]*>`)
	partial     = regexp.MustCompile(`(?i)final[ \t]*=[ \t]*["']?false`)
)
