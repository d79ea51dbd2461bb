package plane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/test/authority"
	"github.com/edictdev/edict/policy"
)

// outside is a NATS server that knows nothing but what "edict nats bootstrap
// --print" says, and the credentials of who speaks to it.
type outside struct {
	*access.NATSKeys
	t      *testing.T
	dir    string // of the keys
	at     access.NATSServer
	config string // file that the server reads
	server *server.Server
	creds  map[string]string // files by principal; none: there are none
}

func startOutside(t *testing.T, ca *authority.Authority) *outside {
	o := &outside{t: t, dir: filepath.Join(t.TempDir(), "keys"), creds: map[string]string{}}
	var err error
	o.NATSKeys, err = access.MakeNATSKeys(o.dir)
	require.NoError(t, err)
	o.at = access.NATSServer{Listen: "127.0.0.1:-1", Store: filepath.Join(t.TempDir(), "jetstream"), Cert: ca.File("plane.crt"), Key: ca.File("plane.key")}
	o.config = o.file("nats.conf")
	o.print()
	opt, err := server.ProcessConfigFile(o.config)
	require.NoError(t, err)
	opt.NoSigs = true
	o.server, err = server.NewServer(opt)
	require.NoError(t, err)
	o.server.Start()
	t.Cleanup(func() {
		o.server.Shutdown()
		o.server.WaitForShutdown()
	})
	require.True(t, o.server.ReadyForConnections(30*time.Second))

	another, err := access.MakeNATSKeys(filepath.Join(t.TempDir(), "another"))
	require.NoError(t, err)
	o.give("nobody")(another.Worker("nobody", time.Time{}))
	o.give("root")(o.Worker("root", time.Time{}))
	o.give("expired")(o.Worker("expired", time.Now().Add(-time.Minute)))
	for name, text := range principals {
		if strings.HasPrefix(name, "n") {
			o.give(name)(o.Node(policy.NodeID(name), time.Time{}))
		}
		if !strings.Contains(text, "project:") {
			continue
		}
		o.give(name)(o.Producer(policy.PrincipalID(name), parseRelations(t, strings.Fields(text)...), time.Time{}))
	}
	_, err = o.Producer("reader", parseRelations(t, principals["reader"]), time.Time{})
	require.ErrorIs(t, err, access.ErrNothingOverNATS)
	return o
}

func (o *outside) file(name string) string { return filepath.Join(o.dir, name) }

// print writes the server's configuration as it is now.
func (o *outside) print() {
	text, err := o.Config(o.at)
	require.NoError(o.t, err)
	require.NoError(o.t, os.WriteFile(o.config, []byte(text), 0o600))
}

// give writes a principal's credentials to a file.
func (o *outside) give(name string) func(access.NATSCredentials, error) {
	return func(c access.NATSCredentials, err error) {
		require.NoError(o.t, err)
		o.creds[name] = o.file(name + ".creds")
		require.NoError(o.t, c.Write(o.creds[name]))
	}
}
