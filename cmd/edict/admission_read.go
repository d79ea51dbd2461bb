package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

func (a admissionCommands) admissionGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME|ID", Short: "Show an admission policy and its code", Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			p, err := findAdmission(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			a.warnAdmission(p.Name, p.Warnings)
			return a.print(p, func(w io.Writer) { writeAdmission(w, p) })
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func writeAdmission(w io.Writer, p resource.AdmissionPolicy) {
	fmt.Fprintf(w, "Name:         %s\n", p.Name)
	if p.Description != "" {
		fmt.Fprintf(w, "Description:  %s\n", cli.Escaped(p.Description, ""))
	}
	fmt.Fprintf(w, "ID:           %s\nLevel:        %s\nPriority:     %d\nMatches:      %s\nMode:         %s\nTest cases:   %d\nVersion:      %d\nUpdated:      %s\nBy:           %s\n\n%s\n",
		p.ID, cli.Escaped(levelAndOwner(p), ""), p.Priority, cli.Escaped(criteria(p), ""), modeOf(p), len(p.TestCases), p.Version, stamp(p.UpdatedAt), cli.Escaped(p.CreatedBy, ""), codeText(p.RegoCode))
}

// codeText is code as a terminal may show it. A file has it whole with -o yaml.
func codeText(rego string) string {
	return cli.Escaped(strings.TrimRight(strings.ReplaceAll(rego, "\r\n", "\n"), "\n"), "\n\t")
}

// criteria says which requests a policy is for.
func criteria(p resource.AdmissionPolicy) string {
	var parts []string
	if p.ServiceType != "" {
		parts = append(parts, "service_type="+p.ServiceType)
	}
	for _, k := range slices.Sorted(maps.Keys(p.LabelSelector)) {
		parts = append(parts, k+"="+p.LabelSelector[k])
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ",")
}

func modeOf(p resource.AdmissionPolicy) string {
	if !p.Enabled {
		return "disabled"
	}
	return p.Mode
}

func (a admissionCommands) admissionListCommand() *cobra.Command {
	var level, tenant, user, service string
	cmd := &cobra.Command{
		Use: "list", Short: "List admission policies, in the order of the chain",
		Long: `List admission policies, in the order of the chain: Global, Tenant, User, and by
priority within. With -o json or yaml each has its code, so that
'edict admission apply' can bring them to another plane.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			filter := url.Values{}
			for name, value := range map[string]string{"policy_type": level, "tenant_id": tenant, "user_id": user, "service_type": service} {
				if value != "" {
					filter.Set(name, value)
				}
			}
			all, err := collect(c.Admission.All(cmd.Context(), filter))
			if err != nil {
				return err
			}
			slices.SortFunc(all, inChain)
			for _, p := range all {
				a.warnAdmission(p.Name, p.Warnings)
			}
			return printList(&a.console, admissionListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, admissionListing.headers)
	flags := cmd.Flags()
	flags.StringVar(&level, "level", "", "only those of this level: Global, Tenant or User")
	flags.StringVar(&tenant, "tenant", "", "only those of this tenant")
	flags.StringVar(&user, "user", "", "only those of this user")
	flags.StringVar(&service, "service-type", "", "only those for this service type")
	return cmd
}

// inChain orders policies as they run.
func inChain(p, q resource.AdmissionPolicy) int {
	return cmp.Or(slices.Index(policy.Levels, policy.Level(p.PolicyType))-slices.Index(policy.Levels, policy.Level(q.PolicyType)),
		p.Priority-q.Priority, strings.Compare(p.ID, q.ID))
}

var admissionListing = listing[resource.AdmissionPolicy]{
	spare: []string{"id"},
	kind:  "admission", name: func(p resource.AdmissionPolicy) string { return p.Name },
	columns: []column[resource.AdmissionPolicy]{
		{"name", func(p resource.AdmissionPolicy) string { return p.Name }, false},
		{"level", levelAndOwner, false},
		{"priority", func(p resource.AdmissionPolicy) string { return fmt.Sprint(p.Priority) }, false},
		{"matches", criteria, false},
		{"mode", modeOf, false},
		{"updated", func(p resource.AdmissionPolicy) string { return stamp(p.UpdatedAt) }, false},
		{"id", func(p resource.AdmissionPolicy) string { return p.ID }, false},
	},
}
