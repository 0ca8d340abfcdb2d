package main

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/manifest"
)

// lookTurns warns of a manifest that asks for no limit of turns where the dialect has one:
// there a 0 that is written down is as one that is left out, and the loader cannot tell them
// apart.
func lookTurns(path string, m *manifest.Manifest) []finding {
	most := map[string]string{"aeiou": "50", "kitsu": "three more than kitsu.max_continues"}[m.Dialect]
	if most == "" || m.Loop.MaxTurns != 0 {
		return nil
	}
	var limits struct {
		Cap  *int64 `yaml:"iteration_cap"`
		Loop struct {
			Turns *int64 `yaml:"max_turns"`
			Cap   *int64 `yaml:"iteration_cap"`
		} `yaml:"loop"`
	}
	doc, err := os.ReadFile(path)
	if err != nil || yaml.Unmarshal(doc, &limits) != nil || limits.Cap == nil && limits.Loop.Turns == nil && limits.Loop.Cap == nil {
		return nil
	}
	return []finding{{"turns " + path, isWarn, fmt.Sprintf("loop.max_turns is 0, which in %s is the default, %s; as good as none is 1000000", m.Dialect, most)}}
}
