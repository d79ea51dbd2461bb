package main

import (
	"fmt"

	"github.com/edictdev/edict/api/resource"
)

// notAppliedText counts the nodes that say that something is not applied.
func notAppliedText(n resource.NotApplied) string {
	text := ""
	for _, x := range []struct {
		outcome string
		count   int
	}{{"refused", n.Refused}, {"stale", n.Stale}, {"drift", n.Drift}} {
		if x.count > 0 {
			text += fmt.Sprintf(", %d %s", x.count, x.outcome)
		}
	}
	return text
}

// convergenceText sums up how far the nodes have come, and names the first few
// that lag; the others are in -o json.
func convergenceText(c resource.Convergence) string {
	const most = 5
	text := fmt.Sprintf("%d of %d hold what they must, %d report", c.Applied, c.Desired, c.Reported) + notAppliedText(c.NotApplied)
	for i, l := range c.Lagging {
		switch {
		case i == 0:
			text += "; lagging: "
		case i == most:
			return text + ", ..."
		default:
			text += ", "
		}
		text += l.NodeID
		if l.Since != nil {
			text += " since " + stamp(*l.Since)
		}
	}
	return text
}
