package cortex

import (
	"encoding/json"
	"os"
	"testing"
)

const vectorFile = "../../tests/testdata/vectors/streaming.json"

type vector struct {
	ID     string           `json:"id"`
	Note   string           `json:"note"`
	Input  string           `json:"input"`
	Events []map[string]any `json:"events"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Format string   `json:"format"`
		Cases  []vector `json:"cases"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if file.Format != "stile-streaming/1" || len(file.Cases) < 88 {
		t.Fatalf("%s with %d cases", file.Format, len(file.Cases))
	}
	return file.Cases
}

// Every vector, whole and at every cut.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			got := everyCut(t, Dialect{}, v.Input)
			if got, want := lines(t, byValue(t, got.canonical)), lines(t, v.Events); got != want {
				t.Errorf("%s: %q\ngot\n%swant\n%s", v.Note, v.Input, got, want)
			}
			checkCut(t, []byte(v.Input), got)
			everyCut(t, Dialect{Cut: true}, v.Input)
		})
	}
}

// byValue makes floats of all numbers.
func byValue(t testing.TB, events []map[string]any) (out []map[string]any) {
	t.Helper()
	b, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
