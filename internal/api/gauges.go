package api

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
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
		"Last sequence of the log, as its server says at the scrape; the last known one while it does not answer. Applied below it is lag.")
	appliedDesc     = desc("log_applied_sequence", "Last sequence of the log that this process has folded and committed. Standing still below the head is a fold that is stuck.")
	nodesDesc       = desc("nodes", "Nodes that exist now, as far as this process has folded.")
	identitiesDesc  = desc("identities", "Distinct label sets of a project's nodes. The fold's cost grows with these, not with nodes.")
	policiesDesc    = desc("policies", "Policies that exist now, as far as this process has folded.")
	pastFromDesc    = desc("past_from_seq", "Nodes that resume from this log sequence or below pull, because what they lost is no longer kept. 0 is all of the log.")
	pastRecordsDesc = desc("past_records", "Records kept of what nodes lost, for those that come back.")
	pastBytesDesc   = desc("past_bytes", "What these records take, about. Near --past-bytes the oldest go before --past is over.")
	pastDroppedDesc = prometheus.NewDesc("edict_past_dropped_total", "Records of what nodes lost that went before --past was over, for want of --past-bytes. Growth is nodes that pull.", nil, nil)
	lowDesc         = desc("storage_low", "1 while writes are refused with 507, because the disk is nearly full or was; else 0.")
	overShareDesc   = desc("projects_over_share", "Projects that took more than --project-bytes of the log in 24 hours, and are refused further writes. Above 0 a producer floods the log, which keeps it for good, or the share is too small.")
	damagedDesc     = desc("log_damaged", "1 while the fold stands because the log lost or changed events it had, or is another log; else 0. Until somebody acts.")
	witnessedDesc   = desc("log_witnessed_sequence", "Last sequence of the log whose chain hash the witness holds, as far as this process has read it. Far below the head for minutes, nobody writes it.")
	refusedDesc     = desc("datapath_refused_nodes", "Nodes that keep an older table because the present one would be too large, of those this process looked at: nodes it serves, and whoever asked.")
	tablesDesc      = prometheus.NewDesc("edict_datapath_tables_total", "Tables that somebody asked for and that were not in memory, by what became of them: shared waited for what another request had begun, refused would be too large or too much work, cancelled is what nobody waited for any more, too_many was sent away. Many cancelled are clients that give up too soon, or tables that take too long.", []string{"outcome"}, nil)
	stepsDesc       = prometheus.NewDesc("edict_datapath_steps_total", "Steps that making tables took, cancelled and refused ones too, and watching them: some ten nanoseconds of one core each.", nil, nil)
	waitingDesc     = desc("datapath_waiting_requests", "Requests that wait for a table, or for policies to be compared. Many for long is a project whose policies take all of its turns.")
	lagDesc         = desc("publish_lag_events", "Events between what this process folded and what is published on NATS, of the partition that is farthest behind. Growth is a publisher that is stuck.")
	unpublishedDesc = desc("partitions_unpublished", "Partitions that nobody publishes on NATS. Above 0 for long, who listens there learns of changes only when it asks.")
)

// Describe names the gauges.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{headDesc, appliedDesc, nodesDesc, identitiesDesc, policiesDesc, pastFromDesc, pastRecordsDesc, pastBytesDesc, pastDroppedDesc, lagDesc, unpublishedDesc, lowDesc, overShareDesc, damagedDesc, witnessedDesc, refusedDesc, tablesDesc, stepsDesc, waitingDesc} {
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
		tell(refusedDesc, float64(g.Tables.RefusedNodes()))
		g.tables(to)
	}
	g.published(applied, tell)
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
	all, err := g.Partitions()
	if err != nil {
		return // nobody can say now
	}
	lag, unpublished := uint64(0), 0
	for _, p := range all {
		switch {
		case p.Publisher == "":
			unpublished++
		case p.UpTo < applied:
			lag = max(lag, applied-p.UpTo)
		}
	}
	tell(lagDesc, float64(lag))
	tell(unpublishedDesc, float64(unpublished))
}
