// Model is a random model of derived delivery: every worker folds one log, and
// what a node is sent, live or when it comes back, is derived from the log's
// sequence and the read model (docs/protocol.md).
//
//	go run ./test/model [-steps N] [-seed S] [-without RULE,…] [-all]
//
// It runs producers of policies, nodes, artifacts and keys; workers that fold at
// their own pace, whose hubs lag and overflow, that crash and lose their disks;
// publishers that take partitions over from each other and are two for a while;
// clients that hop between workers and come back with their last id; clients on
// a subject, lossy or not; a log that is made anew, loses its tail, or is put
// back from a backup with the read models folded from it, at once known to be so
// or declared later, until when nothing is promised. After each step it checks:
//
//	order     ids that one client hears rise (the message to pull may set them anew where the log does not have them)
//	equal     one id says one thing to a node, whoever says it
//	complete  a client with nothing on its way holds the rows, artifacts and table of its worker's
//	          state, or was asked to pull, once the worker is as far as any that
//	          served the client before
//	version   per policy, what a client is sent never gets older
//	hole      who hears a message and lacks what came before it knows that
//	found     nobody hears that a node is not there that is
//	key       nobody meets a key within its transition of which no notice came
//	quiet     what a client missed that a publisher could have sent is sent without a question
//
// -without switches a rule off, to see what it is for; -all does so with each in
// turn and prints the shortest failure that was found.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

type failure struct {
	what  string
	steps int
	trace []string
}

func run(seed uint64, steps int, tracing bool) (w *world, f *failure) {
	w = newWorld(seed)
	w.tracing = tracing
	for n := range steps {
		if bad := w.step(); bad != "" {
			return w, &failure{bad, n + 1, w.trace}
		}
	}
	if bad := w.settle(); bad != "" {
		return w, &failure{bad, steps, w.trace}
	}
	return w, nil
}

// found is what a search came to.
type found struct {
	done                         int
	best                         *failure
	seed                         uint64
	frames, over, pulls, resumes int
}

// search runs worlds of rising length until so many steps are done or one fails
// and, where asked to, keeps the shortest failure.
func search(seed uint64, total int, shortest bool) (s found) {
	for n := uint64(0); s.done < total; n++ {
		length := 20 + int(n%400) //nolint:gosec // small
		if s.best != nil {
			length = s.best.steps
		}
		w, f := run(seed+n, length, false)
		s.done += length
		s.frames += w.frames
		s.over += w.over
		s.pulls += w.pulls
		s.resumes += w.resumes
		if f != nil && (s.best == nil || f.steps < s.best.steps) {
			s.best, s.seed = f, seed+n
			if !shortest {
				return s
			}
		}
	}
	return s
}

func main() {
	steps := flag.Int("steps", 3_000_000, "steps in all")
	seed := flag.Uint64("seed", 1, "of the first run")
	list := flag.String("without", "", "rules to do without, by comma")
	all := flag.Bool("all", false, "do without each rule in turn")
	flag.Parse()
	if *all {
		each(os.Stdout, *seed, *steps)
		return
	}
	for _, r := range strings.FieldsFunc(*list, func(c rune) bool { return c == ',' }) {
		if rules[r] == "" {
			fmt.Fprintf(os.Stderr, "no rule is called %q; choose of %s\n", r, strings.Join(slices.Sorted(maps.Keys(rules)), ", "))
			os.Exit(2)
		}
		without[r] = true
	}
	s := search(*seed, *steps, len(without) > 0)
	if s.best == nil {
		fmt.Printf("%d steps, %d resumes, %d frames (%d sent what was known), %d pulls: no failure\n", s.done, s.resumes, s.frames, s.over, s.pulls)
		return
	}
	_, f := run(s.seed, s.best.steps, true)
	if f == nil {
		fmt.Println("not found again")
		os.Exit(1)
	}
	for _, line := range f.trace {
		fmt.Println(line)
	}
	fmt.Printf("seed %d: %s\n", s.seed, f.what)
	os.Exit(1)
}

// each does without one rule after the other.
func each(out io.Writer, seed uint64, steps int) {
	for _, r := range slices.Sorted(maps.Keys(rules)) {
		without = map[string]bool{r: true}
		f, from := counterexample(r, seed, steps)
		if f == nil {
			fmt.Fprintf(out, "%-16s no failure in %d steps: %s\n", r, steps, rules[r])
			continue
		}
		fmt.Fprintf(out, "%-16s %s: %s\n%16s %s\n", r, from, rules[r], "", f.what)
	}
	without = map[string]bool{}
}

// counterexample finds what goes wrong without a rule: by its script, where it
// has one, or by chance.
func counterexample(rule string, seed uint64, steps int) (f *failure, from string) {
	if play := scripts[rule]; play != nil {
		if bad := play(); bad != "" {
			return &failure{what: bad}, "fails by its script"
		}
		return nil, ""
	}
	s := search(seed, steps, false)
	if s.best == nil {
		return nil, ""
	}
	return s.best, fmt.Sprintf("fails after %d steps (seed %d)", s.best.steps, s.seed)
}
