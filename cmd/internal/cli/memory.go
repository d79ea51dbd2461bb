package cli

import (
	"os"
	"runtime/debug"
)

// CollectSeldom is for a command that keeps what it reads and ends: a third of its time
// would go into collecting what is of use to the end. percent is the garbage that may
// gather, of what is live. An operator's GOGC stays.
func CollectSeldom(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
