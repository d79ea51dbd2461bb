package reterepo

import (
	"bytes"
	"fmt"
	"strings"
	"testing/fstest"
)

// Size is how large a generated repository is.
type Size struct {
	Nodes, Services, Users, Files int
	Comment                       int // bytes of comment before each entry
}

// Large is a repository of that size, enrolled: half of the nodes are laptops
// with a user each, a tenth hosts the services, ten to a group. It needs 40
// nodes at least.
func Large(s Size) fstest.MapFS {
	g := generator{Size: s, files: make([]map[string]*bytes.Buffer, s.Files)}
	for i := range g.files {
		g.files[i] = map[string]*bytes.Buffer{}
	}
	g.nodes()
	g.services()
	g.users()
	g.access()
	repo := fstest.MapFS{"rete.yaml": {Data: []byte(exampleFiles["rete.yaml"])}}
	for i, kinds := range g.files {
		var text bytes.Buffer
		for _, kind := range []string{"nodes", "services", "users", "groups", "roles"} {
			if b := kinds[kind]; b != nil {
				fmt.Fprintf(&text, "%s:\n%s", kind, b)
			}
		}
		repo[fmt.Sprintf("part-%03d.yaml", i)] = &fstest.MapFile{Data: text.Bytes()}
	}
	Enroll(repo)
	return repo
}

type generator struct {
	Size
	files   []map[string]*bytes.Buffer
	entries int
}

// add writes an entry to the next file, behind its comment.
func (g *generator) add(kind, format string, args ...any) {
	at := g.files[g.entries%len(g.files)]
	g.entries++
	if at[kind] == nil {
		at[kind] = new(bytes.Buffer)
	}
	const line = "  # Owned by the team that runs it; ask them before it changes, and tell them when it has.\n"
	at[kind].WriteString(strings.Repeat(line, g.Comment/len(line)))
	fmt.Fprintf(at[kind], format, args...)
}

func (g *generator) hosts() int { return g.Nodes / 10 }

// perGroup is how many services a group has.
const perGroup = 10

func (g *generator) groups() int { return g.Services/perGroup + 1 }

func (g *generator) nodes() {
	for i := range g.Nodes {
		address := ""
		if i < g.hosts() {
			address = fmt.Sprintf("\n        address: \"10.%d.%d.%d:4433\"", i>>16, i>>8&255, i&255)
		}
		g.add("nodes", "  node-%05d:\n    vertices:\n      - name: flor\n        kind: link\n        type: quic%s\n", i, address)
	}
}

func (g *generator) services() {
	g.add("services", "  config-server:\n    at: node-00000\n    addr: \"127.0.0.1:9000\"\n    groups: [config-read]\n")
	g.add("services", "  config-publisher:\n    at: node-00000\n    addr: \"127.0.0.1:9001\"\n    groups: [config-write]\n")
	for i := range g.Services {
		calls := ""
		if i%4 == 0 {
			calls = fmt.Sprintf("    socks5_proxy: \"127.0.0.1:%d\"\n    roles: [role-%04d]\n", 30000+i, (i+7)%g.groups())
		}
		g.add("services", "  service-%04d:\n    at: node-%05d\n    addr: \"127.0.0.1:%d\"\n    groups: [group-%04d]\n%s",
			i, i%g.hosts(), 10000+i, i/perGroup, calls)
	}
}

func (g *generator) users() {
	for i := range g.Users {
		one, two := i%g.groups(), (i*7)%g.groups()
		role := fmt.Sprintf("role-%04d, role-%04d", one, two)
		switch {
		case i == 0:
			role = "operator"
		case one == two: // a role is listed once
			role = fmt.Sprintf("role-%04d", one)
		}
		g.add("users", "  user-%05d:\n    roles: [%s]\n    nodes:\n      - at: node-%05d\n", i, role, g.hosts()+i%(g.Nodes-g.hosts()))
	}
}

func (g *generator) access() {
	for _, name := range []string{"config-read", "config-write"} {
		g.add("groups", "  %s: {}\n", name)
	}
	g.add("roles", "  node: { allow: [config-read] }\n")
	g.add("roles", "  operator: { allow: [config-write] }\n")
	for i := range g.groups() {
		g.add("groups", "  group-%04d: {}\n", i)
		g.add("roles", "  role-%04d:\n    allow: [group-%04d]\n", i, i)
	}
}
