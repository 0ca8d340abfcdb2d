//go:build !linux

package main

// clockSynced and openFiles are asked of Linux alone.
func clockSynced() (synced, known bool) { return false, false }

func openFiles() (n uint64, known bool) { return 0, false }
