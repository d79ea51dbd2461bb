// Package worker is this process among the workers of a plane: what its lease
// says of it, which of them are alive, which partitions each publishes,
// and which of them does what only one does.
//
// How leases are kept and partitions divided is the business of package relay;
// what the data directory remembers of a worker is that of package datadir.
package worker
