package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/edictdev/edict/internal/test/authority"
	"github.com/edictdev/edict/internal/test/charts"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/kubeschema"
	"github.com/edictdev/edict/internal/test/leftout"
)

// Modules of the kinds for a cluster, each at the version whose kinds are installed.
const (
	clusterKinds = "sigs.k8s.io/network-policy-api@v0.3.0"
	adminKinds   = "sigs.k8s.io/network-policy-api@v0.1.7"
)

// cluster is a control plane of its own: etcd and kube-apiserver.
type cluster struct {
	t         *testing.T
	dir       string
	ca        *authority.Authority
	etcd, api *program
	apiArgs   []string
	url       string
	admin     *rest.Config // of who may do everything
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
}

// asset is a program that Kubernetes' own tests run: in KUBEBUILDER_ASSETS, in
// bin/kubernetes, where make test-kubernetes puts it, or on the path.
func asset(t *testing.T, name string) string {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	for _, dir := range []string{os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(root, "bin", "kubernetes")} {
		if dir == "" {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		leftout.Here(t, "edict-controller is tried with a real API server, and there is no %s: run make test-kubernetes, or set KUBEBUILDER_ASSETS", name)
	}
	return path
}

var realOne = flag.Bool("kubernetes", false, "try edict-controller on a real API server, as make test-kubernetes does")

// newCluster starts one, with the kinds of all policies.
func newCluster(t *testing.T) *cluster {
	if !*realOne {
		leftout.Here(t, "make test-kubernetes tries edict-controller on a real API server")
	}
	api, etcd := asset(t, "kube-apiserver"), asset(t, "etcd")
	dir := t.TempDir()
	c := &cluster{t: t, dir: dir, ca: authority.New(t, dir)}
	issueServer(c.ca, "apiserver")
	issueClient(c.ca, "admin", "system:masters")
	issueClient(c.ca, "accounts", "keys of service accounts")
	client, peer, port := freePort(t), freePort(t), strconv.Itoa(freePort(t))
	at := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	c.etcd = run(t, dir, "etcd", etcd, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", at(client), "--advertise-client-urls", at(client),
		"--listen-peer-urls", at(peer), "--initial-advertise-peer-urls", at(peer), "--initial-cluster", "default="+at(peer))
	c.url = "https://127.0.0.1:" + port
	// ServiceAccount gives pods an account, which no controller makes here.
	c.apiArgs = []string{
		"--etcd-servers", at(client), "--bind-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--secure-port", port,
		"--tls-cert-file", c.ca.File("apiserver.crt"), "--tls-private-key-file", c.ca.File("apiserver.key"), "--client-ca-file", c.ca.File("ca.crt"),
		"--service-account-issuer", c.url, "--service-account-key-file", c.ca.File("accounts.crt"), "--service-account-signing-key-file", c.ca.File("accounts.key"),
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "Node,RBAC", "--disable-admission-plugins", "ServiceAccount",
	}
	c.admin = &rest.Config{
		Host: c.url, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.ca.File("ca.crt"), CertFile: c.ca.File("admin.crt"), KeyFile: c.ca.File("admin.key")},
	}
	var err error
	c.typed, err = kubernetes.NewForConfig(c.admin)
	require.NoError(t, err)
	c.dynamic, err = dynamic.NewForConfig(c.admin)
	require.NoError(t, err)
	c.start(api)
	c.install()
	return c
}

// start starts the API server, again if it was ended, and waits until it is ready.
func (c *cluster) start(bin string) {
	c.t.Helper()
	c.api = run(c.t, c.dir, "kube-apiserver", bin, c.apiArgs...)
	eventually(c.t, "the API server is ready", func() bool {
		if c.api.ended() {
			require.Fail(c.t, "the API server ended", c.api.tail())
		}
		_, err := c.typed.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(c.t.Context())
		return err == nil
	})
	eventually(c.t, "the namespace whose uid names the cluster", func() bool {
		_, err := c.typed.CoreV1().Namespaces().Get(c.t.Context(), "kube-system", metav1.GetOptions{})
		return err == nil
	})
}

