package author

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotTried: the draft was not sent, because an earlier one found the plane gone, or because
// the author wants no more.
var ErrNotTried = errors.New("not tried")

// notTried is why a draft is not sent; ctx is the author's.
func notTried(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: the command was interrupted", ErrNotTried)
	}
	return fmt.Errorf("%w: the plane is gone", ErrNotTried)
}

// cutOffError is a write that was not waited for: context.Canceled. The plane may have it.
type cutOffError struct{}

func (cutOffError) Error() string {
	return "not known: its request was cut off, and the plane may have it; apply it again, which changes nothing that is so already"
}

func (cutOffError) Unwrap() error { return context.Canceled }

// cutOff says so of a write that ended with its context.
func cutOff(err error) error {
	if errors.Is(err, context.Canceled) {
		return cutOffError{}
	}
	return err
}
