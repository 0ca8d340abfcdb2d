package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/seed14be6753/stile/messages"
)

// refusing is a server that answers connections with errors, the last one for ever.
func refusing(t *testing.T, codes ...string) (url string, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(asked.Add(1))
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: codes[min(n, len(codes))-1], Message: "as a test says"})
				_ = b.Flush()
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "postgres://ada@" + l.Addr().String() + "/x?sslmode=disable", asked
}

// A server that starts is waited for, until it says something else or the context ends.
// What else it refuses is told at once.
func TestAServerThatStartsIsWaitedFor(t *testing.T) {
	url, asked := refusing(t, "57P03", "57P03", "57P03", "3D000")
	_, err := Open(t.Context(), Options{URL: url})
	if messages.CodeOf(err) != messages.ErrConfig || asked.Load() != 4 {
		t.Errorf("after %d attempts: %v", asked.Load(), err)
	}
	url, asked = refusing(t, "53300")
	if _, err := Open(t.Context(), Options{URL: url}); err == nil || asked.Load() != 1 {
		t.Errorf("after %d attempts: %v", asked.Load(), err)
	}
	url, asked = refusing(t, "57P03")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	go func() {
		for asked.Load() < 2 {
			time.Sleep(time.Millisecond)
			if ctx.Err() != nil {
				return
			}
		}
		cancel(why)
	}()
	if _, err := Open(ctx, Options{URL: url}); err == nil || strings.Contains(err.Error(), "ada") {
		t.Errorf("a context that ends: %v", err)
	}
}

// What passes is told apart from what does not, also with several hosts.
func TestTransient(t *testing.T) {
	const shut = "127.0.0.1:1" // which the kernel gives to no listener that asks for any port
	codes := map[string]string{}
	for _, code := range []string{"53300", "57P02", "28P01", "28000", "3D000", "42501", "42704"} {
		url, _ := refusing(t, code)
		codes[code] = strings.TrimPrefix(strings.TrimSuffix(url, "/x?sslmode=disable"), "postgres://ada@")
	}
	cut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // as a proxy whose server is away
		defer close(done)
		for {
			c, err := cut.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	defer func() { cut.Close(); <-done }()
	for _, c := range []struct {
		hosts, query string
		want         bool
	}{
		{shut, "sslmode=disable", true},
		{shut, "sslmode=prefer", true},
		{"stile.invalid", "sslmode=disable", true},
		{cut.Addr().String(), "sslmode=disable", true},
		{cut.Addr().String(), "sslmode=verify-full", true},
		{"", "host=/nowhere&sslmode=disable", true},
		{codes["53300"], "sslmode=disable", true},
		{codes["57P02"], "sslmode=disable", true},
		{codes["53300"], "sslmode=require", false}, // it has no TLS
		{codes["28P01"], "sslmode=disable", false},
		{codes["28000"], "sslmode=disable", false},
		{codes["3D000"], "sslmode=disable", false},
		{codes["42501"], "sslmode=disable", false},
		{codes["42704"], "sslmode=disable", false},
		{shut + "," + codes["53300"], "sslmode=disable", true},
		{shut + "," + codes["28P01"], "sslmode=disable", false},
		{codes["28000"] + "," + shut, "sslmode=disable", false},
		{shut + "," + cut.Addr().String(), "sslmode=disable", true},
	} {
		_, err := Open(t.Context(), Options{URL: "postgres://ada:hunter2@" + c.hosts + "/x?" + c.query})
		if err == nil || Transient(err) != c.want || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s %s: transient is %v, want %v: %v", c.hosts, c.query, !c.want, c.want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{URL: "postgres://" + shut + "/x"}); err == nil || Transient(err) {
		t.Errorf("a context that is over: %v", err)
	}
}
