package main

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// reloaded are the settings that a host takes up while it runs.
var reloaded = []string{"agents", "limits", "tenants", "may_use", "hosts", "origins", "webhooks"}

// reloader reads the settings of a host again and hands them to its server.
type reloader struct {
	read func() (settings, error)
	env  func(string) string
	cfg  stile.Config // that agents are checked for
	log  *zap.Logger

	mu  sync.Mutex
	now settings
	srv *host.Server
}

// agentsOf loads and checks the agents of the settings. All mistakes are told at once.
func agentsOf(s *settings, cfg stile.Config) (agents []*stile.Agent, err error) {
	var wrong []error
	for _, path := range s.Agents {
		agent, err := stile.LoadAgent(path)
		if err == nil {
			err = stile.Check(agent, cfg)
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		agents = append(agents, agent)
	}
	return agents, errors.Join(wrong...)
}

// reload takes up what the settings say now, as a whole or not at all, and returns what has changed.
func (r *reloader) reload(ctx context.Context) (changes []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		for _, e := range leaves(err) {
			r.log.Error("the settings were not taken up: the host goes on with those that it has", zap.Error(e))
		}
	}()
	s, err := r.read()
	if err != nil {
		return nil, err
	}
	if len(s.Agents) == 0 {
		return nil, configError("agents", "name a manifest to serve, as an argument or in "+settingsFile)
	}
	agents, err := agentsOf(&s, r.cfg)
	if err != nil {
		return nil, err
	}
	o := s.offer()
	o.Agents = agents
	if o.Webhooks, err = hooksOf(&s, r.env); err != nil {
		return nil, err
	}
	if changes, err = r.srv.Reload(ctx, o); err != nil {
		return nil, err
	}
	if later := differing(&r.now, &s); len(later) > 0 {
		changes = append(changes, "at the next start: "+strings.Join(later, ", "))
	}
	r.now = s
	r.log.Info("the settings were read again", zap.Strings("changes", changes))
	return changes, nil
}

// differing names the settings that differ and are not taken up while the host runs.
func differing(a, b *settings) (keys []string) {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		key := x.Type().Field(i).Tag.Get("yaml")
		taken := false
		for _, k := range reloaded {
			taken = taken || k == key
		}
		if !taken && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			keys = append(keys, key)
		}
	}
	if a.Limits.ModelSessions != b.Limits.ModelSessions { // the others of limits are taken
		keys = append(keys, "limits.model_sessions")
	}
	return keys
}

// maxHookSecret bounds a file with secrets of a webhook.
const maxHookSecret = 4 << 10

// hooksOf are the webhooks of the settings, with their secrets. All mistakes are told at once; none tells
// a secret.
func hooksOf(s *settings, env func(string) string) (hooks []host.Webhook, err error) {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(s.Webhooks)) {
		w := s.Webhooks[name]
		text := ""
		switch {
		case (w.SecretEnv == "") == (w.SecretFile == ""):
			wrong = append(wrong, configError("webhooks."+name, "want secret_env or secret_file: where the secret of its signatures is"))
			continue
		case w.SecretEnv != "":
			if text = env(w.SecretEnv); text == "" {
				wrong = append(wrong, configError("webhooks."+name+".secret_env", "the variable "+w.SecretEnv+" is not set"))
				continue
			}
		default:
			b, err := readFile(w.SecretFile, maxHookSecret)
			if err != nil {
				wrong = append(wrong, messages.At(err, "webhooks."+name+".secret_file"))
				continue
			}
			text = string(b)
		}
		hooks = append(hooks, host.Webhook{Name: name, URL: w.URL, Events: w.Events, Tenants: w.Tenants, Networks: w.Networks, Secrets: strings.Fields(text)})
	}
	return hooks, errors.Join(wrong...)
}

// offer is what the settings let a server be told anew, but for its agents and webhooks.
func (s *settings) offer() host.Offer {
	o := host.Offer{MayUse: s.MayUse, Limits: s.Limits.host(), TenantLimits: map[string]host.Limits{}, Hosts: s.Hosts, Origins: s.Origins}
	for name, t := range s.Tenants {
		o.TenantLimits[name] = t.Limits.host()
	}
	return o
}

// reload has SIGHUP read the settings again until ctx ends. On a terminal the signal says that the
// terminal is gone, and ends the host.
func (a *app) reload(ctx context.Context, r *reloader) (end func()) {
	if a.reloads == nil || a.inTerminal {
		return func() {}
	}
	came, release := a.reloads()
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-came:
				_, _ = r.reload(ctx) // it has told what is wrong
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		release()
		cancel()
		done.Wait()
	}
}
