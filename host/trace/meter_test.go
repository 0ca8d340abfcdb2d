package trace_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/trace"
)

// Each call of a model is measured under the names, units and attributes of the conventions; one that
// failed says so, and has no tokens.
func TestMeter(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	meter, err := trace.NewMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	rt.ObserveAgents(meter.ObserveAgent)
	s, err := rt.Open(t.Context(), "ada", &stile.Agent{Name: "talker", Dialect: "cogency", Model: &replies{texts: []string{"one " + secret, "two", ""}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		run, err := s.Submit(t.Context(), secret)
		if err == nil {
			_, err = run.Decision(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil || len(all.ScopeMetrics) != 1 {
		t.Fatal(all, err)
	}
	var got []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				got = append(got, fmt.Sprint(m.Name, " ", m.Unit, " ", p.Count, " ", len(p.Bounds), " ", labels(p.Attributes)))
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				got = append(got, fmt.Sprint(m.Name, " ", m.Unit, " ", p.Count, " ", p.Sum, " ", p.Bounds[13], " ", labels(p.Attributes)))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"gen_ai.client.operation.duration s 1 14 error.type=ERR_MODEL gen_ai.operation.name=chat gen_ai.provider.name=scripted",
		"gen_ai.client.operation.duration s 2 14 gen_ai.operation.name=chat gen_ai.provider.name=scripted",
		"gen_ai.client.token.usage {token} 2 60 6.7108864e+07 gen_ai.operation.name=chat gen_ai.provider.name=scripted gen_ai.token.type=input",
		"gen_ai.client.token.usage {token} 2 8 6.7108864e+07 gen_ai.operation.name=chat gen_ai.provider.name=scripted gen_ai.token.type=output",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func labels(set attribute.Set) string {
	var all []string
	for _, kv := range set.ToSlice() { // sorted by key
		all = append(all, string(kv.Key)+"="+kv.Value.String())
	}
	return strings.Join(all, " ")
}
