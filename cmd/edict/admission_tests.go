package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
)

func (a admissionCommands) admissionTestCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "test -f FILE...",
		Short: "Run the test cases that admission policies carry",
		Long: `Run the test cases that admission policies carry, on this machine; no plane
is needed. Each policy is evaluated by itself, as if it matched. Exit code 1 when a
test fails. 'edict admission apply', and the plane itself, run them as well.`,
		Example: `  edict admission test -f policies/
  edict admission list -o yaml | edict admission test -f -`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.admissionTest(cmd, files) },
	}
	a.outputFlag(cmd)
	filesFlag(cmd, &files)
	return cmd
}

// tested is what became of a policy's test cases.
type tested struct {
	Name    string                 `json:"name"`
	Results []admission.TestResult `json:"tests"`
}

func (a admissionCommands) admissionTest(cmd *cobra.Command, files []string) error {
	drafts, err := a.admissionDrafts(cmd.Context(), files)
	if err != nil {
		return err
	}
	all := make([]tested, len(drafts))
	passed, failures, without := 0, 0, 0
	for i, d := range drafts {
		all[i] = tested{d.Name, author.TestAdmission(cmd.Context(), d)}
		if len(all[i].Results) == 0 {
			without++
		}
		for _, r := range all[i].Results {
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
	if failures > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func writeTested(w io.Writer, all []tested) {
	for _, t := range all {
		for _, r := range t.Results {
			if r.Failure == "" {
				fmt.Fprintf(w, "ok    %s: %s\n", t.Name, r.Name)
			} else {
				fmt.Fprintf(w, "FAIL  %s: %s: %s\n", t.Name, r.Name, r.Failure)
			}
		}
	}
}
