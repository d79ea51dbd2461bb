package api

import (
	"net/http"
	"unicode"

	"github.com/edictdev/edict/policy"
)

// unseen are characters that a reader does not see, or that move what is around
// them: a name with one can look like another's. Joiners are among them.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point}

// checkName refuses a display name that does not look like what it is. The fold
// takes it: who appends to the log by himself is shown quoted.
func checkName(pointer, name string) error {
	for i, r := range name {
		if unicode.In(r, unseen...) {
			return broken(http.StatusUnprocessableEntity, policy.CodeInvalidDisplayName, pointer,
				"%U at byte %d is not seen, or moves the text around it; remove it", r, i)
		}
	}
	return nil
}
