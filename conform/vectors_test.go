package conform

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const vectors = "../tests/testdata/vectors"

// The least number of cases that the vectors of this repository have in each
// format, so that running nothing is no success.
var least = map[string]Count{
	"envelopes":     {Files: 1, Passed: 107},
	"tokens":        {Files: 1, Passed: 130},
	"turns":         {Files: 1, Passed: 47},
	"progress":      {Files: 1, Passed: 49, LeftOut: 2},
	"jcs numbers":   {Files: 1, Passed: 238},
	"jcs documents": {Files: 2, Passed: 22},
	"jcs published": {Files: 1, Passed: 6},
	"cogency":       {Files: 1, Passed: 80},
	"kitsu":         {Files: 1, Passed: 65},
	"neuroscript":   {Files: 7, Passed: 175, LeftOut: 22},
	"streaming":     {Files: 1, Passed: 88},
}

func TestVectors(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(&out, []string{vectors}, Options{})
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
