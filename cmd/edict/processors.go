package main

import "runtime"

// spareProcessors is how many goroutines more than there are cores may run at once beside a busy
// fold.
//
// The runtime looks for what came over the network where one of its processors has nothing
// else to do, and otherwise every 10 ms. A fold that catches up keeps as many processors
// busy as there are cores, so that requests would wait for those 10 ms. A processor more has
// something to do seldom enough, and the system shares the cores among their threads. It does
// so in longer turns than the runtime, which would cost who computes for many requests at once
// more than it gains: so this is for the time of a fold alone.
const spareProcessors = 2

// listensWhileBusy returns what has the plane hear of requests while its fold is busy; nil where
// the operator says with GOMAXPROCS how many goroutines may run at once.
func listensWhileBusy(operators string) func(busy bool) {
	if operators != "" {
		return nil
	}
	return func(busy bool) {
		if !busy {
			runtime.SetDefaultGOMAXPROCS() // follows a control group again
			return
		}
		now := runtime.GOMAXPROCS(0)
		if n := busyProcessors(now, runtime.NumCPU()); n != now {
			runtime.GOMAXPROCS(n)
		}
	}
}

// busyProcessors is how many goroutines are to run at once beside a busy fold, where the runtime lets
// as many as now. Fewer than there are cores: a control group has a share of the time of each, and
// whoever uses it up on many cores at once stands still for the rest of each period.
func busyProcessors(now, cores int) int {
	if now < cores {
		return now
	}
	return cores + spareProcessors
}
