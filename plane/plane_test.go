package plane

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// running is a plane that answers. end ends its Run, and returns what that did.
func running(t *testing.T, cfg Config) (p *Plane, end func() error) {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-p.Ready()
	return p, func() error {
		stop()
		return <-ended
	}
}

func TestAPlaneRunsUntilItsContextEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	defer http.DefaultClient.CloseIdleConnections()
	p, end := running(t, Config{Data: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Relaxed: true})
	defer p.Close()
	resp, err := http.Get(p.URL() + "/readyz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, p.NATSURL(), "nats://127.0.0.1:")
	require.Empty(t, p.AdminURL())
	require.NoError(t, end())
	p.Close()
	p.Close() // once more does no harm
}

// TestTheConsoleIsCodedForWhoTakesThat, as all else that the plane answers, and keeps the query of who leaves out a slash.
func TestTheConsoleIsCodedForWhoTakesThat(t *testing.T) {
	p, end := running(t, Config{Data: t.TempDir(), HTTP: "127.0.0.1:0", Relaxed: true})
	defer p.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	for header, want := range map[string]string{
		"gzip": "gzip", "br, GZIP;q=0.5": "gzip", "*": "gzip", "gzip;q=0": "", "gzip; Q=0": "", "gzip;q=0.0, *": "", "gzip;x=1;q=0": "", "x-gzip": "", "": "",
	} {
		for _, path := range []string{"/ui/", "/ui/console.js", "/openapi.json"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+path, nil)
			require.NoError(t, err)
			r.Header.Set("Accept-Encoding", header)
			resp, err := client.Do(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.Header.Get("Content-Encoding"), "%s %q", path, header)
		}
	}
	require.NoError(t, end())
}

// TestAPlaneThatNeverRanIsClosed, and its directory is free again.
func TestAPlaneThatNeverRanIsClosed(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	for range 2 {
		p, err := Open(t.Context(), Config{Data: dir, HTTP: None, Relaxed: true})
		require.NoError(t, err)
		require.Empty(t, p.URL())
		p.Close()
	}
}

// TestAPlaneRunsOnce: a second Run, at the same time, later or after Close, is refused, and
// the first one goes on.
func TestAPlaneRunsOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, end := running(t, Config{Data: t.TempDir(), HTTP: None, Relaxed: true})
	defer p.Close()
	again, cancel := context.WithCancel(t.Context())
	cancel() // one that is not refused ends, too
	require.ErrorIs(t, p.Run(again), ErrEnded)
	require.NoError(t, end())
	require.ErrorIs(t, p.Run(again), ErrEnded)

	never, err := Open(t.Context(), Config{Data: t.TempDir(), HTTP: None, Relaxed: true})
	require.NoError(t, err)
	never.Close()
	require.ErrorIs(t, never.Run(again), ErrEnded)
}

// TestANumberOutOfRangeIsNamed rather than taken: a partition of -1 ended the process.
func TestANumberOutOfRangeIsNamed(t *testing.T) {
	for _, x := range []struct {
		field string
		set   func(*Config)
	}{
		{"Partitions", func(c *Config) { c.Partitions = []int{3, -1} }},
		{"Past", func(c *Config) { c.Past = -1 }},
		{"PastBytes", func(c *Config) { c.PastBytes = -1 }},
		{"HubBytes", func(c *Config) { c.HubBytes = -1 }},
		{"TableEntries", func(c *Config) { c.TableEntries = -1 }},
		{"Snapshots.Every", func(c *Config) { c.Snapshots.Every = -1 }},
		{"Snapshots.Keep", func(c *Config) { c.Snapshots.Keep = -1 }},
		{"Decisions.Age", func(c *Config) { c.Decisions.Age = -1 }},
		{"Decisions.Bytes", func(c *Config) { c.Decisions.Bytes = -1 }},
	} {
		c := Config{Data: "data"}
		x.set(&c)
		_, err := c.options()
		var refused *ConfigError
		require.ErrorAs(t, err, &refused, x.field)
		require.Equal(t, x.field, refused.Field)
	}
	_, err := Config{Data: "data", Partitions: []int{0, 63}}.options()
	require.NoError(t, err)
}

// How many partitions there are the log says, and a log may have been made with more
// than a plane gives it.
func TestAPartitionThatTheLogDoesNotHaveIsNamed(t *testing.T) {
	_, err := Open(t.Context(), Config{Data: t.TempDir(), HTTP: None, Relaxed: true, Partitions: []int{63, 64}})
	require.ErrorContains(t, err, "64 are none of the plane's 64 partitions, which are 0-63")
}

func TestAFieldThatCannotBeIsNamed(t *testing.T) {
	data := Config{Data: t.TempDir()}
	with := func(f func(*Config)) Config {
		c := data
		f(&c)
		return c
	}
	for field, c := range map[string]Config{
		"Data":                {},
		"SigningKey":          with(func(c *Config) { c.NATS = "nats://a" }),
		"NATSListen":          with(func(c *Config) { c.NATS, c.SigningKey, c.NATSListen = "nats://a", "k", "127.0.0.1:0" }),
		"NATSCreds":           with(func(c *Config) { c.NATSCA = "ca.pem" }),
		"NextSigningKey":      with(func(c *Config) { c.NextSigningKey = "k" }),
		"Replicas":            with(func(c *Config) { c.Replicas = 3 }),
		"LeaseTTL":            with(func(c *Config) { c.LeaseTTL = time.Second }),
		"Access.TLSCert":      with(func(c *Config) { c.Access.TLSKey = "k" }),
		"Access.SPIFFESocket": with(func(c *Config) { c.Access.SPIFFESocket, c.Access.ClientCA = "unix:///a", "ca" }),
		"Access.ClientCA":     with(func(c *Config) { c.Access.ClientCA = "ca" }),
		"Access.Issuer":       with(func(c *Config) { c.Access.Issuer = "https://a" }),
		"Decisions.Mask":      with(func(c *Config) { c.Decisions.Mask = []string{"no pointer"} }),
	} {
		_, err := Open(t.Context(), c)
		var refused *ConfigError
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
		require.NotEmpty(t, refused.Detail)
	}
}

func TestZeroStandsForWhatIsDocumented(t *testing.T) {
	o, err := Config{Data: "data"}.options()
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", o.HTTP)
	require.Equal(t, None, o.NATSListen)
	require.EqualValues(t, 256<<20, o.MinFree)
	require.EqualValues(t, 4<<30, o.ProjectBytes)
	require.Equal(t, 200, o.Access.Rate)
	require.Equal(t, 1, o.Replicas)
	require.Nil(t, o.Announce)

	o, err = Config{Data: "data", HTTP: None, MinFree: -1, ProjectBytes: -1, Access: Access{Rate: -1}}.options()
	require.NoError(t, err)
	require.True(t, o.NoAPI)
	require.Zero(t, o.MinFree)
	require.Zero(t, o.ProjectBytes)
	require.Zero(t, o.Access.Rate)
}
