package host

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// Offer is what a server can be told anew while it serves: the members of Config of the same names.
type Offer struct {
	Agents         []*stile.Agent
	MayUse         map[string][]string
	Limits         Limits
	TenantLimits   map[string]Limits
	Hosts, Origins []string
	Webhooks       []Webhook
}

// offer is an Offer that was checked. It is not changed.
type offer struct {
	Offer
	agents         map[string]*stile.Agent
	hosts, origins map[string]bool
}

func newOffer(o Offer) (*offer, error) {
	in := &offer{Offer: o, agents: map[string]*stile.Agent{}, hosts: map[string]bool{}, origins: map[string]bool{}}
	c := Config{Limits: o.Limits, TenantLimits: o.TenantLimits, Hosts: o.Hosts, Origins: o.Origins, Webhooks: o.Webhooks}
	if err := c.check(); err != nil {
		return nil, err
	}
	for _, a := range o.Agents {
		name := ""
		if a.Manifest != nil {
			name = a.Manifest.Name
		}
		switch {
		case name == "":
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "an agent that is offered needs a name in its manifest"}
		case in.agents[name] != nil:
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "two agents are named " + name}
		}
		in.agents[name] = a
	}
	if err := in.checkUse(); err != nil {
		return nil, err
	}
	for _, h := range o.Hosts {
		in.hosts[strings.ToLower(strings.TrimSuffix(h, "."))] = true
	}
	for _, origin := range o.Origins {
		in.origins[strings.ToLower(strings.TrimSuffix(origin, "/"))] = true
	}
	return in, nil
}

// Reload replaces what the server offers, and the agents of its runtime, as a whole or, with an
// error, not at all. It returns what has changed, one line each. Runs in flight go on, and sessions
// that are awake keep their agent until they sleep (stile.Runtime.Reload). It is safe for
// concurrent use.
func (s *Server) Reload(ctx context.Context, o Offer) (changes []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if _, err := newOffer(o); err != nil {
		return nil, err
	}
	var agents []string
	if o.Agents, agents, err = s.rt.Reload(ctx, o.Agents); err != nil {
		return nil, err
	}
	next, err := newOffer(o)
	if err != nil {
		return nil, err
	}
	before := s.offer.Swap(next)
	if err := s.hooks.Set(hooksOf(o.Webhooks)); err != nil { // newOffer has checked them
		return nil, err
	}
	for _, name := range agents {
		switch {
		case before.agents[name] == nil:
			changes = append(changes, "agents: "+name+" is new")
		case next.agents[name] == nil:
			changes = append(changes, "agents: "+name+" is gone")
		default:
			changes = append(changes, "agents: "+name+" has changed")
		}
	}
	if before.Limits != next.Limits {
		changes = append(changes, fmt.Sprintf("limits: %s", differences(before.Limits, next.Limits)))
	}
	for _, tenant := range slices.Sorted(maps.Keys(union(before.TenantLimits, next.TenantLimits))) {
		a, was := before.TenantLimits[tenant]
		b, is := next.TenantLimits[tenant]
		switch {
		case !was:
			changes = append(changes, "tenants: "+tenant+" is new")
		case !is:
			changes = append(changes, "tenants: "+tenant+" is gone, and has the limits of all")
		case a != b:
			changes = append(changes, "tenants: "+tenant+": "+differences(a, b))
		}
	}
	for _, of := range []struct {
		name string
		a, b any
	}{{"may_use", before.MayUse, next.MayUse}, {"hosts", before.hosts, next.hosts}, {"origins", before.origins, next.origins}, {"webhooks", before.Webhooks, next.Webhooks}} {
		if !reflect.DeepEqual(of.a, of.b) {
			changes = append(changes, of.name+" has changed")
		}
	}
	return changes, nil
}

func (s *Server) reloadRoutes() {
	op := asks(access.Operator, post("reload", "/v1/reload", "Have the host read its settings again", http.StatusOK, "host"))
	op.Description = "Agents, limits, tenants, may_use, hosts, origins and webhooks are taken up as a whole, or with a mistake not at all; the log names all mistakes with file and line. 409 where the host's program reads no settings."
	type reloadOut struct {
		Changes []string `json:"changes" doc:"one line each"`
	}
	route(s, op, func(ctx context.Context, _ *struct{}) (*answered[reloadOut], error) {
		if s.cfg.Reload == nil {
			return nil, refusal(http.StatusConflict, messages.ErrConflict, "", "the program of this host reads no settings")
		}
		all, err := s.cfg.Reload(ctx)
		if err != nil {
			return nil, err
		}
		trailOf(ctx).noting("settings read again")
		out := &answered[reloadOut]{}
		out.Body.Changes = append([]string{}, all...)
		return out, nil
	})
}

func union[K comparable, V any](a, b map[K]V) map[K]bool {
	all := map[K]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

// differences names the limits that differ, with their values before and now.
func differences(a, b Limits) string {
	var all []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if before, now := x.Field(i).Interface(), y.Field(i).Interface(); before != now {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("yaml"), ",")
			all = append(all, fmt.Sprintf("%s %v, was %v", name, now, before))
		}
	}
	return strings.Join(all, ", ")
}
