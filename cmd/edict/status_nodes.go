package main

import (
	"fmt"

	"github.com/edictdev/edict/api/resource"
)

// convergenceText sums up how far the nodes have come, and names the first few
// that lag; the others are in -o json.
func convergenceText(c resource.Convergence) string {
	const most = 5
	text := fmt.Sprintf("%d of %d hold what they must, %d report", c.Applied, c.Desired, c.Reported)
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
