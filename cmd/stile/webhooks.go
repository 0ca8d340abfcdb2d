package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) webhooksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Show what webhooks were told at a running host, and send events again",
		Long: `A host tells webhooks of the ends of runs and of calls that wait for approval. What could
not be delivered is among the dead letters. All commands ask a running host, with a token
of the scope admin, for the tenant of the token. Webhooks themselves are settings.`,
		Example: `  stile webhooks list
  stile webhooks dead
  stile webhooks retry ci.msg_5f3a0c9be214d1a7c2f08e6b9d4a3c11
  stile webhooks retry --all`,
		Args: known,
		RunE: group,
	}
	cmd.AddCommand(a.webhooksListCommand(), a.webhooksDeadCommand(), a.webhooksRetryCommand(), a.webhooksDropCommand())
	return cmd
}

// atHost makes the body of a command that asks a running host.
func (a *app) atHost(cmd *cobra.Command, f func(ctx context.Context, r *remote, args []string) error) *cobra.Command {
	var at remoteFlags
	at.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		r, err := a.hostAt(at)
		if err != nil {
			return err
		}
		return f(cmd.Context(), r, args)
	}
	return cmd
}

func (a *app) webhooksListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List webhooks, and how many events wait and are dead", Example: `  stile webhooks list --json`, Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a webhook")
	return a.atHost(cmd, func(ctx context.Context, r *remote, _ []string) error {
		var list struct {
			Webhooks []struct {
				Name    string   `json:"name"`
				Origin  string   `json:"origin"`
				Events  []string `json:"events"`
				Waiting int      `json:"waiting"`
				Dead    int      `json:"dead"`
			}
		}
		if err := r.call(ctx, http.MethodGet, "/v1/webhooks", nil, &list); err != nil {
			return err
		}
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		if !asJSON {
			fmt.Fprintln(w, "WEBHOOK\tORIGIN\tEVENTS\tWAITING\tDEAD")
		}
		for i := range list.Webhooks {
			h := &list.Webhooks[i]
			if asJSON {
				if err := a.writeJSON(h); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", harmless(h.Name), harmless(h.Origin), harmless(strings.Join(h.Events, ",")), h.Waiting, h.Dead)
		}
		return w.Flush()
	})
}

// deadLetter is one as the host lists it.
type deadLetter struct {
	ID       string          `json:"id"`
	Webhook  string          `json:"webhook"`
	Type     string          `json:"type"`
	At       time.Time       `json:"at"`
	Died     time.Time       `json:"died"`
	Attempts int             `json:"attempts"`
	Error    string          `json:"error"`
	Body     json.RawMessage `json:"body"`
}

// deadLetters reads all pages.
func deadLetters(ctx context.Context, r *remote) (all []deadLetter, err error) {
	for after := ""; ; {
		var page struct {
			Letters []deadLetter
			Next    string
		}
		if err := r.call(ctx, http.MethodGet, "/v1/webhooks/dead?limit=1000&after="+url.QueryEscape(after), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Letters...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func (a *app) webhooksDeadCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "dead", Short: "List the events that could not be delivered, oldest first", Example: `  stile webhooks dead --host https://stile.example.com --token-file admin.token`, Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an event, with its body")
	return a.atHost(cmd, func(ctx context.Context, r *remote, _ []string) error {
		all, err := deadLetters(ctx, r)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		if !asJSON {
			fmt.Fprintln(w, "LETTER\tEVENT\tAT\tATTEMPTS\tERROR")
		}
		for i := range all {
			l := &all[i]
			if asJSON {
				if err := a.writeJSON(l); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", harmless(l.ID), harmless(l.Type), l.At.Format(time.RFC3339), l.Attempts, harmless(l.Error))
		}
		return w.Flush()
	})
}

func (a *app) webhooksRetryCommand() *cobra.Command {
	var every bool
	cmd := &cobra.Command{
		Use:   "retry [LETTER...]",
		Short: "Send events again that could not be delivered",
		Long: `Sends events again, from the first attempt on. The receiver sees the same webhook-id as
before. What cannot be delivered this time either is among the dead letters again.`,
		Example: `  stile webhooks retry --all`,
	}
	cmd.Flags().BoolVar(&every, "all", false, "all dead letters")
	return a.atHost(cmd, func(ctx context.Context, r *remote, args []string) error {
		if every == (len(args) > 0) {
			return configError("retry", "name letters, or give --all")
		}
		if every {
			all, err := deadLetters(ctx, r)
			if err != nil {
				return err
			}
			for i := range all {
				args = append(args, all[i].ID)
			}
		}
		for i, id := range args {
			if err := r.call(ctx, http.MethodPost, "/v1/webhooks/dead/"+url.PathEscape(id)+"/retry", nil, nil); err != nil {
				_, bad := fmt.Fprintf(a.err, "stile: %s were sent again\n", count(int64(i), "event"))
				return errors.Join(err, bad)
			}
		}
		_, err := fmt.Fprintf(a.out, "%s again on the way\n", count(int64(len(args)), "event"))
		return err
	})
}

func (a *app) webhooksDropCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "drop LETTER...", Short: "Forget events that could not be delivered", Example: `  stile webhooks drop ci.msg_5f3a0c9be214d1a7c2f08e6b9d4a3c11`, Args: cobra.MinimumNArgs(1)}
	return a.atHost(cmd, func(ctx context.Context, r *remote, args []string) error {
		for _, id := range args {
			if err := r.call(ctx, http.MethodDelete, "/v1/webhooks/dead/"+url.PathEscape(id), nil, nil); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(a.out, "%s forgotten\n", count(int64(len(args)), "event"))
		return err
	})
}
