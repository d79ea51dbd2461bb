// Package test holds what concerns the whole: the rules of the house that no
// single package can keep, and the tests that drive the built binary from
// outside. Its folders are libraries for tests: oracle recomputes what the
// plane must say, gen makes the worlds to ask about.
package test
