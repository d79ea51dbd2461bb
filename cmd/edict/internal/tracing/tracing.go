// Package tracing records with OpenTelemetry what one change of policy does:
// the author's command and request, the event that it appends, the fold of that event,
// the messages about it and what a node does with them. It is off unless the environment
// that OpenTelemetry defines says otherwise; the rooms it watches do not know it.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say who records: a service, edict unless it is named, and which of its
// processes. Console is where the exporter of that name writes.
type Options struct {
	Service           string
	Instance, Version string
	Console           io.Writer
	Log               *slog.Logger
}

// Tracing is a recorder. It is what api, projector and relay report to.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	now      func() time.Time
}

// FromEnvironment makes the recorder that the environment asks for, nil when it
// asks for none: without an exporter or an endpoint, or with OTEL_SDK_DISABLED.
// What it cannot do as asked is an error. Sampler, limits, batches and resource
// are read from the environment by OpenTelemetry itself.
func FromEnvironment(ctx context.Context, opt Options) (*Tracing, error) {
	names, err := exporters()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	if err := checkRecorder(); err != nil {
		return nil, err
	}
	var all []sdk.TracerProviderOption
	for _, name := range names {
		var e sdk.SpanExporter
		if name == "console" {
			e, err = stdouttrace.New(stdouttrace.WithWriter(opt.Console))
		} else {
			e, err = newOTLP(ctx, opt.Log)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, sdk.WithBatcher(e))
	}
	// The exporter tells of its failures itself, once; the standard handler
	// writes past the log.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { opt.Log.Debug("OpenTelemetry reports an error", "error", err) }))
	return start(ctx, opt, all...)
}

// exporters are the names that OTEL_TRACES_EXPORTER lists; otlp where it lists
// none and an endpoint is given.
func exporters() (names []string, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	list := os.Getenv("OTEL_TRACES_EXPORTER")
	if list == "" && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") {
		list = "otlp"
	}
	for _, name := range strings.Split(list, ",") {
		switch name = strings.TrimSpace(name); name {
		case "", "none":
		case "otlp", "console":
			names = append(names, name)
		default:
			return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not known here; want otlp, console or none", name)
		}
	}
	return names, nil
}

func start(ctx context.Context, opt Options, more ...sdk.TracerProviderOption) (*Tracing, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", cmp.Or(opt.Service, "edict")),
			attribute.String("service.version", opt.Version),
			attribute.String("service.instance.id", opt.Instance)),
		resource.WithFromEnv()) // has the last word
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdk.NewTracerProvider(append(more, sdk.WithResource(res))...)
	return &Tracing{provider: p, tracer: p.Tracer("github.com/edictdev/edict"), now: time.Now}, nil
}

// Close sends what was recorded, as long as ctx allows, and ends recording.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }
