// Package natscluster starts NATS servers in this process that keep streams
// together, as the servers do that an operator gives a plane with --nats: to try
// replicas, cuts and losses on.
package natscluster

import (
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// patience is how long servers may take to agree on a leader.
const patience = 2 * time.Minute

// Cluster is servers on loopback. Each may be shut down at any time; what is left
// goes with the test.
type Cluster []*server.Server

// Start starts n servers, with stores of their own below a directory of the test,
// and returns when they have agreed on a leader.
func Start(t testing.TB, n int) Cluster {
	t.Helper()
	addresses := Free(t, n)
	var routes []*url.URL
	for _, a := range addresses {
		routes = append(routes, &url.URL{Scheme: "nats", Host: a.String()})
	}
	dir := t.TempDir()
	c := make(Cluster, n)
	for i, a := range addresses {
		name := "edict-" + strconv.Itoa(i)
		s, err := server.NewServer(&server.Options{
			ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(dir, name), DisableJetStreamBanner: true,
			Cluster: server.ClusterOpts{Name: "edict", Host: a.IP.String(), Port: a.Port}, Routes: routes,
		})
		require.NoError(t, err)
		c[i] = s
		t.Cleanup(func() { Stop(s) })
		s.Start()
	}
	require.Eventually(t, c.led, patience, 10*time.Millisecond, "the servers did not agree on a leader")
	return c
}

// Stop ends a server and waits until it has.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// URL is what a client of the servers connects to.
func (c Cluster) URL() string {
	urls := make([]string, len(c))
	for i, s := range c {
		urls[i] = s.ClientURL()
	}
	return strings.Join(urls, ",")
}

// led reports whether all servers are in the cluster and one leads it.
func (c Cluster) led() bool {
	for _, s := range c {
		if s.ReadyForConnections(time.Second) && s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c) {
			return true
		}
	}
	return false
}

// Free are loopback addresses that nobody listens on. Servers must know each other's
// before the first one starts, and have them again when they are started again. So they
// are below the ports that a system gives to whoever names none, which others would get
// meanwhile.
func Free(t testing.TB, n int) []*net.TCPAddr {
	t.Helper()
	const lowest, beyond = 16_384, 32_768
	addresses := make([]*net.TCPAddr, 0, n)
	for range 100 * n {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(beyond-lowest))))
		if err != nil {
			continue // somebody has it
		}
		defer l.Close() // when all are known, so that none is given twice
		if addresses = append(addresses, l.Addr().(*net.TCPAddr)); len(addresses) == n {
			return addresses
		}
	}
	t.Fatal("no port is free")
	return nil
}
