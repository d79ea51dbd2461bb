// Command bench measures the plane against what nothing can beat: every figure
// stands beside its floor, a bare version of the same work done in the same run
// on the same machine, so that the ratio means something wherever it is run.
//
//	go run ./test/bench [-only name,name | -all] [-rounds N] [-json FILE] [-compare FILE] [-quick] [-strict]
//
// A measure fails, and with it the run, when what it counted is not what must
// be there: a floor that stored too little, a fold whose rows are not those the
// log was made to have, an event lost or heard twice. A target that is missed
// is printed; -strict makes it count.
//
// The table goes to stdout, progress to stderr. Each measure works in a
// directory of its own that it removes.
package main
