package gen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoFixtures means that the fixtures are not on this machine. Tests say so
// (with the error's text) and go on with generated data.
var ErrNoFixtures = errors.New("no fixtures: set EDICT_FIXTURES to their folder; using generated data")

// Fixtures is the folder of real input: EDICT_FIXTURES, or shared/fixtures
// beside the module. The error is ErrNoFixtures when it is not there.
func Fixtures() (string, error) {
	dir := os.Getenv("EDICT_FIXTURES")
	if dir == "" {
		root, err := ModuleRoot()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "..", "shared", "fixtures")
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w (looked in %s)", ErrNoFixtures, dir)
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// ModuleRoot is the nearest folder above the working directory with a go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = up
	}
}

// AWSFile is the path of the policies made of a cloud provider's published
// address ranges, a creation body a line.
func AWSFile() (string, error) {
	dir, err := Fixtures()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "aws", "policies.ndjson")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w (looked for %s)", ErrNoFixtures, path)
	}
	return path, nil
}

// AWS reads AWSFile.
func AWS() ([]Policy, error) {
	path, err := AWSFile()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var policies []Policy
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p Policy
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(policies)+1, err)
		}
		policies = append(policies, p)
	}
	return policies, lines.Err()
}

// AWSLike makes n policies shaped like those of AWS, for machines without the
// fixtures: a policy for each service and region, tcp/443 to a few prefixes,
// now and then to hundreds.
func (g *Gen) AWSLike(n int) []Policy {
	var policies []Policy
	for i := range n {
		service, region := fmt.Sprintf("service-%d", i/20), fmt.Sprintf("region-%d", i%20)
		p := Policy{
			Slug: service + "-" + region, DisplayName: service + " in " + region,
			Selector: Selector{service + "=" + region, "edge=aws"},
		}
		count := 1 + g.r.IntN(12)
		if i%100 == 99 {
			count = 200 + g.r.IntN(100)
		}
		for j := range count {
			p.Rules = append(p.Rules, Rule{
				Action: "allow", Protocol: "tcp", Ports: &Ports{443, 443},
				SourceCIDR:      "100.64.0.0/10",
				DestinationCIDR: fmt.Sprintf("%d.%d.%d.%d/30", 3+g.r.IntN(50), i%256, j%256, 4*g.r.IntN(64)),
			})
		}
		policies = append(policies, p)
	}
	return policies
}

// AWSNodes makes n nodes whose labels fit policies that select as AWS's do, by
// service=region or edge=aws. Of every thousand nodes two carry edge=aws and so
// match all; thirty match none; the others use 1 to 12 services of a region of
// theirs. Nodes come in groups of one label set, as real fleets do: about one
// set for forty nodes.
func (g *Gen) AWSNodes(policies []Policy, n int) []Node {
	regions := map[string][]string{} // region → services there
	for _, p := range policies {
		if service, region, ok := strings.Cut(p.Selector.Source, "="); ok {
			regions[region] = append(regions[region], service)
		}
	}
	names := []string{}
	for region := range regions {
		names = append(names, region)
	}
	slices.Sort(names)
	groups := make([]map[string]string, 1+n/40)
	for i := range groups {
		groups[i] = g.awsLabels(names, regions)
	}
	nodes := make([]Node, n)
	for i := range nodes {
		labels := pick(g, groups)
		switch {
		case i%500 == 250:
			labels = map[string]string{"edge": "aws", "role": "gateway"}
		case i%100 < 3:
			labels = map[string]string{"role": "lab"}
		}
		nodes[i] = Node{
			ID: fmt.Sprintf("aws-%05d", i), Labels: labels,
			Addresses: []string{fmt.Sprintf("100.%d.%d.%d", 64+i>>16, i>>8&255, i&255)},
		}
	}
	return nodes
}

func (g *Gen) awsLabels(names []string, regions map[string][]string) map[string]string {
	region := pick(g, names)
	services := slices.Clone(regions[region])
	g.r.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
	labels := map[string]string{"role": pick(g, scheme["role"]), "env": pick(g, scheme["env"])}
	for _, service := range services[:min(len(services), 1+g.r.IntN(12))] {
		labels[service] = region
	}
	return labels
}
