package tests

import (
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// blobbing counts the commits of the blobs that requests name.
type blobbing struct {
	journal.Store
	systems atomic.Int64
}

func (c *blobbing) Commit(batches []journal.Batch) []error {
	for _, b := range batches {
		named := map[messages.Digest]bool{}
		for _, r := range b.Records {
			if req, ok := r.Body.(*messages.ModelRequest); ok {
				named[req.System] = true
			}
		}
		for _, blob := range b.Blobs {
			if named[blob.Digest] {
				c.systems.Add(1)
			}
		}
	}
	return c.Store.Commit(batches)
}

// What the system says to the model is in the journal, byte for byte and once, whatever
// the dialect, and a replay agrees.
func TestSystemMessageIsKept(t *testing.T) {
	for dialect, reply := range map[string]string{
		"plain": "yes", "aeiou": program(sayDone), "cortex": "<response>yes</response>", "cogency": "yes<end>", "kitsu": "yes",
	} {
		t.Run(dialect, func(t *testing.T) {
			store := &blobbing{Store: memory.New()}
			rt := start(t, stile.Config{Store: store})
			m := manifest.Default(dialect)
			m.Name = "kept"
			m.Instructions.Text = "You know the tides of Brest."
			model := &recorder{Model: says(reply)}
			s := open(t, rt, "s", &stile.Agent{Manifest: m, Model: model})
			for range 3 {
				wantDone(t, ask(t, s, "When?"))
			}
			asked := bodies[*messages.ModelRequest](records(t, s))
			if len(asked) != 3 {
				t.Fatalf("%d requests", len(asked))
			}
			for i, req := range model.requests() {
				kept, err := s.Blob(t.Context(), asked[i].System)
				if err != nil || string(kept) != req.Messages[0].Text || !contains(string(kept), "tides of Brest") {
					t.Errorf("turn %d: the model saw %q, the journal has %q, %v", i+1, req.Messages[0].Text, kept, err)
				}
			}
			if n := store.systems.Load(); n != 1 {
				t.Errorf("it went to the journal %d times", n)
			}
			if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
		})
	}
}
