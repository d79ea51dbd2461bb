package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/controller"
	"github.com/edictdev/edict/policy"
)

type app struct {
	stdout, stderr io.Writer

	server, tokenFile, ca string
	project               string
	kubeconfig            string
	lease, listen         string
	logFormat, logLevel   string
	qps                   float32
	patience              time.Duration // with one answer of the plane, to its end
	opt                   controller.Options
}

func (a *app) rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edict-controller",
		Short: "Keep a project of a plane at what a Kubernetes cluster says",
		Long: `Watch a Kubernetes cluster and keep a project of an Edict plane at what it says:
pods and machines are nodes there, NetworkPolicies, ClusterNetworkPolicies,
AdminNetworkPolicies and BaselineAdminNetworkPolicies are ordered policies. What
became of a policy is written back to its status, or to an Event. Give each cluster
a project of its own.

Run as many as you like: with --lease the one that holds the Lease writes. A
restart writes nothing that is so already.

Every flag can be set as EDICT_<FLAG>, such as EDICT_TOKEN_FILE. SIGINT and SIGTERM
stop it in order, with exit code 0. It ends with 2 when a flag makes no sense, 3
when a file cannot be read, and 7 when its address is in use.`,
		Example: `  edict-controller --server https://edict-api.edict.svc:8443 --ca ca.crt --token-file token --lease edict/edict-controller
  edict-controller --kubeconfig ~/.kube/config --server http://127.0.0.1:8080`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&a.server, "server", "http://127.0.0.1:8080", "address of the plane")
	f.StringVar(&a.tokenFile, "token-file", "", "`file` with a bearer token; read again for each request")
	f.StringVar(&a.ca, "ca", "", "authorities that the plane's certificate is checked against, PEM (default the system's)")
	f.StringVar(&a.project, "project", "00000000-0000-4000-8000-000000000000", "project, a UUID")
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "`file` that says where the cluster is (default: the pod's service account)")
	f.StringVar(&a.opt.Cluster, "cluster", "", "distinguishes clusters of one plane in the ids of nodes (default the uid of the namespace kube-system)")
	f.StringVar(&a.lease, "lease", "", "`namespace/name` of the Lease that the one that writes holds (default: this one writes)")
	f.StringVar(&a.opt.Name, "name", "", "name of this controller among those of the Lease, which no other has (default the host's, and a random part)")
	f.StringVar(&a.listen, "listen", "127.0.0.1:8082", "address of /livez, /readyz and /metrics")
	f.DurationVar(&a.opt.Debounce, "debounce", 200*time.Millisecond, "how long changes are collected before they are written")
	f.DurationVar(&a.opt.StatusEvery, "status-every", 30*time.Second, "how often what became of policies is written back")
	f.DurationVar(&a.opt.ReadEvery, "read-every", 10*time.Minute, "how often what the plane has is read again, and what others changed of it is put back")
	f.Float32Var(&a.qps, "kube-qps", 50, "requests a second to the API server, watches apart")
	f.StringVar(&a.logFormat, "log-format", "text", "text or json")
	f.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.PreRunE = fromEnvironment
	cmd.SetFlagErrorFunc(cli.FlagError)
	cli.VersionFlag(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "version", Short: "Say which edict-controller this is: release, commit and its date", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "edict-controller", cli.ReadBuild())
			return err
		},
	})
	return cmd
}

// fromEnvironment has flags take their value from EDICT_<FLAG> where the command line
// gives none.
func fromEnvironment(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := "EDICT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(name)
		if err != nil || f.Changed || f.Name == "help" || f.Name == "version" || value == "" {
			return
		}
		if bad := cmd.Flags().Set(f.Name, value); bad != nil {
			err = cli.Usage(cmd, "%s=%q: %v", name, value, bad)
		}
	})
	return err
}

