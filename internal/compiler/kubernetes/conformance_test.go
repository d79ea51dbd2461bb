package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/test/kubeschema"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/policy"
)

// Modules with conformance suites: of ClusterNetworkPolicy, and of the two kinds before it.
const (
	clusterSuite = "sigs.k8s.io/network-policy-api@v0.3.0"
	adminSuite   = "sigs.k8s.io/network-policy-api@v0.1.7"
)

// suite is what the conformance suite's cases begin with: its namespaces and its pods.
type suite struct {
	dir        string
	namespaces map[string]map[string]string
	pods       map[string]Pod // by namespace/name
	addrs      map[string]netip.Addr
}

// manifest is what is read of the suite's base.
type manifest struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Replicas int
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				HostNetwork bool `yaml:"hostNetwork"`
			}
		}
	}
}

func yamlDocs[T any](t *testing.T, path string) (all []T) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	// Ports that the suite gives at run time: what is asked about them is not understood.
	text = regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAll(text, []byte("34345"))
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	require.NoError(t, err)
	for {
		var doc T
		err := loader.Load(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, path)
		all = append(all, doc)
	}
}

func openSuite(t *testing.T, module string) *suite {
	root, err := kubeschema.Module(module)
	if err != nil {
		leftout.Test(t, "no conformance suite: %v", err)
	}
	s := &suite{filepath.Join(root, "conformance"), map[string]map[string]string{}, map[string]Pod{}, map[string]netip.Addr{}}
	for _, m := range yamlDocs[manifest](t, filepath.Join(s.dir, "base", "manifests.yaml")) {
		if m.Kind == "Namespace" {
			s.namespaces[m.Metadata.Name] = m.Metadata.Labels
			s.namespaces[m.Metadata.Name][nameLabel] = m.Metadata.Name
		}
		for i := range m.Spec.Replicas {
			if m.Spec.Template.Spec.HostNetwork {
				break // it has no address of its own, so it is no node
			}
			name := m.Metadata.Name + "-" + strconv.Itoa(i)
			key := m.Metadata.Namespace + "/" + name
			s.addrs[key] = netip.AddrFrom4([4]byte{10, 9, 0, byte(len(s.addrs) + 1)})
			labels := maps.Clone(m.Spec.Template.Metadata.Labels)
			labels["statefulset.kubernetes.io/pod-name"] = name // as the cluster does
			s.pods[key] = Pod{Namespace: m.Metadata.Namespace, Name: name, Labels: labels, Addresses: []string{s.addrs[key].String()}}
		}
	}
	require.Len(t, s.pods, 8)
	return s
}

// script runs one case of the suite, as far as it is understood: what is asked, and how
// policies are changed in between.
type script struct {
	*suite
	t    *testing.T
	pods map[string]Pod // the suite's, with the labels that it gives them
	docs []map[string]any
	vars map[string]any    // a pod's key, or a document or a part of it
	kind map[string]string // of an object that a variable is for
	w    *plane
	res  Result
	lost bool // something was not understood: what follows may be about other policies

	asked, agreed, lacking, left int
}

func (s *script) translate() {
	docs := make([][]byte, len(s.docs))
	for i, d := range s.docs {
		body, err := json.Marshal(d)
		require.NoError(s.t, err)
		docs[i] = body
	}
	s.res = Translate(docs, Options{Machines: true, Whole: true})
	var nodes []policy.Node
	for _, p := range s.pods {
		p.Of = s.namespaces[p.Namespace]
		n, left := p.Node()
		require.Empty(s.t, left)
		nodes = append(nodes, n)
	}
	s.w = newPlane(s.t, s.res, nodes)
}

// call is the name and the arguments of a call, such as kubernetes.PokeServer.
func call(n ast.Node) (name string, args []ast.Expr) {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	return types(c.Fun), c.Args
}

// types is an expression as it is written, without white space.
func types(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.BasicLit:
		return e.Value
	case *ast.SelectorExpr:
		return types(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return types(e.X) + "[" + types(e.Index) + "]"
	case *ast.CallExpr:
		return types(e.Fun) + "()"
	}
	return "?"
}

func literal(e ast.Expr) string {
	text, _ := strconv.Unquote(types(e))
	return text
}

// run goes through a block.
func (s *script) run(block *ast.BlockStmt) {
	for _, st := range block.List {
		switch st := st.(type) {
		case *ast.ExprStmt:
			s.expr(st.X)
		case *ast.AssignStmt:
			if len(st.Lhs) == 1 && len(st.Rhs) == 1 {
				s.assign(types(st.Lhs[0]), st.Rhs[0])
			} else {
				s.lost = s.lost || !strings.HasPrefix(types(st.Rhs[0]), "context.")
			}
		case *ast.DeferStmt, *ast.DeclStmt:
		default:
			s.lost = true
		}
	}
}

