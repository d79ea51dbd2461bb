package api

import "net/http"

// writeGate says whether the plane takes writes now. Without its functions it
// always does.
type writeGate struct{ damaged, full func() error }

func (g *writeGate) check() error {
	if g.damaged != nil {
		if err := g.damaged(); err != nil {
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log is damaged, and takes no writes: %v", err)
		}
	}
	if g.full == nil {
		return nil
	}
	if err := g.full(); err != nil {
		return problem(http.StatusInsufficientStorage, CodeStorageLow, "the plane takes no writes now: %v", err)
	}
	return nil
}
