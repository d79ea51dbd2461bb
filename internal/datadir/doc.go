// Package datadir is the data directory of one worker: the names of its parts,
// what a start finds in it and what stands against the start, and how its read
// model comes to be there: restored from a checkpoint, rebuilt from the log
// beside one of an older layout, or made anew in the place of a damaged one.
//
// A step that a crash cuts leaves a directory from which the next start goes
// on. What the log holds, and whether it is the one that was witnessed, is not
// asked here.
package datadir
