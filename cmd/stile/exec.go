package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/parse/aeiou"
)

func (a *app) execCommand() *cobra.Command {
	var manifest string
	cmd := &cobra.Command{
		Use:   "exec ENVELOPE",
		Short: "Run one AEIOU envelope and print its decision as JSON",
		Long: `Runs the ACTIONS of one complete AEIOU v3 envelope as a turn of its own, in
memory, and prints the decision, OUTPUT and SCRATCHPAD as one JSON object.
ENVELOPE is a file, or - for standard input. A faulty envelope is a decision too:
HALT with the code of the fault.

Without --manifest a program has the pure tools alone.`,
		Example: `  stile exec turn.env
  stile exec - < turn.env | jq -r .decision`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.exec(ctx, args[0], manifest) }),
	}
	cmd.Flags().StringVar(&manifest, "manifest", "", "agent whose tools and quotas the program gets")
	return cmd
}

func (a *app) exec(ctx context.Context, path, manifest string) error {
	var agent *stile.Agent
	if manifest != "" {
		var err error
		if agent, err = stile.LoadAgent(manifest); err != nil {
			return err
		}
	}
	envelope, err := a.envelope(path)
	if err != nil {
		return err
	}
	res, err := runEnvelope(ctx, envelope, agent)
	if err != nil {
		return err
	}
	return errors.Join(a.writeJSON(res), statusOf(res.Decision))
}

// envelopeSlack is what may surround the largest envelope and still leaves it one:
// a BOM in front and a line end behind. More is cut off, and the parser sees that.
const envelopeSlack = 5

// envelope reads as much of a file as can matter: what follows END does not.
func (a *app) envelope(path string) ([]byte, error) {
	r := a.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, aeiou.MaxEnvelopeBytes+envelopeSlack))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return b, nil
}
