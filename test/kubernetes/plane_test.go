package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// controllerBinary is the path of ./cmd/edict-controller, built at the first call.
var controllerBinary = sync.OnceValues(func() (string, error) {
	dir, err := binary.Folder()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "edict-controller")
	return bin, binary.Build("./cmd/edict-controller", bin)
})

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// plane is one edict serve with access control, and a client that may do everything.
type plane struct {
	*client.Client
	*program
	url    string
	tokens map[string]string // files, by principal
}

// bearer shows a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// newPlane starts a plane in which the controller may do what docs/kubernetes.md says
// that it needs, and no more.
func newPlane(t *testing.T, args ...string) *plane {
	t.Helper()
	bin, err := binary.Edict()
	require.NoError(t, err)
	dir := t.TempDir()
	file, ready := filepath.Join(dir, "access.json"), filepath.Join(dir, "ready.json")
	p := &plane{tokens: map[string]string{}}
	var root string
	for name, relations := range map[string][]string{
		"root":       {"plane#admin"},
		"controller": {"project:" + project.String() + "#operator", "project:" + project.String() + "#manage"},
	} {
		create := []string{"access", "token", "create", name, "--kind", "service", "--file", file}
		for _, r := range relations {
			create = append(create, "--relation", r)
		}
		out, err := exec.Command(bin, create...).Output()
		require.NoError(t, err)
		token := strings.TrimSpace(string(out))
		p.tokens[name] = filepath.Join(dir, name+".token")
		require.NoError(t, os.WriteFile(p.tokens[name], []byte(token), 0o600))
		if name == "root" {
			root = token
		}
	}
	p.program = run(t, dir, "edict", bin, append([]string{
		"serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0",
		"--access", file, "--ready-file", ready,
	}, args...)...)
	eventually(t, "the plane is ready", func() bool {
		require.False(t, p.ended(), p.tail())
		at, is := binary.Ready(ready)
		p.url = "http://" + at.HTTP
		return is
	})
	p.Client, err = client.New(p.url, client.Options{HTTP: &http.Client{Transport: bearer(root)}})
	require.NoError(t, err)
	return p
}

// head is the end of the log.
func (p *plane) head() uint64 {
	s, err := p.Status(p.t.Context(), false)
	require.NoError(p.t, err)
	return s.Head
}

// nodes are the nodes of the project, by id.
func (p *plane) nodes() map[string]resource.Node {
	all := map[string]resource.Node{}
	for n, err := range p.Nodes.All(p.t.Context(), project, "") {
		require.NoError(p.t, err)
		all[n.ID] = n
	}
	return all
}

// slugs are those of its policies.
func (p *plane) slugs() (all []string) {
	for x, err := range p.Policies.All(p.t.Context(), project) {
		require.NoError(p.t, err)
		all = append(all, x.Slug)
	}
	slices.Sort(all)
	return all
}

// controller is one edict-controller.
type controller struct {
	*program
	url string
}

// control starts a controller of a cluster under the rights of the chart.
func (p *plane) control(kubeconfig, name string, args ...string) *controller {
	p.t.Helper()
	bin, err := controllerBinary()
	require.NoError(p.t, err)
	c := &controller{url: fmt.Sprintf("http://127.0.0.1:%d", freePort(p.t))}
	c.program = run(p.t, p.t.TempDir(), name, bin, append([]string{
		"--kubeconfig", kubeconfig, "--server", p.url, "--token-file", p.tokens["controller"],
		"--lease", chartNamespace + "/" + controllerName, "--name", name, "--listen", strings.TrimPrefix(c.url, "http://"),
	}, args...)...)
	return c
}

// get is what it answers, and false where it does not say 200.
func (c *controller) get(path string) (body string, ok bool) {
	res, err := http.Get(c.url + path)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err == nil && res.StatusCode == http.StatusOK
}

// metric is a gauge or a counter, or the sum of those with labels. There must be one.
func (c *controller) metric(name string) (sum float64) {
	c.t.Helper()
	body, ok := c.get("/metrics")
	require.True(c.t, ok, "the controller shows no metrics: %s", body)
	series := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(body, -1)
	require.NotEmpty(c.t, series, "there is no metric %s", name)
	for _, m := range series {
		v, err := strconv.ParseFloat(m[1], 64)
		require.NoError(c.t, err)
		sum += v
	}
	return sum
}

// synced tells that it writes, and the plane is what the cluster says.
func (c *controller) synced() bool {
	require.False(c.t, c.ended(), c.tail())
	if _, ready := c.get("/readyz"); !ready || c.metric("edict_controller_leading") != 1 {
		return false
	}
	_, still := c.get("/readyz") // it may have been ready because it waited for the Lease
	return still
}

func flow(direction, peer string, port uint16) client.Flow {
	return client.Flow{Direction: direction, Peer: peer, Protocol: "tcp", Port: port}
}
