package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/messages"
)

// healthWait bounds how long a host may take to answer, unless --timeout says otherwise.
const healthWait = 3 * time.Second

func (a *app) healthCommand() *cobra.Command {
	var (
		at      string
		live    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask whether the host is ready",
		Long: `Asks the host of the settings whether it takes work (/readyz), or with --live whether its
process answers (/healthz). It is meant for the health check of a container, whose image
needs no other program. A host of the settings is asked on this machine, and its certificate
is not checked; one of --host is checked as usual. No token is shown.`,
		Example: `  stile health
  stile health --live --host https://stile.example.com`,
		Args: cobra.NoArgs,
	}
	config := configFlag(cmd)
	cmd.Flags().StringVar(&at, "host", "", "address of the host (default that of the settings)")
	cmd.Flags().BoolVar(&live, "live", false, "ask only whether the process answers")
	cmd.Flags().DurationVar(&timeout, "timeout", healthWait, "how long it may take to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.ran = true
		if timeout <= 0 {
			return configError("--timeout", "want more than 0")
		}
		transport := &http.Transport{DisableKeepAlives: true}
		if at == "" {
			s, err := a.loadSettings(*config)
			if err != nil {
				return err
			}
			if at, err = nearby(s.Listen); err != nil {
				return err
			}
			at = schemeOf(&s) + "://" + at
			transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // whose name is not that of loopback
		}
		r, err := a.hostAt(remoteFlags{host: at})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		return a.health(ctx, &http.Client{Transport: transport}, r.url, live)
	}
	return cmd
}

// nearby is an address that is listened on, as this machine reaches it.
func nearby(listen string) (string, error) {
	name, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", configError("listen", fmt.Sprintf("%q is no address", listen))
	}
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			name = "::1"
		}
	}
	return net.JoinHostPort(name, port), nil
}

// maxHealthBytes bounds what is read of an answer.
const maxHealthBytes = 64 << 10

func (a *app) health(ctx context.Context, client *http.Client, url string, live bool) error {
	path, word := "/readyz", "ready"
	if live {
		path, word = "/healthz", "alive"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
	if err != nil {
		return configError("host", "want an address such as http://"+defaultListen)
	}
	res, err := client.Do(req)
	if err != nil {
		why := err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			why = "no answer in time"
		}
		return messages.Errorf(messages.ErrBusy, "%s: %s", url, why)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxHealthBytes))
	if err != nil {
		return messages.Errorf(messages.ErrBusy, "%s: %v", url, err)
	}
	if res.StatusCode != http.StatusOK {
		var p struct{ Title, Detail string }
		why := res.Status
		if json.Unmarshal(b, &p) == nil && p.Title+p.Detail != "" {
			why = strings.TrimPrefix(p.Title+": "+p.Detail, ": ")
		}
		return messages.Errorf(messages.ErrBusy, "%s is not %s: %s", url, word, why)
	}
	_, err = fmt.Fprintln(a.out, word)
	return err
}
