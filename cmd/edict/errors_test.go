package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
)

// Whatever the plane answers with, there is something to do about it; cures of their own are
// of codes that there are.
func TestEachCodeHasACure(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range api.ErrorCodes() {
		known[c.Code] = true
		require.NotEmpty(t, helpFor(c).Do, "%s %d", c.Code, c.Status)
	}
	for code := range errorCures {
		require.True(t, known[code], code)
	}
}

// A rejected event has a code that no answer has: who reads it in edict status --rejected is told, too.
func TestCodesOfRejectedEventsAreExplained(t *testing.T) {
	t.Parallel()
	counted := prometheus.NewRegistry()
	api.NewMetrics(counted)
	families, err := counted.Gather()
	require.NoError(t, err)
	explained := 0
	for _, f := range families {
		if f.GetName() != "edict_rejected_events_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			code := m.GetLabel()[0].GetValue()
			list, err := errorCodes([]string{code})
			require.NoError(t, err)
			require.NotEmpty(t, list[0].Meaning, code)
			require.NotEmpty(t, list[0].Do, code)
			explained++
		}
	}
	require.Greater(t, explained, 10)
	for _, r := range rejections {
		require.False(t, slices.ContainsFunc(api.ErrorCodes(), func(c api.ErrorCode) bool { return c.Code == r.Code }), r.Code)
	}
}

// What a cure names is there: each command, and each flag, of the command that is named
// before it or of any.
func TestCuresNameWhatThereIs(t *testing.T) {
	t.Parallel()
	root := new(app).rootCommand()
	everywhere := map[string]bool{}
	for _, c := range leaves(root) {
		c.InheritedFlags() // which adds them
		c.Flags().VisitAll(func(f *pflag.Flag) { everywhere[f.Name] = true })
	}
	flag := regexp.MustCompile(`(?:^|\s)-(-[a-z-]+|[a-zA-Z])\b`)
	cures := append(slices.Collect(maps.Values(errorCures)), slices.Collect(maps.Values(statusCures))...)
	for _, r := range rejections {
		cures = append(cures, r.Do)
	}
	for _, text := range cures {
		for clause := range strings.SplitSeq(text, ";") {
			before, after, named := strings.Cut(clause, "edict ")
			for _, m := range flag.FindAllStringSubmatch(before, -1) {
				require.True(t, everywhere[strings.TrimPrefix(m[1], "-")], "%s: %s", m[1], text)
			}
			if !named {
				continue
			}
			c := commandOf(root, after)
			require.True(t, c.Runnable(), "edict %s is a command", after)
			for _, m := range flag.FindAllStringSubmatch(after, -1) {
				name, long := strings.CutPrefix(m[1], "-")
				require.True(t, long && c.Flag(name) != nil || !long && c.Flags().ShorthandLookup(name) != nil, "%s has -%s: %s", c.CommandPath(), m[1], text)
			}
		}
	}
}

// commandOf is the command that the first words name.
func commandOf(c *cobra.Command, words string) *cobra.Command {
	for word := range strings.FieldsSeq(words) {
		i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
		if i < 0 {
			break
		}
		c = c.Commands()[i]
	}
	return c
}
