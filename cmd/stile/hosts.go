package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/messages"
)

// Where sessions begin, as the settings say.
const (
	placeHere   = "here"
	placeSpread = "spread"
)

// maxSecretBytes bounds the secret of a cluster.
const maxSecretBytes = 4 << 10

// clusterOf makes a host one of a cluster, where the settings say so.
func clusterOf(ctx context.Context, s *settings, door *host.Config, cfg *stile.Config) error {
	c := &s.Cluster
	if c.Address == "" {
		return nil
	}
	var err error
	if door.ClusterSecret, door.OldClusterSecrets, err = clusterSecrets(s); err != nil {
		return err
	}
	var lc net.ListenConfig
	if door.ClusterListener, err = lc.Listen(ctx, "tcp", c.Address); err != nil {
		return configError("cluster.address", "cannot listen on "+c.Address+": "+files.Cause(err).Error())
	}
	door.ClusterSpread = c.Placement == placeSpread
	cfg.Cluster = stile.Cluster{Address: c.Address, Version: door.Version, Lease: c.Lease, Secret: door.ClusterSecret, OldSecrets: door.OldClusterSecrets}
	return nil
}

// clusterSecrets are what the hosts of a cluster know alone: the secret, and others that are believed
// while it changes.
func clusterSecrets(s *settings) (secret []byte, old [][]byte, err error) {
	b, err := readFile(s.Cluster.SecretFile, maxSecretBytes)
	if err != nil {
		return nil, nil, configError("cluster.secret_file", files.Cause(err).Error())
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			old = append(old, []byte(line))
		}
	}
	if len(old) == 0 {
		return nil, nil, nil // who uses it says how long a secret is
	}
	return old[0], old[1:], nil
}

func (a *app) hostsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hosts",
		Short: "Show the hosts that share a journal, and empty one",
		Long: `Hosts of a cluster (docs/howto/cluster.md) have a lease in the database of their journal. All
commands ask that database: --journal, or $STILE_JOURNAL.`,
		Example: `  stile hosts list
  stile hosts drain 10.0.0.2:8472`,
		Args: known,
		RunE: group,
	}
	cmd.AddCommand(a.hostsListCommand(), a.hostsDrainCommand())
	return cmd
}

// withHosts runs f with the hosts of the journal of this command line.
func (a *app) withHosts(ctx context.Context, f func(lease.Table) error) error {
	store, err := a.openShared(ctx, false)
	if err != nil {
		return err
	}
	if store == nil {
		return configError("journal", "hosts of a cluster share a journal in a database: name it with --journal or $"+envJournal)
	}
	s, ok := store.(interface{ Hosts() (lease.Table, error) })
	if !ok {
		return errors.Join(configError("journal", "hosts do not share a journal of this kind"), store.Close())
	}
	table, err := s.Hosts()
	if err == nil {
		err = f(table)
		table.Close()
	}
	return errors.Join(err, store.Close())
}

// hostView is a host as the command shows it.
type hostView struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Version  string `json:"version,omitempty"`
	State    string `json:"state"`
	LeftMS   int64  `json:"lease_left_ms"`
	Sessions int    `json:"sessions"`
	Runs     *int   `json:"runs,omitempty"` // nil of a host that does not say
	MaxRuns  int    `json:"max_runs,omitempty"`
}

// maxHostSessions bounds how many sessions of a host are counted.
const maxHostSessions = 100000

func (a *app) hostsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List the hosts of the cluster, and what each has to do", Example: `  stile hosts list --json`, Args: cobra.NoArgs}
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a host")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withHosts(ctx, func(table lease.Table) error {
			all, err := table.Hosts(ctx)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			if !asJSON {
				fmt.Fprintln(w, "ADDRESS\tSTATE\tLEASE\tSESSIONS\tRUNS\tVERSION")
			}
			for i := range all {
				h := &all[i]
				sids, err := table.Left(ctx, h.ID, h.ID, maxHostSessions)
				if err != nil {
					return err
				}
				v := hostView{ID: h.ID.String(), Address: h.Address, Version: h.Version, State: "live", LeftMS: max(0, h.Left.Milliseconds()), Sessions: len(sids)}
				runs := "-"
				if h.Load.MaxRuns > 0 {
					v.Runs, v.MaxRuns = &h.Load.Runs, h.Load.MaxRuns
					runs = fmt.Sprintf("%d/%d", h.Load.Runs, h.Load.MaxRuns)
				}
				switch {
				case !h.Live():
					v.State = "gone"
				case h.Draining:
					v.State = "draining"
				}
				if asJSON {
					if err := a.writeJSON(&v); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", harmless(v.Address), v.State, time.Duration(v.LeftMS)*time.Millisecond, v.Sessions, runs, harmless(v.Version))
			}
			return w.Flush()
		})
	})
	return cmd
}

func (a *app) hostsDrainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drain ADDRESS", Short: "Have a host give up its sessions, idle ones at once, others after their turn",
		Long: `The host goes on, and answers for sessions of others; it takes no session any more until it
is started again. Its readiness (/readyz) falls.`,
		Example: `  stile hosts drain 10.0.0.2:8472`, Args: cobra.ExactArgs(1),
	}
	a.journalFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.withHosts(ctx, func(table lease.Table) error {
			all, err := table.Hosts(ctx)
			if err != nil {
				return err
			}
			for i := range all {
				if h := &all[i]; h.Live() && (h.Address == args[0] || h.ID.String() == args[0]) {
					there, err := table.Drain(ctx, h.ID)
					if err != nil || there {
						return err
					}
				}
			}
			return &messages.Error{Code: messages.ErrNotFound, Field: "address", Detail: "no host of this address has a lease"}
		})
	})
	return cmd
}
