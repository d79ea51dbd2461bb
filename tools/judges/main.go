// Command judges prints cases of NetworkPolicy of other authors, one JSON document a
// line: who is there, which policies, and which flows pass by a simulation that is theirs
// as well. They are the recipes, the cases of Kubernetes' own suite and those that are
// generated in module cyclonus, which is no part of the product's module.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/mattfenwick/cyclonus/pkg/matcher"
	"github.com/mattfenwick/cyclonus/pkg/recipes"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type pod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
	IP        string            `json:"ip"`
}

type verdict struct {
	From     string `json:"from"` // namespace/name
	To       string `json:"to"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
	Allowed  bool   `json:"allowed"`
}

type judged struct {
	Suite      string                        `json:"suite"`
	Name       string                        `json:"name"`
	Namespaces map[string]map[string]string  `json:"namespaces"`
	Pods       []pod                         `json:"pods"`
	Policies   []*networkingv1.NetworkPolicy `json:"policies"`
	Verdicts   []verdict                     `json:"verdicts"`
	Unasked    int                           `json:"unasked"` // flows to ports that a pod does not have
}

func main() {
	out := json.NewEncoder(os.Stdout)
	all := append(ofRecipes(), ofCases()...)
	for _, j := range all {
		if err := out.Encode(j); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// judge asks the simulation. Namespaces have the label that each cluster gives them.
func judge(suite, name string, on *probe.Resources, policies []*networkingv1.NetworkPolicy, ask *generator.ProbeConfig) judged {
	for ns := range on.Namespaces {
		on.Namespaces[ns] = maps.Clone(on.Namespaces[ns])
		on.Namespaces[ns][v1.LabelMetadataName] = ns
	}
	j := judged{Suite: suite, Name: name, Namespaces: on.Namespaces, Policies: append([]*networkingv1.NetworkPolicy{}, policies...)}
	for _, p := range on.Pods {
		j.Pods = append(j.Pods, pod{p.Namespace, p.Name, p.Labels, p.IP})
	}
	jobs := (&probe.JobBuilder{}).GetJobsForProbeConfig(on, ask)
	j.Unasked = len(jobs.BadNamedPort) + len(jobs.BadPortProtocol)
	says := matcher.BuildNetworkPolicies(true, policies)
	for _, job := range jobs.Valid {
		j.Verdicts = append(j.Verdicts, verdict{
			From: job.FromNamespace + "/" + job.FromPod, To: job.ToNamespace + "/" + podOf(on, job), Protocol: string(job.Protocol), Port: job.ResolvedPort,
			Allowed: says.IsTrafficAllowed(job.Traffic()).IsAllowed(),
		})
	}
	return j
}

// podOf is the pod that a job goes to, which it names by its address alone.
func podOf(on *probe.Resources, job *probe.Job) string {
	for _, p := range on.Pods {
		if p.IP == job.ToIP {
			return p.Name
		}
	}
	panic("no pod has address " + job.ToIP)
}

// address gives each pod one.
func address(on *probe.Resources) {
	for i, p := range on.Pods {
		p.IP = fmt.Sprintf("10.9.%d.%d", i/200, i%200+1)
	}
}

func ofRecipes() (all []judged) {
	for i, r := range recipes.AllRecipes {
		address(r.Resources)
		var policies []*networkingv1.NetworkPolicy
		for _, p := range r.Policies() {
			if p.Namespace == "" {
				p.Namespace = v1.NamespaceDefault
			}
			policies = append(policies, p)
		}
		ask := generator.NewProbeConfig(intstr.FromInt32(int32(r.Port)), r.Protocol, generator.ProbeModePodIP)
		all = append(all, judge("recipes", fmt.Sprintf("recipe %d: %s", i+1, policies[len(policies)-1].Name), r.Resources, policies, ask))
	}
	return all
}

// cluster is what the generated cases begin with, as their own command line has it.
func cluster() *probe.Resources {
	on := &probe.Resources{Namespaces: map[string]map[string]string{}}
	for _, ns := range []string{"x", "y", "z"} {
		on.Namespaces[ns] = map[string]string{"ns": ns}
		for _, name := range []string{"a", "b", "c"} {
			on.Pods = append(on.Pods, probe.NewDefaultPod(ns, name, []int{80, 81}, []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}, false, ""))
		}
	}
	address(on)
	return on
}

func ofCases() (all []judged) {
	first := cluster()
	peer := first.Pods[len(first.Pods)-1].IP // z/c: rules by address are about it
	cases := generator.NewTestCaseGenerator(true, peer, []string{"x", "y", "z"}, nil, nil).GenerateAllTestCases()
	for _, c := range cases {
		suite := "generated"
		if c.Tags[generator.TagUpstreamE2E] {
			suite = "kubernetes e2e"
		}
		on := cluster()
		var policies []*networkingv1.NetworkPolicy
		for i, step := range c.Steps {
			for _, a := range step.Actions {
				on, policies = act(on, policies, a)
			}
			all = append(all, judge(suite, fmt.Sprintf("%s, step %d", c.Description, i+1), on, policies, step.Probe))
		}
	}
	return all
}

// act is what becomes of a cluster and its policies.
func act(on *probe.Resources, policies []*networkingv1.NetworkPolicy, a *generator.Action) (*probe.Resources, []*networkingv1.NetworkPolicy) {
	var err error
	without := func(namespace, name string) (rest []*networkingv1.NetworkPolicy) {
		for _, p := range policies {
			if p.Namespace != namespace || p.Name != name {
				rest = append(rest, p)
			}
		}
		return rest
	}
	switch {
	case a.CreatePolicy != nil:
		policies = append(policies, a.CreatePolicy.Policy)
	case a.UpdatePolicy != nil:
		p := a.UpdatePolicy.Policy
		policies = append(without(p.Namespace, p.Name), p)
	case a.DeletePolicy != nil:
		policies = without(a.DeletePolicy.Namespace, a.DeletePolicy.Name)
	case a.CreateNamespace != nil:
		on, err = on.CreateNamespace(a.CreateNamespace.Namespace, a.CreateNamespace.Labels)
	case a.SetNamespaceLabels != nil:
		on, err = on.UpdateNamespaceLabels(a.SetNamespaceLabels.Namespace, a.SetNamespaceLabels.Labels)
	case a.DeleteNamespace != nil:
		on, err = on.DeleteNamespace(a.DeleteNamespace.Namespace)
	case a.CreatePod != nil:
		on, err = on.CreatePod(a.CreatePod.Namespace, a.CreatePod.Pod, a.CreatePod.Labels)
		address(on)
	case a.SetPodLabels != nil:
		on, err = on.SetPodLabels(a.SetPodLabels.Namespace, a.SetPodLabels.Pod, a.SetPodLabels.Labels)
	case a.DeletePod != nil:
		on, err = on.DeletePod(a.DeletePod.Namespace, a.DeletePod.Pod)
	default:
		err = fmt.Errorf("an action that is not known: %+v", a)
	}
	if err != nil {
		panic(err)
	}
	return on, policies
}
