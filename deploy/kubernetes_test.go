package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/test/binary"
)

// object is what these tests ask of Kubernetes' kinds. That a cluster knows every
// field is for kubeconform to say.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   meta
	Data       map[string]string // ConfigMap
	Spec       struct {
		// Service
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Ports                    []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		// StatefulSet
		ServiceName         string `yaml:"serviceName"`
		Replicas            int
		PodManagementPolicy string `yaml:"podManagementPolicy"`
		Selector            selector
		Template            struct {
			Metadata meta
			Spec     pod
		}
		VolumeClaimTemplates []struct {
			Metadata meta
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct{ Requests map[string]string }
			}
		} `yaml:"volumeClaimTemplates"`
		// PodDisruptionBudget
		MaxUnavailable int `yaml:"maxUnavailable"`
		// NetworkPolicy
		PodSelector matchLabels `yaml:"podSelector"`
		PolicyTypes []string    `yaml:"policyTypes"`
		Ingress     []struct {
			From  []peer
			Ports []netPort
		}
		Egress []struct {
			To    []peer
			Ports []netPort
		}
	}
}

type meta struct {
	Name   string
	Labels map[string]string
}

type matchLabels struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// selector is a Service's labels, or a StatefulSet's matchLabels.
type selector map[string]any

func (s selector) labels() map[string]string {
	from := map[string]any(s)
	if under, ok := s["matchLabels"].(map[string]any); ok {
		from = under
	}
	labels := map[string]string{}
	for k, v := range from {
		labels[k], _ = v.(string)
	}
	return labels
}

type peer struct {
	PodSelector       matchLabels  `yaml:"podSelector"`
	NamespaceSelector *matchLabels `yaml:"namespaceSelector"`
}

type netPort struct {
	Port     any
	Protocol string
}

type pod struct {
	ServiceAccountName            string `yaml:"serviceAccountName"`
	AutomountServiceAccountToken  *bool  `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool  `yaml:"enableServiceLinks"`
	TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot        bool                  `yaml:"runAsNonRoot"`
		RunAsUser           int                   `yaml:"runAsUser"`
		RunAsGroup          int                   `yaml:"runAsGroup"`
		FSGroup             int                   `yaml:"fsGroup"`
		FSGroupChangePolicy string                `yaml:"fsGroupChangePolicy"`
		SeccompProfile      struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Affinity struct {
		PodAntiAffinity struct {
			Required []struct {
				TopologyKey   string      `yaml:"topologyKey"`
				LabelSelector matchLabels `yaml:"labelSelector"`
			} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `yaml:"podAntiAffinity"`
	}
	TopologySpreadConstraints []struct {
		MaxSkew           int         `yaml:"maxSkew"`
		TopologyKey       string      `yaml:"topologyKey"`
		WhenUnsatisfiable string      `yaml:"whenUnsatisfiable"`
		LabelSelector     matchLabels `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []volume
}

type volume struct {
	Name      string
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		SecretName  string `yaml:"secretName"`
		DefaultMode string `yaml:"defaultMode"` // as it is written
		Items       []struct{ Key, Path string }
	}
	EmptyDir struct {
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
}

