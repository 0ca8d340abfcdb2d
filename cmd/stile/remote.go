package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// envToken is the token that commands show to a host.
const envToken = "STILE_TOKEN"

// remote is a running host, as a command sees it.
type remote struct {
	url   string
	token string
	user  string // for whom, if not the token's own
	http  *http.Client
}

// remoteFlags are where the host is, and who asks.
type remoteFlags struct{ host, tokenFile string }

func (f *remoteFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.host, "host", "http://"+defaultListen, "address of the running host")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the token to show (default $"+envToken+")")
}

const maxTokenBytes = 8 << 10

// hostAt returns the host that the flags name.
func (a *app) hostAt(f remoteFlags) (*remote, error) {
	u, err := url.Parse(f.host)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, configError("host", "want an address such as http://"+defaultListen)
	}
	r := &remote{url: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), token: a.env(envToken), http: &http.Client{}}
	if f.tokenFile != "" {
		b, err := readFile(f.tokenFile, maxTokenBytes)
		if err != nil {
			return nil, err
		}
		r.token = strings.TrimSpace(string(b))
	}
	return r, nil
}

// remote returns the host and the id of a session that is named by its id or, for who may
// act for users, by tenant:user:id.
func (a *app) remote(f remoteFlags, name string) (*remote, string, error) {
	r, err := a.hostAt(f)
	if err != nil {
		return nil, "", err
	}
	key, err := messages.ParseSID(name)
	if err != nil {
		return nil, "", err
	}
	if strings.Contains(name, ":") {
		r.user = key.User
	}
	return r, key.ID, nil
}

// maxAnswerBytes bounds an answer that is read as a whole.
const maxAnswerBytes = 8 << 20

// call asks with JSON, in, and reads the answer into out; either may be nil.
func (r *remote) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	res, err := r.send(ctx, method, path, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswerBytes)).Decode(out); err != nil {
		return messages.Errorf(messages.ErrConfig, "the host's answer cannot be read: %v", err)
	}
	return nil
}

// ask is send without a body.
func (r *remote) ask(ctx context.Context, method, path string, headers ...string) (*http.Response, error) {
	return r.send(ctx, method, path, nil, headers...)
}

// send sends a request; an answer that is a refusal is an error with the host's code.
func (r *remote) send(ctx context.Context, method, path string, body io.Reader, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		return nil, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.user != "" {
		req.Header.Set("X-Stile-User", r.user)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, &unreachable{err}
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	var p struct{ Code, Reason, Detail, Field string }
	b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what cannot be read is not told
	if json.Unmarshal(b, &p) != nil || p.Code == "" {
		return nil, &refusedBy{status: res.StatusCode, err: messages.Errorf(messages.ErrConfig, "%s answers %s", r.url, res.Status)}
	}
	return nil, &refusedBy{status: res.StatusCode, err: &messages.Error{Code: messages.Code(p.Code), Reason: p.Reason, Field: p.Field, Detail: p.Detail}}
}

// unreachable says that no host answered.
type unreachable struct{ err error }

func (e *unreachable) Error() string {
	text := "the host does not answer: " + e.err.Error()
	if cure := e.cure(); cure != "" {
		text += "; " + cure
	}
	return text
}
func (e *unreachable) Unwrap() error { return e.err }

// refusedBy is a host's refusal.
type refusedBy struct {
	status int
	err    *messages.Error
}

func (e *refusedBy) Error() string { return e.err.Error() }
func (e *refusedBy) Unwrap() error { return e.err }

// again reports whether the same request may succeed later: a host that is not there yet, or
// is busy, may. One that speaks no TLS, or whose certificate is not trusted, stays so.
func again(err error) bool {
	var no *refusedBy
	if errors.As(err, &no) {
		return no.status == http.StatusTooManyRequests || no.status >= 500
	}
	var gone *unreachable
	return errors.As(err, &gone) && gone.cure() == ""
}

// cure is what mends that a host does not answer, where waiting does not.
func (e *unreachable) cure() string {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(e.err, &untrusted):
		return "its certificate is not trusted here: SSL_CERT_FILE names a file with the one of its issuer"
	case errors.As(e.err, &plain), strings.Contains(e.err.Error(), "server gave HTTP response to HTTPS client"):
		return "it speaks no TLS: say http:// for --host"
	}
	return ""
}

func sessionPath(id string) string { return "/v1/sessions/" + url.PathEscape(id) }

