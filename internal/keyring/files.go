package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
)

// Files are where a worker's keys lie.
type Files struct {
	Signing string // PKCS#8 PEM of a key
	// Next is another key that the worker holds, for a rotation, where keys are
	// given to it; empty: none.
	Next string
	// Made is the directory of keys that the plane made itself and that are not,
	// or no longer, the one in Signing. Each is named by its id. Empty: keys are
	// given, and their files are left alone.
	Made string
}

// ours reports whether the plane makes its keys itself.
func (f Files) ours() bool { return f.Made != "" }

// path is where a key that the plane made is kept.
func (f Files) path(id string) string {
	return filepath.Join(f.Made, strings.TrimPrefix(id, "ed25519:")+".key")
}

// CheckSigning says why Signing cannot be used. One that is to be made need not
// be there.
func (f Files) CheckSigning() error {
	_, err := artifact.LoadSigner(f.Signing)
	if f.ours() && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CheckNext says why Next cannot be used.
func (f Files) CheckNext() error {
	if f.Next == "" {
		return nil
	}
	_, err := artifact.LoadSigner(f.Next)
	return err
}

// load reads every key, that of Signing first; where the plane makes its keys,
// it makes that one.
func (f Files) load() (all []*artifact.Signer, err error) {
	files, err := f.names()
	if err != nil {
		return nil, err
	}
	load := artifact.LoadSigner
	if f.ours() {
		load = artifact.LoadOrCreateSigner
	}
	for _, file := range files {
		s, err := load(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// names are the files of all keys, that of Signing first.
func (f Files) names() ([]string, error) {
	files := []string{f.Signing}
	if f.Next != "" {
		files = append(files, f.Next)
	}
	if !f.ours() {
		return files, nil
	}
	more, err := f.Kept()
	return append(files, more...), err
}

// Kept are the files in Made, of keys; none where there is no such directory.
func (f Files) Kept() (paths []string, err error) {
	entries, err := os.ReadDir(f.Made) // a pattern would take a bracket of the path for one of its own
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if ok, _ := filepath.Match("*.key", e.Name()); ok {
			paths = append(paths, filepath.Join(f.Made, e.Name()))
		}
	}
	return paths, err
}

// promote has Signing hold the key with an id, and keeps the one that it held in
// Made. A crash between any two steps leaves both in one of the files, and the
// next start goes on from there.
func (f Files) promote(id string) error {
	s, err := artifact.LoadSigner(f.Signing)
	if err != nil || s.KeyID() == id {
		return err
	}
	if err := os.Link(f.Signing, f.path(s.KeyID())); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep the previous key: %w", err)
	}
	if err := artifact.SyncDir(f.Made); err != nil {
		return fmt.Errorf("keep the previous key: %w", err)
	}
	fault.Pass(fault.KeyMove)
	if err := os.Rename(f.path(id), f.Signing); err != nil {
		return fmt.Errorf("keep the new key: %w", err)
	}
	if err := artifact.SyncDir(filepath.Dir(f.Signing)); err != nil {
		return fmt.Errorf("keep the new key: %w", err)
	}
	fault.Pass(fault.KeyMoved)
	return nil
}

// prune removes from Made all keys but those with these ids.
func (f Files) prune(ids []string) error {
	files, err := f.Kept()
	for _, file := range files {
		if !slices.ContainsFunc(ids, func(id string) bool { return f.path(id) == file }) {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

// OtherKeyError means that the plane signs with a key that this worker does not
// hold.
type OtherKeyError struct {
	Want   string   // key id
	Have   []string // key ids of the worker's; none: the file is gone
	File   string   // where they came from
	Expiry time.Time
}

// Error names them and says what to do.
func (e *OtherKeyError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("the plane signs with key %s, and its file %s is gone: put the file back from a backup; "+
			"docs/keys.md says what to do where there is none", e.Want, e.File)
	}
	if !e.Expiry.IsZero() {
		return fmt.Sprintf("the plane's key was replaced, and until %s nodes hear so under the one before, %s, and %s holds %s: "+
			"give the worker both, with --signing-key and --next-signing-key", e.Expiry.Format(time.RFC3339), e.Want, e.File, strings.Join(e.Have, " and "))
	}
	return fmt.Sprintf("the plane signs with key %s, and %s holds %s: every worker of a plane needs the same key; "+
		"give --signing-key the file that the other workers have", e.Want, e.File, strings.Join(e.Have, " and "))
}