func (a *app) run(cmd *cobra.Command) error {
	if err := a.complete(cmd); err != nil {
		return err
	}
	cli.OutliveReaders()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.opt.Metrics = controller.NewMetrics(reg)
	c := controller.New(a.opt)
	listener, err := net.Listen("tcp", a.listen)
	if err != nil {
		return cli.Failed(cli.Unavailable, "--listen: %v", err)
	}
	g, ctx := errgroup.WithContext(cmd.Context())
	g.Go(func() error { return serve(ctx, listener, a.routes(c, reg)) })
	g.Go(func() error { return c.Run(ctx) })
	a.opt.Log.Info("ready", "http", listener.Addr().String())
	if err := g.Wait(); err != nil {
		return err
	}
	a.opt.Log.Info("stopped")
	return nil
}

// routes are what a kubelet and a Prometheus ask.
func (a *app) routes(c *controller.Controller, reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return mux
}

func serve(ctx context.Context, on net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(on); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// complete checks the flags and fills in what follows from them.
func (a *app) complete(cmd *cobra.Command) (err error) {
	if a.opt.Log, err = a.logger(cmd); err != nil {
		return err
	}
	klog.SetSlogLogger(a.opt.Log) // what client-go says goes where we log
	if a.opt.Project, err = uuid.Parse(a.project); err != nil {
		return cli.Usage(cmd, "--project %q is not a UUID", a.project)
	}
	if _, err := policy.NewLabels(map[string]string{"edict/cluster": a.opt.Cluster}, ""); err != nil {
		return cli.Usage(cmd, "--cluster %q: nodes have it as the value of a label: %v", a.opt.Cluster, err)
	}
	if a.lease != "" {
		var ok bool
		if a.opt.LeaseNamespace, a.opt.LeaseName, ok = strings.Cut(a.lease, "/"); !ok || a.opt.LeaseNamespace == "" || a.opt.LeaseName == "" || strings.Contains(a.opt.LeaseName, "/") {
			return cli.Usage(cmd, "--lease %q: want namespace/name", a.lease)
		}
	}
	if a.opt.Name == "" {
		// Two on one host must not take each other's Lease for their own.
		host, _ := os.Hostname()
		a.opt.Name = host + "-" + uuid.NewString()[:8]
	}
	if a.opt.Debounce <= 0 || a.opt.StatusEvery <= 0 || a.opt.ReadEvery <= 0 || a.qps <= 0 {
		return cli.Usage(cmd, "--debounce, --status-every, --read-every and --kube-qps must be above 0")
	}
	shown, err := a.http(cmd)
	if err != nil {
		return err
	}
	plane, err := client.New(a.server, client.Options{UserAgent: "edict-controller/" + cli.ReadBuild().Version, HTTP: shown})
	if err != nil {
		return cli.Usage(cmd, "--server: %v", err)
	}
	a.opt.Nodes, a.opt.Policies = plane.Nodes, plane.Policies
	return a.cluster(cmd)
}

// cluster makes clients of the API server. Pods come as protobuf, which costs a fraction
// of JSON; kinds that only their definitions know have no such form.
func (a *app) cluster(cmd *cobra.Command) error {
	config, err := rest.InClusterConfig()
	if a.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return cli.Usage(cmd, "outside a cluster, say where it is: --kubeconfig FILE")
	}
	if err != nil {
		return cli.Failed(cli.Unreadable, "the cluster's address: %v", err)
	}
	config.QPS, config.Burst = a.qps, int(2*a.qps)
	config.UserAgent = "edict-controller/" + cli.ReadBuild().Version
	if a.opt.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return cli.Failed(cli.Unreadable, "the cluster's address: %v", err)
	}
	typed := rest.CopyConfig(config)
	typed.ContentType, typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	if a.opt.Kubernetes, err = kubernetes.NewForConfig(typed); err != nil {
		return cli.Failed(cli.Unreadable, "the cluster's address: %v", err)
	}
	return nil
}

func (a *app) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var opt slog.HandlerOptions
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, cli.Usage(cmd, "--log-level %q: want debug, info, warn or error", a.logLevel)
	}
	opt.Level = level
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(cli.Messages(a.stderr), &opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cli.Whole(a.stderr), &opt)), nil
	}
	return nil, cli.Usage(cmd, "--log-format %q: want text or json", a.logFormat)
}
