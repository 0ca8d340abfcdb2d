package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A host waits for its journal while the reason is one that passes. It says so at once, then each half
// minute, and at the end.
func TestWaitFor(t *testing.T) {
	away, wrong := errors.New("away"), errors.New("wrong")
	isAway := func(err error) bool { return errors.Is(err, away) }
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		began, words, made := time.Now(), 0, 0
		got, err := waitFor(t.Context(), zap.New(core), func() { words++ }, isAway, func(context.Context, func()) (string, error) {
			if made++; time.Since(began) < 70*time.Second {
				return "", away
			}
			return "open", nil
		})
		if got != "open" || err != nil || words != 3 || made < 35 || made > 45 {
			t.Errorf("%q, %v; %d words, %d attempts", got, err, words, made)
		}
		var said []string
		for _, l := range lines.All() {
			said = append(said, l.Message)
		}
		if n := len(said); n != 4 || said[0] != "waiting for the database of the journal" || said[2] != said[0] || said[3] != "the database of the journal answers" {
			t.Errorf("%q", said)
		}
	})
	synctest.Test(t, func(t *testing.T) { // what does not pass
		made := 0
		_, err := waitFor(t.Context(), zap.NewNop(), func() { t.Error("it waits") }, isAway, func(context.Context, func()) (int, error) {
			made++
			return 0, wrong
		})
		if !errors.Is(err, wrong) || made != 1 {
			t.Errorf("%v after %d attempts", err, made)
		}
	})
	synctest.Test(t, func(t *testing.T) { // an attempt that takes its time is a wait, too
		words := 0
		_, err := waitFor(t.Context(), zap.NewNop(), func() { words++ }, isAway, func(context.Context, func()) (int, error) {
			time.Sleep(quietFor + time.Second)
			return 0, nil
		})
		if err != nil || words != 1 {
			t.Errorf("%v, %d words", err, words)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that has its answer takes its time for something else
		var words []time.Duration
		began, made := time.Now(), 0
		_, err := waitFor(t.Context(), zap.NewNop(), func() { words = append(words, time.Since(began)) }, isAway, func(_ context.Context, answered func()) (int, error) {
			made++
			answered()
			answered()
			if time.Sleep(waitWord + time.Second); made < 3 {
				return 0, away
			}
			return 0, nil
		})
		if err != nil || len(words) != 2 || words[0] != waitWord+time.Second || words[1] != 2*(waitWord+time.Second)+firstRetry {
			t.Errorf("%v, words after %s", err, words)
		}
	})
	for name, during := range map[string]time.Duration{"between attempts": 0, "in an attempt": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(90*time.Second+time.Millisecond, cancel)
			began := time.Now()
			_, err := waitFor(ctx, zap.NewNop(), func() {}, isAway, func(ctx context.Context, _ func()) (int, error) {
				select {
				case <-time.After(during):
					return 0, away
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if !errors.Is(err, context.Canceled) || time.Since(began) != 90*time.Second+time.Millisecond {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		})
	}
}
