package stile

import "testing"

func TestTraceParentForms(t *testing.T) {
	const ids = "-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	for header, want := range map[string]string{
		"00" + ids + "01":      "00" + ids + "01",
		"00" + ids + "00":      "00" + ids + "00",
		"01" + ids + "ff":      "00" + ids + "ff",
		"fe" + ids + "01-more": "00" + ids + "01",
		"fe" + ids + "01more":  "",
		"00" + ids + "01-more": "",
		"ff" + ids + "01":      "",
		"00" + ids + "0":       "",
		"00" + ids + "0G":      "",
		"00" + ids + "0A":      "",
		"":                     "",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
	} {
		if got := traceParent(header); got != want {
			t.Errorf("%q is %q, want %q", header, got, want)
		}
	}
}
