package projector

import "github.com/edictdev/edict/policy"

// keyRotated is a record for the audit, from which nothing follows here: which
// key signs is no business of the fold, and no row has one.
func keyRotated(fault *policy.DecodeError) Verdict {
	if fault != nil {
		return invalid(fault)
	}
	return Verdict{}
}