func (a *app) sessionsTailCommand() *cobra.Command {
	var f remoteFlags
	var opts tailOptions
	cmd := &cobra.Command{
		Use:   "tail SID",
		Short: "Follow a session of a running host",
		Long: `Shows what happens in a session of a running host, from its first record or from
behind --after on, until the session ends or the command is interrupted. A connection
that breaks is resumed where it broke. SID is the id of the caller's own session, or
tenant:user:id for a token with the scope users.`,
		Example: `  stile sessions tail ada
  stile sessions tail ada --host https://stile.example.com --token-file ann.token --json`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			r, id, err := a.remote(f, args[0])
			if err != nil {
				return err
			}
			return a.tail(ctx, r, id, opts)
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&opts.after, "after", "", "id of the last update seen")
	cmd.Flags().Int64Var(&opts.run, "run", 0, "follow this run, to its end")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print updates as JSON lines")
	return cmd
}

type tailOptions struct {
	after string
	run   int64
	json  bool
}

// How a broken connection is taken up.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 10 * time.Second
	maxTries   = 10 // without an update between them
	maxLine    = 16 << 20
)

// tail follows until the stream has said its last.
func (a *app) tail(ctx context.Context, r *remote, id string, opts tailOptions) error {
	path := sessionPath(id) + "/events"
	if opts.run < 0 {
		return configError("run", "is 1 or more")
	}
	if opts.run > 0 {
		path = fmt.Sprintf("%s/runs/%d/events", sessionPath(id), opts.run)
	}
	show := a.shower(opts.json)
	last, tries := opts.after, 0
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		over, err := a.tailOnce(ctx, r, path, &last, func(u stile.Update, line []byte) error {
			pause, tries = firstPause, 0
			if opts.json {
				_, err := a.out.Write(append(line, '\n'))
				return err
			}
			return show(u)
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case over, err != nil && !again(err):
			return err
		}
		if tries++; tries > maxTries {
			return errors.Join(messages.Errorf(messages.ErrTimeout, "the stream was broken %d times without an update", maxTries), err)
		}
		if err != nil { // else the stream was cut, and goes on where it was
			fmt.Fprintf(a.err, "stile: %v; trying again in %s\n", err, pause)
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}

// tailOnce reads one connection. over reports whether nothing more comes.
func (a *app) tailOnce(ctx context.Context, r *remote, path string, last *string, each func(stile.Update, []byte) error) (over bool, err error) {
	var headers []string
	if *last != "" {
		headers = []string{"Last-Event-ID", *last}
	}
	res, err := r.ask(ctx, http.MethodGet, path, headers...)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return true, nil
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, maxLine)
	var name, id string
	var data []byte
	for in.Scan() {
		field, value, _ := bytes.Cut(in.Bytes(), []byte(": "))
		switch string(field) {
		case "event":
			name = string(value)
		case "id":
			id = string(value)
		case "data":
			data = bytes.Clone(value)
		case "":
			if name == "" {
				continue
			}
			over, err := a.tailed(name, data, each)
			if id != "" && err == nil {
				*last = id
			}
			if over || err != nil {
				return over, err
			}
			name, id, data = "", "", nil
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return false, messages.Errorf(messages.ErrConfig, "a line of the stream has more than 16 MiB")
	}
	return false, nil // cut: what was read whole is shown
}

func (a *app) tailed(name string, data []byte, each func(stile.Update, []byte) error) (over bool, err error) {
	switch name {
	case "leaving":
		return false, nil
	case "problem", "error": // the second of hosts before it was renamed
		var p struct{ Code, Reason, Detail string }
		if err := json.Unmarshal(data, &p); err != nil {
			return false, err
		}
		return false, &messages.Error{Code: messages.Code(p.Code), Reason: p.Reason, Detail: p.Detail}
	case "progress":
		d, err := parseProgress(data)
		if err != nil {
			return false, err
		}
		return false, each(stile.Update{Delta: d}, data)
	case "delta", "retract":
		u, err := parseDelta(data)
		if err != nil {
			return false, err
		}
		return false, each(u, data)
	}
	rec, err := journal.ParseRecord(data)
	if err != nil {
		return false, err
	}
	if rec.Raw != nil {
		if err := journal.Decode(rec); err != nil {
			return false, err
		}
	}
	return rec.Body.Kind() == messages.KindSessionClosed, each(stile.Update{Record: rec}, data)
}

// parseProgress reads what stile.AppendUpdate writes of a running action.
func parseProgress(data []byte) (*messages.Delta, error) {
	var p struct {
		Action      string
		Done, Total int64
		Run         int64
		Turn        int64
		Seq         int64
		Text        string
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, messages.Errorf(messages.ErrConfig, "the host sent an invalid progress event")
	}
	return &messages.Delta{Kind: messages.KindProgress, Action: p.Action, Off: p.Done, Total: p.Total, Run: p.Run, Unit: messages.UnitID{Turn: p.Turn}, Seq: p.Seq, Text: p.Text}, nil
}

// parseDelta reads what stile.AppendUpdate writes of growing text.
func parseDelta(data []byte) (u stile.Update, err error) {
	var d struct {
		Action string
		Depth  int
		Kind   messages.Kind
		Label  string
		N      int
		Off    int64
		Parent int
		Run    int64
		Seq    int64
		Text   string
		Turn   int64
		Type   string
		Unit   string
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return u, messages.Errorf(messages.ErrConfig, "the host sent an invalid delta")
	}
	if d.Action != "" {
		u.Delta = &messages.Delta{Kind: d.Kind, Off: d.Off, Run: d.Run, Seq: d.Seq, Text: d.Text, Unit: messages.UnitID{Turn: d.Turn}, Retract: d.Type == "retract", Action: d.Action}
		return u, nil
	}
	turn, n, _ := strings.Cut(d.Unit, ".")
	unit := messages.UnitID{}
	if unit.Turn, err = strconv.ParseInt(turn, 10, 64); err == nil {
		unit.N, err = strconv.Atoi(n)
	}
	if err != nil {
		return u, messages.Errorf(messages.ErrConfig, "the host sends a delta of no unit")
	}
	u.Delta = &messages.Delta{Kind: d.Kind, Off: d.Off, Run: d.Run, Seq: d.Seq, Text: d.Text, Unit: unit, Retract: d.Type == "retract"}
	if d.N > 0 {
		u.Delta.Thought = &messages.Block{Kind: string(messages.KindThought), N: d.N, Parent: d.Parent, Depth: max(d.Depth, 1), Label: d.Label}
	}
	return u, nil
}

func (a *app) sessionsCancelCommand() *cobra.Command {
	var f remoteFlags
	var run int64
	cmd := &cobra.Command{
		Use:   "cancel SID",
		Short: "Cancel a run at a running host",
		Long:  `Cancels the last run that was begun, or --run: it ends HALT(ERR_CANCELLED).`,
		Example: `  stile sessions cancel ada
  stile sessions cancel ada --run 3 --token-file ann.token`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			r, id, err := a.remote(f, args[0])
			if err != nil {
				return err
			}
			if run < 0 {
				return configError("run", "is 1 or more")
			}
			if run == 0 {
				var ses struct{ Run int64 }
				if err := r.call(ctx, http.MethodGet, sessionPath(id), nil, &ses); err != nil {
					return err
				}
				if run = ses.Run; run == 0 {
					return configError("run", "the session has no run")
				}
			}
			if err := r.call(ctx, http.MethodPost, fmt.Sprintf("%s/runs/%d/cancel", sessionPath(id), run), nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "run %d of %s is cancelled\n", run, id)
			return err
		}),
	}
	f.add(cmd)
	cmd.Flags().Int64Var(&run, "run", 0, "the run, by its ordinal")
	return cmd
}

