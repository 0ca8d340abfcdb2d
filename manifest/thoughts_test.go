package manifest

import (
	"strings"
	"testing"
)

// An extension of replies is refused where the dialect has no use for it.
func TestExtensionsOfOneDialect(t *testing.T) {
	for _, dialect := range []string{"plain", "aeiou", "cogency", "kitsu", "cortex"} {
		_, err := Parse("a.yaml", []byte("dialect: "+dialect+"\nextensions: [feed_transform, sub_thoughts]\n"))
		want := "a.yaml:2:30: extensions[1]: ERR_CONFIG/BAD_VALUE: only replies of the dialect cortex can use sub_thoughts, not those of " + `"` + dialect + `"`
		if dialect == "cortex" {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dialect, err, want)
		}
	}
}
