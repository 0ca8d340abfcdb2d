package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  stile version --json`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			v := versionOf(debug.ReadBuildInfo())
			if asJSON {
				return a.writeJSON(v)
			}
			_, err := fmt.Fprintln(a.out, v)
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v version) String() string {
	return "stile " + v.Version + " " + v.Revision + " " + v.Go + " " + v.Platform
}

// versionOf reads what the Go tool wrote into the binary.
func versionOf(info *debug.BuildInfo, ok bool) version {
	v := version{Version: "(devel)", Revision: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}
