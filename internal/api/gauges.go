package api

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// headScrape is how long a scrape waits for the log's server to say where the
// log ends. Without an answer the last known sequence is shown.
const headScrape = time.Second

// Build notes which binary this is.
func (m *Metrics) Build(version string) {
	promauto.With(m.reg).NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "edict", Name: "build_info",
		Help: "1 for the binary that runs: its version and the Go it was built with. Differs between workers during an upgrade.",
	}, []string{"version", "goversion"}).WithLabelValues(version, runtime.Version()).Set(1)
}

// Watch exposes what the parts that d names know, whenever somebody asks.
func (m *Metrics) Watch(d Deps) {
	if m.reg != nil {
		m.reg.MustRegister(&gauges{metrics: m, Deps: d})
	}
}

// gauges reads a worker's position at each scrape.
type gauges struct {
	Deps
	metrics *Metrics
	one     sync.Mutex // scrape at a time: a slow log's server is asked by one
}

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("edict_"+name, help, nil, nil)
}

var (
	headDesc = desc("log_head_sequence",
		"Last sequence of the log. Each scrape asks the log's server; while that does not answer, it is the last known sequence. If the applied sequence is below it, this process lags.")
	appliedDesc     = desc("log_applied_sequence", "Last sequence of the log that this process has folded and committed. If it stands still below the head, the fold is stuck.")
	nodesDesc       = desc("nodes", "Nodes that exist now, as far as this process has folded.")
	identitiesDesc  = desc("identities", "Distinct label sets of a project's nodes. The fold's cost grows with these, not with nodes.")
	policiesDesc    = desc("policies", "Policies that exist now, as far as this process has folded.")
	pastFromDesc    = desc("past_from_seq", "Nodes that resume from this log sequence or below pull, because the records of what they lost are no longer kept. 0: the records go back to the first event.")
	pastRecordsDesc = desc("past_records", "Records that are kept of what nodes lost, for nodes that come back.")
	pastBytesDesc   = desc("past_bytes", "Bytes that the records of what nodes lost take, about. Near --past-bytes the oldest records are dropped before --past is over.")
	pastDroppedDesc = prometheus.NewDesc("edict_past_dropped_total", "Records of what nodes lost that were dropped before --past was over, because --past-bytes was reached. If it grows, nodes pull.", nil, nil)
	lowDesc         = desc("storage_low", "1 while writes are refused with 507, because the disk is or was nearly full; else 0.")
	overShareDesc   = desc("projects_over_share", "Projects that took more than --project-bytes of the log in 24 hours, so that their writes are refused. If it is above 0, a producer floods the log, which keeps everything, or the share is too small.")
	shutOutDesc     = desc("projects_shut_out", "Projects whose producers the embedded NATS server shuts out for a while, because they went on sending more events than their quota lets be applied, or than the log takes. If it is above 0, edict status names them.")
	damagedDesc     = desc("log_damaged", "1 while the fold is stopped because the log lost or changed events, or is another log; else 0. It stays 1 until somebody acts.")
	witnessedDesc   = desc("log_witnessed_sequence", "Last sequence of the log whose chain hash the witness holds, as far as this process has read it. If it is far below the head for minutes, nobody writes the witness.")
	refusedDesc     = desc("datapath_refused_nodes", "Nodes that keep an older table because the present one would be too large, among those whose table this process made: the nodes that it serves, and those that somebody asked it about.")
	tablesDesc      = prometheus.NewDesc("edict_datapath_tables_total", "Tables that somebody asked for and that were not in memory, by outcome. shared: the request waited for a table that another request had begun. refused: the table would be too large or too much work. cancelled: nobody waited for it any more. too_many: the request was turned away. If many are cancelled, clients give up too soon, or tables take too long.", []string{"outcome"}, nil)
	stepsDesc       = prometheus.NewDesc("edict_datapath_steps_total", "Steps that were taken to make tables, cancelled and refused ones included, and to watch them. A step takes some ten nanoseconds of one core.", nil, nil)
	waitingDesc     = desc("datapath_waiting_requests", "Requests that wait for a table, or for a comparison of policies. If many wait for long, the policies of a project take all of its turns.")
	notAppliedDesc  = prometheus.NewDesc("edict_nodes_not_applied", "Nodes whose last report says that something is not applied, by outcome. refused: they could not put in force what they were sent. stale: they could not learn for too long whether what is in force is still right. drift: something else was in force when they looked last. edict policy rollout shows which nodes, and why.", []string{"outcome"}, nil)
	rolloutsDesc    = prometheus.NewDesc("edict_rollouts", "Rollouts that have reached nodes and have not ended, by phase. progressing: waves open by themselves. stopped: too many nodes refused it, and it waits for somebody to go on or to abort it. edict policy list shows which.", []string{"phase"}, nil)
	lagDesc         = desc("publish_lag_events", "Events that a publisher had folded and not published on NATS when it was last heard of, in the partition that is farthest behind. If it grows, a publisher is stuck.")
	unpublishedDesc = desc("partitions_unpublished", "Partitions that no worker publishes on NATS. While it is above 0, nodes that listen there learn of changes only when they ask.")
)