type container struct {
	Name, Image string
	Args        []string
	Env         []variable
	Ports       []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop probe `yaml:"preStop"`
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	Exec             struct{ Command []string }
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// manifest is what helm makes of the chart.
type manifest struct{ objects []object }

// choices are what an operator may choose: files of values, as helm takes them.
var choices = []string{"", "one", "external", "open", "watched", "cluster"}

// manifests are the chart's with a file of values.
func manifests(t *testing.T, values string, set ...string) (m manifest) {
	t.Helper()
	loader, err := yaml.NewLoader(bytes.NewReader(rendered(t, values, set...)))
	require.NoError(t, err)
	for {
		var o object
		err := loader.Load(&o)
		if errors.Is(err, io.EOF) {
			return m
		}
		require.NoError(t, err)
		m.objects = append(m.objects, o)
	}
}

// everyChoice runs a test on what an operator may choose.
func everyChoice(t *testing.T, f func(t *testing.T, m manifest)) {
	for _, c := range choices {
		t.Run("values="+c, func(t *testing.T) { f(t, manifests(t, c)) })
	}
}

func (m manifest) all(kind string) (all []object) {
	for _, o := range m.objects {
		if o.Kind == kind {
			all = append(all, o)
		}
	}
	return all
}

func (m manifest) one(t *testing.T, kind, name string) object {
	t.Helper()
	for _, o := range m.all(kind) {
		if o.Metadata.Name == name {
			return o
		}
	}
	require.Fail(t, "missing", "there is no %s %s", kind, name)
	return object{}
}

// workloads are what makes pods.
func (m manifest) workloads() []object {
	return slices.Concat(m.all("StatefulSet"), m.all("Deployment"), m.all("DaemonSet"))
}

// configs are the names of ConfigMaps.
func (m manifest) configs() (names []string) {
	for _, c := range m.all("ConfigMap") {
		names = append(names, c.Metadata.Name)
	}
	return names
}

// selects says whether a pod with these labels is picked by those.
func selects(want, labels map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return len(want) > 0
}

// ports are the named ports of the pods that labels pick.
func (m manifest) ports(labels map[string]string) map[string]int {
	ports := map[string]int{}
	for _, s := range m.workloads() {
		if selects(labels, s.Spec.Template.Metadata.Labels) {
			for _, c := range s.Spec.Template.Spec.Containers {
				for _, p := range c.Ports {
					ports[p.Name] = p.ContainerPort
				}
			}
		}
	}
	return ports
}

func TestTheManifestsReferToWhatIsThere(t *testing.T) { everyChoice(t, referToWhatIsThere) }

func referToWhatIsThere(t *testing.T, m manifest) {
	for _, s := range m.all("Service") {
		ports := m.ports(s.Spec.Selector.labels())
		require.NotEmpty(t, ports, "service %s picks no pod", s.Metadata.Name)
		for _, p := range s.Spec.Ports {
			require.NotZero(t, ports[p.TargetPort], "service %s, port %s", s.Metadata.Name, p.Name)
		}
	}
	for _, p := range m.all("PodDisruptionBudget") {
		require.NotEmpty(t, m.ports(p.Spec.Selector.labels()), "budget %s picks no pod", p.Metadata.Name)
		require.Equal(t, 1, p.Spec.MaxUnavailable)
	}
	for _, s := range m.workloads() {
		m.checkSet(t, s)
	}
}

// checkSet resolves what a workload refers to.
func (m manifest) checkSet(t *testing.T, s object) {
	name, spec := s.Metadata.Name, s.Spec.Template.Spec
	if s.Kind == "StatefulSet" {
		require.Equal(t, "None", m.one(t, "Service", s.Spec.ServiceName).Spec.ClusterIP, "%s: pods have names below a headless service", name)
	}
	if account := spec.ServiceAccountName; account != "" {
		m.one(t, "ServiceAccount", account)
	}
	require.True(t, selects(s.Spec.Selector.labels(), s.Spec.Template.Metadata.Labels), "%s selects its own pods", name)
	for _, c := range spec.TopologySpreadConstraints {
		require.True(t, selects(c.LabelSelector.MatchLabels, s.Spec.Template.Metadata.Labels), "%s spreads its own pods", name)
	}
	for _, a := range spec.Affinity.PodAntiAffinity.Required {
		require.True(t, selects(a.LabelSelector.MatchLabels, s.Spec.Template.Metadata.Labels), "%s keeps its own pods apart", name)
	}
	volumes := map[string]bool{}
	for _, v := range s.Spec.VolumeClaimTemplates {
		volumes[v.Metadata.Name] = true
		require.NotEmpty(t, v.Spec.Resources.Requests["storage"], name)
	}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap.Name != "" {
			require.Contains(t, m.configs(), v.ConfigMap.Name, "%s: ConfigMap", name)
		}
		if v.Secret.SecretName != "" {
			m.checkSecret(t, v)
		}
	}
	mounted := map[string]bool{}
	for _, c := range spec.Containers {
		for _, v := range c.VolumeMounts {
			require.True(t, volumes[v.Name], "%s: there is no volume %s to mount", name, v.Name)
			mounted[v.Name] = true
		}
		m.checkContainer(t, c)
	}
	require.Equal(t, volumes, mounted, "%s: volumes are mounted", name)
}

