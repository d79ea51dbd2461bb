package cli

import (
	"fmt"
	"strings"
)

// Counted is so many of a thing, as people say it: 1 policy, 2 policies.
func Counted[N int | int64 | uint64](n N, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y"):
		thing = strings.TrimSuffix(thing, "y") + "ies"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
