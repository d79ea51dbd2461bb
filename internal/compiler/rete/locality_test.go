package rete_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// reading is what compiled artifacts say, read back.
type reading struct {
	model    *rete.Model
	sets     []rete.NodeSet
	vertices map[string][]rete.VertexPayload
}

func newReading(t require.TestingT, repo fs.FS) *reading {
	names, faults := rete.Discover(repo)
	require.Empty(t, faults)
	view, faults := rete.Load(repo, names)
	require.Empty(t, faults)
	m, faults := rete.Validate(view, repo)
	require.Empty(t, rete.Violations(faults))
	sets, faults := rete.Compile(m)
	require.Empty(t, faults)
	w := &reading{m, sets, map[string][]rete.VertexPayload{}}
	for _, s := range sets {
		for _, a := range s.Artifacts {
			if a.Kind == rete.ArtifactVertex {
				var p rete.VertexPayload
				require.NoError(t, json.Unmarshal(a.Payload, &p))
				w.vertices[s.Node] = append(w.vertices[s.Node], p)
			}
		}
	}
	return w
}

type fromTo struct{ from, to string }

func pair(from, to string) fromTo {
	return fromTo{"spiffe://rete-lovers/" + from, "spiffe://rete-lovers/" + to}
}

// ingress is who may reach whom, by what targets let in.
func (w *reading) ingress() map[fromTo]bool {
	all := map[fromTo]bool{}
	for _, vertices := range w.vertices {
		for _, v := range vertices {
			for _, row := range v.Ingress {
				for _, from := range row.Allow {
					all[fromTo{from, row.Target}] = true
				}
			}
		}
	}
	return all
}

// allowed computes the same the slow way, from the YAML alone.
func (w *reading) allowed() map[fromTo]bool {
	m := w.model
	grants := func(roles []string, groups []string) bool {
		for _, r := range roles {
			for _, g := range m.Roles.Get(r).Value.Allow {
				if slices.Contains(groups, g) {
					return true
				}
			}
		}
		return false
	}
	roles := map[string][]string{}
	for _, n := range m.Nodes.All {
		for _, h := range m.Holders(n.Name) {
			switch h.Kind {
			case rete.PrincipalNode:
				roles[h.SPIFFE] = []string{"node"}
			case rete.PrincipalUser:
				roles[h.SPIFFE] = m.Users.Get(h.Leaf).Value.Roles
			default:
				roles[h.SPIFFE] = m.Services.Get(h.Leaf).Value.Roles
			}
		}
	}
	for _, u := range m.Users.All {
		roles[rete.SPIFFE("rete-lovers", rete.PrincipalUser, u.Name)] = u.Value.Roles
	}
	all := map[fromTo]bool{}
	for _, n := range m.Nodes.All {
		for _, h := range m.Holders(n.Name) {
			if h.Kind != rete.PrincipalService {
				continue
			}
			for from, r := range roles {
				if from != h.SPIFFE && grants(r, m.Services.Get(h.Leaf).Value.Groups) {
					all[fromTo{from, h.SPIFFE}] = true
				}
			}
		}
	}
	return all
}

var (
	anyID   = regexp.MustCompile(`spiffe://[^"]+`)
	anyFile = regexp.MustCompile(`"([^"]+\.(?:crt|key))"`)
)

// checkLocality holds every artifact of every node against the YAML: it names
// no principal, file or row that is not local, or allowed to or from what is.
func (w *reading) checkLocality(t require.TestingT) {
	allowed := w.allowed()
	require.Equal(t, allowed, w.ingress(), "targets let in exactly whom the roles allow")
	for _, s := range w.sets {
		local, files := map[string]bool{}, map[string]bool{"ca.crt": true}
		for _, h := range w.model.Holders(s.Node) {
			local[h.SPIFFE], files[h.Leaf+".crt"], files[h.Leaf+".key"] = true, true, true
		}
		for _, a := range s.Artifacts {
			for _, id := range anyID.FindAllString(string(a.Payload), -1) {
				require.True(t, local[id] || a.Kind == rete.ArtifactAgent && w.common(id) || touches(allowed, local, id),
					"%s of %s names %s, which has nothing to do with it", a.Path(), s.Node, id)
			}
			for _, f := range anyFile.FindAllStringSubmatch(string(a.Payload), -1) {
				require.True(t, files[f[1]], "%s of %s names the file %s", a.Path(), s.Node, f[1])
			}
		}
		for _, v := range w.vertices[s.Node] {
			bound := map[string]bool{} // to this vertex: another's rows are not its own
			for _, workload := range v.Workloads {
				require.True(t, local[workload.SPIFFE])
				bound[workload.SPIFFE] = true
			}
			for _, row := range v.Ingress {
				require.True(t, bound[row.Target])
			}
			for _, row := range v.Egress {
				for _, from := range row.Allow {
					require.True(t, bound[from] && allowed[fromTo{from, row.Target}], "%s: %s to %s", s.Node, from, row.Target)
				}
			}
		}
	}
}

// common is what every agent knows: the signers and the config-server.
func (w *reading) common(id string) bool {
	return id == "spiffe://rete-lovers/service/config-server" ||
		slices.ContainsFunc(w.model.Signers, func(s rete.Signer) bool { return s.SPIFFE == id })
}

