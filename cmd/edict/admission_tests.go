package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
)

// admissionTestFlags are the flags of `admission test`.
type admissionTestFlags struct {
	files     []string
	watch     bool
	coverage  bool
	threshold float64
}

func (a admissionCommands) admissionTestCommand() *cobra.Command {
	var f admissionTestFlags
	cmd := &cobra.Command{
		Use:   "test -f FILE...",
		Short: "Run the test cases that admission policies carry",
		Long: `Run the test cases that admission policies carry, on this machine; no plane
is needed. Each policy is evaluated by itself, as if it matched. Exit code 1 when a
test fails. 'edict admission apply', and the plane itself, run them as well.

With --coverage each policy is followed by what of its code the tests evaluated, and
the lines that none did. With --threshold the exit code is 1, too, when a policy has
less. With --watch they are run again when a file changes, until a signal comes.`,
		Example: `  edict admission test -f policies/
  edict admission test -f policies/ --watch
  edict admission test -f policies/ --coverage --threshold 80
  edict admission list -o yaml | edict admission test -f -`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.threshold < 0 || f.threshold > 100 {
				return cli.Usage(cmd, "--threshold %v: want a share of 100", f.threshold)
			}
			f.coverage = f.coverage || f.threshold > 0
			if f.watch {
				return a.admissionTestWatch(cmd, f)
			}
			return a.admissionTest(cmd, f)
		},
	}
	a.outputFlag(cmd)
	filesFlag(cmd, &f.files)
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "run them again when a file changes")
	flags.BoolVar(&f.coverage, "coverage", false, "say what of the code the tests evaluate")
	flags.Float64Var(&f.threshold, "threshold", 0, "exit 1 when a policy's coverage is below this share of 100; says it as --coverage does")
	return cmd
}

// tested is what became of a policy's test cases.
type tested struct {
	Name     string                 `json:"name"`
	Results  []admission.TestResult `json:"tests"`
	Coverage *admission.Coverage    `json:"coverage,omitempty"`
}

func (a admissionCommands) admissionTest(cmd *cobra.Command, f admissionTestFlags) error {
	drafts, err := a.admissionDrafts(cmd.Context(), f.files)
	if err != nil {
		return err
	}
	all := make([]tested, len(drafts))
	passed, failures, without, below := 0, 0, 0, 0
	for i, d := range drafts {
		results, coverage := author.TestAdmission(cmd.Context(), d)
		all[i] = tested{Name: d.Name, Results: results}
		if f.coverage {
			all[i].Coverage = &coverage
		}
		if len(results) == 0 {
			without++
		}
		if coverage.Percent < f.threshold {
			below++
		}
		for _, r := range results {
			if r.Failure == "" {
				passed++
			} else {
				failures++
			}
		}
	}
	if err := a.print(all, func(w io.Writer) { writeTested(w, all) }); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%d tests pass, %d fail; %d policies have none\n", passed, failures, without)
	if below > 0 {
		fmt.Fprintf(a.stderr, "%d policies are covered less than %v %%\n", below, f.threshold)
	}
	if failures > 0 || below > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func writeTested(w io.Writer, all []tested) {
	for _, t := range all {
		for _, r := range t.Results {
			if r.Failure == "" {
				fmt.Fprintf(w, "ok    %s: %s\n", t.Name, cli.Escaped(r.Name, ""))
			} else {
				fmt.Fprintf(w, "FAIL  %s: %s\n", t.Name, cli.Escaped(r.Name+": "+r.Failure, ""))
			}
		}
		if t.Coverage != nil {
			fmt.Fprintf(w, "      %s: %s %% covered%s\n", t.Name, fmt.Sprintf("%.4g", t.Coverage.Percent), missing(t.Coverage.NotCovered))
		}
	}
}

// missing names the lines that no test covers, runs of them as one.
func missing(rows []int) string {
	if len(rows) == 0 {
		return ""
	}
	var parts []string
	for i := 0; i < len(rows); {
		last := i
		for last+1 < len(rows) && rows[last+1] == rows[last]+1 {
			last++
		}
		part := strconv.Itoa(rows[i])
		if last > i {
			part += "-" + strconv.Itoa(rows[last])
		}
		parts, i = append(parts, part), last+1
	}
	return ", not lines " + strings.Join(parts, ", ")
}
