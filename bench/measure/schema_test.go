package measure

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed14be6753/stile/bench/workload"
)

var update = flag.Bool("update", false, "write docs/bench-result.schema.json")

// The schema of results in the documentation is made from the types.
func TestSchemaIsCommitted(t *testing.T) {
	text := &jsonschema.Schema{Type: "string", Description: "a time span such as 20ms"}
	dist := &jsonschema.Schema{Description: "a time span, which is constant, or an object with dist", AnyOf: []*jsonschema.Schema{text, {Type: "object", Required: []string{"dist"}}}}
	s, err := jsonschema.For[Result](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[workload.Duration](): text,
		reflect.TypeFor[workload.Dist]():     dist,
		reflect.TypeFor[time.Time]():         {Type: "string", Format: "date-time"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.ID, s.Title = "https://github.com/seed14be6753/stile/docs/bench-result.schema.json", "A result of stile bench, format "+Format
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	const path = "../../docs/bench-result.schema.json"
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, b) {
		t.Errorf("%s is not what -update writes: %v", path, err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	var out bytes.Buffer
	r := &Result{Format: Format, Started: time.Now(), Rounds: []Round{round(time.Millisecond)}, Workload: workload.Workload{Agents: []workload.Agent{{Gap: workload.Dist{Kind: workload.Exponential}}}, Jobs: []workload.Job{{}}}}
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(doc); err != nil {
		t.Errorf("a result does not fit the schema: %v", err)
	}
}
