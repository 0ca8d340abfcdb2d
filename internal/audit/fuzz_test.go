package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile/internal/audit"
)

// FuzzTampering: of a log whose head is kept elsewhere no byte is changed, taken out or put
// in without a problem being named, and a log that is as it was has none.
func FuzzTampering(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, audit.Name)
	for i := range 6 {
		if err := (audit.File{Path: path}).Append(func(prev string) ([]byte, error) { return fmt.Appendf(nil, `{"n":%d,"prev":%q}`, i, prev), nil }); err != nil {
			f.Fatal(err)
		}
	}
	honest, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	head, err := (audit.File{Path: path}).Head()
	if err != nil {
		f.Fatal(err)
	}
	line := bytes.IndexByte(honest, '\n') + 1
	f.Add(uint16(0), uint16(0), []byte(nil))
	f.Add(uint16(0), uint16(line), []byte(nil))                                 // the first line taken out
	f.Add(uint16(line), uint16(line), honest[:line])                            // one doubled over another
	f.Add(uint16(len(honest)-1), uint16(1), []byte(nil))                        // the last line end
	f.Add(uint16(len(honest)), uint16(0), []byte("{\"n\":9}\n"))                // a line without a hash behind
	f.Add(uint16(line), uint16(0), []byte("{\"n\":9}\n"))                       // and between
	f.Add(uint16(0), uint16(0), []byte("{\"n\":9}\n"))                          // and in front
	f.Add(uint16(line+4), uint16(1), []byte(" "))                               //
	f.Add(uint16(line), uint16(0), []byte("\n"))                                // an empty line
	f.Add(uint16(0), uint16(len(honest)), []byte(nil))                          // all of it
	f.Add(uint16(len(honest)), uint16(0), honest)                               // all of it twice
	f.Add(uint16(line), uint16(len(honest)-line), bytes.ToUpper(honest[line:])) //
	f.Fuzz(func(t *testing.T, at, cut uint16, put []byte) {
		from := min(int(at), len(honest))
		to := min(from+int(cut), len(honest))
		changed := bytes.Join([][]byte{honest[:from], put, honest[to:]}, nil)
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := audit.Verify(t.Context(), path, audit.Expect{Head: head})
		if err != nil {
			t.Fatal(err)
		}
		found := len(r.Problems)+r.More > 0
		if bytes.Equal(changed, honest) {
			if found || r.Lines != 6 || r.Head != head {
				t.Fatalf("as it was: %+v", r)
			}
			return
		}
		// Lines that carry no hash are counted, and what has no line end is told of.
		if !found && r.Unchained == 0 && r.Torn == 0 {
			t.Fatalf("%q: %+v", changed, r)
		}
	})
}
