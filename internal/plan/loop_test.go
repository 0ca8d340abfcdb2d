package plan

import (
	"slices"
	"strings"
	"testing"
)

// What a loop is over, and in which order; of a list that is too long the number alone.
func TestListOf(t *testing.T) {
	for _, c := range []struct {
		value string
		most  int
		items []string
		count int
		kind  string
	}{
		{`[]`, 5, []string{}, 0, ""},
		{` [1, "a,]", {"b":[2]} ] `, 5, []string{"1", `"a,]"`, `{"b":[2]}`}, 3, ""},
		{`{}`, 5, []string{}, 0, ""},
		{"{\"\ufb33\":1,\"\U0001f600\" : [2], \"a\\u0041\":3}", 5, []string{`{"key":"aA","value":3}`, "{\"key\":\"\U0001f600\",\"value\":[2]}", "{\"key\":\"\ufb33\",\"value\":1}"}, 3, ""},
		{`[1,2,3]`, 2, nil, 3, ""},
		{`"text"`, 5, nil, 0, "string"},
		{`-1`, 5, nil, 0, "number"},
		{`true`, 5, nil, 0, "boolean"},
		{`null`, 5, nil, 0, "null"},
	} {
		items, count, kind := listOf(c.value, c.most)
		if !slices.Equal(items, c.items) || count != c.count || kind != c.kind {
			t.Errorf("%s: %q %d %q", c.value, items, count, kind)
		}
	}
}

// A list of a million is counted, and nothing is kept of it.
func TestLongListsCostNothing(t *testing.T) {
	value := "[" + strings.Repeat("1,", 999_999) + "1]"
	var count int
	allocs := testing.AllocsPerRun(1, func() { _, count, _ = listOf(value, 50) })
	if count != 1_000_000 || allocs > 10 {
		t.Errorf("%d items, %v allocations", count, allocs)
	}
}

// A list of a million is counted and no more.
func TestListOfAMillion(t *testing.T) {
	for _, value := range []string{"[" + strings.Repeat("1,", 999_999) + "1]", "{" + strings.Repeat(`"":{"a":[]},`, 999_999) + `"":1}`} {
		if items, count, kind := listOf(value, 50); items != nil || count != 1_000_000 || kind != "" {
			t.Errorf("%d items of %d, %q", len(items), count, kind)
		}
	}
}
