package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// changeText is what an event says that its subject does not, or what it changed, in short, and
// how many nodes it was sent to.
func changeText(e resource.LogEvent) string {
	var parts []string
	if c := e.Change; e.Detail != "" {
		parts = []string{e.Detail}
	} else if c != nil && c.Policy != nil {
		parts = headText(*c.Policy)
	} else if c != nil && c.Node != nil {
		parts = nodeText(*c.Node)
	}
	if e.Nodes != nil {
		parts = append(parts, "sent to "+cli.Counted(*e.Nodes, "node"))
	}
	return strings.Join(parts, ", ")
}

func headText(c resource.HeadChange) (parts []string) {
	rules := ""
	for _, x := range []struct {
		sign string
		n    int
	}{{"+", len(c.Rules.Added)}, {"-", len(c.Rules.Removed)}, {"~", len(c.Rules.Modified)}} {
		if x.n > 0 {
			rules += fmt.Sprintf("%s%d ", x.sign, x.n)
		}
	}
	if one := len(c.Rules.Added) + len(c.Rules.Removed) + len(c.Rules.Modified); one == 1 {
		parts = append(parts, rules+"rule")
	} else if rules != "" {
		parts = append(parts, rules+"rules")
	}
	if c.Selectors != nil && c.Selectors.Before != nil {
		parts = append(parts, "other nodes")
	}
	if c.Rules.Order != nil || c.Rules.Reordered {
		parts = append(parts, "other order")
	}
	return parts
}

// nodeText is a node's labels that came, went (-) or have another value.
func nodeText(c resource.NodeChange) (parts []string) {
	if c.Created {
		parts = append(parts, "new")
	}
	for _, k := range slices.Sorted(maps.Keys(c.After)) {
		was, had := c.Before[k]
		switch now := c.After[k]; {
		case !had:
			parts = append(parts, k+"="+now)
		case was != now:
			parts = append(parts, fmt.Sprintf("%s=%s (was %s)", k, now, was))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Before)) {
		if _, has := c.After[k]; !has && !c.Removed {
			parts = append(parts, "-"+k)
		}
	}
	return parts
}
