//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A service manager hears what the host says of itself; one that is gone is logged.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := func(key string) string { return map[string]string{"NOTIFY_SOCKET": path}[key] }
	core, logged := observer.New(zapcore.WarnLevel)
	n := newNotifier(env, zap.New(core))
	n.tell("READY=1", "STATUS=x")
	b := make([]byte, 100)
	k, err := l.Read(b)
	if err != nil || string(b[:k]) != "READY=1\nSTATUS=x" {
		t.Errorf("%q, %v", b[:k], err)
	}
	l.Close()
	n.tell("STOPPING=1")
	if logged.Len() != 1 {
		t.Errorf("%v", logged.All())
	}
	for _, none := range []string{"", "relative"} {
		newNotifier(func(string) string { return none }, zap.New(core)).tell("READY=1")
	}
	if logged.Len() != 1 {
		t.Errorf("%v", logged.All())
	}
}

func TestWatchdogEvery(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"30000000", "", 15 * time.Second}, {"30000000", "7", 15 * time.Second}, {"30000000", "8", 0}, {"x", "", 0}, {"-1", "", 0}} {
		env := func(key string) string { return map[string]string{"WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}[key] }
		if got := watchdogEvery(env, 7); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A host that does not answer itself stops telling that it lives.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 95*time.Second)
		defer cancel()
		core, logged := observer.New(zapcore.WarnLevel)
		asked := 0
		// The socket is not there: each sign of life that is sent leaves a line as well.
		n := newNotifier(func(string) string { return "/nowhere/notify" }, zap.New(core))
		n.watch(ctx, 10*time.Second, func(context.Context) error {
			if asked++; asked > 3 {
				return errors.New("stuck")
			}
			return nil
		})
		if sent := logged.FilterMessage("the service manager was not told").Len(); asked != 9 || sent != 3 || logged.Len() != 9 {
			t.Errorf("asked %d times, %d signs, %d lines", asked, sent, logged.Len())
		}
	})
}
