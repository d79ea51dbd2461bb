package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// agentPage serves an agent's metrics on loopback; without a listener, nowhere.
type agentPage struct {
	listener net.Listener
	server   *http.Server
}

// metricsPage listens where --metrics-address says. Nobody is asked who they are there, so
// it is for this machine alone.
func (f agentFlags) metricsPage(cmd *cobra.Command, log *slog.Logger) (*agentPage, *agent.Metrics, error) {
	if f.metrics == "" {
		return &agentPage{}, agent.NewMetrics(nil), nil
	}
	host, _, err := net.SplitHostPort(f.metrics)
	if err != nil || !local(host) {
		return nil, nil, cli.Usage(cmd, "--metrics-address %.80q: want a loopback address and a port, such as 127.0.0.1:9102", f.metrics)
	}
	l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", f.metrics)
	if err != nil {
		return nil, nil, cli.Failed(cli.Unavailable, "--metrics-address: %v", err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	log.Info("metrics are served", "http", l.Addr().String())
	return &agentPage{l, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}}, agent.NewMetrics(reg), nil
}

// Run serves the page until ctx ends.
func (p *agentPage) Run(ctx context.Context) error {
	if p.listener == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { p.server.Close() })()
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// close frees the address of a page that was never served.
func (p *agentPage) close() {
	if p.listener != nil {
		p.listener.Close()
	}
}
