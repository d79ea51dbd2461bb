package plexd

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHowRulesAreTranslated(t *testing.T) {
	const end = "deny any 0.0.0.0/0 0.0.0.0/0"
	rule := func(rest string) string {
		return `{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16",` + rest + `}`
	}
	for name, c := range map[string]struct {
		rules string
		want  []string // nil: the set is refused
	}{
		"no rules deny":                     {`[]`, []string{end}},
		"a single port":                     {`[` + rule(`"action":"allow","protocol":"tcp","ports":{"from":80,"to":80}`) + `]`, []string{"allow tcp 10.0.0.0/8 10.1.0.0/16 80", end}},
		"a range":                           {`[` + rule(`"action":"deny","protocol":"udp","ports":{"from":1,"to":65535}`) + `]`, []string{"deny udp 10.0.0.0/8 10.1.0.0/16 1-65535", end}},
		"any protocol":                      {`[` + rule(`"action":"allow","protocol":"any"`) + `]`, []string{"allow any 10.0.0.0/8 10.1.0.0/16", end}},
		"log is skipped":                    {`[` + rule(`"action":"log","protocol":"any"`) + `]`, []string{end}},
		"the order of the state":            {`[` + rule(`"action":"deny","protocol":"icmp"`) + `,` + rule(`"action":"allow","protocol":"any"`) + `]`, []string{"deny icmp 10.0.0.0/8 10.1.0.0/16", "allow any 10.0.0.0/8 10.1.0.0/16", end}},
		"an unknown action":                 {`[` + rule(`"action":"pass","protocol":"any"`) + `]`, nil},
		"an unknown protocol":               {`[` + rule(`"action":"allow","protocol":"sctp"`) + `]`, nil},
		"ports of any":                      {`[` + rule(`"action":"allow","protocol":"any","ports":{"from":1,"to":2}`) + `]`, nil},
		"ports of icmp":                     {`[` + rule(`"action":"allow","protocol":"icmp","ports":{"from":1,"to":2}`) + `]`, nil},
		"IPv6":                              {`[{"action":"allow","protocol":"any","source_cidr":"2001:db8::/32","destination_cidr":"2001:db8::/32"}]`, nil},
		"an empty prefix":                   {`[{"action":"allow","protocol":"any","source_cidr":"","destination_cidr":"10.0.0.0/8"}]`, nil},
		"one bad rule refuses the good one": {`[` + rule(`"action":"allow","protocol":"any"`) + `,` + rule(`"action":"allow","protocol":"sctp"`) + `]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var b block
			require.NoError(t, json.Unmarshal([]byte(`{"rules":`+c.rules+`}`), &b))
			rules, err := buildFirewallRules(&b)
			if c.want == nil {
				require.ErrorIs(t, err, ErrInvalidRuleset)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, r := range rules {
				got = append(got, r.String())
			}
			require.Equal(t, c.want, got)
		})
	}
	rules, err := buildFirewallRules(nil)
	require.NoError(t, err)
	require.Equal(t, []FirewallRule{denyAll}, rules, "no policy denies, too")
}
