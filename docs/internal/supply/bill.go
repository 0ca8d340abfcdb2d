package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
)

// The parts of a CycloneDX 1.6 document that are used.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component  component  `json:"component"`
		Properties []property `json:"properties,omitempty"`
	}
	component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		Purl     string    `json:"purl"`
		Hashes   []hash    `json:"hashes,omitempty"`
		Licences []licence `json:"licenses,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	licence struct {
		Licence struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// billOf writes the bill of materials of a binary: the modules that its own build
// information names, with their sums of go.sum and their licences. It has neither a time
// nor a serial number, so that the same binary gives the same bytes.
//
// A module that NOTICE does not have is an error: the binary was built from another tree.
func billOf(info *debug.BuildInfo, version string, modules []module) ([]byte, error) {
	licences := map[string][]string{}
	for _, m := range modules {
		licences[m.path+" "+m.version] = m.licences()
	}
	if version == "" {
		version = info.Main.Version
	}
	main := part("application", info.Main.Path, version, "", []string{"Apache-2.0"})
	doc := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{Component: main}}
	for _, s := range info.Settings {
		// What decides on the bytes of the binary; paths of the machine are not among it.
		if slices.Contains([]string{"CGO_ENABLED", "GOARCH", "GOOS", "GOAMD64", "GOARM64", "-tags", "-trimpath", "-ldflags", "vcs.revision", "vcs.modified"}, s.Key) {
			doc.Metadata.Properties = append(doc.Metadata.Properties, property{"stile:build:" + s.Key, s.Value})
		}
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	doc.Components = append(doc.Components, part("library", standard, goVersion, "", licences[standard+" "]))
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, fmt.Errorf("%s is replaced in the binary by %s", d.Path, d.Replace.Path)
		}
		ids, ok := licences[d.Path+" "+d.Version]
		if !ok {
			return nil, fmt.Errorf("the binary has %s %s, which this tree does not link: build it from here", d.Path, d.Version)
		}
		c := part("library", d.Path, d.Version, d.Sum, ids)
		if len(c.Hashes) == 0 {
			return nil, fmt.Errorf("%s %s has no sum in the binary (%q)", d.Path, d.Version, d.Sum)
		}
		doc.Components = append(doc.Components, c)
	}
	for _, m := range modules {
		if isEmbedded(m) {
			c := part("library", strings.TrimPrefix(m.path, fromNPM), m.version, "", m.licences())
			c.Purl = "pkg:npm/" + c.Name + "@" + m.version
			c.Ref = c.Purl
			doc.Components = append(doc.Components, c)
		}
	}
	var refs []string
	for _, c := range doc.Components {
		refs = append(refs, c.Ref)
	}
	doc.Dependencies = []dependency{{main.Ref, refs}}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

// part describes one module. A sum of go.sum is a SHA-256 over the sums of its files.
func part(kind, path, version, sum string, ids []string) component {
	purl := "pkg:golang/" + path + "@" + url.PathEscape(version)
	c := component{Type: kind, Ref: purl, Name: path, Version: version, Purl: purl}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == 32 {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	for _, id := range ids {
		var l licence
		l.Licence.ID = id
		c.Licences = append(c.Licences, l)
	}
	return c
}