// checkSecret: secrets are no manifest, but their page says how to make them.
func (m manifest) checkSecret(t *testing.T, v volume) {
	page := string(read(t, "README.md"))
	require.Equal(t, "0440", v.Secret.DefaultMode, "the group of the pod reads it, and nobody else")
	for _, item := range v.Secret.Items {
		require.Regexp(t, "(?m)^kubectl create secret generic "+v.Secret.SecretName+" .*--from-file="+regexp.QuoteMeta(item.Key), page)
	}
}

func (m manifest) checkContainer(t *testing.T, c container) {
	require.Regexp(t, `:v?\d+\.\d+\.\d+`, c.Image, "%s: the image has a version, never the latest", c.Name)
	env := map[string]bool{}
	for _, e := range c.Env {
		require.False(t, env[e.Name], "%s: %s is there twice", c.Name, e.Name)
		env[e.Name] = true
		require.NotEqual(t, e.Value == "", e.ValueFrom.FieldRef.FieldPath == "", "%s: %s has one value", c.Name, e.Name)
		if filepath.IsAbs(e.Value) {
			require.True(t, c.mounts(filepath.Dir(e.Value)), "%s: nothing is mounted there", e.Name)
		}
	}
	// They keep to the limit of their container themselves, whatever the values say it is.
	itself := c.Name == "controller" || c.Name == "agent"
	require.Equal(t, !itself, env["GOMEMLIMIT"], c.Name)
	require.NotEmpty(t, c.Resources.Limits["memory"], c.Name)
	require.NotEmpty(t, c.Resources.Requests["cpu"], c.Name)
	for _, a := range c.Args {
		for _, ref := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(a, -1) {
			require.True(t, env[ref[1]], "%s: %s is not in its environment", a, ref[1])
		}
		for _, path := range regexp.MustCompile(`=(/[\w-]+)`).FindAllStringSubmatch(a, -1) {
			require.True(t, c.mounts(path[1]), "%s: nothing is mounted there", a)
		}
		if filepath.IsAbs(a) {
			require.True(t, c.mounts(filepath.Dir(a)), "%s: nothing is mounted there", a)
		}
	}
	ports := map[string]bool{"": true}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, p := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		require.True(t, ports[p.HTTPGet.Port], "%s: a probe asks port %s", c.Name, p.HTTPGet.Port)
	}
}

// env is the value of a variable.
func (c container) env(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func (c container) mounts(path string) bool {
	for _, v := range c.VolumeMounts {
		if path == v.MountPath || strings.HasPrefix(v.MountPath, path+"/") {
			return true
		}
	}
	return false
}

func TestPodsMayDoNothingTheyNeedNot(t *testing.T) {
	for _, s := range manifests(t, "open").all("StatefulSet") {
		p := s.Spec.Template.Spec
		require.False(t, *p.AutomountServiceAccountToken)
		require.False(t, *p.EnableServiceLinks)
		require.True(t, p.SecurityContext.RunAsNonRoot)
		require.Equal(t, 65532, p.SecurityContext.RunAsUser)
		require.Equal(t, "RuntimeDefault", p.SecurityContext.SeccompProfile.Type)
		require.GreaterOrEqual(t, p.TerminationGracePeriodSeconds, 60)
		for _, c := range p.Containers {
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, c.Name)
			require.True(t, c.SecurityContext.ReadOnlyRootFilesystem, c.Name)
			require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop, c.Name)
		}
	}
}

func TestOnlyWorkersReachTheLog(t *testing.T) {
	m := manifests(t, "")
	for _, n := range m.all("NetworkPolicy") {
		require.NotEmpty(t, m.ports(n.Spec.PodSelector.MatchLabels), "policy %s picks no pod", n.Metadata.Name)
		for _, rule := range n.Spec.Egress {
			for _, p := range rule.To {
				m.checkPorts(t, n.Metadata.Name, p, rule.Ports)
			}
		}
	}
	nats := m.one(t, "NetworkPolicy", "edict-nats").Spec
	require.Contains(t, nats.PolicyTypes, "Ingress")
	who := map[string][]string{}
	for _, rule := range nats.Ingress {
		require.NotEmpty(t, rule.From, "an empty list is everybody")
		require.NotEmpty(t, rule.Ports, "an empty list is every port")
		for _, p := range rule.From {
			require.Nil(t, p.NamespaceSelector)
			name := p.PodSelector.MatchLabels["app.kubernetes.io/name"]
			for _, port := range rule.Ports {
				called := m.portName(nats.PodSelector.MatchLabels, port.Port)
				who[called] = append(who[called], name)
			}
		}
	}
	require.Equal(t, map[string][]string{"client": {"edict"}, "cluster": {"nats"}}, who)
	edict := m.one(t, "NetworkPolicy", "edict").Spec
	require.Contains(t, edict.PolicyTypes, "Ingress", "nothing listens but on loopback, so nothing comes in")
	require.Empty(t, edict.Ingress)
}

