package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/policy"
)

// callers are who may call whom in Online Boutique: of each service, its port and
// the services that may reach it. The frontend is open to everyone.
var callers = map[string]struct {
	port uint16
	from []string
}{
	"adservice":             {9555, []string{"frontend"}},
	"cartservice":           {7070, []string{"frontend", "checkoutservice"}},
	"checkoutservice":       {5050, []string{"frontend"}},
	"currencyservice":       {7000, []string{"frontend", "checkoutservice"}},
	"emailservice":          {8080, []string{"checkoutservice"}},
	"loadgenerator":         {8080, nil},
	"paymentservice":        {50051, []string{"checkoutservice"}},
	"productcatalogservice": {3550, []string{"frontend", "checkoutservice", "recommendationservice"}},
	"recommendationservice": {8080, []string{"frontend"}},
	"redis-cart":            {6379, []string{"cartservice"}},
	"shippingservice":       {50051, []string{"frontend", "checkoutservice"}},
}

// boutique is the manifests as JSON documents: those of the fixtures, or without
// them some of the same shape.
func boutique(t *testing.T) (docs [][]byte) {
	dir, err := gen.Fixtures()
	if err != nil {
		leftout.Less(t, err)
		return boutiqueLike(t)
	}
	files, err := filepath.Glob(filepath.Join(dir, "online-boutique", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 13)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, yaml.Unmarshal(text, &doc), f)
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		docs = append(docs, body)
	}
	return docs
}

func boutiqueLike(t *testing.T) (docs [][]byte) {
	both := []string{"Ingress", "Egress"}
	add := func(name string, s kSpec) {
		doc, err := json.Marshal(kPolicy{networkGroup, "NetworkPolicy", kMeta{Name: name}, s})
		require.NoError(t, err)
		docs = append(docs, doc)
	}
	add("deny-all", kSpec{PolicyTypes: both})
	for app, c := range callers {
		s := kSpec{PodSelector: *named(app), PolicyTypes: both, Egress: []kRule{{}}}
		if r := (kRule{Ports: []kPort{{"TCP", int(c.port), 0}}}); len(c.from) > 0 {
			for _, from := range c.from {
				r.From = append(r.From, kPeer{PodSelector: named(from)})
			}
			s.Ingress = []kRule{r}
		}
		add(app, s)
	}
	add("frontend", kSpec{PodSelector: *named("frontend"), PolicyTypes: both, Ingress: []kRule{{}}, Egress: []kRule{{}}})
	return docs
}

func named(app string) *kSelector { return &kSelector{MatchLabels: map[string]string{"app": app}} }

func TestOnlineBoutiqueKeepsItsIntent(t *testing.T) {
	res := Translate(boutique(t), Options{Namespace: "default"})
	require.Empty(t, res.Items)
	require.Equal(t, 13, res.Objects)

	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}) }
	at, nodes := map[string]netip.Addr{}, []policy.Node{}
	apps := []string{"frontend", "intruder"}
	for app := range callers {
		apps = append(apps, app)
	}
	slices.Sort(apps)
	for i, app := range apps {
		at[app] = addr(i + 1)
		node := podNode(t, pod{namespace: "default", labels: map[string]string{"app": app}, addr: at[app]})
		node.Labels = slices.DeleteFunc(node.Labels, func(l policy.Label) bool { return l.Value == "" })
		nodes = append(nodes, node)
	}
	elsewhere := podNode(t, pod{namespace: "red", labels: map[string]string{"app": "frontend"}, addr: addr(99)})
	nodes = append(nodes, elsewhere)
	w := newPlane(t, res, nodes)

	allowed := 0
	ask := func(want bool, from, to netip.Addr, p datapath.Protocol, port uint16, what string) {
		if want {
			allowed++
		}
		require.Equal(t, want, w.allows(from, to, p, port), what)
	}
	for app, c := range callers {
		for _, from := range apps {
			if from != app {
				what := fmt.Sprintf("%s calls %s", from, app)
				ask(slices.Contains(c.from, from), at[from], at[app], datapath.TCP, c.port, what)
				ask(false, at[from], at[app], datapath.TCP, c.port+1, what+" at another port")
				ask(false, at[from], at[app], datapath.UDP, c.port, what+" over UDP")
			}
		}
		ask(false, addr(99), at[app], datapath.TCP, c.port, "the frontend of another namespace")
		ask(false, netip.MustParseAddr("198.51.100.7"), at[app], datapath.TCP, c.port, "from outside")
	}
	ask(true, netip.MustParseAddr("198.51.100.7"), at["frontend"], datapath.TCP, 8080, "from outside to the frontend")
	ask(true, at["loadgenerator"], at["frontend"], datapath.TCP, 8080, "load")
	ask(false, at["intruder"], at["frontend"], datapath.TCP, 8080, "a pod that only deny-all selects")
	ask(true, at["cartservice"], netip.MustParseAddr("198.51.100.7"), datapath.TCP, 443, "to outside")
	require.Equal(t, 15+3, allowed)
}
