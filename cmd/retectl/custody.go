package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// outside refuses a place for private keys that is in the repository of dir, where it
// would be committed with the rest. Links are followed; neither needs to exist
// yet. A directory without rete.yaml is no repository.
func outside(dir, path string) error {
	if _, err := os.Stat(filepath.Join(dir, rete.Anchor)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return notBelow(dir, path)
}

// notBelow refuses a path that is dir, or below it, once links are followed.
func notBelow(dir, path string) error {
	in, err := below(dir, path)
	if err == nil && in {
		err = cli.Failed(cli.BadUsage, "%s is in the repository %s, and private keys never are: they would be committed with it; name a place outside", path, dir)
	}
	return err
}

// below says whether a path is dir, or below it, once links are followed. Neither
// needs to exist.
func below(dir, path string) (bool, error) {
	root, err := resolved(dir)
	if err != nil {
		return false, err
	}
	place, err := resolved(path)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(root, place)
	return err == nil && filepath.IsLocal(rel), nil
}

// resolved is the absolute path without links, of what need not exist yet.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		above, err := resolved(filepath.Dir(path))
		return filepath.Join(above, filepath.Base(path)), err
	}
	if errors.Is(err, syscall.ENOTDIR) { // it comes without a word about where
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return real, err
}