// TestWorkersReachTheAddressesThatTheyAreGiven: at the port that a URL says, or that its
// scheme has.
func TestWorkersReachTheAddressesThatTheyAreGiven(t *testing.T) {
	for url, port := range map[string]int{
		"https://p.example/api/v1/write":     443,
		"http://p.example/api/v1/write":      80,
		"http://p.example:9090/api/v1/write": 9090,
		"https://user:123@p.example/write":   443,
		"http://[fd00::1]/write":             80,
		"nats://n.example":                   4222,
		"tls://n.example:4333/":              4333,
		"nats://[fd00::1]":                   4222,
		"wss://n.example":                    443,
		"ws://n.example":                     80,
	} {
		set := []string{"nats.mode=external", "nats.urls={" + url + "}"}
		if strings.HasPrefix(url, "http") {
			set = []string{"metrics.agent.enabled=true", "metrics.agent.remoteWriteURL=" + url}
		}
		egress, reached := manifests(t, "", set...).one(t, "NetworkPolicy", "edict").Spec.Egress, []any{}
		for _, rule := range egress {
			if len(rule.To) == 0 {
				reached = append(reached, rule.Ports[0].Port)
			}
		}
		require.Equal(t, []any{port}, reached, url)
	}
}

// checkPorts wants the ports of a rule to be those of the pods that the peer picks, where these are ours.
func (m manifest) checkPorts(t *testing.T, policy string, p peer, ports []netPort) {
	if len(m.ports(p.PodSelector.MatchLabels)) == 0 {
		return
	}
	for _, port := range ports {
		require.NotEmpty(t, m.portName(p.PodSelector.MatchLabels, port.Port), "policy %s, port %v", policy, port.Port)
	}
}

// portName is what the pods that labels pick call a port; "": none has it.
func (m manifest) portName(labels map[string]string, port any) string {
	for name, number := range m.ports(labels) {
		if number == port {
			return name
		}
	}
	return ""
}

// TestTheControllerCanExpressTheChartsPolicies: it leaves out a port by name, so what a policy allows
// by one would be denied.
func TestTheControllerCanExpressTheChartsPolicies(t *testing.T) {
	everyChoice(t, func(t *testing.T, m manifest) {
		for _, n := range m.all("NetworkPolicy") {
			for _, rule := range n.Spec.Ingress {
				for _, port := range rule.Ports {
					require.NotEmpty(t, m.portName(n.Spec.PodSelector.MatchLabels, port.Port), "policy %s, port %v", n.Metadata.Name, port.Port)
				}
			}
			for _, rule := range n.Spec.Egress {
				for _, port := range rule.Ports {
					require.IsType(t, 0, port.Port, "policy %s", n.Metadata.Name)
				}
			}
		}
	})
}

