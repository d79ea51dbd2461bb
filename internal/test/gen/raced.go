package gen

import "os"

// share is what part of its worlds a test tries under the race detector.
const share = 8

// whole is the variable of the environment with which as much is tried under the race
// detector as without it. make test-faults sets it.
const whole = "EDICT_RACE_WHOLE"

// fewer is whether this run is under the race detector and tries less for it.
var fewer = raced && os.Getenv(whole) == ""

// Worlds is how many of n worlds a test tries: all, and under the race detector an
// eighth, rounded up. The detector makes a world ten times as slow and looks at memory, not
// at answers; make test runs tests that use Worlds, [Every] or [Unraced], or rapid, without
// it too.
func Worlds(n int) int {
	if fewer {
		return (n + share - 1) / share
	}
	return n
}

// Every is for a test that tries every n-th of what it could, and under the race detector
// an eighth of that.
func Every(n int) int {
	if fewer {
		return n * share
	}
	return n
}

// Unraced marks a test that starts no goroutine, or none that others of its package do not
// start: the race detector would find nothing there that it does not find in them. The call
// does nothing: test/worlds finds it in the source, and make test leaves the test out of
// its run under the detector, by go test -skip, and has it in the one without. Whoever runs go test -race
// runs it, as make test-faults does.
func Unraced() {}
