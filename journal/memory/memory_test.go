package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/journaltest"
	"github.com/seed14be6753/stile/journal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journal.Store { return memory.New() })
}