func (a *app) sessionsEraseCommand() *cobra.Command {
	var f remoteFlags
	cmd := &cobra.Command{
		Use:   "erase USER",
		Short: "Erase all that a user said at a running host, and what was learned of them",
		Long: `Deletes all sessions of a user, as stile sessions delete does, and the profile that was
learned. Tokens of the user stay: revoke them first, if the user shall not come back.
There is no way back but a backup, which has all of it: let backups expire as well. It
needs a token with the scope admin, and users for another user than its own. It may be
repeated, and then finds nothing.`,
		Example: `  stile sessions erase ann --token-file admin.token`,
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			r, err := a.hostAt(f)
			if err != nil {
				return err
			}
			if args[0] == "" {
				return configError("user", "is empty")
			}
			var gone struct {
				User     string
				Sessions int64
			}
			if err := r.call(ctx, http.MethodDelete, "/v1/users/"+url.PathEscape(args[0]), nil, &gone); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s is erased: %s\n", harmless(gone.User), count(gone.Sessions, "session"))
			return err
		}),
	}
	f.add(cmd)
	return cmd
}

func (a *app) sessionsDeleteCommand() *cobra.Command {
	var f remoteFlags
	cmd := &cobra.Command{
		Use:   "delete SID",
		Short: "Delete a session of a running host, and erase what it said",
		Long: `Cancels what the session does, and removes the bodies of its records for good, those
of its child sessions too. Headers and hashes stay, and verify. The id is free again.
There is no way back but a backup. It needs a token with the scope admin.`,
		Example: `  stile sessions delete ada --token-file admin.token`,
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			r, id, err := a.remote(f, args[0])
			if err != nil {
				return err
			}
			if err := r.call(ctx, http.MethodDelete, sessionPath(id), nil, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s is deleted\n", id)
			return err
		}),
	}
	f.add(cmd)
	return cmd
}
