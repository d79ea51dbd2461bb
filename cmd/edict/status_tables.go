package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
)

// outboxText sums up what is left to announce.
func outboxText(all []resource.Partition) string {
	edges, idle, syncing := 0, 0, 0
	for _, p := range all {
		edges += p.Edges
		switch p.Mode {
		case "":
			idle++
		case string(relay.Sync):
			syncing++
		}
	}
	text := fmt.Sprintf("%d changes to announce", edges)
	if idle > 0 {
		text += fmt.Sprintf(", %d partitions that nobody has taken yet", idle)
	}
	if syncing > 0 {
		text += fmt.Sprintf(", %d partitions being compared", syncing)
	}
	return text
}

func workerTable(w io.Writer, s resource.Status) {
	shares := map[string]int{}
	for _, p := range s.Partitions {
		shares[p.Owner]++
	}
	rows := make([][]string, len(s.Workers))
	for i, x := range s.Workers {
		rows[i] = []string{x.Name, fmt.Sprint(x.Applied), fmt.Sprint(x.Lag), fmt.Sprint(shares[x.Owner]), orNone(x.HTTP), stamp(x.Started), orNone(x.Owner)}
	}
	columns(w, []string{"worker", "applied", "behind", "partitions", "http", "started", "owner"}, rows)
}

// partitionTable shows partitions whose fences say the same in one line.
func partitionTable(w io.Writer, all []resource.Partition) {
	var kinds []resource.Partition // what they say, first seen first
	ids := map[resource.Partition][]int{}
	edges := map[resource.Partition]int{}
	for _, p := range all {
		kind := p
		kind.ID, kind.Edges = 0, 0
		if _, seen := ids[kind]; !seen {
			kinds = append(kinds, kind)
		}
		ids[kind] = append(ids[kind], p.ID)
		edges[kind] += p.Edges
	}
	slices.SortStableFunc(kinds, func(a, b resource.Partition) int { return ids[a][0] - ids[b][0] })
	rows := make([][]string, len(kinds))
	for i, k := range kinds {
		after := relay.Key{Seq: k.After.Seq, Policy: k.After.Policy, Node: policy.NodeID(k.After.Node)}.String()
		rows[i] = []string{relay.Ranges(ids[k]), workerText(k), fmt.Sprint(k.Epoch), orNone(k.Mode), after, fmt.Sprint(edges[k])}
	}
	columns(w, []string{"partitions", "announced by", "epoch", "mode", "after", "edges"}, rows)
}

// workerText names who announces: an owner without a name is not alive.
func workerText(p resource.Partition) string {
	switch {
	case p.Owner == "":
		return "nobody"
	case p.Worker == "":
		return p.Owner + " (gone)"
	}
	return p.Worker
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
