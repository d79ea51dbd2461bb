package tree

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// each calls do with every number below n, as many at once as there are cores. A
// goroutine for each number would grow its stack for each.
func each(n int, do func(i int)) {
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
