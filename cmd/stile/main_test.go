package main

import (
	"os"
	"testing"
)

// asCommand in the environment makes the test binary the command.
const asCommand = "STILE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}
