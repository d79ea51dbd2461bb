package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// selectorFlag gives a command -l.
func selectorFlag(cmd *cobra.Command, selector *string) {
	cmd.Flags().StringVarP(selector, "selector", "l", "", "label selector, such as 'role in (web,app),!canary'")
}

var notIn = regexp.MustCompile(`([^\s,()!=]+)\s+notin\s*\(([^()]*)\)`)

// selectorOf is a selector as the plane has it, of one that may be written as for
// kubectl: with == for =, and with notin for a != of each value.
func selectorOf(text string) string {
	text = notIn.ReplaceAllStringFunc(text, func(clause string) string {
		m := notIn.FindStringSubmatch(clause)
		values := strings.Split(m[2], ",")
		for i, v := range values {
			values[i] = m[1] + "!=" + strings.TrimSpace(v)
		}
		return strings.Join(values, ",")
	})
	return strings.ReplaceAll(text, "==", "=")
}
