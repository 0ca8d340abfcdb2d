package main

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// settingsReference is docs/settings.md.
func settingsReference() string {
	var b strings.Builder
	b.WriteString(`# Settings of a host

<!-- Made by go test ./cmd/stile -run TestSettingsReference -update -->

` + "`stile serve`, `stile doctor`, `stile tokens`, `stile audit`, `stile backup` and `stile restore`" + ` read them from ` + "`stile.yaml`" + ` in the working directory, or from the file that ` + "`--config` or `$STILE_CONFIG`" + ` names. Every other command with ` + "`--dir`" + ` takes ` + "`dir`, `journal`, `passphrase_file`, `key_rest` and `unproved`" + ` from the same places, so that it looks at the host's journal; only ` + "`stile tour`" + ` does not. A flag goes before the environment, the environment before the file, the file before the default. Unknown keys and wrong values are refused, all at once, with file, line and key. So is a variable whose name is nearly that of a setting, such as ` + "`STILE_AUHT`" + `; other names that begin with ` + "`STILE_`" + ` are left alone, because agents may have their secrets in such and Kubernetes sets some.

    agents: [agents/support.yaml]
    listen: 0.0.0.0:8471
    hosts: [stile.example.com]
    retention: 720h
    limits: {requests_per_second: 50, runs: 20}
    tenants:
      acme: {limits: {requests_per_second: 500, runs: 200}}
    may_use: {acme: [support], "*": []}

In the environment lists are separated by commas. Durations are written as ` + "`90s` or `12h`" + `.

| key | environment | default | |
| --- | --- | --- | --- |
`)
	s := defaultSettings()
	for _, one := range s.each() {
		env := "–"
		if one.env != "" {
			env = "`" + one.env + "`"
		}
		doc := one.doc
		if len(one.choices) > 0 {
			doc += " One of `" + strings.Join(one.choices, "` `") + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", one.key, env, defaultText(one.value), doc)
	}
	b.WriteString("\nOf a tenant in `tenants`: `limits`, with the keys above.\n")
	return b.String()
}

func defaultText(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if v.Int() == 0 {
			return "0"
		}
		text := time.Duration(v.Int()).String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return "`" + text + "`"
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Map, v.Kind() == reflect.String && v.Len() == 0:
		return "–"
	}
	return fmt.Sprintf("`%v`", v.Interface())
}
