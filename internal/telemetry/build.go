package telemetry

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

const module = "github.com/seed14be6753/stile"

// buildInfo is 1, with labels that say which build runs: that of this module, also in the program
// of an embedder.
func buildInfo(read func() (*debug.BuildInfo, bool)) prometheus.Collector {
	version, revision, goVersion := "unknown", "", ""
	if b, ok := read(); ok {
		goVersion = b.GoVersion
		if b.Main.Path == module {
			version = b.Main.Version
			for _, s := range b.Settings {
				if s.Key == "vcs.revision" {
					revision = s.Value
				}
			}
		}
		for _, d := range b.Deps {
			if d.Path == module {
				version = d.Version
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, with the version, the revision of the source and the version of Go.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": goVersion},
	})
	g.Set(1)
	return g
}
