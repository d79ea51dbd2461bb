// Package parallel shares work among the cores of the machine.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls do with every number below n, as many at once as there are cores, and
// returns when all are done. A goroutine for each number would grow its stack for each.
func Each(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
