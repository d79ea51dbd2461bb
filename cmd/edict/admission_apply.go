package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a admissionCommands) admissionApplyCommand() *cobra.Command {
	var files []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Create or replace admission policies by name",
		Long: `Create or replace admission policies by name, within their level and owner.

A file that ends with .rego is a policy: the METADATA comment above its package
gives title (the name; by default the file's), description, and under custom all
else: policy_type, tenant_id, user_id, service_type, label_selector, priority,
enabled, mode, test_cases. A YAML or JSON document has the same fields beside
rego_code, or rego_file, the path of the code from where the document stands.
In a directory, *_test.rego files, and code that a document names, are not read as
separate policies. What 'edict admission list -o yaml' prints can be applied.

Everything is checked before anything is sent: fields, code, and the test cases
that policies carry. If there is a fault, nothing is sent. With --dry-run the plane
checks everything, too, and nothing is written.`,
		Example: `  edict admission apply -f policies/
  edict admission apply -f no-public.rego --dry-run
  edict admission list -o yaml | edict admission apply -f - --server http://127.0.0.1:8081`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.admissionApply(cmd, files, dry) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	filesFlag(cmd, &files)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check everything and write nothing")
	return cmd
}

// appliedAdmission is one line of apply's output.
type appliedAdmission struct {
	Name       string `json:"name"`
	PolicyType string `json:"policy_type"`
	TenantID   string `json:"tenant_id,omitempty"`
	UserID     string `json:"user_id,omitempty"`
	Outcome    string `json:"outcome"`
	ID         string `json:"id,omitempty"`
	Error      string `json:"error,omitempty"`
}

func (a admissionCommands) admissionApply(cmd *cobra.Command, files []string, dry bool) error {
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	drafts, err := a.admissionDrafts(cmd.Context(), files)
	if err != nil {
		return err
	}
	if err := a.reportFaults(failedTests(cmd.Context(), drafts)); err != nil {
		return err
	}
	began := time.Now()
	bar := progress.Start(a.stderr, "applying", "admission policies", int64(len(drafts)))
	results, err := author.ApplyAdmission(cmd.Context(), c.Admission, drafts, dry, func() { bar.Add(1) })
	bar.Stop()
	if results == nil {
		return err
	}
	if dry {
		fmt.Fprintln(a.stderr, "a dry run: nothing was written")
	}
	return errors.Join(a.tellAppliedAdmission(drafts, results, time.Since(began)), err)
}

// failedTests are the test cases of drafts that fail.
func failedTests(ctx context.Context, drafts []author.AdmissionDraft) (faults []document.Fault) {
	for _, d := range drafts {
		results, _ := author.TestAdmission(ctx, d)
		for _, r := range results {
			if r.Failure != "" {
				faults = append(faults, document.Fault{File: d.File, Line: d.Line, Message: fmt.Sprintf("admission/%s: test %q %s", d.Name, r.Name, r.Failure)})
			}
		}
	}
	return faults
}

func (a admissionCommands) tellAppliedAdmission(drafts []author.AdmissionDraft, results []author.AdmissionResult, took time.Duration) error {
	lines := make([]appliedAdmission, len(results))
	count := map[string]int{}
	var worst error
	for i, r := range results {
		d := drafts[i]
		lines[i] = appliedAdmission{Name: d.Name, PolicyType: string(d.Level), TenantID: d.Tenant, UserID: d.User, Outcome: r.Outcome, ID: r.ID}
		if r.Err != nil {
			lines[i].Outcome, lines[i].Error = "failed", r.Err.Error()
			fmt.Fprintf(a.stderr, "%s:%d: admission/%s: %v\n", d.File, d.Line, d.Name, r.Err)
			if !errors.Is(r.Err, author.ErrNotTried) && !errors.Is(r.Err, context.Canceled) {
				worst = cmp.Or(worst, r.Err)
			}
		}
		a.warnAdmission(d.Name, r.Warnings)
		count[lines[i].Outcome]++
	}
	err := a.print(lines, func(w io.Writer) {
		for _, l := range lines {
			if l.Error == "" {
				fmt.Fprintf(w, "admission/%s %s\n", l.Name, l.Outcome)
			}
		}
	})
	if err != nil {
		return err
	}
	if len(lines) > 1 {
		fmt.Fprintf(a.stderr, "%d admission policies in %s: %d created, %d configured, %d unchanged, %d failed\n", len(lines),
			took.Round(time.Millisecond), count[author.Created], count[author.Configured], count[author.Unchanged], count["failed"])
	}
	if worst != nil {
		return cli.Exit(codeOf(worst))
	}
	return nil
}

// warnAdmission says what is wrong with a policy that the plane took.
func (a *console) warnAdmission(name string, warnings []resource.Fault) {
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "admission/%s: warning: %s: %s (%s)\n", name, w.Pointer, w.Detail, w.Code)
	}
}