func touches(allowed map[fromTo]bool, local map[string]bool, id string) bool {
	for p := range allowed {
		if p.from == id && local[p.to] || p.to == id && local[p.from] {
			return true
		}
	}
	return false
}

func TestNoArtifactNamesWhatIsNeitherLocalNorAllowed(t *testing.T) {
	gen.Unraced()
	newReading(t, reterepo.Example()).checkLocality(t)
	for seed := range repositories {
		newReading(t, rapid.Custom(anyRepository).Example(seed)).checkLocality(t)
	}
}

// repositories is how many are drawn: each is enrolled, judged and compiled.
const repositories = 25

// anyRepository draws a valid repository.
func anyRepository(t *rapid.T) fstest.MapFS {
	some := func(label, prefix string, of, most int) []string {
		return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%s%d", prefix, rapid.IntRange(0, of-1).Draw(t, label))
		}), 0, most, rapid.ID[string]).Draw(t, label)
	}
	const nodes, groups, roles, users, services = 4, 4, 4, 4, 6
	doc := map[string]map[string]any{"nodes": {}, "services": {}, "users": {}, "groups": {}, "roles": {}}
	for i := range nodes {
		vertices := []any{map[string]any{"name": "flor", "kind": "link", "type": "quic", "address": fmt.Sprintf("10.0.0.%d:4433", i+1)}}
		node := map[string]any{"vertices": vertices}
		if rapid.Bool().Draw(t, "two vertices") {
			node["vertices"] = append(vertices, map[string]any{"name": "side", "kind": "link", "type": "udp", "address": fmt.Sprintf("10.0.1.%d:4434", i+1)})
			node["agent_via"] = "flor"
		}
		doc["nodes"][fmt.Sprintf("n%d", i)] = node
	}
	via := func(at string, to map[string]any) map[string]any {
		if doc["nodes"][at].(map[string]any)["agent_via"] != nil {
			to["via"] = rapid.SampledFrom([]string{"flor", "side"}).Draw(t, "via")
		}
		to["at"] = at
		return to
	}
	anyNode := func() string { return fmt.Sprintf("n%d", rapid.IntRange(0, nodes-1).Draw(t, "at")) }
	for i := range groups {
		doc["groups"][fmt.Sprintf("g%d", i)] = nil
	}
	doc["groups"]["config-read"], doc["groups"]["config-write"] = nil, nil
	doc["roles"]["node"] = map[string]any{"allow": []string{"config-read"}}
	doc["roles"]["operator"] = map[string]any{"allow": []string{"config-write"}}
	for i := range roles {
		doc["roles"][fmt.Sprintf("r%d", i)] = map[string]any{"allow": some("allow", "g", groups, groups)}
	}
	doc["services"]["config-server"] = via("n0", map[string]any{"addr": "127.0.0.1:9000", "groups": []string{"config-read"}})
	doc["services"]["config-publisher"] = via("n0", map[string]any{"addr": "127.0.0.1:9001", "groups": []string{"config-write"}})
	for i := range services {
		s := map[string]any{"addr": fmt.Sprintf("127.0.0.1:%d", 1079+i), "groups": some("groups", "g", groups, 3)}
		if roles := some("roles", "r", roles, 2); len(roles) > 0 {
			s["roles"], s["socks5_proxy"] = roles, fmt.Sprintf("127.0.0.1:%d", 2000+i)
		}
		if rapid.Bool().Draw(t, "node scope") {
			s["scope"] = "node"
		}
		doc["services"][fmt.Sprintf("s%d", i)] = via(anyNode(), s)
	}
	doc["users"]["bob"] = map[string]any{"roles": []string{"operator"}}
	for i := range users {
		var devices []any
		for range rapid.IntRange(0, 2).Draw(t, "devices") {
			d := via(anyNode(), map[string]any{})
			if !slices.ContainsFunc(devices, func(other any) bool { return reflect.DeepEqual(other, d) }) {
				devices = append(devices, d)
			}
		}
		u := map[string]any{"roles": some("user roles", "r", roles, 2)}
		if devices != nil {
			u["nodes"] = devices
		}
		doc["users"][fmt.Sprintf("u%d", i)] = u
	}
	text, err := json.Marshal(doc) // which is YAML, too
	require.NoError(t, err)
	repo := fstest.MapFS{"rete.yaml": reterepo.Example()["rete.yaml"], "all.yaml": {Data: text}}
	reterepo.Enroll(repo)
	return repo
}

func TestPayloadsDoNotDependOnHowFilesAreSplitOrOrdered(t *testing.T) {
	gen.Unraced()
	for seed := range repositories {
		repo := rapid.Custom(anyRepository).Example(seed)
		var doc map[string]map[string]any
		require.NoError(t, json.Unmarshal(repo["all.yaml"].Data, &doc))
		split := fstest.MapFS{}
		for name, f := range repo {
			if name != "all.yaml" {
				split[name] = f
			}
		}
		n := seed
		for kind, all := range doc {
			for name, entry := range all {
				text, err := json.Marshal(map[string]any{kind: map[string]any{name: entry}})
				require.NoError(t, err)
				split[fmt.Sprintf("%d/%s-%s.yml", n%4, kind, name)] = &fstest.MapFile{Data: text}
				n++ // in the order of a map, so anew each time
			}
		}
		require.Equal(t, newReading(t, repo).sets, newReading(t, split).sets)
	}
}