// install applies the definitions of policies for the cluster, as their authors publish
// them, and waits until they are served.
func (c *cluster) install() {
	c.t.Helper()
	for at, glob := range map[string]string{clusterKinds: "experimental/*_clusternetworkpolicies.yaml", adminKinds: "experimental/*adminnetworkpolicies.yaml"} {
		root, err := kubeschema.Module(at)
		if err != nil {
			leftout.Test(c.t, "no definitions of policies: %v", err)
		}
		files, err := filepath.Glob(filepath.Join(root, "config", "crd", glob))
		require.NoError(c.t, err)
		require.NotEmpty(c.t, files)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(c.t, err)
			c.apply(text)
		}
	}
	eventually(c.t, "kinds of policies for the cluster are served", func() bool {
		_, lists, err := c.typed.Discovery().ServerGroupsAndResources()
		served := map[string]bool{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				served[r.Name] = true
			}
		}
		return err == nil && served["clusternetworkpolicies"] && served["adminnetworkpolicies"] && served["baselineadminnetworkpolicies"]
	})
}

// objects are the documents of a text.
func objects(t *testing.T, text []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	require.NoError(t, err)
	for {
		var doc map[string]any
		err := loader.Load(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(doc) == 0 {
			continue
		}
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON(body))
		all = append(all, o)
	}
}

// apply creates the objects of a text, or replaces those that are there.
func (c *cluster) apply(text []byte) {
	c.t.Helper()
	for _, o := range objects(c.t, text) {
		c.applyObject(o)
	}
}

// applyObject sends what an object says of itself, its status excepted: of one that is
// there all of that takes the place of what it said.
func (c *cluster) applyObject(o *unstructured.Unstructured) {
	c.t.Helper()
	of := c.dynamic.Resource(c.resource(o.GroupVersionKind())).Namespace(o.GetNamespace())
	_, err := of.Create(c.t.Context(), o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		was, err := of.Get(c.t.Context(), o.GetName(), metav1.GetOptions{})
		require.NoError(c.t, err)
		o.SetResourceVersion(was.GetResourceVersion())
		_, err = of.Update(c.t.Context(), o, metav1.UpdateOptions{})
		require.NoError(c.t, err)
		return
	}
	require.NoError(c.t, err, "%s %s", o.GetKind(), o.GetName())
}

// resource is how the API server calls a kind.
func (c *cluster) resource(k schema.GroupVersionKind) schema.GroupVersionResource {
	c.t.Helper()
	list, err := c.typed.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
	require.NoError(c.t, err)
	for _, r := range list.APIResources {
		if r.Kind == k.Kind {
			return k.GroupVersion().WithResource(r.Name)
		}
	}
	require.Fail(c.t, "no such kind", "%v", k)
	return schema.GroupVersionResource{}
}

// account gives a service account the rights that the chart gives the controller, and
// is a kubeconfig with its token.
func (c *cluster) account() (kubeconfig string) {
	c.t.Helper()
	_, err := c.typed.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chartNamespace}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	granted := 0
	for _, o := range objects(c.t, chart(c.t)) {
		switch o.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			if o.GetName() == controllerName || o.GetName() == chartNamespace+"-"+controllerName {
				if o.GetNamespace() == "" && (o.GetKind() == "ServiceAccount" || o.GetKind() == "Role" || o.GetKind() == "RoleBinding") {
					o.SetNamespace(chartNamespace) // as helm install does
				}
				c.applyObject(o)
				granted++
			}
		}
	}
	require.Equal(c.t, 5, granted, "an account, two roles, and who has them")
	lasts := int64(24 * 3600)
	token, err := c.typed.CoreV1().ServiceAccounts(chartNamespace).CreateToken(c.t.Context(), controllerName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lasts}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	path := filepath.Join(c.dir, "controller.kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x",
"clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority":%q}}],
"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"users":[{"name":"x","user":{"token":%q}}]}`, c.url, c.ca.File("ca.crt"), token.Status.Token)
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const (
	chartNamespace = "edict"
	controllerName = "edict-controller"
)

// chart is the chart as helm renders it with a controller.
func chart(t *testing.T) []byte {
	t.Helper()
	out, stderr, err := charts.Helm(t, "template", "edict", "helm/edict", "--namespace", chartNamespace,
		"--values", "helm/edict/values/open.yaml", "--set", "controller.enabled=true", "--set", "controller.tokenSecret=token")
	require.NoError(t, err, stderr)
	return []byte(out)
}
