package main

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// notifier tells a service manager how the host is, by the datagrams of sd_notify(3). Without
// $NOTIFY_SOCKET it tells nothing.
type notifier struct {
	addr *net.UnixAddr
	log  *zap.Logger
}

func newNotifier(env func(string) string, log *zap.Logger) *notifier {
	name := env("NOTIFY_SOCKET")
	if name == "" || name[0] != '/' && name[0] != '@' {
		return &notifier{log: log}
	}
	return &notifier{addr: &net.UnixAddr{Name: name, Net: "unixgram"}, log: log} // net writes @ as the zero byte of an abstract name
}

// tell sends lines such as READY=1. A manager that does not hear is logged and is no failure.
func (n *notifier) tell(lines ...string) {
	if n.addr == nil {
		return
	}
	c, err := net.DialUnix("unixgram", nil, n.addr)
	if err == nil {
		_, err = c.Write([]byte(strings.Join(lines, "\n")))
		_ = c.Close()
	}
	if err != nil {
		n.log.Warn("the service manager was not told", zap.Strings("lines", lines), zap.Error(err))
	}
}

// watchdogEvery is how often the manager wants a sign of life: half of what it waits; 0 is never.
func watchdogEvery(env func(string) string, pid int) time.Duration {
	micros, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64)
	if of := env("WATCHDOG_PID"); err != nil || micros <= 0 || of != "" && of != strconv.Itoa(pid) {
		return 0
	}
	return time.Duration(micros) * time.Microsecond / 2
}

// watch tells the manager that the host lives, as long as alive says so, until ctx ends.
func (n *notifier) watch(ctx context.Context, every time.Duration, alive func(context.Context) error) {
	if n.addr == nil || every <= 0 {
		return
	}
	each(ctx, every, func() {
		look, cancel := context.WithTimeout(ctx, every)
		err := alive(look)
		cancel()
		if err != nil && ctx.Err() == nil {
			n.log.Warn("the host does not answer itself; the service manager is not told that it lives", zap.Error(err))
			return
		}
		n.tell("WATCHDOG=1")
	})
}

// each calls f at intervals, until ctx ends.
func each(ctx context.Context, every time.Duration, f func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}
