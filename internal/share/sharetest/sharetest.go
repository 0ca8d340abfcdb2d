// Package sharetest has a share.Table in memory.
package sharetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/share"
)

// Memory is a table in memory, for hosts of one process. The zero value is empty. Its methods are
// safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	live  map[uuid.UUID]bool
	rows  map[share.Name]map[uuid.UUID]*row
	Calls atomic.Int64 // of Share

	Exist func(tenant string) int64 // counts sessions; nil for none
}

var _ share.Table = (*Memory)(nil)

// row is what one life of a host has said.
type row struct{ turn, used, held, want int64 }

// Join gives a life of a host its lease, End takes it.
func (m *Memory) Join(id uuid.UUID) { m.set(id, true) }

// End ends the lease of a host.
func (m *Memory) End(id uuid.UUID) { m.set(id, false) }

func (m *Memory) set(id uuid.UUID, live bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live == nil {
		m.live, m.rows = map[uuid.UUID]bool{}, map[share.Name]map[uuid.UUID]*row{}
	}
	m.live[id] = live
}

// Share implements share.Table.
func (m *Memory) Share(_ context.Context, host uuid.UUID, turn int64, asks []share.Ask) (got []share.Share, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Calls.Add(1)
	if !m.live[host] {
		return nil, nil
	}
	for _, a := range asks {
		rows := m.rows[a.Name]
		if rows == nil {
			rows = map[uuid.UUID]*row{}
			m.rows[a.Name] = rows
		}
		mine := rows[host]
		if mine == nil {
			mine = &row{}
			rows[host] = mine
		} else if mine.turn >= turn {
			continue
		}
		s := share.Share{Name: a.Name}
		if a.Kind == share.Sessions && m.Exist != nil {
			s.Used = min(m.Exist(a.Tenant), a.Limit)
			s.Elsewhere = s.Used
		}
		for id, r := range rows {
			switch {
			case id == host:
			case m.live[id]:
				s.Used += r.used
				s.Elsewhere += r.held
				if r.held > 0 || r.want > 0 {
					s.Others++
				}
				s.Short = s.Short || r.want > r.held
			case a.Day != "":
				s.Used += r.used
				s.Elsewhere += r.used
			}
		}
		s.Held = share.Grant(a, mine.held, share.Free(a.Limit, s.Elsewhere))
		*mine = row{turn, a.Used, s.Held, a.Want}
		got = append(got, s)
	}
	return got, nil
}

// UsedBy returns what one life of a host has used of a quantity.
func (m *Memory) UsedBy(host uuid.UUID, name share.Name) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[name][host]; r != nil {
		return r.used
	}
	return 0
}

// Used implements share.Table.
func (m *Memory) Used(_ context.Context, host uuid.UUID, tenant, day string) (map[share.Kind]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := map[share.Kind]int64{}
	for name, rows := range m.rows {
		for id, r := range rows {
			if name.Tenant == tenant && id != host && (name.Day == "" && m.live[id] || name.Day != "" && name.Day == day) {
				used[name.Kind] += r.used
			}
		}
	}
	return used, nil
}

// Forget implements share.Table.
func (m *Memory) Forget(_ context.Context, day string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, rows := range m.rows {
		if name.Day != "" && name.Day < day {
			delete(m.rows, name)
		}
		for id := range rows {
			if name.Day == "" && !m.live[id] {
				delete(rows, id)
			}
		}
	}
	return nil
}
