//go:build linux

package agent

import "github.com/edictdev/edict/policy"

// Position is up to where the node was told.
func (e *Enforcer) Position() policy.EventID { return e.follower.Position() }
