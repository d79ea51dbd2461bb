//go:build !unix

package disk

import "errors"

// freeBytes is not known here, so nothing is refused.
func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }
