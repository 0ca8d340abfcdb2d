package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/sim"
)

// A simulation that is interrupted tells what it came to until then, and that it was.
func TestInterruptedSimTells(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		a := &app{console: console{out: &out, err: &out}}
		var rep sim.Report
		rep.Turns = 4711
		err := a.simulated(simFlags{json: asJSON}, rep, time.Second, context.Canceled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if got := out.String(); !strings.Contains(got, "4711") || strings.Contains(got, `"ok":true`) || strings.Contains(got, `"ok": true`) {
			t.Errorf("it tells\n%s", got)
		}
	}
}
