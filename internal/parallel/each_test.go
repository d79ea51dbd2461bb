package parallel_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/edictdev/edict/internal/parallel"
)

func TestEachNumberIsDoneOnceAndNoMoreAtOnceThanCores(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		done := make([]int, n)
		var now, most atomic.Int64
		parallel.Each(n, func(i int) {
			if at := now.Add(1); at > most.Load() {
				most.Store(at)
			}
			done[i]++
			now.Add(-1)
		})
		for i, times := range done {
			if times != 1 {
				t.Errorf("of %d, number %d was done %d times", n, i, times)
			}
		}
		if cores := int64(runtime.GOMAXPROCS(0)); most.Load() > cores {
			t.Errorf("of %d, %d were done at once on %d cores", n, most.Load(), cores)
		}
	}
}