// TestWorkersAndServersAgree: who is called is there, under the name it is
// called by, as many as hold a copy.
func TestWorkersAndServersAgree(t *testing.T) {
	m := manifests(t, "")
	nats, edict := m.one(t, "StatefulSet", "edict-nats").Spec, m.one(t, "StatefulSet", "edict").Spec
	var hosts []string
	for i := range nats.Replicas {
		hosts = append(hosts, "edict-nats-"+string(rune('0'+i))+"."+nats.ServiceName)
	}
	args := map[string]string{}
	worker := edict.Template.Spec.Containers[0]
	for _, a := range worker.Args[1:] {
		flag, value, _ := strings.Cut(a, "=")
		args[flag] = value
	}
	require.Equal(t, "serve", worker.Args[0])
	require.Equal(t, "nats://"+strings.Join(hosts, ":4222,nats://")+":4222", args["--nats"])
	require.Equal(t, "$(POD_NAME)", args["--name"])
	require.Equal(t, "127.0.0.1:8080", worker.env("EDICT_HTTP"), "where edict probe asks; and serve refuses what is not loopback")
	require.Equal(t, 3, nats.Replicas)
	require.Equal(t, "3", args["--replicas"])
	for _, p := range []probe{worker.StartupProbe, worker.LivenessProbe, worker.ReadinessProbe} {
		require.Equal(t, "/edict", p.Exec.Command[0], "on loopback only the program itself can ask, and there is no shell")
	}

	t.Setenv("POD_NAME", "edict-nats-1")
	opt := natsConfig(t, m.natsConf(t))
	require.Equal(t, "edict-nats-1", opt.ServerName)
	require.Equal(t, "/data", opt.StoreDir)
	require.Equal(t, map[string]int{"client": opt.Port, "cluster": opt.Cluster.Port, "monitor": opt.HTTPPort},
		m.ports(map[string]string{"app.kubernetes.io/name": "nats"}))
	for i, r := range opt.Routes {
		require.Equal(t, hosts[i]+":6222", r.Host)
	}
	require.Equal(t, "20Gi", nats.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"])
	require.Less(t, opt.JetStreamMaxStore, int64(19)<<30, "the log is refused before the disk is full")
}

// natsConf is a file with the configuration of the chart's servers.
func (m manifest) natsConf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(path, []byte(m.one(t, "ConfigMap", "edict-nats").Data["nats.conf"]), 0o600))
	return path
}

// natsConfig reads a server's configuration as the server does, and wants of
// it what a log needs.
func natsConfig(t *testing.T, path string) *server.Options {
	t.Helper()
	opt, err := server.ProcessConfigFile(path)
	require.NoError(t, err)
	require.True(t, opt.JetStream)
	require.True(t, opt.SyncAlways, "acknowledged means on disk")
	require.EqualValues(t, 8<<20, opt.MaxPayload, "what the embedded server takes")
	require.Len(t, opt.Routes, 3)
	require.Equal(t, "edict", opt.Cluster.Name)
	require.Empty(t, opt.NoAuthUser)
	return opt
}

// Accounts that are included keep the servers as they are, and let in nobody
// without credentials.
func TestServersTakeAccounts(t *testing.T) {
	t.Setenv("POD_NAME", "nats-1")
	dir := t.TempDir()
	bin, err := binary.Edict()
	require.NoError(t, err)
	accounts, err := exec.CommandContext(t.Context(), bin, "nats", "bootstrap", "--print", "--dir", filepath.Join(dir, "keys"), "--listen", "127.0.0.1:1", "--store-dir", "elsewhere").Output()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "accounts.conf"), accounts, 0o600))
	for _, name := range []string{"nats.conf", manifests(t, "").natsConf(t)} {
		own, err := os.ReadFile(name)
		require.NoError(t, err)
		path := filepath.Join(dir, "nats.conf")
		require.NoError(t, os.WriteFile(path, append([]byte("include \"accounts.conf\"\n"), own...), 0o600))
		without, with := natsConfig(t, name), natsConfig(t, path)
		require.Equal(t, []any{without.StoreDir, without.Host, without.Port, without.JetStreamMaxStore}, []any{with.StoreDir, with.Host, with.Port, with.JetStreamMaxStore})
		require.Len(t, with.TrustedOperators, 1)
		require.NotEmpty(t, with.SystemAccount)
		require.NotNil(t, with.AccountResolver)
	}
}

func TestTheServersOfUnitsAreConfigured(t *testing.T) {
	opt := natsConfig(t, "nats.conf")
	require.Equal(t, "/var/lib/nats", opt.StoreDir)
	require.NotEqual(t, "0.0.0.0", opt.Host, "nobody is asked for a password")
	require.Equal(t, opt.Host, opt.Cluster.Host)
}