func (s *script) expr(e ast.Expr) {
	name, args := call(e)
	switch name {
	case "t.Run":
		s.run(args[1].(*ast.FuncLit).Body)
	case "kubernetes.PokeServer":
		s.poke(args)
	case "kubernetes.PatchClusterNetworkPolicy":
		s.replace(types(args[2]), types(args[3]))
	case "kubernetes.SetPodLabel":
		s.label(args, literal(args[5]))
	case "kubernetes.RemovePodLabel":
		s.label(args, "")
	case "t.Cleanup", "require.NoErrorf", "require.NoError", "assert.True", "t.Log", "t.Logf", "cancel":
	default:
		s.lost = true
	}
}

// label gives a pod a label, or takes it.
func (s *script) label(args []ast.Expr, value string) {
	key, ok := map[string]string{"conformanceRoleLabel": "conformance-role"}[types(args[4])]
	at := literal(args[2]) + "/" + literal(args[3])
	p, there := s.pods[at]
	if !ok || !there {
		s.lost = true
		return
	}
	p.Labels = maps.Clone(p.Labels)
	if p.Labels[key] = value; value == "" {
		delete(p.Labels, key)
	}
	s.pods[at] = p
	s.translate()
}

// at is the place that a path such as mutate.Spec.Egress[0] leads to.
func (s *script) at(path string) (holder any, key string, ok bool) {
	name, rest, found := strings.Cut(path, ".")
	doc, known := s.vars[name].(map[string]any)
	if !found || !known {
		return nil, "", false
	}
	var here any = doc
	parts := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(rest), ".")
	for i, p := range parts {
		if i == len(parts)-1 {
			return here, strings.ToLower(p), true
		}
		if here, ok = child(here, strings.ToLower(p)); !ok {
			return nil, "", false
		}
	}
	return nil, "", false
}

func child(of any, key string) (any, bool) {
	switch of := of.(type) {
	case map[string]any:
		v, ok := of[key]
		return v, ok
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil || i >= len(of) {
			return nil, false
		}
		return of[i], true
	}
	return nil, false
}

// value is what an expression stands for.
func (s *script) value(e ast.Expr) (any, bool) {
	name, args := call(e)
	switch {
	case name == "kubernetes.GetPod":
		return literal(args[2]) + "/" + literal(args[3]), true
	case name == "kubernetes.GetClusterNetworkPolicy":
		for _, d := range s.docs {
			if d["metadata"].(map[string]any)["name"] == literal(args[2]) && d["kind"] == "ClusterNetworkPolicy" {
				return d, true
			}
		}
		return nil, false
	case strings.HasSuffix(name, ".DeepCopy"):
		v, ok := s.vars[strings.TrimSuffix(name, ".DeepCopy")]
		return deepCopy(s.t, v), ok
	case name == "s.Client.Get":
		s.get(types(args[2]), args[1])
		return nil, true
	case name == "s.Client.Patch":
		s.replace(strings.TrimSuffix(types(args[2].(*ast.CallExpr).Args[0]), ".DeepCopy()"), types(args[1]))
		return nil, true
	case name == "kubernetes.PokeServer":
		s.poke(args)
		return nil, true
	case name == "s.Client.Delete" && types(args[1]) == "np":
		s.remove("NetworkPolicy")
		return nil, true
	}
	text := types(e)
	if v, ok := s.vars[text]; ok {
		return deepCopy(s.t, v), true
	}
	if _, action, ok := strings.Cut(text, "NetworkPolicyRuleAction"); ok {
		return action, true
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	if lit, ok := e.(*ast.UnaryExpr); ok && lit.Op == token.AND {
		return nil, true // an empty object to read into
	}
	if holder, key, ok := s.at(text); ok {
		v, ok := child(holder, key)
		return deepCopy(s.t, v), ok
	}
	return nil, false
}

// get reads a pod, or a policy of the kind that the variable is for.
func (s *script) get(into string, key ast.Expr) {
	var namespace, name string
	for _, e := range key.(*ast.CompositeLit).Elts {
		kv := e.(*ast.KeyValueExpr)
		switch types(kv.Key) {
		case "Namespace":
			namespace = literal(kv.Value)
		case "Name":
			name = literal(kv.Value)
		}
	}
	if s.kind[into] == "Pod" {
		s.vars[into] = namespace + "/" + name
		return
	}
	delete(s.vars, into)
	for _, d := range s.docs {
		if d["metadata"].(map[string]any)["name"] == name && d["kind"] == s.kind[into] {
			s.vars[into] = d
		}
	}
}

func deepCopy(t *testing.T, v any) (out any) {
	body, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &out))
	return out
}

