package kubernetes

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/policy"
)

var (
	churnPods    = flag.Int("churn.pods", 10000, "pods of the cluster that churns")
	churnLasts   = flag.Duration("churn.for", time.Minute, "how long pods come and go")
	churnASecond = flag.Int("churn.rate", 50, "pods a second that are replaced")
)

const (
	churnNamespaces = 20
	churnApps       = 25 // of each namespace, each with a policy
)

// moment is what is known of one pod that came.
type moment struct {
	at        time.Time // its address was written to the API server
	taken     time.Time // the API server had it
	inLog     time.Time // its event was stored
	seq       uint64
	told      time.Time // a node that must know was told of it
	namespace int
}

// churn is a cluster whose pods come and go, and what came of that.
type churn struct {
	c     *cluster
	p     *plane
	owner string

	mu      sync.Mutex
	living  [][]string         // names of pods, by namespace
	moments map[string]*moment // by the id of the pod's node
	bySeq   []*moment          // as the log has them
	next    int                // of names and addresses
}

func namespaceName(i int) string { return fmt.Sprintf("ns-%02d", i) }

// fill makes the namespaces, the policies and the pods.
func (x *churn) fill(t *testing.T) {
	for i := range churnNamespaces {
		x.c.namespace(namespaceName(i), map[string]string{"team": fmt.Sprint(i % 4)})
		for app := range churnApps {
			// An app hears those before and behind it, and the first of them the whole namespace.
			from := fmt.Sprintf(`{podSelector: {matchExpressions: [{key: app, operator: In, values: [a-%d, a-%d]}]}}`, (app+1)%churnApps, (app+churnApps-1)%churnApps)
			if app == 0 {
				from = "{podSelector: {}}"
			}
			x.c.apply(fmt.Appendf(nil, `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: %s, name: a-%d}
spec: {podSelector: {matchLabels: {app: a-%[2]d}}, ingress: [{from: [%s], ports: [{port: 80}]}]}`, namespaceName(i), app, from))
		}
	}
	var g errgroup.Group
	g.SetLimit(32)
	for i := range *churnPods {
		g.Go(func() error { x.come(i % churnNamespaces); return nil })
	}
	require.NoError(t, g.Wait())
}

// come makes a pod in a namespace. Its node is timed from the moment it gets its address.
func (x *churn) come(ns int) {
	x.mu.Lock()
	n := x.next
	x.next++
	name := fmt.Sprintf("p-%d", n)
	x.mu.Unlock()
	labels := map[string]string{"app": fmt.Sprintf("a-%d", n/churnNamespaces%churnApps)}
	x.c.create(namespaceName(ns), name, labels, false)
	m := &moment{at: time.Now(), namespace: ns}
	x.mu.Lock()
	x.moments[string(translate.PodID(x.owner, namespaceName(ns), name))] = m
	x.mu.Unlock()
	x.c.runs(namespaceName(ns), name, fmt.Sprintf("10.%d.%d.%d", 1+n/62500, n/250%250, n%250+1))
	x.mu.Lock()
	m.taken = time.Now()
	x.living[ns] = append(x.living[ns], name)
	x.mu.Unlock()
}

// goes removes the oldest pod of a namespace but the first, which listens.
func (x *churn) goes(ns int) {
	x.mu.Lock()
	name := x.living[ns][1]
	x.living[ns] = slices.Delete(x.living[ns], 1, 2)
	x.mu.Unlock()
	x.c.removePod(namespaceName(ns), name)
}

// follow reads the log from its end.
func (x *churn) follow(ctx context.Context) error {
	for f, err := range x.p.Events(ctx, project, nil, x.p.head()) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if f.Event == nil || f.Event.NodeID == "" {
			continue
		}
		x.mu.Lock()
		if m := x.moments[f.Event.NodeID]; m != nil && m.seq == 0 {
			m.inLog, m.seq = f.Event.Time, f.Event.Seq
			x.bySeq = append(x.bySeq, m)
		}
		x.mu.Unlock()
	}
	return nil
}

// listen follows the node of the pod of a namespace that hears all others there, as an
// agent does, and notes when it was told of each.
func (x *churn) listen(ctx context.Context, ns int, node string) error {
	body, err := x.p.Nodes.Events(ctx, node, "")
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "id: ")
		if !ok {
			continue
		}
		now := time.Now()
		id, err := policy.ParseEventID(text)
		if err != nil {
			return err
		}
		seq, ok := id.Seq(0)
		if !ok {
			return fmt.Errorf("event id %s is of another log", id)
		}
		x.told(ns, seq, now)
	}
	return nil // it ends with ctx; what is missing then is counted
}

// told notes that a node was told of all that came in its namespace up to a sequence.
func (x *churn) told(ns int, seq uint64, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.bySeq {
		if m.namespace == ns && m.seq <= seq && m.told.IsZero() {
			m.told = now
		}
	}
}

// arrived counts the pods that came whose event is in the log, and those of which a node
// was told.
func (x *churn) arrived() (logged, told int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.moments {
		if m.seq > 0 {
			logged++
		}
		if !m.told.IsZero() {
			told++
		}
	}
	return logged, told
}

