// Command struck calls everything of package fault.
package main

import "github.com/edictdev/edict/internal/fault"

func main() {
	n := 0
	for i := range 10 {
		fault.Pass(fault.CommitBefore)
		if fault.On || fault.Always(fault.Silence) || fault.Sometimes(fault.Drop) || fault.Picks(fault.Reorder, i, 4) {
			n++
		}
	}
	println(n)
}
