package stile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// Every query gives what a look at all records gives, backwards as well.
func TestQuery(t *testing.T) {
	rt, err := New(t.Context(), Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	replies := make([]string, 60)
	for i := range replies {
		replies[i] = fmt.Sprint("reply ", i)
	}
	s, err := rt.Open(t.Context(), "q", &Agent{Dialect: "plain", Model: scripted.New(replies...)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range replies {
		run, err := s.Submit(t.Context(), fmt.Sprint("question ", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Decision(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []*Record
	for r, err := range s.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	for _, after := range []int64{0, 1, 7, int64(len(all)) - 1, int64(len(all))} {
		n := after
		for r, err := range s.RecordsAfter(t.Context(), after) {
			if n++; err != nil || r.Seq != n {
				t.Fatalf("record %d, %v, behind %d: want record %d", r.Seq, err, after, n)
			}
		}
		if n != int64(len(all)) {
			t.Errorf("the records behind %d end at %d of %d", after, n, len(all))
		}
	}
	for _, q := range []RecordQuery{
		{},
		{From: 5, To: 9},
		{Latest: 3},
		{Latest: 1000},
		{Latest: 7, To: 200},
		{Latest: 400, From: 20, To: 300},
		{Kinds: []messages.Kind{messages.KindInput}},
		{Kinds: []messages.Kind{messages.KindInput, messages.KindResponse}, Latest: 90},
		{Run: 7},
		{Run: 7, Latest: 2},
		{Turn: 9},
		{Run: 7, Turn: 9},
		{Run: 1, Latest: 1},
		{From: int64(len(all)) + 5},
		{Latest: 2, From: int64(len(all)) + 5},
	} {
		var want []int64
		for _, r := range all {
			if (q.From <= 0 || r.Seq >= q.From) && (q.To <= 0 || r.Seq <= q.To) &&
				(len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Body.Kind())) && (q.Run == 0 || r.Run == q.Run) && (q.Turn == 0 || r.Turn == q.Turn) {
				want = append(want, r.Seq)
			}
		}
		if q.Latest > 0 && len(want) > q.Latest {
			want = want[len(want)-q.Latest:]
		}
		var got []int64
		for r, err := range s.Query(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			if _, raw := r.Body.(*messages.Undecoded); raw {
				t.Errorf("%+v: a body is not typed", q)
			}
			got = append(got, r.Seq)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: got %v, want %v", q, got, want)
		}
	}
}
