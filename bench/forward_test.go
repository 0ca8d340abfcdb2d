package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal/postgres"
)

// sharedEnv is the URL of the journal of a host that is one of several.
const sharedEnv = "STILE_BENCH_SHARED"

// share makes a host one of those that share a journal in PostgreSQL; left ends that.
func share(ctx context.Context, url string, cfg *stile.Config, door *host.Config) (left func(), err error) {
	store, err := postgres.Open(ctx, postgres.Options{URL: url})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	secret := bytes.Repeat([]byte("bench "), 8)
	cfg.Store, cfg.Cluster = store, stile.Cluster{Address: l.Addr().String(), Secret: secret}
	door.ClusterListener, door.ClusterSecret = l, secret
	return func() { _ = l.Close(); _ = store.Close() }, nil
}

const (
	forwardSessions = 32
	forwardBlock    = 64 // submits at one of the hosts, before as many at the other
)

// spent is what submits at one host took.
type spent struct {
	took   []time.Duration
	cpu    time.Duration // of both hosts
	allocs float64       // of both hosts
}

func (s *spent) p50() time.Duration {
	slices.Sort(s.took)
	return s.took[len(s.took)/2]
}

// BenchmarkForward_1Client_SubmitAtItsOwnerAndElsewhere is a submit at the host that runs the session,
// and at another host, which forwards it, by turns of 64: one client, two hosts that are processes of
// their own, PostgreSQL and loopback of the same machine. accepted ends with the answer 202, wait with
// that of ?wait, stream with the last event. An operation is one turn of both; its allocations are the
// client's.
func BenchmarkForward_1Client_SubmitAtItsOwnerAndElsewhere(b *testing.B) {
	server, ok := postgrestest.Private(b)
	if !ok {
		return
	}
	url := postgrestest.With(b, server.URL(), "schema", "forward")
	hosts := []*hostOf{startHost(b, sharedEnv+"="+url), startHost(b, sharedEnv+"="+url)}
	hosts[0].sessions(forwardSessions, "atonce")
	for _, way := range []struct {
		name, query string
		status      int
	}{{"accepted", "", http.StatusAccepted}, {"wait", "?wait=1m", http.StatusOK}, {"stream", "?stream=token", http.StatusOK}} {
		b.Run(way.name, func(b *testing.B) {
			var spent [2]spent
			turn := func(at int, note bool) {
				began := sumOf(hosts)
				for i := range forwardBlock {
					from := time.Now()
					status, body, _, err := hosts[at].post(fmt.Sprintf("/v1/sessions/s%d/runs%s", i%forwardSessions, way.query), `{"input":"go"}`)
					took := time.Since(from)
					if err != nil || status != way.status {
						b.Fatalf("%d %s, %v", status, body, err)
					}
					if note {
						spent[at].took = append(spent[at].took, took)
					}
				}
				if ended := sumOf(hosts); note {
					spent[at].cpu += ended.cpu - began.cpu
					spent[at].allocs += ended.allocs - began.allocs
				}
			}
			turn(0, false)
			turn(1, false)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				turn(i%2, true)
				turn(1-i%2, true)
			}
			b.StopTimer()
			n := float64(b.N * forwardBlock)
			owner, other := &spent[0], &spent[1]
			b.ReportMetric(milliseconds(owner.p50()), "owner-p50-ms")
			b.ReportMetric(milliseconds(other.p50()), "other-p50-ms")
			b.ReportMetric(milliseconds(other.p50()-owner.p50()), "more-p50-ms")
			b.ReportMetric(float64(owner.cpu.Microseconds())/n, "owner-cpu-µs")
			b.ReportMetric(float64(other.cpu.Microseconds())/n, "other-cpu-µs")
			b.ReportMetric(owner.allocs/n, "owner-allocs")
			b.ReportMetric(other.allocs/n, "other-allocs")
			if text, err := os.ReadFile("/proc/loadavg"); err == nil {
				if load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64); err == nil {
					b.ReportMetric(load, "load")
				}
			}
		})
	}
}

// sumOf is what hosts have spent until now.
func sumOf(hosts []*hostOf) (sum spent) {
	for _, h := range hosts {
		cpu, _ := h.cpu()
		sum.cpu += cpu
		sum.allocs += h.metric("go_memstats_mallocs_total")
	}
	return sum
}

// metric is one of a host's metrics, without labels.
func (h *hostOf) metric(name string) float64 {
	res, err := h.client.Get("http://" + h.addr + "/metrics")
	if err != nil {
		h.b.Fatal(err)
	}
	defer res.Body.Close()
	defer func() { _, _ = io.Copy(io.Discard, res.Body) }()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				h.b.Fatal(err)
			}
			return n
		}
	}
	h.b.Fatalf("the host has no metric %s", name)
	return 0
}
