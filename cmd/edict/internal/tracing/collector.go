package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector sends spans over OTLP/HTTP, as protobuf. OpenTelemetry's own client
// does the same and brings gRPC into the binary, 9 MB of it. Its
// settings: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT (milliseconds),
// _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY, each of them
// also with TRACES_ in front, which goes first.
type collector struct {
	url     string
	headers http.Header
	timeout time.Duration
	gzip    bool
	client  *http.Client
	log     *slog.Logger
	failing bool // said so; one upload at a time uses it
}

// setting is a variable of the exporter: the one for traces, else the common.
func setting(name string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

func newCollector(log *slog.Logger) (*collector, error) {
	if p := setting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not spoken here; want http/protobuf (a collector has it on port 4318)", p)
	}
	c := &collector{headers: http.Header{"Content-Type": {"application/x-protobuf"}}, timeout: 10 * time.Second, log: log}
	var err error
	if c.url, err = endpoint(); err != nil {
		return nil, err
	}
	if err := c.readHeaders(setting("HEADERS")); err != nil {
		return nil, err
	}
	if ms := setting("TIMEOUT"); ms != "" {
		n, err := strconv.ParseUint(ms, 10, 31)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT: %q: want milliseconds, such as 10000", ms)
		}
		c.timeout = time.Duration(n) * time.Millisecond
	}
	switch how := setting("COMPRESSION"); how {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.headers.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION: %q: want gzip or none", how)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(); err != nil {
		return nil, err
	}
	c.client = &http.Client{Transport: transport}
	return c, nil
}

// endpoint is where spans go. The variable for traces is the whole address, the
// common one that of the collector.
func endpoint() (string, error) {
	name, path := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""
	text := os.Getenv(name)
	if text == "" {
		name, path = "OTEL_EXPORTER_OTLP_ENDPOINT", "v1/traces"
		text = os.Getenv(name)
	}
	if text == "" {
		text = "http://localhost:4318"
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s: want an address such as http://localhost:4318", name) // the text may hold a password
	}
	if path != "" {
		u = u.JoinPath(path)
	}
	return u.String(), nil
}

// readHeaders reads key=value pairs with commas between, values escaped as in
// URLs.
func (c *collector) readHeaders(list string) error {
	for _, pair := range strings.Split(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS: want key=value,key=value") // values are secrets
		}
		c.headers.Set(key, value)
	}
	return nil
}

func tlsConfig() (*tls.Config, error) {
	var config tls.Config
	if file := setting("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s holds no certificate in PEM", file)
		}
	}
	if cert, key := setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &config, nil
}

// Start needs nothing.
func (c *collector) Start(context.Context) error { return nil }

// Stop lets go of the connections.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, again after a refusal that passes. They are lost
// when the timeout is over: the plane goes on without.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		again, err := c.post(ctx, body)
		if err == nil || !again {
			return c.logChange(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return c.logChange(err)
		}
	}
}

// encode is an ExportTraceServiceRequest: it has the same one field as
// TracesData.
func (c *collector) encode(spans []*tracepb.ResourceSpans) ([]byte, error) {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil || !c.gzip {
		return body, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(body)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

func (c *collector) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header = c.headers
	resp, err := c.client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		return false, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("the collector answers %s", resp.Status)
}

// logChange logs once that spans are lost, and once that they are exported again.
func (c *collector) logChange(err error) error {
	switch {
	case err != nil && !c.failing:
		c.log.Warn("spans cannot be exported and are lost", "error", err)
	case err == nil && c.failing:
		c.log.Info("spans are exported again")
	}
	c.failing = err != nil
	return err
}
