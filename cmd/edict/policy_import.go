package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

func (a policyCommands) policyImportCommand() *cobra.Command {
	var files []string
	var kube kubernetesInput
	var dry bool
	cmd := &cobra.Command{
		Use:   "import -f FILE...",
		Short: "Create or revise many policies from NDJSON, or from Kubernetes",
		Long: `Create or revise many policies by slug, from lines such as 'policy apply' takes,
or from what 'policy list -o json' printed. The input may be compressed with gzip
and of any size: it is applied as it is read. Policies that are wrong or refused
are reported as file:line: code: detail, and change nothing; the others are applied.

Kubernetes' NetworkPolicy, ClusterNetworkPolicy, AdminNetworkPolicy and
BaselineAdminNetworkPolicy, in YAML or JSON, are translated, all of them together. What cannot be expressed is reported
as file:line: path: reason, and left out; with --strict nothing of Kubernetes is
applied then. What may allow traffic that the cluster denies is marked (wider), and
nothing of Kubernetes is applied unless --allow-wider says so. With --prune policies
that an earlier import made of objects that are gone are removed, so give it all
objects of the cluster.`,
		Example: `  edict policy import -f policies.ndjson
  edict policy list -o json | edict policy import --server http://other:8080 -f -
  kubectl get networkpolicies -A -o yaml | edict policy import --strict -f -`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.policyImport(cmd, files, kube, dry) },
	}
	a.policyClient(cmd)
	filesFlag(cmd, &files)
	kube.flags(cmd)
	dryRunFlag(cmd, &dry)
	return cmd
}

// imported counts what became of the policies of an import.
type imported struct {
	Created    int `json:"created"`
	Configured int `json:"configured"`
	Unchanged  int `json:"unchanged"`
	Rejected   int `json:"rejected"`
	Removed    int `json:"removed,omitempty"` // by --prune
}

func (i imported) total() int { return i.Created + i.Configured + i.Unchanged + i.Rejected }

func (a policyCommands) policyImport(cmd *cobra.Command, files []string, kube kubernetesInput, dry bool) error {
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	began := time.Now()
	bar := progress.Start(a.stderr, "importing", "lines", 0)
	m := importer{console: &a.console, bar: bar, kube: kube}
	policies := author.Policies(c.Policies)
	if dry {
		policies = dryPolicies(cmd.Context(), c, project)
	}
	err = author.Import(cmd.Context(), policies, project, m.read(files), m.tell)
	bar.Stop()
	if err == nil && m.empty() {
		return cli.Failed(cli.Unreadable, "the input has no policies")
	}
	if err == nil && m.kube.prune {
		err = m.prune(cmd.Context(), c, project, dryCalls(dry)...)
	}
	if err != nil && m.count == (imported{}) {
		return err // nothing was done of which to print a sum
	}
	took := time.Since(began)
	fmt.Fprintf(a.stderr, "%s in %s (%.0f/s)\n", cli.Counted(m.count.total(), "policy"), took.Round(time.Millisecond), float64(m.count.total())/took.Seconds())
	printed := a.print(m.count, func(w io.Writer) {
		fmt.Fprintf(w, "%s created, %d configured, %d unchanged, %d rejected",
			cli.Counted(m.count.Created, "policy"), m.count.Configured, m.count.Unchanged, m.count.Rejected)
		if kube.prune {
			fmt.Fprintf(w, ", %d removed", m.count.Removed)
		}
		fmt.Fprintln(w, dryNote(dry))
	})
	switch {
	case err != nil || printed != nil:
		return errors.Join(err, printed)
	case m.unreadable:
		return cli.Exit(cli.Unreadable)
	case m.count.Rejected > 0 || m.kube.refused:
		return cli.Exit(cli.Differs)
	}
	return nil
}

// importer reads the files of an import and tells what became of each policy.
type importer struct {
	*console
	bar        *progress.Work
	mu         sync.Mutex // the results come from many goroutines
	count      imported
	total      int64 // lines of the files so far
	unreadable bool
	some       bool // the input is not of no bytes
	kube       kubernetesInput
}

// empty reports whether the input is one that only a mistake makes, such as a command
// that failed in front of the pipe: of no bytes, or, strictly, without a policy.
func (m *importer) empty() bool {
	if m.unreadable || m.kube.refused || m.count.total() > 0 {
		return false
	}
	return !m.some || m.kube.strict
}

func (m *importer) read(files []string) iter.Seq[author.Draft] {
	return func(yield func(author.Draft) bool) {
		for _, path := range files {
			below, err := document.Expand(path)
			if err != nil {
				m.giveUp(err)
				continue
			}
			if len(below) == 0 {
				m.giveUp(document.NoFiles(path))
			}
			for _, file := range below {
				if !m.readFile(file, yield) {
					return
				}
			}
		}
		m.translate(yield)
	}
}

func (m *importer) readFile(file string, yield func(author.Draft) bool) bool {
	input, name, total, err := m.lines(file)
	if err != nil {
		m.giveUp(err)
		return true
	}
	defer input.Close()
	m.total += total
	m.bar.SetTotal(m.total)
	for doc, fault := range documents(name, &lineCounter{r: input, bar: m.bar, some: &m.some}) {
		if fault != nil && fault.Line == 0 {
			m.giveUp(fault)
			continue
		}
		if fault != nil {
			m.kube.unread = true
			m.reject(place(fault.File, fault.Line), policy.CodeMalformedJSON, fault.Message)
			continue
		}
		if m.kube.takes(doc) {
			continue
		}
		d, err := author.Read(doc)
		if err != nil {
			if other := author.OtherKind(doc); other != "" {
				m.giveUp(place(doc.File, doc.Line) + ": " + other)
				return true // and all of the file is
			}
			m.refuse(doc, err)
			continue
		}
		if !yield(d) {
			return false
		}
	}
	return true
}

// giveUp tells that the rest of a file cannot be read.
func (m *importer) giveUp(why any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreadable = true
	fmt.Fprintf(m.stderr, "edict: %v\n", why)
}

func place(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }

// refuse tells every fault of one policy, each with the line it stands in.
func (m *importer) refuse(doc document.Document, err error) {
	var list policy.Violations
	if !errors.As(err, &list) {
		m.reject(place(doc.File, doc.Line), policy.CodeMalformedJSON, err.Error())
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Rejected++
	for _, v := range list {
		line, _ := doc.At(v.Pointer)
		detail := v.Detail
		if v.Pointer != "" {
			detail = v.Pointer + ": " + detail
		}
		fmt.Fprintf(m.stderr, "%s: %s: %s\n", place(doc.File, line), v.Code, detail)
	}
}

func (m *importer) reject(at, code, detail string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Rejected++
	fmt.Fprintf(m.stderr, "%s: %s: %s\n", at, code, detail)
}

// tell counts what the plane did with one policy.
func (m *importer) tell(d author.Draft, r author.Result) {
	if r.Err != nil {
		code, detail := "failed", r.Err.Error()
		var p *client.Problem
		if errors.As(r.Err, &p) {
			code, detail = p.Code, p.Detail
		}
		m.reject(place(d.At.File, d.At.Line), code, fmt.Sprintf("policy %s: %s", d.Slug, detail))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r.Outcome {
	case author.Created:
		m.count.Created++
	case author.Configured:
		m.count.Configured++
	default:
		m.count.Unchanged++
	}
}
