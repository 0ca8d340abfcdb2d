//go:build !lite

package main

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/trace"
	"github.com/seed14be6753/stile/messages"
)

// traceEnd bounds how long the last spans may take to leave.
const traceEnd = 5 * time.Second

// tracing exports traces, and metrics of the calls of models, if the environment says where to: the
// variables are those of OpenTelemetry's exporters. observe has a runtime's records seen; end sends
// what is left. Both do nothing when neither is wanted.
func tracing(ctx context.Context, env func(string) string) (observe func(*stile.Runtime), end func() error, err error) {
	traces, metrics := wants(env, "TRACES"), wants(env, "METRICS")
	for _, signal := range []struct {
		name   string
		wanted bool
	}{{"TRACES", traces}, {"METRICS", metrics}} {
		if p := cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal.name+"_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); signal.wanted && p != "http/protobuf" {
			return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "OTEL_EXPORTER_OTLP_PROTOCOL", Detail: "traces and metrics are exported over http/protobuf"}
		}
	}
	var see []func(string, *stile.Record)
	var shut []func(context.Context) error
	end = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceEnd)
		defer cancel()
		var all []error
		for _, f := range shut {
			all = append(all, f(ctx))
		}
		return errors.Join(all...)
	}
	if traces || metrics {
		// What the environment says of the resource and its service comes last, and wins.
		res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "stile"), attribute.String("service.version", versionOf(debug.ReadBuildInfo()).Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
		if err != nil && !errors.Is(err, resource.ErrPartialResource) {
			return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "OTEL_RESOURCE_ATTRIBUTES", Detail: "the resource of traces and metrics", Cause: err}
		}
		if traces {
			exporter, err := otlptracehttp.New(ctx)
			if err != nil {
				return nil, nil, noExporter("traces", err)
			}
			provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
			see, shut = append(see, trace.New(provider).ObserveAgent), append(shut, provider.Shutdown)
		}
		if metrics {
			exporter, err := otlpmetrichttp.New(ctx)
			if err != nil {
				return nil, nil, errors.Join(noExporter("metrics", err), end())
			}
			provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)), sdkmetric.WithResource(res))
			shut = append(shut, provider.Shutdown)
			meter, err := trace.NewMeter(provider)
			if err != nil {
				return nil, nil, errors.Join(noExporter("metrics", err), end())
			}
			see = append(see, meter.ObserveAgent)
		}
	}
	return func(rt *stile.Runtime) {
		for _, f := range see {
			rt.ObserveAgents(f)
		}
	}, end, nil
}

func noExporter(what string, err error) error {
	return &messages.Error{Code: messages.ErrConfig, Field: "OTEL_EXPORTER_OTLP_ENDPOINT", Detail: what + " cannot be exported there", Cause: err}
}

// wants reports whether the environment asks for a signal: TRACES or METRICS.
func wants(env func(string) string, signal string) bool {
	switch exporter := env("OTEL_" + signal + "_EXPORTER"); {
	case env("OTEL_SDK_DISABLED") == "true", exporter == "none":
		return false
	case exporter == "otlp":
		return true
	}
	return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}
