package plane

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Whose project has had its share of the log is shut out over NATS and refused over
// HTTP, and stays so, after a restart as well; others are not.
func TestAProducerBeyondItsShareIsShutOut(t *testing.T) {
	g := startGuarded(t, false, func(o *Options) { o.ProjectBytes = 2 << 20 })
	operator, author := who{g, "operator"}, who{g, "author"}
	nc, err := operator.nats()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	for range 5 {
		_, err := nc.Request("edict.log."+theirs+".node.junk", make([]byte, 500<<10), 10*time.Second)
		require.NoError(t, err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the producer goes on")
	}
	_, err = operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.Eventually(t, func() bool { return strings.Contains(g.log.String(), "has had its share") }, 20*time.Second, time.Millisecond)
	other, err := author.nats()
	require.NoError(t, err)
	_, err = other.Request("edict.log."+ours+".node.a", []byte("x"), 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, who{g, "author"}.http("PUT", "/v1/projects/"+ours+"/nodes/a", `{"labels":{}}`))
	refused := func() {
		t.Helper()
		require.ErrorContains(t, who{g, "stranger"}.http("PUT", "/v1/projects/"+theirs+"/nodes/b", `{"labels":{}}`), "project_over_share")
	}
	refused()
	require.NoError(t, who{g, "root"}.http("PUT", "/v1/projects/"+theirs+"/nodes/b", `{"labels":{}}`), "administrators are not held to it")
	require.NoError(t, who{g, "stranger"}.http("DELETE", "/v1/projects/"+theirs+"/nodes/b", ""))
	g.again(t)
	refused()
	_, err = operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
}
