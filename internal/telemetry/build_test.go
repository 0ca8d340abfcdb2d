package telemetry

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestBuildInfo(t *testing.T) {
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"the command":  {&debug.BuildInfo{GoVersion: "go9", Main: debug.Module{Path: module, Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}, "go9 abc v1.2.3"},
		"an embedder":  {&debug.BuildInfo{GoVersion: "go9", Main: debug.Module{Path: "example.com/x", Version: "v7"}, Deps: []*debug.Module{{Path: "example.com/y", Version: "v6"}, {Path: module, Version: "v1.0.0"}}}, "go9  v1.0.0"},
		"without info": {nil, "  unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := prometheus.NewRegistry()
			r.MustRegister(buildInfo(func() (*debug.BuildInfo, bool) { return c.info, c.info != nil }))
			families, err := r.Gather()
			if err != nil || len(families) != 1 {
				t.Fatal(families, err)
			}
			m := families[0].GetMetric()[0]
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, " ") != c.want || m.GetGauge().GetValue() != 1 {
				t.Errorf("%v", m)
			}
		})
	}
}

func TestJournalFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := NewMetrics()
	m.JournalFile(path)
	if v := values(t, m); v["stile_journal_bytes part=file"] != 5 || v["stile_journal_bytes part=log"] != 0 {
		t.Errorf("%v", v)
	}
}
