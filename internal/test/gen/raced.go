package gen

// share is what part of its worlds a test tries under the race detector.
const share = 8

// Worlds is how many of n worlds a test tries: all, and under the race detector an
// eighth, rounded up. The detector makes a world ten times as slow and looks at memory, not
// at answers; make test runs tests that use Worlds or [Every], or rapid, without it too.
func Worlds(n int) int {
	if raced {
		return (n + share - 1) / share
	}
	return n
}

// Every is for a test that tries every n-th of what it could, and under the race detector
// an eighth of that.
func Every(n int) int {
	if raced {
		return n * share
	}
	return n
}
