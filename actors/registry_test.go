package actors

import (
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// TestShrunkRegistryFindsTheSystemsOwn: what the library registers by name when it makes
// a system is found in the tables that are left.
func TestShrunkRegistryFindsTheSystemsOwn(t *testing.T) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	defer system.Shutdown()
	shrinkRegistry(system)
	if n := len(system.ProcessRegistry.LocalPIDs.LocalPIDs); n != registryBuckets {
		t.Fatalf("%d buckets", n)
	}
	for _, name := range []string{"eventstream", "deadletter"} {
		if _, found := system.ProcessRegistry.GetLocal(name); !found {
			t.Errorf("%s is not found", name)
		}
	}
	pid := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	if _, found := system.ProcessRegistry.Get(pid); !found {
		t.Error("an actor is not found")
	}
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		t.Error(err)
	}
	if _, found := system.ProcessRegistry.Get(pid); found {
		t.Error("a stopped actor is found")
	}
}
