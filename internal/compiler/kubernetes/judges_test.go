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
	"regexp"
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
	require.NoError(t, gen.Files("tools/judges"))
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

// plane is the policies as tables, and what could not be expressed.
func (j judged) plane(t *testing.T, policies []json.RawMessage) (*plane, map[string]netip.Addr, []Item) {
	docs := make([][]byte, len(policies))
	for i, p := range policies {
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
	return newPlane(t, res, nodes), addrs, res.Items
}

// servedPort is how the cases call the ports of their pods: by number and protocol.
var servedPort = regexp.MustCompile(`"port":"serve-(\d+)-\w+"`)

// numbered is the plane that the case would have if its policies said ports by number.
func (j judged) numbered(t *testing.T) *plane {
	var policies []json.RawMessage
	for _, p := range j.Policies {
		policies = append(policies, servedPort.ReplaceAll(p, []byte(`"port":$1`)))
	}
	w, _, items := j.plane(t, policies)
	require.Empty(t, items, j.Name)
	return w
}

// ask asks tables what the case's own simulation answers. A verdict may be narrower for one
// reason: the policies say a port by name, which is reported, and by number it would agree.
func (j judged) ask(t *testing.T, sum *tally) {
	w, addrs, items := j.plane(t, j.Policies)
	var numbered *plane
	for _, i := range items {
		require.Contains(t, i.Reason, "a port by name", j.Name)
	}
	if len(items) > 0 {
		numbered = j.numbered(t)
	}
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
		case v.Allowed && numbered != nil && numbered.allows(addrs[v.From], addrs[v.To], protocolOf[v.Protocol], v.Port):
			sum.narrower++
		default:
			t.Errorf("%s: %s to %s, %s %d: want %v; items: %v", j.Name, v.From, v.To, v.Protocol, v.Port, v.Allowed, items)
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
	generated := &tally{cases: 33, asked: 14256, narrower: 36, self: 1782}
	if *judgesAll {
		generated = &tally{cases: 233, asked: 100380, narrower: 247, self: 12516}
	}
	want := map[string]*tally{
		"generated":      generated,
		"kubernetes e2e": {cases: 23, asked: 9576, narrower: 48, self: 1197},
		"recipes":        {cases: 15, asked: 1026, self: 127, unasked: 81},
	}
	for _, suite := range slices.Sorted(maps.Keys(want)) {
		want[suite].agreed = want[suite].asked - want[suite].narrower
		s := suites[suite]
		require.NotNil(t, s, suite)
		t.Logf("%s: %d cases, %d verdicts asked: %d agreed, %d narrower since a port by name is left out; not asked: %d of a pod to itself, %d of ports that a pod does not have",
			suite, s.cases, s.asked, s.agreed, s.narrower, s.self, s.unasked)
	}
	require.Equal(t, want, suites)
}
