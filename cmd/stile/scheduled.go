package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
)

// A scheduled backup is a folder with the time of its begin in its name.
const (
	scheduledPrefix = "stile-"
	scheduledTime   = "20060102T150405Z"
)

// scheduledIn lists the scheduled backups in a folder, the oldest first. Without whole also those are listed
// that were not made to their end.
func scheduledIn(dir string, whole bool) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := scheduledAt(e.Name()); !ok || !e.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name(), stile.BackupFile)); whole && err != nil {
			continue
		}
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

func scheduledAt(name string) (at time.Time, ok bool) {
	text, ok := strings.CutPrefix(name, scheduledPrefix)
	if !ok {
		return at, false
	}
	at, err := time.Parse(scheduledTime, text)
	return at, err == nil
}

// scheduled makes backups of a host's directory until ctx ends: when so long has passed since the last one
// that is there, which may be of a process before.
func scheduled(ctx context.Context, rt *stile.Runtime, dir string, s *backupSettings, log *zap.Logger) {
	if s.Dir == "" {
		return
	}
	for {
		wait := time.Duration(0)
		if names, err := scheduledIn(s.Dir, true); err == nil && len(names) > 0 {
			at, _ := scheduledAt(names[len(names)-1])
			rt.Metrics().BackedUp(at)
			wait = time.Until(at.Add(s.Every))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := backUp(ctx, rt, dir, s, log); err != nil && ctx.Err() == nil {
			log.Error("there is no backup: it is tried again in a minute", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		}
	}
}

// backUp makes one backup, and removes what is over the number that is kept.
func backUp(ctx context.Context, rt *stile.Runtime, dir string, s *backupSettings, log *zap.Logger) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return unwritable(s.Dir, err)
	}
	if names, err := scheduledIn(s.Dir, false); err == nil { // what a crash or an error left
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(s.Dir, name, stile.BackupFile)); err != nil {
				_ = os.RemoveAll(filepath.Join(s.Dir, name))
			}
		}
	}
	at := time.Now().UTC()
	dest := filepath.Join(s.Dir, scheduledPrefix+at.Format(scheduledTime))
	base := baseOf(s, at)
	var b stile.Backup
	var err error
	if base != "" {
		b, err = stile.MakeBackupSince(ctx, rt.Keys(), dir, dest, base, tokenFile, usageFile)
		if err != nil && ctx.Err() == nil {
			log.Warn("there is no increment: a whole backup is made", zap.Error(err))
			base = ""
			_ = os.RemoveAll(dest)
		}
	}
	if base == "" {
		b, err = stile.MakeSignedBackup(ctx, rt.Keys(), dir, dest, tokenFile, usageFile)
	}
	if err != nil {
		return err
	}
	rt.Metrics().BackedUp(at)
	log.Info("backup", zap.String("folder", dest), zap.String("since", base), zap.Int64("sessions", b.Sessions), zap.Int64("records", b.Records), zap.Strings("spoilt", b.Spoilt))
	return prune(s)
}

// baseOf returns the folder of the backup that one made at a time continues; "" for a whole backup.
func baseOf(s *backupSettings, at time.Time) string {
	names, err := scheduledIn(s.Dir, true)
	if err != nil || s.Whole == 0 {
		return ""
	}
	for i := len(names) - 1; i >= 0; i-- {
		if isIncrement(s.Dir, names[i]) {
			continue
		}
		if whole, _ := scheduledAt(names[i]); at.Sub(whole) < s.Whole {
			return filepath.Join(s.Dir, names[len(names)-1])
		}
		break
	}
	return ""
}

// isIncrement reports whether a scheduled backup continues another one.
func isIncrement(dir, name string) bool {
	var b stile.Backup
	doc, err := os.ReadFile(filepath.Join(dir, name, stile.BackupFile))
	return err == nil && json.Unmarshal(doc, &b) == nil && b.Base != nil
}

// prune removes the oldest whole backups beyond those that are kept, and with each the increments behind it.
func prune(s *backupSettings) error {
	names, err := scheduledIn(s.Dir, true)
	if err != nil {
		return unreadable(s.Dir, err)
	}
	for kept, i := 0, len(names)-1; i >= 0; i-- {
		if kept >= s.Keep {
			if err := os.RemoveAll(filepath.Join(s.Dir, names[i])); err != nil {
				return unwritable(s.Dir, err)
			}
		}
		if !isIncrement(s.Dir, names[i]) {
			kept++
		}
	}
	return nil
}
