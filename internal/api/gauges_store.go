package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edictdev/edict/internal/convergence"
)

var (
	fleetDesc = prometheus.NewDesc("edict_fleet_nodes",
		"Nodes by where they stand with what is asked of them, as of the last ten seconds. applied: they hold what they must. lagging: they report and are not known to hold it. refused: they say that they could not put it in force. silent: they never reported. edict node list --state shows which.", []string{"state"}, nil)
	storeBytesDesc       = desc("store_bytes", "Bytes of the read model on disk. It is made anew from the log where it is lost.")
	storeUnflushedDesc   = desc("store_unflushed_bytes", "Bytes of the read model in memory that are in no table on disk yet; the log has them.")
	storeCompactionsDesc = prometheus.NewDesc("edict_store_compactions_total", "Compactions of the read model's store that ended.", nil, nil)
	storeDebtDesc        = desc("store_compaction_debt_bytes", "Bytes that compactions of the read model have yet to rewrite, about. If it only grows, the disk does not keep up with the fold.")
	storeLevelsDesc      = desc("store_read_amplification", "Tables of the read model that one read looks into at most. Above 20 or so reads are slow, because compactions do not keep up.")
	jsBytesDesc          = desc("jetstream_bytes", "Bytes of all streams and buckets in the plane's JetStream account. The log is most of them. Each scrape asks the server; while it does not answer, this and what follows are absent.")
	jsStreamsDesc        = desc("jetstream_streams", "Streams of that account, buckets among them.")
	jsConsumersDesc      = desc("jetstream_consumers", "Consumers of that account.")
	jsErrorsDesc         = prometheus.NewDesc("edict_jetstream_api_errors_total", "Requests to JetStream that failed in that account, those that only looked whether something is there among them.", nil, nil)
	diskFreeDesc         = desc("disk_free_bytes", "Bytes that are free where the data lies, the least of its file systems. Below --min-free writes are refused.")
)

func storeDescs() []*prometheus.Desc {
	return []*prometheus.Desc{
		fleetDesc, storeBytesDesc, storeUnflushedDesc, storeCompactionsDesc, storeDebtDesc, storeLevelsDesc,
		jsBytesDesc, jsStreamsDesc, jsConsumersDesc, jsErrorsDesc, diskFreeDesc,
	}
}

// fleet reads where nodes stand, from the last sample: to count them anew for every
// scrape would cost as much as there are nodes.
func (g *gauges) fleet(to chan<- prometheus.Metric) {
	if g.Fleet == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), headScrape)
	defer cancel()
	s, err := g.Fleet.Latest(ctx)
	if err != nil {
		return // the reports are not read yet
	}
	for state, n := range s.Counts {
		to <- prometheus.MustNewConstMetric(fleetDesc, prometheus.GaugeValue, float64(n), convergence.States[state])
	}
}

// stores reads how what the plane keeps is doing.
func (g *gauges) stores(to chan<- prometheus.Metric, tell func(*prometheus.Desc, float64)) {
	if g.Storage != nil {
		s := g.Storage()
		tell(storeBytesDesc, float64(s.Bytes))
		tell(storeUnflushedDesc, float64(s.Unflushed))
		tell(storeDebtDesc, float64(s.Debt))
		tell(storeLevelsDesc, float64(s.Levels))
		to <- prometheus.MustNewConstMetric(storeCompactionsDesc, prometheus.CounterValue, float64(s.Compactions))
	}
	if g.DiskFree != nil {
		if free, known := g.DiskFree(); known {
			tell(diskFreeDesc, float64(free))
		}
	}
	if g.JetStream == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), headScrape)
	defer cancel()
	if u, err := g.JetStream(ctx); err == nil {
		tell(jsBytesDesc, float64(u.Bytes))
		tell(jsStreamsDesc, float64(u.Streams))
		tell(jsConsumersDesc, float64(u.Consumers))
		to <- prometheus.MustNewConstMetric(jsErrorsDesc, prometheus.CounterValue, float64(u.Errors))
	}
}
