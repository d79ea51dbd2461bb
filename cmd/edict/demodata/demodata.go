// Package demodata is the world that `edict demo` shows: the policies of a made
// up company with a web shop, and ten thousand machines to apply them.
//
// Its data are a function of nothing: every run, every machine sees the same.
package demodata

import (
	_ "embed"
	"fmt"
)

// Policies is a YAML stream, a policy a document, in the form that `edict
// policy apply -f` reads. The file doubles as an example to copy from.
//
//go:embed policies.yaml
var Policies []byte

// Nodes is how many machines the company has.
const Nodes = 10_000

// Facts are what a machine is registered with.
type Facts struct {
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
}

// kind is a sort of machine: so many of every hundred, and who runs them.
type kind struct {
	name  string
	share int
	role  string
	team  string
}

// kinds add up to a hundred.
var kinds = []kind{
	{"web", 22, "web", "shop"},
	{"app", 26, "app", "shop"},
	{"search", 8, "search", "search"},
	{"db", 10, "db", "data"},
	{"cache", 8, "cache", "shop"},
	{"queue", 5, "queue", "data"},
	{"worker", 11, "worker", "data"},
	{"metrics", 3, "monitoring", "platform"},
	{"bastion", 1, "bastion", "platform"},
	{"dns", 2, "dns", "platform"},
	{"ntp", 1, "ntp", "platform"},
	{"mail", 1, "mail", "platform"},
	{"build", 2, "build", "platform"},
}

// Where machines stand. Production has three of four; the regions differ in
// their networks, so that addresses tell where a machine is.
var (
	environments = []string{"prod", "prod", "prod", "prod", "prod", "prod", "stage", "dev"}
	regions      = []string{"eu", "us"}
	zones        = []string{"a", "b"}
)

// Node is machine i of the company, 0 <= i < Nodes. Machines of one kind,
// environment, region and zone carry the same labels, so there are some two
// hundred label sets; a few hundred web machines are canaries besides.
func Node(i int) Facts {
	k := kindOf(i % 100)
	n := i / 100 // which hundred: 0..99
	env := environments[(n+i)%len(environments)]
	region := regions[n/2%len(regions)]
	zone := zones[n%len(zones)]
	labels := map[string]string{
		"env": env, "region": region, "zone": region + "-" + zone, "role": k.role, "team": k.team,
	}
	if k.role == "web" && env == "prod" && n%10 == 0 {
		labels["canary"] = "true"
	}
	if k.role == "db" || k.role == "app" && n%4 == 0 {
		labels["pci"] = "yes"
	}
	network := networkOf(env, region)
	return Facts{
		ID:     fmt.Sprintf("%s-%s-%s%s-%04d", k.name, env, region, zone, i),
		Labels: labels,
		Addresses: []string{
			fmt.Sprintf("10.%d.%d.%d", network, i>>8, i&255),
			fmt.Sprintf("fd00:%x::%x", network, i+1),
		},
	}
}

func kindOf(percent int) kind {
	for _, k := range kinds {
		if percent -= k.share; percent < 0 {
			return k
		}
	}
	panic("demodata: the shares of kinds add up to less than a hundred")
}

// networkOf is the second number of the IPv4 networks of a place: 10.<n>.0.0/16
// and fd00:<n in hexadecimal>::/32.
func networkOf(env, region string) int {
	n := map[string]int{"prod": 16, "stage": 32, "dev": 48}[env]
	if region == "us" {
		n++
	}
	return n
}
