package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/internal/conform"
)

func (a *app) conformCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "conform PATH...",
		Short: "Run conformance vectors",
		Long: `Judges the conformance vectors in files and folders by the functions the runtime
itself uses, and prints every case that failed with what was expected. Exit status 5
says that a case failed, or that a file could not be run.`,
		Example: `  stile conform tests/testdata/vectors
  stile conform vectors/tokens.json --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.conform(ctx, args, asJSON, quiet) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary alone, as JSON")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "tell only of files in which a case failed; on a terminal with how far it is")
	return cmd
}

type conformJSON struct {
	OK          bool        `json:"ok"`
	Passed      int         `json:"passed"`
	Failed      int         `json:"failed"`
	LeftOut     int         `json:"left_out"`
	Unsupported int         `json:"unsupported"`
	Ignored     int         `json:"ignored"`
	Formats     []countJSON `json:"formats"`
	Problems    []string    `json:"problems"`
}

type countJSON struct {
	Format  string `json:"format"`
	Files   int    `json:"files"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	LeftOut int    `json:"left_out"`
}

func (a *app) conform(ctx context.Context, paths []string, asJSON, quiet bool) error {
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return unreadable(p, err)
		}
	}
	w := a.out
	if asJSON {
		w = io.Discard
	}
	opts := conform.Options{Quiet: quiet}
	var shown *progress
	if quiet {
		shown = a.progressOf("case", 0)
		opts.Progress = func(cases int) { shown.reach(int64(cases)) }
	}
	sum, err := conform.Run(ctx, w, paths, opts)
	shown.end()
	interrupted := errors.Is(err, context.Canceled) // what it came to until then is told
	if err != nil && !interrupted {
		return err
	}
	if interrupted && !asJSON {
		_, bad := fmt.Fprintf(a.out, "interrupted: %d passed, %d failed\n", sum.Passed, sum.Failed)
		return errors.Join(err, bad)
	}
	if asJSON {
		out := conformJSON{sum.OK() && !interrupted, sum.Passed, sum.Failed, sum.LeftOut, sum.Unsupported, sum.Ignored, []countJSON{}, []string{}}
		for _, c := range sum.Formats {
			out.Formats = append(out.Formats, countJSON(c))
		}
		for _, p := range sum.Problems {
			out.Problems = append(out.Problems, p.Error())
		}
		if err := a.writeJSON(out); err != nil {
			return err
		}
	}
	if interrupted {
		return err
	}
	if !sum.OK() {
		return exitConform
	}
	return nil
}