// percentiles are the middle and the 99th of a hundred.
func percentiles(all []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// TestTenThousandPodsThatChurn measures how far the plane is behind a large cluster, and
// what the controller costs.
func TestTenThousandPodsThatChurn(t *testing.T) {
	c := newCluster(t)
	p := newPlane(t)
	kubeconfig := c.account()
	system, err := c.typed.CoreV1().Namespaces().Get(t.Context(), "kube-system", getOptions)
	require.NoError(t, err)
	for i := range 100 {
		c.machine(fmt.Sprintf("m-%d", i), fmt.Sprintf("192.0.2.%d", i+1), nil)
	}
	x := &churn{c: c, p: p, owner: string(system.UID), living: make([][]string, churnNamespaces), moments: map[string]*moment{}}
	began := time.Now()
	x.fill(t)
	t.Logf("%d pods, 100 machines and %d policies made in %.0f s", *churnPods, churnNamespaces*churnApps, time.Since(began).Seconds())

	one := p.control(kubeconfig, "one")
	began = time.Now()
	eventuallyIn(t, 5*time.Minute, "the plane is what the cluster says", one.synced)
	cpu, peak := one.used()
	t.Logf("from nothing to ready: %.1f s, %.1f s of CPU, at most %d MiB; %.0f nodes, %.0f policies; log of %d", time.Since(began).Seconds(), cpu, peak,
		one.metric("edict_controller_nodes"), one.metric("edict_controller_policies"), p.head())
	require.EqualValues(t, *churnPods+100, one.metric("edict_controller_nodes"))

	head := p.head()
	one.stop()
	two := p.control(kubeconfig, "two")
	began = time.Now()
	eventuallyIn(t, 5*time.Minute, "the plane is what the cluster says", two.synced)
	cpu, peak = two.used()
	t.Logf("a restart: %.1f s until ready, %.1f s of CPU, at most %d MiB, %d events", time.Since(began).Seconds(), cpu, peak, p.head()-head)
	require.Equal(t, head, p.head(), "a restart writes nothing")

	x.churns(t, two)
}

// churns replaces pods for a while, and prints what was measured.
func (x *churn) churns(t *testing.T, by *controller) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	x.mu.Lock()
	x.moments = map[string]*moment{} // of pods that come from now on
	var listeners []string
	for ns, names := range x.living {
		// The first pods have each app once; a-0 hears them all.
		i := slices.IndexFunc(names, func(name string) bool {
			var n int
			fmt.Sscanf(name, "p-%d", &n)
			return n/churnNamespaces%churnApps == 0
		})
		require.GreaterOrEqual(t, i, 0, "namespace %d has no pod of the first app left: it takes more pods", ns)
		names[0], names[i] = names[i], names[0]
		listeners = append(listeners, string(translate.PodID(x.owner, namespaceName(ns), names[0])))
	}
	x.mu.Unlock()
	var readers errgroup.Group
	readers.Go(func() error { return x.follow(ctx) })
	for ns, node := range listeners {
		readers.Go(func() error { return x.listen(ctx, ns, node) })
	}
	failures := by.metric("edict_controller_failures_total")
	lag, lags := by.metric("edict_controller_lag_seconds_sum"), by.metric("edict_controller_lag_seconds_count")
	var before [4]float64
	parts := []*program{by.program, x.p.program, x.c.api, x.c.etcd}
	for i, part := range parts {
		before[i], _ = part.used()
	}
	head := x.p.head()
	began := time.Now()
	tick := time.NewTicker(time.Second / time.Duration(*churnASecond))
	defer tick.Stop()
	var writers errgroup.Group
	writers.SetLimit(64)
	replaced := 0
	for range tick.C {
		if time.Since(began) >= *churnLasts {
			break
		}
		ns := replaced % churnNamespaces
		replaced++
		writers.Go(func() error { x.goes(ns); x.come(ns); return nil })
	}
	require.NoError(t, writers.Wait())
	took := time.Since(began)
	x.mu.Lock()
	require.Len(t, x.moments, replaced)
	x.mu.Unlock()
	eventuallyIn(t, 30*time.Second, "nodes were told of every pod that came", func() bool {
		logged, told := x.arrived()
		return logged == replaced && told == replaced
	})
	stop()
	require.NoError(t, readers.Wait())
	var taken, inLog, told []time.Duration
	for _, m := range x.moments {
		taken, inLog, told = append(taken, m.taken.Sub(m.at)), append(inLog, m.inLog.Sub(m.at)), append(told, m.told.Sub(m.at))
	}
	t.Logf("%d pods replaced in %.0f s, %.1f a second; %d events", replaced, took.Seconds(), float64(replaced)/took.Seconds(), x.p.head()-head)
	for _, of := range []struct {
		until string
		all   []time.Duration
	}{{"the API server has it", taken}, {"its event is in the log", inLog}, {"a node that hears it was told", told}} {
		p50, p99 := percentiles(of.all)
		t.Logf("from the write of a pod's address until %s: p50 %d ms, p99 %d ms", of.until, p50.Milliseconds(), p99.Milliseconds())
	}
	lag, lags = by.metric("edict_controller_lag_seconds_sum")-lag, by.metric("edict_controller_lag_seconds_count")-lags
	t.Logf("from what a watch told the controller until the plane had it: %.0f ms in the mean of %.0f", lag/lags*1000, lags)
	for i, part := range parts {
		cpu, peak := part.used()
		t.Logf("%s: %.2f cores while pods churned, at most %d MiB", part.name, (cpu-before[i])/took.Seconds(), peak)
	}
	require.Len(t, x.p.nodes(), *churnPods+100)
	require.Equal(t, failures, by.metric("edict_controller_failures_total"), by.tail())
}
