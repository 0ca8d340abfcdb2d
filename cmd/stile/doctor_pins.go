package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/visible"
	"github.com/seed14be6753/stile/manifest"
)

// pinJSON is a digest that a manifest can pin; of the whole list without a tool.
type pinJSON struct {
	Manifest string `json:"manifest"`
	Server   string `json:"server"`
	Tool     string `json:"tool,omitzero"`
	Pin      string `json:"pin"`
	Pinned   string `json:"pinned,omitzero"` // by the manifest, when it is another
}

// pins asks the MCP servers of agents what they offer, and prints the digests to pin. It
// fails where a manifest pins something else.
func (a *app) pins(ctx context.Context, config string, manifests []string, asJSON bool) error {
	s, err := a.loadSettings(config)
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		manifests = s.Agents
	}
	differs, cfg := false, a.checking(ctx, &s)
	for _, path := range manifests {
		agent, err := stile.LoadAgent(path)
		if err != nil {
			return err
		}
		servers, err := stile.Pins(ctx, agent, cfg)
		if err != nil {
			return err
		}
		for i := range agent.Manifest.Import.MCP {
			d := &agent.Manifest.Import.MCP[i]
			is := servers[d.Name]
			had := pinsOf(d)
			for _, tool := range slices.Sorted(maps.Keys(is)) {
				p := pinJSON{Manifest: path, Server: d.Name, Tool: tool, Pin: is[tool]}
				if had[tool] != "" && had[tool] != is[tool] {
					p.Pinned, differs = had[tool], true
				}
				if err := a.printPin(&p, asJSON); err != nil {
					return err
				}
				delete(had, tool)
			}
			for _, tool := range slices.Sorted(maps.Keys(had)) {
				if differs = true; asJSON {
					err = a.writeJSON(pinJSON{Manifest: path, Server: d.Name, Tool: tool, Pinned: had[tool]})
				} else {
					_, err = fmt.Fprintf(a.out, "  # %s is pinned and not there\n", visible.Exact(tool))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	if differs {
		return exitFailure
	}
	return nil
}

func pinsOf(d *manifest.MCP) map[string]string {
	had := map[string]string{}
	if d.Pin != "" {
		had[""] = d.Pin
	}
	for _, t := range d.Tools {
		if t.Pin != "" {
			had[t.Name] = t.Pin
		}
	}
	return had
}

// printPin writes a line that can stand in a manifest.
func (a *app) printPin(p *pinJSON, asJSON bool) error {
	if asJSON {
		return a.writeJSON(p)
	}
	note := ""
	if p.Pinned != "" {
		note = " # the manifest has " + p.Pinned
	}
	var err error
	if p.Tool == "" {
		_, err = fmt.Fprintf(a.out, "# %s: import.mcp, %s; pin the list or single tools\npin: %s%s\ntools:\n", visible.Exact(p.Manifest), visible.Exact(p.Server), p.Pin, note)
	} else {
		_, err = fmt.Fprintf(a.out, "  - {name: %q, pin: %q}%s\n", visible.Exact(p.Tool), p.Pin, note)
	}
	return err
}
