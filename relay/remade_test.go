package relay_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// The node stream goes away under three workers, each of which opens it again:
// it was deleted, or several processes remade it at the same moment. All end on
// one new stream that has everything, and each tells a node that comes back to
// pull once.
func TestWorkersAgreeOnAStreamThatIsRemadeUnderThem(t *testing.T) {
	remakes := map[string]func(t *testing.T, p *plane, first uint64){
		"deleted": func(t *testing.T, p *plane, _ uint64) {
			nc, err := nats.Connect(p.server.ClientURL())
			require.NoError(t, err)
			defer nc.Close()
			js, err := nc.JetStream()
			require.NoError(t, err)
			require.NoError(t, js.DeleteStream(streams.NodesStream))
		},
		"remade by many": func(t *testing.T, p *plane, first uint64) {
			var g sync.WaitGroup
			for range 4 {
				g.Go(func() {
					_, _, err := streams.RemakeNodes(t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()}, first)
					assert.NoError(t, err)
				})
			}
			g.Wait()
		},
		"another log's": func(t *testing.T, p *plane, first uint64) {
			_, _, err := streams.RemakeNodes(t.Context(), p.conn, streams.NodesOptions{LogID: "1"}, first)
			require.NoError(t, err)
		},
	}
	for name, remake := range remakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newCluster(t, 1)
			for _, id := range []string{"n0", "n1", "n2", "n3", "n4", "n5"} {
				p.node(id, "role=a")
			}
			p.revise(policyID(1), "role=a", 443)
			var all []*sleeper
			for range 3 {
				s := p.share(10 * time.Second)
				s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if err := s.ServeEvents(w, req, policy.NodeID(req.URL.Path[1:])); err != nil {
						http.Error(w, err.Error(), http.StatusServiceUnavailable)
					}
				}))
				t.Cleanup(s.http.Close)
				all = append(all, s)
			}
			whole := func() bool {
				for _, w := range all {
					owned := 0
					for _, s := range all {
						owned += w.owned(t, s)
					}
					if w.Ready() != nil || owned != p.log.Partitions() {
						return false
					}
				}
				return true
			}
			p.eventually(whole, "three announce")
			old, _, err := streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{})
			require.NoError(t, err)

			remake(t, p, old.First())
			var now *streams.Nodes
			p.eventually(func() bool {
				now, _, err = streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()})
				var other *streams.OtherLogError
				require.True(t, err == nil || errors.As(err, &other), err)
				return err == nil && now.First() > old.First()
			}, "there is a new stream")
			p.eventually(whole, "all of it is announced again")
			for _, w := range all {
				p.converged(w.worker)
				at, err := w.Position()
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, now.First())
				c := p.follow(w.worker, "n1", "1")
				p.eventually(func() bool { return slices.Equal(c.seen(), []string{"pull", "01=1"}) }, "everything and one word to pull")
				c.close()
			}
			_, err = now.State(t.Context())
			require.NoError(t, err, "nobody took the new stream away")
		})
	}
}
