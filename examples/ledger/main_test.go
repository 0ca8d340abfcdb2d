package main

import (
	"os"
	"strings"
	"testing"
)

// The committed book is what the generator writes.
func TestBookIsCurrent(t *testing.T) {
	b, err := os.ReadFile("stores.csv")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != book() {
		t.Error("stores.csv is not what book gives; run: go run ./examples/ledger > examples/ledger/stores.csv")
	}
	if n := strings.Count(book(), "\n"); n != 1+days*len(stores) {
		t.Errorf("%d lines", n)
	}
	if strings.Contains(book(), ",-") {
		t.Error("a store ran below zero")
	}
}
