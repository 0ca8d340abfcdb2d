package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/files"
)

// lookDocuments warns of documents that feeds of an agent name and its folder does not
// have: each of its prompts would have error="failed" in their place. They may come later,
// so it is no failure.
func lookDocuments(agent *stile.Agent) (all []finding) {
	root, err := os.OpenRoot(agent.Dir)
	if err != nil {
		return nil // the agent's own findings say it
	}
	defer root.Close()
	for _, f := range agent.Manifest.ContextFeeds {
		params, err := json.Marshal(f.Source.Params)
		if err != nil {
			continue
		}
		src := feeds.Source{Kind: feeds.Kind(cmp.Or(f.Source.Type, f.Type)), Params: string(params)}
		for _, path := range src.Paths() {
			if _, err := root.Stat(path); err != nil {
				all = append(all, finding{"feed " + f.ID, isWarn, fmt.Sprintf("%s: %v", path, files.Cause(err))})
			}
		}
	}
	return all
}
