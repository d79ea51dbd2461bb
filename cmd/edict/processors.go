package main

import (
	"os"
	"runtime"
)

// spareProcessors is how many goroutines more than there are cores may run at once.
//
// The runtime looks for what came over the network where one of its processors has nothing
// else to do, and otherwise every 10 ms. A fold that catches up keeps as many processors
// busy as there are cores, so that requests would wait for those 10 ms. A processor more has
// something to do seldom enough, and the system shares the cores among their threads.
const spareProcessors = 2

// keepsListening has the plane hear of requests while every core is busy, unless the
// operator says with GOMAXPROCS how many goroutines may run at once.
func keepsListening() {
	now := runtime.GOMAXPROCS(0)
	if n := processors(os.Getenv("GOMAXPROCS"), now, runtime.NumCPU()); n != now { // what is set no longer follows a control group
		runtime.GOMAXPROCS(n)
	}
}

// processors is how many goroutines are to run at once, where the runtime lets as many as
// now. Fewer than there are cores: a control group has a share of the time of each, and
// whoever uses it up on many cores at once stands still for the rest of each period.
func processors(operators string, now, cores int) int {
	if operators != "" || now < cores {
		return now
	}
	return now + spareProcessors
}
