package main

import (
	"fmt"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/doctor"
)

// standingText counts nodes by where they stand, as edict node count does. An older plane
// does not say it.
func standingText(c resource.Convergence) string {
	text := fmt.Sprintf("%d of %d applied", c.Applied, c.Desired)
	if c.ByState != nil {
		text = doctor.CountByState(*c.ByState)
	}
	for _, x := range []struct {
		outcome string
		count   int
	}{{"stale", c.NotApplied.Stale}, {"drift", c.NotApplied.Drift}} {
		if x.count > 0 {
			text += fmt.Sprintf(", %d %s", x.count, x.outcome)
		}
	}
	return text
}

// convergenceText is standingText, with the first few nodes that have not applied what they
// must; the others are in -o json.
func convergenceText(c resource.Convergence) string {
	const most = 5
	text := standingText(c)
	for i, l := range c.Lagging {
		switch {
		case i == 0:
			text += "; not applied: "
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
