package relay

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// divide assigns the partitions of a plane to the workers that share them, by
// owner. Every worker gets the same number, or one more, and when a worker comes or
// goes, few partitions move besides its own. Partitions that a worker was configured
// to publish stay with it. The result depends only on the set of workers, so
// processes that know the same workers compute the same division.
func divide(partitions int, workers []Worker) map[string][]int {
	assigned := map[int]bool{}
	var sharers []Worker
	for _, w := range workers {
		for _, p := range w.Partitions {
			assigned[p] = true
		}
		if w.Shares {
			sharers = append(sharers, w)
		}
	}
	if len(sharers) == 0 {
		return nil
	}
	var open []int
	for p := range partitions {
		if !assigned[p] {
			open = append(open, p)
		}
	}
	return deal(open, sharers)
}

// bid is the weight of one worker for one partition, as in rendezvous hashing: if
// balance did not matter, the highest bid for a partition would win.
type bid struct {
	worth     uint64
	partition int
	worker    int
}

// deal accepts bids from the highest down. It skips a bid whose partition is
// taken or whose worker has its number of partitions.
func deal(open []int, sharers []Worker) map[string][]int {
	slices.SortFunc(sharers, func(a, b Worker) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner)) })
	bids := make([]bid, 0, len(open)*len(sharers))
	for w, s := range sharers {
		for _, p := range open {
			bids = append(bids, bid{worth(s, p), p, w})
		}
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.partition, b.partition), cmp.Compare(a.worker, b.worker))
	})
	least, more := len(open)/len(sharers), len(open)%len(sharers)
	dealt := map[int]bool{}
	out := map[string][]int{}
	for _, b := range bids {
		owner := sharers[b.worker].Owner
		has := len(out[owner])
		if dealt[b.partition] || has > least || has == least && more == 0 {
			continue
		}
		if has == least {
			more--
		}
		dealt[b.partition] = true
		out[owner] = append(out[owner], b.partition)
	}
	for _, ids := range out {
		slices.Sort(ids)
	}
	return out
}

// worth hashes the id of the worker's data directory, so that a worker that starts
// again gets the same partitions.
func worth(w Worker, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(w.ID)) // never fails
	if w.ID == "" {
		_, _ = h.Write([]byte(w.Owner))
	}
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], uint64(partition)) //nolint:gosec // not negative
	_, _ = h.Write(p[:])
	// Mix the bits: FNV gives similar hashes to names that differ in one digit.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
