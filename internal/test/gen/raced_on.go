//go:build race

package gen

// raced is whether this program runs under the race detector.
const raced = true
