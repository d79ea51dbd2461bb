package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A field that is spelled otherwise is answered with the one that is close; what is close
// to none is to go.
func TestAMisspelledFieldIsAnsweredWithTheNearOne(t *testing.T) {
	t.Parallel()
	const draft = `{"slug":"web","selector":{"source":"a=1","destination":"a=1"},"rules":[` +
		`{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":1,"to":2}}]}`
	for spelled, said := range map[string]string{
		`"protocl":`:                     `not a field of a rule; did you mean "protocol"?`,
		`"port":`:                        `not a field of a rule; did you mean "ports"?`,
		`"src_cidr":`:                    `not a field of a rule; did you mean "source_cidr"?`,
		`"Action":`:                      `not a field of a rule; did you mean "action"?`,
		`"form":`:                        `not a field of a port range; did you mean "from"?`,
		`"desination":`:                  `not a field of a selector; did you mean "destination"?`,
		`"selectors":`:                   `not a field of a policy; did you mean "selector"?`,
		`"labels":`:                      `not a field of a policy; remove it`,
		`"x":`:                           `not a field of a rule; remove it`,
		`"` + strings.Repeat("s", 1<<10): `not a field of a policy; remove it`,
	} {
		right := map[string]string{
			`"protocl":`: `"protocol":`, `"port":`: `"ports":`, `"src_cidr":`: `"source_cidr":`, `"Action":`: `"action":`, `"form":`: `"from":`,
			`"desination":`: `"destination":`, `"selectors":`: `"selector":`, `"x":`: `"action":`, `"labels":`: `"rules":`,
			`"` + strings.Repeat("s", 1<<10): `"slug`,
		}[spelled]
		require.Contains(t, draft, right)
		_, err := DecodeDraft([]byte(strings.Replace(draft, right, spelled, 1)))
		var details []string
		for _, v := range err.(Violations) {
			details = append(details, v.Detail)
		}
		require.Contains(t, details, said, spelled)
	}
	_, _, err := DecodeNodeLine([]byte(`{"id":"web-1","label":{},"adresses":[]}`))
	require.Contains(t, err.(Violations)[0].Detail, `did you mean "labels"?`)
	require.Contains(t, err.(Violations)[1].Detail, `did you mean "addresses"?`)
}
