// Package rollout opens and stops the waves of rollouts by itself: it holds what
// nodes report against the gate that a promotion stored, and appends what follows to
// the log.
//
// It decides nothing for good. An event of it names the wave that it saw, and the
// fold accepts it, or refuses it because somebody else was first: another worker, or
// a person. So several controllers may act at once, and one that is wrong about what
// is going on does no harm. What nodes report is the business of package convergence.
package rollout
