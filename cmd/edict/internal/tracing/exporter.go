package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// newOTLP is OpenTelemetry's exporter for OTLP over HTTP. It reads its settings from the
// environment and goes on without those that it cannot read; here such a setting is an
// error. The error has no value of a setting, which may be a secret.
func newOTLP(ctx context.Context, log *slog.Logger) (sdk.SpanExporter, error) {
	if err := checkSettings(); err != nil {
		return nil, err
	}
	var unread unreadable
	otel.SetLogger(logr.FromSlogHandler(&unread))
	e, err := otlptracehttp.New(ctx, fallback()...)
	otel.SetLogger(logr.Discard())
	if err == nil {
		err = unread.err
	}
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_*: %w", err)
	}
	return &telling{SpanExporter: e, log: log}, nil
}

// fallback is where a collector is asked when the environment does not say where one is.
// OpenTelemetry defines it without TLS, and its exporter would ask with.
func fallback() []otlptracehttp.Option {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
		return nil
	}
	return []otlptracehttp.Option{otlptracehttp.WithEndpointURL("http://localhost:4318/v1/traces")}
}

// checkSettings looks at what the exporter takes for something else, or passes over
// without a word.
func checkSettings() error {
	for _, signal := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
		get := func(name string) string { return strings.TrimSpace(os.Getenv(signal + name)) }
		switch p := get("PROTOCOL"); p {
		case "", "http/protobuf", "http/json":
		default:
			return fmt.Errorf("%sPROTOCOL: %q is not spoken here; want http/protobuf (a collector has it on port 4318)", signal, p)
		}
		if text := get("ENDPOINT"); text != "" {
			if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("%sENDPOINT: want an address such as http://localhost:4318", signal)
			}
		}
		if c := get("COMPRESSION"); c != "" && c != "gzip" && c != "none" {
			return fmt.Errorf("%sCOMPRESSION: %q: want gzip or none", signal, c)
		}
		if (get("CLIENT_CERTIFICATE") == "") != (get("CLIENT_KEY") == "") {
			return fmt.Errorf("%sCLIENT_CERTIFICATE and CLIENT_KEY go together", signal)
		}
	}
	return nil
}

// unreadable keeps the first error that OpenTelemetry logs, without what it says about
// the setting's value.
type unreadable struct{ err error }

// otlpSettings are the settings that OpenTelemetry reads itself, by a word of what it says of
// one that it cannot read: it does not name it. The first that fits counts.
var otlpSettings = []struct{ word, name, want string }{
	{"duration", "TIMEOUT", "want milliseconds, such as 10000"},
	{"header", "HEADERS", "want name=value, with a comma between two, and %2C for one in a value"},
	{"client", "CLIENT_CERTIFICATE and CLIENT_KEY", "want files that can be read, PEM, of a certificate and its key"},
	{"cert", "CERTIFICATE", "want a file that can be read, with certificates in PEM"},
	{"url", "ENDPOINT", "want an address such as http://localhost:4318"},
}

// Enabled implements slog.Handler.
func (u *unreadable) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle implements slog.Handler.
func (u *unreadable) Handle(_ context.Context, r slog.Record) error {
	if u.err != nil {
		return nil
	}
	for _, s := range otlpSettings {
		if strings.Contains(r.Message, s.word) {
			u.err = fmt.Errorf("%s cannot be used: %s", s.name, s.want)
			return nil
		}
	}
	u.err = fmt.Errorf("a setting cannot be used: %s", r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (u *unreadable) WithAttrs([]slog.Attr) slog.Handler { return u }

// WithGroup implements slog.Handler.
func (u *unreadable) WithGroup(string) slog.Handler { return u }

// telling logs once that spans are lost, and once that they are exported again.
type telling struct {
	sdk.SpanExporter
	log     *slog.Logger
	failing atomic.Bool
}

// ExportSpans implements sdk.SpanExporter.
func (e *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch was := e.failing.Swap(err != nil); {
	case err != nil && !was:
		e.log.Warn("spans cannot be exported and are lost", "error", err)
	case err == nil && was:
		e.log.Info("spans are exported again")
	}
	return err
}
