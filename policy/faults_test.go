package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// many is an object of so many members.
func many(n int, member func(i int) string) string {
	members := make([]string, n)
	for i := range members {
		members[i] = member(i)
	}
	return strings.Join(members, ",")
}

// A document of nothing but faults tells some of them, and is what it would be
// with all of them told.
func TestFaultsOfOneDocumentAreBounded(t *testing.T) {
	const head = `{"id":"0190a1b2-0000-7000-8000-000000000001","type":"node_updated","project_id":"0190a1b2-0000-7000-8000-000000000002","node_id":"a","addresses":[],`
	bad := many(3*MaxFaults, func(i int) string { return fmt.Sprintf(`"-%x":""`, i) })
	strange := many(3*MaxFaults, func(i int) string { return fmt.Sprintf(`"x%x":1`, i) })
	for name, c := range map[string]struct {
		body, code string
		kept       bool // the event is known
	}{
		"keys that are none":                    {head + `"labels":{` + bad + `}}`, Invalid, true},
		"and then a value of another type":      {head + `"labels":{` + bad + `,"k":1}}`, Undecodable, false},
		"and then a member twice":               {head + `"labels":{` + bad + `},"node_id":"a"}`, Undecodable, false},
		"and then the end of the text":          {head + `"labels":{` + bad, Undecodable, false},
		"members nobody knows":                  {head + strange + `}`, Undecodable, false},
		"members nobody knows, of what nobody ": {`{` + strange + `,"type":"node_painted"}`, UnknownType, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Decode([]byte(c.body))
			var fault *DecodeError
			require.True(t, errors.As(err, &fault))
			require.Equal(t, c.code, fault.Code)
			require.LessOrEqual(t, len(fault.Violations), MaxFaults+2)
			require.Equal(t, c.kept, e != nil)
		})
	}
}

func TestLabelsBeyondTheMostAreNotKept(t *testing.T) {
	body := `{"id":"0190a1b2-0000-7000-8000-000000000001","type":"node_updated","project_id":"0190a1b2-0000-7000-8000-000000000002","node_id":"a","addresses":[],"labels":{` +
		many(100*MaxLabels, func(i int) string { return fmt.Sprintf(`"k%x":"v"`, i) }) + `}}`
	e, err := Decode([]byte(body))
	require.ErrorContains(t, err, CodeTooManyLabels)
	require.Len(t, e.(NodeUpdated).Labels, MaxLabels)
}
