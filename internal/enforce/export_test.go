//go:build linux

package enforce

// Chains counts the chains.
func Chains(r *Ruleset) int { return len(r.chains) }
