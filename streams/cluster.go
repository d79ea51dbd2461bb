package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"
)

// Cluster makes an embedded server one of several that keep streams together.
type Cluster struct {
	Server string   // name of this server, unlike the others'
	Listen string   // "host:port" for the other servers
	Routes []string // Listen of every server, this one's may be among them
}

// clusterName is the cluster's, the same on every server.
const clusterName = "edict"

func (c *Cluster) join(o *server.Options) error {
	host, port, err := splitAddress(c.Listen)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	o.ServerName = c.Server
	o.Cluster = server.ClusterOpts{Name: clusterName, Host: host, Port: port}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	return nil
}

// StartCluster starts n embedded servers in this process, on loopback and
// below dir, and returns when they have agreed on a leader: a cluster to try
// replicas, cuts and losses on. Their URLs are those of ClusterURL. opt holds
// for each but for its Dir, Listen and Cluster.
func StartCluster(ctx context.Context, n int, dir string, opt ServerOptions) ([]*Server, error) {
	routes, err := freeAddresses(n)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	servers := make([]*Server, n)
	var g errgroup.Group
	for i := range n {
		o := opt
		name := "edict-" + strconv.Itoa(i)
		o.Dir, o.Listen = filepath.Join(dir, name), "127.0.0.1:0"
		o.Cluster = &Cluster{Server: name, Listen: routes[i], Routes: routes}
		if o.Log != nil {
			o.Log = o.Log.With("server", name)
		}
		g.Go(func() (err error) {
			servers[i], err = StartServer(o)
			return err
		})
	}
	err = g.Wait()
	if err == nil {
		err = awaitLeader(ctx, servers)
	}
	if err != nil {
		for _, s := range servers {
			if s != nil {
				s.Close()
			}
		}
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	return servers, nil
}

// ClusterURL is what a client of the servers connects to.
func ClusterURL(servers []*Server) string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.ClientURL()
	}
	return strings.Join(urls, ",")
}

// freeAddresses are loopback addresses that nobody listens on. Servers must
// know each other's before the first one starts.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}

// awaitLeader waits until all servers are in the cluster and one leads it.
func awaitLeader(ctx context.Context, servers []*Server) error {
	ctx, cancel := context.WithTimeout(ctx, serverStartTimeout)
	defer cancel()
	for !led(servers) {
		if pause(ctx, 10*time.Millisecond) != nil {
			return errors.New("the servers did not agree on a leader")
		}
	}
	return nil
}

func led(servers []*Server) bool {
	for _, s := range servers {
		s.mu.RLock()
		run := s.run
		s.mu.RUnlock()
		if run != nil && run.JetStreamIsLeader() && len(run.JetStreamClusterPeers()) == len(servers) {
			return true
		}
	}
	return false
}
