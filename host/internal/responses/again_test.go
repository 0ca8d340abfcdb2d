package responses

import "testing"

// An event that is not one of a response is passed on as it came, and so is an end from which no end
// can be made.
func TestHear(t *testing.T) {
	for data, want := range map[string]bool{
		`{"type":"response.output_text.delta","sequence_number":4,"delta":"a"}`:               true,
		`{"type":"response.completed","sequence_number":9,"response":{"status":"completed"}}`: true,
		`{"type":"response.failed","sequence_number":9}`:                                      true,
		`{"type":"response.completed","sequence_number":9}`:                                   false,
		`{"type":"response.incomplete"}`:                                                      false,
		`{"error":{"code":"x"}}`:                                                              false,
		`[DONE]`:                                                                              false,
		``:                                                                                    false,
	} {
		if _, ok := Hear([]byte(data)); ok != want {
			t.Errorf("%q: %v, want %v", data, ok, want)
		}
	}
}
