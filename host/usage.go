package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

const maxUsageBytes = 16 << 20

// load reads what was used today. A damaged file is ERR_CONFIG: an operator who removes it
// gives every tenant its day anew.
func (m *meter) load() error {
	if m.file == "" {
		return nil
	}
	wrong := func(cause error) error {
		return &messages.Error{Code: messages.ErrConfig, File: filepath.Base(m.file), Detail: "the usage of tenants cannot be read", Cause: cause}
	}
	f, err := os.Open(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrong(files.Cause(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxUsageBytes))
	if err != nil {
		return wrong(files.Cause(err))
	}
	all := map[string]spent{}
	if err := json.Unmarshal(b, &all); err != nil {
		return wrong(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for tenant, s := range all {
		if u := m.of(tenant); u.today.Day == s.Day {
			u.today = s
		}
	}
	return nil
}

// save writes what was used today, in one step.
func (m *meter) save() error {
	all := map[string]spent{}
	m.mu.Lock()
	for tenant := range m.tenants {
		if s := m.of(tenant).today; s.Tokens > 0 || s.Cost > 0 || s.Bytes > 0 {
			all[tenant] = s
		}
	}
	m.mu.Unlock()
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return files.Replace(m.file, b)
}

// beat is how often a host that serves looks at itself: it keeps what its metrics say for the
// history, whose finest step it is, and writes what tenants used today; a crash forgets as much.
const beat = 10 * time.Second

// beats has a host look at itself from time to time, until the function that comes back is called:
// then it writes the usage once more.
func (s *Server) beats() (stop func()) {
	save := func() {
		if s.meter.file == "" {
			return
		}
		if err := s.meter.save(); err != nil {
			s.log.Error("the usage of tenants cannot be written", zap.Error(files.Cause(err)))
		}
	}
	s.rt.Metrics().Sample(s.meter.now())
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.rt.Metrics().Sample(s.meter.now())
				save()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		save()
	}
}

// usageView is what the caller's tenant uses.
type usageView struct {
	Tenant   string `json:"tenant"`
	Runs     int    `json:"runs" doc:"in flight or on their way, as far as this host began them; of a cluster, at all its hosts"`
	Streams  int    `json:"streams" doc:"open now"`
	Day      string `json:"day" doc:"that the following is of, UTC"`
	Tokens   int64  `json:"tokens" doc:"of models"`
	Cost     int64  `json:"cost_micro_usd" doc:"of models with a price"`
	Bytes    int64  `json:"bytes" doc:"that the journal grew by"`
	MaxRuns  int    `json:"max_runs,omitempty"`
	MaxToken int64  `json:"max_tokens,omitempty" doc:"a day"`
	MaxCost  int64  `json:"max_cost_micro_usd,omitempty" doc:"a day"`
	MaxBytes int64  `json:"max_bytes,omitempty" doc:"a day"`
	Kept     int64  `json:"journal_bytes,omitempty" doc:"that the journal keeps of the tenant's sessions, where that has a limit"`
	MaxKept  int64  `json:"max_journal_bytes,omitempty" doc:"at all times"`
}

func (s *Server) usageRoutes() {
	route(s, get("get-usage", "/v1/usage", "What the caller's tenant uses, and may", "usage"), func(ctx context.Context, _ *struct{}) (*answered[usageView], error) {
		tenant := s.principal(ctx).tenant
		l := s.limitsOf(tenant)
		runs, streams, today := s.meter.used(tenant)
		if err := s.shares.elsewhere(ctx, tenant, &runs, &streams, &today); err != nil {
			return nil, err
		}
		kept, err := s.keeps(ctx, tenant)
		if err != nil {
			return nil, err
		}
		return &answered[usageView]{Body: usageView{
			Tenant: tenant, Runs: runs, Streams: streams, Day: today.Day, Tokens: today.Tokens, Cost: today.Cost, Bytes: today.Bytes,
			MaxRuns: l.Runs, MaxToken: l.TokensPerDay, MaxCost: l.CostPerDay, MaxBytes: l.BytesPerDay,
			Kept: kept, MaxKept: l.JournalBytes,
		}}, nil
	})
}
