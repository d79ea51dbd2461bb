//go:build !linux

package tree

import "errors"

func syncFS(string) error { return errors.ErrUnsupported }

func exchange(string, string) error { return errors.ErrUnsupported }
