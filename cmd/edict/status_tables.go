package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/relay"
)

// pastText says how far back nodes that were away can resume without a pull.
func pastText(p resource.Past) string {
	text := "from any event of the log"
	if p.From > 0 {
		text = fmt.Sprintf("from event %d on", p.From+1)
	}
	text += fmt.Sprintf(", %s kept, %s", cli.Counted(p.Records, "record"), sizeText(uint64(p.Bytes)))
	if p.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped for want of room", p.Dropped)
	}
	return text
}

// publishedText sums up how far messages to nodes are published on NATS.
func publishedText(s resource.Status) string {
	most, idle := resource.Published(s.Partitions, s.Workers, s.Head)
	text := cli.Counted(most, "event") + " behind"
	if idle > 0 {
		text += fmt.Sprintf(", %s that nobody publishes", cli.Counted(idle, "partition"))
	}
	return text
}

func workerTable(w io.Writer, s resource.Status) {
	rows := make([][]string, len(s.Workers))
	for i, x := range workersIn(s) {
		rows[i] = []string{x.Name, fmt.Sprint(x.Applied), fmt.Sprint(x.Lag), fmt.Sprint(len(x.Partitions)), orNone(x.HTTP), stamp(x.Started)}
	}
	columns(w, []string{"worker", "folded", "behind", "partitions", "http", "started"}, rows)
}

// partitionTable shows partitions that say the same in one line.
func partitionTable(w io.Writer, all []resource.Partition) {
	var kinds []resource.Partition // what they say, first seen first
	ids := map[resource.Partition][]int{}
	for _, p := range all {
		kind := p
		kind.ID = 0
		if _, seen := ids[kind]; !seen {
			kinds = append(kinds, kind)
		}
		ids[kind] = append(ids[kind], p.ID)
	}
	slices.SortStableFunc(kinds, func(a, b resource.Partition) int { return ids[a][0] - ids[b][0] })
	rows := make([][]string, len(kinds))
	for i, k := range kinds {
		publisher := k.Publisher
		if publisher == "" {
			publisher = "nobody"
		}
		rows[i] = []string{relay.Ranges(ids[k]), publisher, fmt.Sprint(k.UpTo)}
	}
	columns(w, []string{"partitions", "published by", "up to"}, rows)
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
