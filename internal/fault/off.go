//go:build !faults

package fault

// On reports whether this binary was built to be struck.
const On = false

// Pass does nothing in this build.
func Pass(Point) {}

// Always is false in this build.
func Always(Mutant) bool { return false }

// Sometimes is false in this build.
func Sometimes(Mutant) bool { return false }

// Picks is false in this build.
func Picks(_ Mutant, _, _ int) bool { return false }
