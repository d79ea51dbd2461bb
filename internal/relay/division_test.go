package relay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ownersOf turns a division round: the owner of each partition, "" for none.
func ownersOf(partitions int, shares map[string][]int) []string {
	out := make([]string, partitions)
	for owner, ids := range shares {
		for _, p := range ids {
			if out[p] != "" {
				panic(fmt.Sprintf("partition %d is dealt twice", p))
			}
			out[p] = owner
		}
	}
	return out
}

func drawWorkers(t *rapid.T, from int) []Worker {
	ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-f0-9]{8}`), from, 9, rapid.ID[string]).Draw(t, "workers")
	workers := make([]Worker, len(ids))
	for i, id := range ids {
		workers[i] = Worker{ID: id, Owner: "o" + id, Shares: rapid.IntRange(0, 3).Draw(t, "shares") > 0}
		if rapid.IntRange(0, 4).Draw(t, "told") == 0 {
			workers[i].Shares, workers[i].Partitions = false, []int{rapid.IntRange(0, 30).Draw(t, "partition")}
		}
	}
	return workers
}

func TestADivisionIsEvenAndCompleteAndTheSameForEverybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.SampledFrom([]int{1, 2, 31, 64}).Draw(t, "partitions")
		workers := drawWorkers(t, 0)
		shares := divide(partitions, workers)
		told, sharers := map[int]bool{}, 0
		for _, w := range workers {
			for _, p := range w.Partitions {
				told[p] = true
			}
			if w.Shares {
				sharers++
			} else if len(shares[w.Owner]) > 0 {
				t.Fatalf("%v shares nothing and is dealt %v", w, shares[w.Owner])
			}
		}
		for p, owner := range ownersOf(partitions, shares) {
			if want := !told[p] && sharers > 0; (owner != "") != want {
				t.Fatalf("partition %d is dealt to %q of %d", p, owner, sharers)
			}
		}
		least, most := partitions, 0
		for _, w := range workers {
			if w.Shares {
				least, most = min(least, len(shares[w.Owner])), max(most, len(shares[w.Owner]))
			}
		}
		if sharers > 0 && most-least > 1 {
			t.Fatalf("from %d to %d partitions", least, most)
		}
		again := rapid.Permutation(workers).Draw(t, "in another order")
		if a, b := ownersOf(partitions, shares), ownersOf(partitions, divide(partitions, again)); !slices.Equal(a, b) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

// Of the partitions that a worker does not have, most stay where they are when
// it goes. A division by remainder would move nearly all of them.
func TestFewPartitionsMoveWhenAWorkerGoes(t *testing.T) {
	const partitions = 64
	for n := 2; n <= 8; n++ {
		moved, stayed := 0, 0
		for seed := range 40 {
			workers := make([]Worker, n)
			for i := range workers {
				workers[i] = Worker{ID: fmt.Sprintf("%d-%d", seed, i), Owner: fmt.Sprint(i), Shares: true}
			}
			gone := workers[n-1].Owner
			before := ownersOf(partitions, divide(partitions, workers))
			after := ownersOf(partitions, divide(partitions, workers[:n-1]))
			for p := range partitions {
				switch before[p] {
				case gone:
				case after[p]:
					stayed++
				default:
					moved++
				}
			}
		}
		share := float64(moved) / float64(moved+stayed)
		t.Logf("%d workers: %.1f %% move beside those of the one that went", n, 100*share)
		require.Less(t, share, 0.15, "%d workers", n)
	}
}

func TestAWorkerThatStartsAgainGetsWhatItHad(t *testing.T) {
	workers := []Worker{{ID: "a", Owner: "1", Shares: true}, {ID: "b", Owner: "2", Shares: true}, {ID: "c", Owner: "3", Shares: true}}
	before := divide(64, workers)["2"]
	workers[slices.IndexFunc(workers, func(w Worker) bool { return w.ID == "b" })].Owner = "4"
	require.Equal(t, before, divide(64, workers)["4"])
}
