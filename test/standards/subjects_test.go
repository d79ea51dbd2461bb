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
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// asyncAPI is the little that is read of docs/asyncapi.yaml.
type asyncAPI struct {
	Channels map[string]struct {
		Address  string
		Messages map[string]any
	}
	Operations map[string]struct {
		Channel map[string]string
	}
}

// TestEverySubjectIsDescribed holds docs/asyncapi.yaml against the subjects of package wire,
// and its messages against the table of docs/events.md, which another test holds against the
// code.
func TestEverySubjectIsDescribed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "asyncapi.yaml"))
	require.NoError(t, err)
	var doc asyncAPI
	require.NoError(t, yaml.Unmarshal(text, &doc))
	messages := map[string][]string{}
	for _, c := range doc.Channels {
		messages[c.Address] = slices.Sorted(maps.Keys(c.Messages))
	}
	for _, f := range policy.Families() {
		require.Contains(t, messages, address(wire.LogForm(f)))
	}
	for _, prefix := range []string{wire.PrefixRejected, wire.PrefixVerdict, wire.PrefixDecision, wire.PrefixReport, wire.PrefixNode, wire.PrefixReplay} {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(messages)), func(a string) bool { return strings.HasPrefix(a, prefix+"{") }), "no channel begins with %s", prefix)
	}
	require.Contains(t, messages, wire.SubjectChain)
	require.Contains(t, messages, wire.PrefixNode+"{node}."+wire.NameState)
	require.Contains(t, messages, wire.PrefixNode+"{node}."+wire.PrefixArtifact+"{kind}.{name}")

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
	for _, op := range doc.Operations {
		used[strings.TrimPrefix(op.Channel["$ref"], "#/channels/")] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(doc.Channels)), slices.Sorted(maps.Keys(used)), "who sends on it, and who receives")
}

// address is a form of a subject as AsyncAPI writes it.
func address(form string) string {
	return strings.NewReplacer("<key id>", "{key}", "<", "{", ">", "}").Replace(form)
}
