package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/policy"
)

var judgesAll = flag.Bool("judges.all", false, "every flow of every case of other authors, in place of every seventh generated case")

// judged is a case of other authors, as tools/judges prints it.
type judged struct {
	Suite, Name string
	Namespaces  map[string]map[string]string
	Pods        []struct {
		Namespace, Name, IP string
		Labels              map[string]string
	}
	Policies []json.RawMessage
	Verdicts []struct {
		From, To, Protocol string
		Port               uint16
		Allowed            bool
	}
	Unasked int
}

// judgedCases runs tools/judges, whose modules are fetched and built the first time.
func judgedCases(t *testing.T) (all []judged) {
	t.Helper()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = filepath.Join(root, "tools", "judges")
	out, err := cmd.Output()
	if err != nil {
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		leftout.Test(t, "no cases of cyclonus: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var j judged
		require.NoError(t, dec.Decode(&j))
		all = append(all, j)
	}
	return all
}

// tally is what became of the verdicts of a suite.
type tally struct{ cases, asked, agreed, narrower, self, unasked int }

// ask asks tables what the case's own simulation answers.
func (j judged) ask(t *testing.T, sum *tally) {
	docs := make([][]byte, len(j.Policies))
	for i, p := range j.Policies {
		var doc map[string]any
		require.NoError(t, json.Unmarshal(p, &doc))
		doc["apiVersion"], doc["kind"] = "networking.k8s.io/v1", "NetworkPolicy"
		var err error
		docs[i], err = json.Marshal(doc)
		require.NoError(t, err)
	}
	res := Translate(docs, Options{Machines: true, Whole: true})
	var nodes []policy.Node
	addrs := map[string]netip.Addr{}
	for _, p := range j.Pods {
		n, left := Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Addresses: []string{p.IP}, Of: j.Namespaces[p.Namespace]}.Node()
		require.Empty(t, left)
		nodes = append(nodes, n)
		addrs[p.Namespace+"/"+p.Name] = netip.MustParseAddr(p.IP)
	}
	w := newPlane(t, res, nodes)
	sum.cases++
	sum.unasked += j.Unasked
	for _, v := range j.Verdicts {
		if v.From == v.To {
			sum.self++ // whether a pod reaches itself is up to each implementation
			continue
		}
		sum.asked++
		got := w.allows(addrs[v.From], addrs[v.To], protocolOf[v.Protocol], v.Port)
		switch {
		case got == v.Allowed:
			sum.agreed++
		case v.Allowed && slices.ContainsFunc(res.Items, func(i Item) bool { return strings.Contains(i.Reason, "a port by name") }):
			sum.narrower++
		default:
			t.Errorf("%s: %s to %s, %s %d: want %v; items: %v", j.Name, v.From, v.To, v.Protocol, v.Port, v.Allowed, res.Items)
		}
	}
}

// TestRecipesAndCasesOfOthersAgree asks tables about every flow of the NetworkPolicy
// recipes, of the cases of Kubernetes' own suite and of generated ones, and compares with
// the verdicts of cyclonus, whose cases these are.
func TestRecipesAndCasesOfOthersAgree(t *testing.T) {
	suites := map[string]*tally{}
	for i, j := range judgedCases(t) {
		if j.Suite == "generated" && i%7 != 0 && !*judgesAll {
			continue
		}
		if suites[j.Suite] == nil {
			suites[j.Suite] = &tally{}
		}
		j.ask(t, suites[j.Suite])
	}
	require.Len(t, suites, 3)
	for _, suite := range slices.Sorted(maps.Keys(suites)) {
		s := suites[suite]
		t.Logf("%s: %d cases, %d verdicts asked: %d agreed, %d narrower since a port by name is left out; not asked: %d of a pod to itself, %d of ports that a pod does not have",
			suite, s.cases, s.asked, s.agreed, s.narrower, s.self, s.unasked)
		require.Equal(t, s.asked, s.agreed+s.narrower)
		require.Greater(t, s.asked, 500)
	}
}
