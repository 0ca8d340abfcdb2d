package compiler

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// instruct puts the texts of instruction files, of a manifest and of its llms, into the
// manifest, so that its digest covers the texts. read reads a file of the agent's folder.
func instruct(m *manifest.Manifest, read func(name string) ([]byte, error)) (mistakes []error) {
	add := func(err error) {
		if err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if own := &m.Instructions; own.File != "" {
		file := own.File
		err := instructFrom("instructions.file", &own.Text, &own.File, read)
		if err == nil {
			err = from(resolved(m), "instructions.file", file)
		}
		add(err)
	}
	for i := range m.Define.LLMs {
		d, field := &m.Define.LLMs[i], fmt.Sprintf("define.llms[%d].instructions.file", i)
		if file := d.Instructions.File; file != "" {
			err := instructFrom(field, &d.Instructions.Text, &d.Instructions.File, read)
			if err == nil {
				err = from(resolvedLLM(m, i), field, file)
			}
			add(err)
		}
	}
	return mistakes
}

// from says that a mistake is in a file.
func from(err error, field, file string) error {
	if e, ok := errors.AsType[*messages.Error](err); ok {
		e.Field, e.File = field, file
	}
	return err
}

// instructFrom puts the text of a file in its place.
func instructFrom(field string, text, file *string, read func(name string) ([]byte, error)) error {
	bad := func(reason, detail string, cause error) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: reason, Field: field, File: *file, Detail: detail, Cause: cause}
	}
	if *text != "" {
		return bad(manifest.ReasonBadValue, "there is a text as well; leave one of them out", nil)
	}
	data, err := read(*file)
	switch {
	case err != nil:
		return bad(manifest.ReasonMissing, "cannot read the instructions", files.Cause(err))
	case len(data) > manifest.MaxInstructions:
		return bad(manifest.ReasonBadValue, "instructions have at most 64KiB", nil)
	case !utf8.Valid(data):
		return bad(manifest.ReasonBadValue, "the instructions are not UTF-8", nil)
	}
	*text, *file = string(data), ""
	return nil
}

// needsFiles reports whether instructions of a manifest, or of its llms, are still in files.
func needsFiles(m *manifest.Manifest) bool {
	return m.Instructions.File != "" || slices.ContainsFunc(m.Define.LLMs, func(d manifest.LLM) bool { return d.Instructions.File != "" })
}

// resolved reports a placeholder in instructions that stands for nothing.
func resolved(m *manifest.Manifest) error {
	for _, name := range prompt.Placeholders(m.Instructions.Text) {
		known := name == prompt.Given || slices.Contains(variableNames(m), name) ||
			slices.ContainsFunc(m.ContextFeeds, func(f manifest.Feed) bool { return f.ID == name })
		if !known {
			return &messages.Error{
				Code: messages.ErrConfig, Reason: manifest.ReasonUndefinedEnv, Field: "instructions.text",
				Detail: name + " is neither in environment.allow, nor in environment.variables, nor a feed; $${ is ${ as it stands",
			}
		}
	}
	return nil
}

// resolvedLLM reports a placeholder in the instructions of an llm that stands for nothing:
// it knows variables alone, since an llm has neither runs nor feeds.
func resolvedLLM(m *manifest.Manifest, i int) error {
	for _, name := range prompt.Placeholders(m.Define.LLMs[i].Instructions.Text) {
		if !slices.Contains(variableNames(m), name) {
			return &messages.Error{
				Code: messages.ErrConfig, Reason: manifest.ReasonUndefinedEnv, Field: fmt.Sprintf("define.llms[%d].instructions.text", i),
				Detail: name + " is neither in environment.allow nor in environment.variables; $${ is ${ as it stands",
			}
		}
	}
	return nil
}

// system returns the system text of an llm: its instructions, and its own message.
func (e *Env) system(m *manifest.Manifest, i int) (string, error) {
	d := &m.Define.LLMs[i]
	if d.Instructions.Text == "" {
		return d.System, nil
	}
	if err := resolvedLLM(m, i); err != nil {
		return "", err
	}
	value := variables(m)
	text, err := prompt.Expand(d.Instructions.Text, func(name string) (string, error) {
		v, _ := value(name)
		return v, nil
	})
	switch {
	case err != nil || e.replays(): // no model is asked
		return "", err
	case !utf8.ValidString(text) || len(text) > manifest.MaxInstructions:
		return "", &messages.Error{
			Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: fmt.Sprintf("define.llms[%d].instructions", i),
			Detail: fmt.Sprintf("with their variables they have %d bytes; at most %d of UTF-8 are allowed", len(text), manifest.MaxInstructions),
		}
	case d.System != "":
		text += "\n\n" + d.System
	}
	return text, nil
}

// instructed puts the instructions of the program into the manifest: a text as it is, and the
// placeholder of a function's result after it, or where the text has it. A replayed agent
// has them from the journal.
func (e *Env) instructed(a *Definition, m *manifest.Manifest) error {
	own := &m.Instructions
	switch {
	case a.Instructions != "" && own.Text != "":
		return &messages.Error{Code: messages.ErrConfig, Field: "instructions", Detail: "the manifest has some as well; leave one of them out"}
	case a.Instructions != "":
		own.Text = a.Instructions
	}
	gives := slices.Contains(prompt.Placeholders(own.Text), prompt.Given)
	switch {
	case a.Instruct == nil && gives && !e.replays():
		return &messages.Error{Code: messages.ErrConfig, Field: "instructions", Detail: "${" + prompt.Given + "} stands for what a program gives, and none does"}
	case a.Instruct != nil && !gives && own.Text != "":
		own.Text += "\n\n${" + prompt.Given + "}"
	case a.Instruct != nil && !gives:
		own.Text = "${" + prompt.Given + "}"
	}
	return resolved(m)
}
