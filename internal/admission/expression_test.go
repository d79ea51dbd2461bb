package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A regular expression of a kilobyte takes twenty megabytes where its counts are large.
func TestARegularExpressionIsNotWrittenOutWithoutEnd(t *testing.T) {
	large := strings.Repeat("(a?){900}", 100)
	for what, answer := range map[string]string{
		"regex.match":  fmt.Sprintf(`{"reject": true} if regex.match(%q, "b")`, large),
		"regex.find_n": fmt.Sprintf(`{"reject": true} if count(regex.find_n(%q, "b", 1)) > 5`, large),
		"a template":   fmt.Sprintf(`{"reject": true} if regex.template_match(%q, "b", "<", ">")`, "<"+large+">"),
		"a provider":   fmt.Sprintf(`{"service_provider": {"constraints": {"patterns": [%q]}}}`, large),
		"a constraint": fmt.Sprintf(`{"constraints": {"x": {"pattern": %q}}}`, large),
	} {
		t.Run(what, func(t *testing.T) {
			require.Contains(t, evaluate(t, "{}", rego("p", User, 1, answer)), "instructions once its counts, such as {900}, are written out")
		})
	}
	require.Contains(t, evaluate(t, "{}", rego("p", User, 1, `{"reject": true} if regex.match("^[a-z]{1,1000}$", "b")`)), "rejected by p")
}

func TestACacheCountsWhatItsExpressionsTake(t *testing.T) {
	const each = 9000 * instructionBytes
	c := newCache[expression](10 * each)
	for i := range 100 {
		_, err := c.get(fmt.Sprint(i), func() (expression, error) { return expression{nil, 9000}, nil })
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(c.young)+len(c.old), 20)
	_, kept := c.find("99")
	require.True(t, kept)
}
