package standards_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TestEverySubjectIsDescribed holds the channels of docs/asyncapi.yaml against the subjects
// of package wire, both ways, and their messages against the table of docs/events.md, which
// another test holds against the code.
func TestEverySubjectIsDescribed(t *testing.T) {
	d := describe(t)
	messages := map[string][]string{}
	for _, c := range d.doc.Channels {
		messages[c.Address] = slices.Sorted(maps.Keys(c.Messages))
	}
	want := []string{wire.SubjectChain}
	for _, f := range policy.Families() {
		want = append(want, address(wire.LogForm(f)))
	}
	for _, prefix := range prefixes(t) {
		switch {
		case prefix == wire.PrefixNode:
			for _, name := range []string{"{policy}", wire.NameState, wire.PrefixArtifact + "{kind}.{name}"} {
				want = append(want, prefix+"{node}."+name)
			}
		case strings.HasPrefix(prefix, wire.PrefixLog):
		default:
			described := slices.DeleteFunc(slices.Sorted(maps.Keys(messages)), func(a string) bool { return !strings.HasPrefix(a, prefix+"{") })
			require.Len(t, described, 1, "channels that begin with %s", prefix)
			want = append(want, described[0])
		}
	}
	slices.Sort(want)
	require.Equal(t, want, slices.Sorted(maps.Keys(messages)))

	events, err := os.ReadFile(filepath.Join(root(t), "docs", "events.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(edict\\.log\\.[^`]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(events), -1)
	require.Len(t, rows, len(policy.Families()))
	for _, row := range rows {
		var types []string
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			types = append(types, m[1])
		}
		slices.Sort(types)
		require.Equal(t, types, messages[address(row[1])], row[1])
	}
	used := map[string]bool{}
	for _, op := range d.doc.Operations {
		used[strings.TrimPrefix(op.Channel["$ref"], "#/channels/")] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(d.doc.Channels)), slices.Sorted(maps.Keys(used)), "who sends on it, and who receives")
	require.Equal(t, admission.Outcomes, d.doc.Components.Parameters["outcome"].Enum)
	require.Equal(t, policy.Outcomes, d.doc.Components.Schemas["Report"].Properties["outcome"].Enum)
}

// prefixes are the beginnings of subjects in the source of package wire.
func prefixes(t *testing.T) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "internal", "wire", "subject.go"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\tPrefix\w+ += "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	require.Contains(t, found, wire.PrefixLog)
	return found
}

// address is a form of a subject as AsyncAPI writes it.
func address(form string) string {
	return strings.NewReplacer("<key id>", "{key}", "<", "{", ">", "}").Replace(form)
}
