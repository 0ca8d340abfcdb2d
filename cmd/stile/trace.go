//go:build !lite

package main

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/trace"
	"github.com/seed14be6753/stile/messages"
)

// traceEnd bounds how long the last spans may take to leave.
const traceEnd = 5 * time.Second

// tracing exports traces if the environment says where to: the variables are those of
// OpenTelemetry's exporters. observe has a runtime's records traced; end sends what is
// left. Both do nothing when tracing is off.
func tracing(ctx context.Context, env func(string) string) (observe func(*stile.Runtime), end func() error, err error) {
	off := func() error { return nil }
	if !wantsTraces(env) {
		return func(*stile.Runtime) {}, off, nil
	}
	if p := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p != "http/protobuf" {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "OTEL_EXPORTER_OTLP_PROTOCOL", Detail: "traces are exported over http/protobuf"}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "OTEL_EXPORTER_OTLP_ENDPOINT", Detail: "traces cannot be exported there", Cause: err}
	}
	// What the environment says of the resource and its service comes last, and wins.
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "stile"), attribute.String("service.version", versionOf(debug.ReadBuildInfo()).Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, nil, &messages.Error{Code: messages.ErrConfig, Field: "OTEL_RESOURCE_ATTRIBUTES", Detail: "the resource of traces", Cause: err}
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	return func(rt *stile.Runtime) { rt.ObserveAgents(trace.New(provider).ObserveAgent) }, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceEnd)
		defer cancel()
		return provider.Shutdown(ctx)
	}, nil
}

// wantsTraces reports whether the environment asks for traces.
func wantsTraces(env func(string) string) bool {
	switch exporter := env("OTEL_TRACES_EXPORTER"); {
	case env("OTEL_SDK_DISABLED") == "true", exporter == "none":
		return false
	case exporter == "otlp":
		return true
	}
	return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}
