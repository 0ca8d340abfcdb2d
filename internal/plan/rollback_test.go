package plan

import "testing"

// What a compensation refers to is there, or the compensation is not made.
func TestCompensation(t *testing.T) {
	for _, c := range []struct{ params, want, reason string }{
		{`{"a":"x"}`, `{"a":"x"}`, ""},
		{`{"a":"$result","b":"${params.to}"}`, `{"a":{"ref":"F1"},"b":"Oslo"}`, ""},
		{`{"a":"free ${result.ref} in ${params.to}"}`, `{"a":"free F1 in Oslo"}`, ""},
		{`{"a":"${result.no}"}`, "", "unresolved_variable:result.no"},
		{`{"a":"free ${result.no}"}`, "", "unresolved_variable:result.no"},
		{`{"a":["free ${params.to.x}"]}`, "", "unresolved_variable:params.to.x"},
		{`{"a":"echo $HOME and ${other.x}"}`, `{"a":"echo $HOME and ${other.x}"}`, ""},
		{`{"a":"$HOME"}`, "", "unresolved_variable:HOME"},
		{`{"a":"cost $$result"}`, `{"a":"cost $result"}`, ""},
	} {
		out, reason := Compensation(c.params, `{"ref":"F1"}`, `{"to":"Oslo"}`)
		if out != c.want || reason != c.reason {
			t.Errorf("%s: %s, %q; want %s, %q", c.params, out, reason, c.want, c.reason)
		}
	}
	if out, reason := Compensation(`{"a":"free $result"}`, "", `{}`); out != "" || reason != "unresolved_variable:result" {
		t.Errorf("of a member whose outcome is unknown: %s, %q", out, reason)
	}
}