func (s *script) assign(to string, from ast.Expr) {
	if made, ok := from.(*ast.UnaryExpr); ok && made.Op == token.AND {
		of := types(made.X.(*ast.CompositeLit).Type)
		s.kind[to] = of[strings.LastIndex(of, ".")+1:]
	}
	v, ok := s.value(from)
	if !ok {
		s.lost = true
		return
	}
	if !strings.Contains(to, ".") {
		s.vars[to] = v
		return
	}
	holder, key, ok := s.at(to)
	if !ok {
		s.lost = true
		return
	}
	switch h := holder.(type) {
	case map[string]any:
		h[key] = v
	case []any:
		i, err := strconv.Atoi(key)
		require.NoError(s.t, err)
		h[i] = v
	}
}

func (s *script) replace(old, by string) {
	was, ok1 := s.vars[old].(map[string]any)
	is, ok2 := s.vars[by].(map[string]any)
	if !ok1 || !ok2 {
		s.lost = true
		return
	}
	for i, d := range s.docs {
		if d["kind"] == was["kind"] && d["metadata"].(map[string]any)["name"] == was["metadata"].(map[string]any)["name"] {
			s.docs[i] = is
		}
	}
	s.translate()
}

func (s *script) remove(kind string) {
	var kept []map[string]any
	for _, d := range s.docs {
		if d["kind"] != kind {
			kept = append(kept, d)
		}
	}
	s.docs = kept
	s.translate()
}

// poke asks the tables what the suite asks a cluster.
func (s *script) poke(args []ast.Expr) {
	from := literal(args[3]) + "/" + literal(args[4])
	server, known := s.vars[strings.TrimSuffix(types(args[6]), ".Status.PodIP")].(string)
	port, err := 0, error(nil)
	if c, ok := args[7].(*ast.CallExpr); ok {
		port, err = strconv.Atoi(types(c.Args[0]))
	}
	to, there := s.addrs[server]
	if s.lost || !known || err != nil || port == 0 || !there {
		s.left++
		return
	}
	want := types(args[9]) == "true"
	got := s.w.allows(s.addrs[from], to, protocolOf[strings.ToUpper(literal(args[5]))], uint16(port))
	s.asked++
	switch {
	case got == want:
		s.agreed++
	case want && len(s.res.Items) > 0:
		s.lacking++ // what cannot be expressed allows nothing
	default:
		s.t.Errorf("%s to %s, %s %d: want %v; items: %v", from, server, literal(args[5]), port, want, s.res.Items)
	}
}

// TestTheConformanceSuitesAgree runs the cases of the conformance suites of
// ClusterNetworkPolicy, AdminNetworkPolicy and BaselineAdminNetworkPolicy on tables in
// place of a cluster: their manifests, their changes of them and their verdicts, read from
// their source.
func TestTheConformanceSuitesAgree(t *testing.T) {
	for module, want := range map[string]outcome{
		clusterSuite: {cases: 30, asked: 344, left: 53},
		adminSuite:   {cases: 24, asked: 248, left: 41},
	} {
		t.Run(module, func(t *testing.T) { require.Equal(t, want, openSuite(t, module).play(t)) })
	}
}

// outcome is what became of a suite. A suite is of one release, so all of it is known.
type outcome struct {
	cases   int
	asked   int // verdicts
	lacking int // of these, narrower by what cannot be expressed
	left    int // verdicts that were not understood
}

// play runs all cases.
func (s *suite) play(t *testing.T) (sum outcome) {
	files, err := filepath.Glob(filepath.Join(s.dir, "tests", "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || lit.Type == nil || types(lit.Type) != "suite.ConformanceTest" {
				return true
			}
			one := s.playOne(t, lit)
			sum.cases++
			sum.asked, sum.lacking, sum.left = sum.asked+one.asked, sum.lacking+one.lacking, sum.left+one.left
			t.Logf("%s: %d asked, %d agreed, %d not expressed, %d left out", filepath.Base(path), one.asked, one.agreed, one.lacking, one.left)
			return false
		})
	}
	t.Logf("%d cases, %d verdicts asked, %d narrower by what cannot be expressed, %d not understood", sum.cases, sum.asked, sum.lacking, sum.left)
	return sum
}

// playOne runs one case.
func (s *suite) playOne(t *testing.T, lit *ast.CompositeLit) *script {
	one := &script{suite: s, t: t, pods: maps.Clone(s.pods), vars: map[string]any{}, kind: map[string]string{}}
	var body *ast.BlockStmt
	for _, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		switch types(kv.Key) {
		case "Manifests":
			for _, m := range kv.Value.(*ast.CompositeLit).Elts {
				one.docs = append(one.docs, yamlDocs[map[string]any](t, filepath.Join(s.dir, literal(m)))...)
			}
		case "Test":
			body = kv.Value.(*ast.FuncLit).Body
		}
	}
	one.translate()
	one.run(body)
	return one
}
