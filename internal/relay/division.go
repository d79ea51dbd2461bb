package relay

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// divide deals the partitions of a plane to the workers that share them: each
// gets as many as any other, or one more, and a worker that comes or goes moves
// few beside its own. Partitions that a worker was told to publish are left to
// it. The result depends on who the workers are alone, so whoever knows the
// same workers divides alike, by owner.
func divide(partitions int, workers []Worker) map[string][]int {
	told := map[int]bool{}
	var sharers []Worker
	for _, w := range workers {
		for _, p := range w.Partitions {
			told[p] = true
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
		if !told[p] {
			open = append(open, p)
		}
	}
	return deal(open, sharers)
}

// bid is how much a partition is a worker's: rendezvous hashing, where the
// highest bid of each partition would win if balance did not matter.
type bid struct {
	worth     uint64
	partition int
	worker    int
}

// deal takes bids from the highest down, while its partition is free and its
// worker has room.
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

// worth goes by the worker's lasting id, so that a worker that starts again
// gets what it had.
func worth(w Worker, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(w.ID)) // never fails
	if w.ID == "" {
		_, _ = h.Write([]byte(w.Owner))
	}
	var p [8]byte
	binary.BigEndian.PutUint64(p[:], uint64(partition)) //nolint:gosec // not negative
	_, _ = h.Write(p[:])
	// FNV leaves names that differ in one digit close together.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
