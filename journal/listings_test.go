package journal_test

import (
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// What a list shows changes with the records that open, wait, end and describe, and with no
// other: most commits of a run leave the index of lists alone.
func TestWhatChangesAListing(t *testing.T) {
	changing := map[messages.Kind]bool{
		messages.KindSessionOpened: true, messages.KindSessionClosed: true, messages.KindDescribed: true, messages.KindInput: true,
		messages.KindRunBegin: true, messages.KindRunEnd: true, messages.KindTurnSuspended: true, messages.KindTurnRestored: true,
	}
	for _, b := range specimen.Bodies() {
		ses := specimen.Start(t, "local:local:s", 1)
		first := ses.Notes(1).Records
		r := ses.Batch(b).Records
		var l journal.Listing
		if !l.Fold(first) || !l.Updated.Equal(first[0].TS) || !l.Created.Equal(first[0].TS) {
			t.Fatalf("the first record: %+v", l)
		}
		if changed := l.Fold(r); changed != changing[b.Kind()] || changed != l.Updated.Equal(r[0].TS) || !l.Created.Equal(first[0].TS) {
			t.Errorf("%s: changed %v, %+v", b.Kind(), changed, l)
		}
	}
}