func TestTheServerIsTheOneWeTestWith(t *testing.T) {
	version := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(read(t, "../go.mod"))
	require.Equal(t, "nats:"+string(version[1])+"-scratch", manifests(t, "").one(t, "StatefulSet", "edict-nats").Spec.Template.Spec.Containers[0].Image)
	require.Contains(t, string(read(t, "README.md")), "nats-server "+string(version[1]))
}

func TestTheAgentBesideAWorkerScrapesIt(t *testing.T) {
	var conf struct {
		Global struct {
			ScrapeInterval string            `yaml:"scrape_interval"`
			ExternalLabels map[string]string `yaml:"external_labels"`
		}
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		RemoteWrite []struct{ URL string } `yaml:"remote_write"`
	}
	m := manifests(t, "watched")
	require.NoError(t, yaml.Load([]byte(m.one(t, "ConfigMap", "edict-metrics").Data["prometheus.yml"]), &conf, yaml.WithKnownFields()))
	require.Equal(t, map[string]string{"pod": "${POD_NAME}"}, conf.Global.ExternalLabels, "all workers have one address")
	worker := m.one(t, "StatefulSet", "edict").Spec.Template.Spec.Containers[0]
	require.Equal(t, worker.env("EDICT_HTTP"), conf.ScrapeConfigs[0].StaticConfigs[0].Targets[0])
	require.Len(t, conf.RemoteWrite, 1)
}

// With access control workers listen for everybody, under a certificate, and
// what supervises them asks at loopback.
func TestWithAccessControlWorkersLeaveLoopback(t *testing.T) {
	m := manifests(t, "open")
	worker := m.one(t, "StatefulSet", "edict").Spec.Template.Spec.Containers[0]
	_, port, err := net.SplitHostPort(worker.env("EDICT_HTTP"))
	require.NoError(t, err)
	require.Equal(t, port, strconv.Itoa(m.ports(map[string]string{"app.kubernetes.io/name": "edict"})["https"]))
	require.Equal(t, port, fmt.Sprint(m.one(t, "NetworkPolicy", "edict").Spec.Ingress[0].Ports[0].Port))
	for _, needed := range []string{"EDICT_ACCESS", "EDICT_TLS_CERT", "EDICT_TLS_KEY"} {
		require.NotEmpty(t, worker.env(needed), "serve leaves loopback with it alone")
	}
	require.Equal(t, "https://localhost:"+port, worker.env("EDICT_SERVER"), "one address has all routes")
}

// TestImagesKnowTheAuthorities that certify planes: without them a program trusts no plane whose
// authority it is not given in a Secret (caSecret "").
func TestImagesKnowTheAuthorities(t *testing.T) {
	for _, image := range []string{"Dockerfile", "controller.Dockerfile"} {
		require.Contains(t, string(read(t, image)), "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n", image)
	}
	require.Contains(t, string(read(t, "agent.Dockerfile")), " ca-certificates ")
}

func TestTheImageHoldsOneProgram(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "ENTRYPOINT", "CMD"}
	var stages [][]string // each: its instructions
	text := strings.ReplaceAll(string(read(t, "Dockerfile")), "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		word, _, _ := strings.Cut(line, " ")
		if word == "" || word[0] == '#' {
			continue
		}
		require.Contains(t, known, word)
		if word == "FROM" {
			stages = append(stages, nil)
		}
		require.NotEmpty(t, stages, "%s before FROM", word)
		stages[len(stages)-1] = append(stages[len(stages)-1], line)
	}
	require.Len(t, stages, 2)
	build, image := strings.Join(stages[0], "\n"), stages[1]
	goes := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "../go.mod"))
	require.Contains(t, build, "golang:"+string(goes[1])+" AS build", "the Go of go.mod")
	require.Regexp(t, `CGO_ENABLED=0 .*go build -trimpath .*-o /edict \./cmd/edict`, build)
	require.Equal(t, "FROM scratch", image[0])
	require.Contains(t, image, `ENTRYPOINT ["/edict"]`)
	require.Contains(t, image, "USER 65532:65532")
	for _, line := range image {
		require.NotRegexp(t, `^RUN`, line, "there is no shell to run it")
		require.NotRegexp(t, `^(ENTRYPOINT|CMD) [^\[]`, line, "there is no shell to split it")
		if strings.HasPrefix(line, "COPY") {
			require.Contains(t, line, "--from=build")
		}
	}
}
