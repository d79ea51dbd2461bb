//go:build linux

package agent

import "github.com/edictdev/edict/policy"

// Position is up to where the node was told.
func (e *Enforcer) Position() policy.EventID { return e.follower.Position() }

// StreamOpen is whether the plane's events arrive.
func (e *Enforcer) StreamOpen() bool { return e.follower.StreamError() == nil }
