package projector

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS syncs a directory before Pebble makes a marker in it. Pebble 2.1
// creates a new manifest, then the marker that names it, and syncs the directory
// once, after both: where a file system does not keep the order of entries, a
// power failure may leave the marker and take the manifest, and the store would
// not open any more. Later versions sync in between by themselves.
type orderedFS struct{ vfs.FS }

// Create makes a file; what stood in its directory before a marker is durable.
func (fs orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !strings.HasPrefix(fs.PathBase(name), "marker.") {
		return fs.FS.Create(name, category)
	}
	dir, err := fs.OpenDir(fs.PathDir(name))
	if err != nil {
		return nil, err
	}
	if err := dir.Sync(); err != nil {
		_ = dir.Close() // its failure to sync is the one to report
		return nil, err
	}
	if err := dir.Close(); err != nil {
		return nil, err
	}
	return fs.FS.Create(name, category)
}

// Unwrap is the file system below.
func (fs orderedFS) Unwrap() vfs.FS { return fs.FS }
