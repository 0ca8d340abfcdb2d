package conform

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const vectors = "../../tests/testdata/vectors"

// The least number of cases that the vectors of this repository have in each
// format, the published ones and our own, so that running nothing is no success.
var least = map[string]Count{
	"envelopes":     {Files: 2, Passed: 107 + 160},
	"tokens":        {Files: 2, Passed: 130 + 214},
	"turns":         {Files: 2, Passed: 47 + 75},
	"progress":      {Files: 2, Passed: 49 + 282, LeftOut: 2},
	"jcs numbers":   {Files: 2, Passed: 238 + 1316},
	"jcs documents": {Files: 3, Passed: 22 + 150},
	"jcs published": {Files: 1, Passed: 6},
	"cogency":       {Files: 2, Passed: 80 + 544},
	"kitsu":         {Files: 2, Passed: 65 + 395},
	"neuroscript":   {Files: 16, Passed: 175 + 1214, LeftOut: 22},
	"templates":     {Files: 2, Passed: 30 + 136},
	"expressions":   {Files: 2, Passed: 107 + 208},
	"transforms":    {Files: 2, Passed: 53 + 149},
	"streaming":     {Files: 4, Passed: 88 + 697 + 112 + 166},
}

func TestVectors(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(t.Context(), &out, []string{vectors}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d passed, %d failed, %d not counted", s.Passed, s.Failed, s.LeftOut)
	if !s.OK() || s.Unsupported != 0 {
		t.Errorf("%+v\n%s", s, out.String())
	}
	seen := 0
	for _, c := range s.Formats {
		want, known := least[c.Format]
		if !known {
			continue
		}
		seen++
		t.Logf("%+v", c)
		if c.Files < want.Files || c.Passed < want.Passed || c.LeftOut < want.LeftOut {
			t.Errorf("%+v, want at least %+v", c, want)
		}
	}
	if seen != len(least) {
		t.Errorf("%d of %d formats ran", seen, len(least))
	}
	if last := fmt.Sprintf("\n%d passed, 0 failed\n", s.Passed); !strings.HasSuffix(out.String(), last) {
		t.Errorf("the report ends %q, want %q", out.String()[max(0, out.Len()-60):], last)
	}
}

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(vectors + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
