package plane

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
)

// A plane answers about its past from where it can begin nearest: its first event, a mark,
// a checkpoint, or its origin; what lies before that is gone.
func TestAPlaneAnswersAboutItsPast(t *testing.T) {
	dir := data(t)
	opt := Options{Data: dir, HTTP: "127.0.0.1:0", NATSListen: "none", witnessEvery: 5 * time.Millisecond}
	p := running(t, opt)
	p.serves(t)
	c := newClient(t, p.Addresses())
	at := func(seq int) (client.State, error) {
		return c.Nodes.State(t.Context(), fmt.Sprintf("node-%d", seq), client.StateQuery{At: fmt.Sprint(seq)})
	}
	for _, seq := range []int{1500, 3, folded} { // the event at seq is that of node seq
		s, err := at(seq)
		require.NoError(t, err, seq)
		require.Equal(t, uint64(seq), s.LogSeq)
	}
	_, err := c.Nodes.State(t.Context(), "node-4", client.StateQuery{At: "3"})
	refused(t, err, http.StatusNotFound)
	_, err = c.Snapshots.Create(t.Context())
	require.NoError(t, err)
	p.compacts(t, 1700)
	for _, seq := range []int{1700, 1701, folded} {
		_, err := at(seq)
		require.NoError(t, err, seq)
	}
	_, err = at(1699)
	refused(t, err, http.StatusGone)
}

func refused(t *testing.T, err error, status int) {
	t.Helper()
	var pr *client.Problem
	require.ErrorAs(t, err, &pr)
	require.Equal(t, status, pr.Status)
}
