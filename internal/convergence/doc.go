// Package convergence says who has what: which nodes reported that they applied
// what the log asks of them, who lags, and how long it took.
//
// Nodes report an event id and the fingerprint of the rules they hold. A
// Tracker follows the reports into a table in memory and holds them against the
// read model when somebody asks. Reports decide nothing: no row, payload or
// message for a node depends on one, and a node can speak for itself alone. What a
// report proves, and what it cannot, is in docs/convergence.md.
package convergence