// Describe names the gauges.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range append(append(growthDescs(), storeDescs()...), headDesc, appliedDesc, nodesDesc, identitiesDesc, policiesDesc, pastFromDesc, pastRecordsDesc, pastBytesDesc, pastDroppedDesc, lagDesc, unpublishedDesc, lowDesc, overShareDesc, shutOutDesc, damagedDesc, witnessedDesc, refusedDesc, tablesDesc, stepsDesc, waitingDesc, notAppliedDesc, rolloutsDesc) {
		to <- d
	}
}

// Collect reads them.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	g.one.Lock()
	defer g.one.Unlock()
	tell := func(d *prometheus.Desc, n float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n) }
	ctx, cancel := context.WithTimeout(context.Background(), headScrape)
	if s, err := g.Log.State(ctx); err == nil {
		g.metrics.sawHead(s.Last)
		g.growth(s).collect(tell)
	}
	cancel()
	var applied uint64
	var counts projector.Counts
	g.Model.Read(func(v *projector.View) { counts = v.Counts() })
	applied = g.Model.Applied()
	g.metrics.sawHead(applied) // it may have passed the head since that was read
	tell(headDesc, float64(g.metrics.head.Load()))
	tell(appliedDesc, float64(applied))
	tell(nodesDesc, float64(counts.Nodes))
	tell(identitiesDesc, float64(counts.Identities))
	tell(policiesDesc, float64(counts.Policies))
	if g.Past != nil {
		past := g.Past()
		tell(pastFromDesc, float64(past.From))
		tell(pastRecordsDesc, float64(past.Records))
		tell(pastBytesDesc, float64(past.Bytes))
		to <- prometheus.MustNewConstMetric(pastDroppedDesc, prometheus.CounterValue, float64(past.Dropped))
	}
	low := 0.0
	if g.Writable != nil && g.Writable() != nil {
		low = 1
	}
	tell(lowDesc, low)
	tell(overShareDesc, float64(g.overShare()))
	if g.ShutOut != nil {
		tell(shutOutDesc, float64(len(g.ShutOut())))
	}
	if g.Damaged != nil {
		damaged := 0.0
		if g.Damaged() != nil {
			damaged = 1
		}
		tell(damagedDesc, damaged)
	}
	if g.Witnessed != nil {
		tell(witnessedDesc, float64(g.Witnessed()))
	}
	if g.Tables != nil {
		tell(refusedDesc, float64(g.Tables.RefusedNodes(g.exists)))
		g.tables(to)
	}
	g.notApplied(to)
	g.fleet(to)
	g.stores(to, tell)
	g.rollouts(to)
	g.published(applied, tell)
}

func (g *gauges) exists(id policy.NodeID) (yes bool) {
	g.Model.Read(func(v *projector.View) { yes = v.HasNode(id) })
	return yes
}

// notApplied reads how many nodes say that something is not applied.
func (g *gauges) notApplied(to chan<- prometheus.Metric) {
	if g.Convergence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), headScrape)
	defer cancel()
	of, err := g.Convergence.NotApplied(ctx)
	if err != nil {
		return // the reports are not read yet, or there is no time to count
	}
	for o := policy.OutcomeRefused; int(o) < len(policy.Outcomes); o++ {
		to <- prometheus.MustNewConstMetric(notAppliedDesc, prometheus.GaugeValue, float64(of[o]), o.String())
	}
}

// rollouts counts those that have not ended.
func (g *gauges) rollouts(to chan<- prometheus.Metric) {
	counts := map[string]int{}
	g.Model.Read(func(v *projector.View) {
		for _, phase := range []string{projector.RolloutUnderWay, projector.RolloutStopped} {
			counts[phase] = len(projector.RolloutsIn(v, phase))
		}
	})
	for phase, n := range counts {
		to <- prometheus.MustNewConstMetric(rolloutsDesc, prometheus.GaugeValue, float64(n), phase)
	}
}

// tables reads what became of tables.
func (g *gauges) tables(to chan<- prometheus.Metric) {
	c := g.Tables.Counts()
	for _, outcome := range snapshot.TableOutcomes {
		to <- prometheus.MustNewConstMetric(tablesDesc, prometheus.CounterValue, float64(c.Outcomes[outcome]), outcome)
	}
	to <- prometheus.MustNewConstMetric(stepsDesc, prometheus.CounterValue, float64(c.Steps))
	to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(c.Waiting))
}

// overShare is how many projects have had their share of the log.
func (g *gauges) overShare() (n int) {
	if g.ProjectBytes > 0 {
		g.Model.Read(func(v *projector.View) { n = len(v.OverShare(g.ProjectBytes, time.Now())) })
	}
	return n
}

// published reads how far behind what is published is.
func (g *gauges) published(applied uint64, tell func(*prometheus.Desc, float64)) {
	if g.Partitions == nil {
		return
	}
	var workers []resource.Worker
	if g.Workers != nil {
		workers = g.Workers(applied) // before the partitions: each publishes after it folds
	}
	all, err := g.Partitions()
	if err != nil {
		return // nobody can say now
	}
	lag, unpublished := resource.Published(all, workers, applied)
	tell(lagDesc, float64(lag))
	tell(unpublishedDesc, float64(unpublished))
}
