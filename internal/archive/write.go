package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// ErrBackingUp means that another process writes the backup.
var ErrBackingUp = errors.New("another backup writes there: wait until it has ended")

// LockBackup keeps other backups out of a directory, which is made when absent:
// ErrBackingUp where one is at work. A directory that has files of a plane, and is no
// backup, is refused: fs.ErrExist.
func LockBackup(dir string) (release func(), err error) {
	if err := noPlane(dir); err != nil {
		return nil, err
	}
	return lock(dir, ErrBackingUp)
}

// lock keeps others from writing to a directory, which is made when absent; busy is the
// error where one does.
func lock(dir string, busy error) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	release, err = streams.LockFile(filepath.Join(dir, ".lock"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w: %w", dir, busy, err)
	}
	return release, err
}

// HasSecrets reports whether the backup in a directory has the key that signs, or another secret
// of a plane; a directory without a backup has none.
func HasSecrets(dir string) (bool, error) {
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(m.Files, func(f File) bool {
		return f.Name == BackupKey || f.Name == BackupMarker || strings.HasPrefix(f.Name, BackupMore+"/")
	}), err
}

// noPlane refuses a directory whose keys no backup wrote: they may be the only ones.
func noPlane(dir string) error {
	if InBucket(dir) {
		return fmt.Errorf("%s: a backup is a directory: edict log export writes an archive of the log into a bucket", dir)
	}
	_, err := os.Lstat(filepath.Join(dir, manifestName))
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s is a file: name a directory for the backup, which is made when absent: %w", dir, syscall.ENOTDIR)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{BackupKey, BackupMore, "nats", "store"} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil && (name != BackupMore || !staged(path)) {
			return fmt.Errorf("%s has %s, and is no backup: back up to another directory: %w", dir, name, fs.ErrExist)
		}
	}
	return nil
}

// staged reports whether a directory of keys has none but what a backup left that was cut
// off before its manifest.
func staged(dir string) bool {
	left, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(left, func(e fs.DirEntry) bool {
		return !strings.HasSuffix(e.Name(), unfinished) && !strings.HasPrefix(e.Name(), artifact.Torn)
	})
}

// WriteBackup gives the backup in dir these parts beside its log, by their names, and a
// manifest; parts that it had before and has no more are removed. The caller has
// LockBackup, and has exported m.Log. Until the new manifest is in its place the backup
// that was there stays whole, because parts are written beside those that it has. A
// segment that is not what the manifest before says is a *FaultError.
func WriteBackup(dir string, m Manifest, parts map[string][]byte) (Manifest, error) {
	old, err := settle(dir)
	if err != nil {
		return m, err
	}
	m.Form, m.Version, m.Files = backupForm, Version, nil
	if m.Files, err = segmentsOf(dir, old, m.Log); err != nil {
		return m, err
	}
	for name, text := range parts {
		m.Files = append(m.Files, partOf(name, text))
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = stage(dir, parts)
	}
	if err == nil {
		err = artifact.WriteFile(filepath.Join(dir, manifestName), append(text, '\n'), 0o600)
	}
	_, settled := settle(dir)
	return m, errors.Join(err, settled)
}

// segmentsOf lists the segments of the backup's log. What the manifest before said of
// them still holds: one that changed since is not declared to be sound.
func segmentsOf(dir string, old Manifest, log Extent) (files []File, err error) {
	a, err := find(directory(filepath.Join(dir, BackupLog)))
	if err != nil {
		return nil, err
	}
	unproved := false // an origin, likewise
	for _, name := range slices.Concat(a.segments, a.origins) {
		if first, _ := firstOf(name); first > log.Last { // of who exported further meanwhile
			continue
		}
		f, err := fileOf(filepath.Join(dir, BackupLog, name), -1)
		if err != nil {
			return nil, err
		}
		f.Name = BackupLog + "/" + name
		known := slices.ContainsFunc(old.Files, func(was File) bool { return was.Name == f.Name })
		if _, segment := firstOf(name); segment && !known {
			// Nobody said yet what it is, and the log may have its events no more.
			if err := a.proveSegment(name); err != nil {
				return nil, err
			}
		}
		unproved = unproved || isOrigin(name) && !known
		files = append(files, f)
	}
	for _, was := range old.Files {
		if filepath.Dir(was.Name) == BackupLog && !slices.Contains(files, was) {
			return nil, &FaultError{File: was.Name, Detail: "it is not what it was when it was backed up, or is missing: back up to another directory", Final: true}
		}
	}
	if unproved {
		if err := a.proveOrigin(); err != nil {
			return nil, err
		}
	}
	if err := a.whole(log); err != nil {
		return nil, fmt.Errorf("no plane can be made of it: %w: back up to another directory", err)
	}
	return files, nil
}

// stage writes parts beside where they belong.
func stage(dir string, parts map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := artifact.WriteFile(path+unfinished, parts[name], 0o600); err != nil {
			return err
		}
	}
	return artifact.SyncDir(dir)
}

// settle gives each part that the manifest names its place, and removes all others: a
// backup that was cut off behind its manifest is finished, one before it undone.
func settle(dir string) (Manifest, error) {
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		m, err = Manifest{}, nil
	}
	if err != nil {
		return m, err
	}
	names, err := partsIn(dir)
	for _, name := range names {
		i := slices.IndexFunc(m.Files, func(f File) bool { return f.Name == name })
		if i < 0 {
			err = errors.Join(err, removeIf(filepath.Join(dir, name)), removeIf(filepath.Join(dir, name+unfinished)))
			continue
		}
		err = errors.Join(err, settlePart(filepath.Join(dir, name), m.Files[i]))
	}
	return m, errors.Join(err, syncIf(filepath.Join(dir, BackupMore)), artifact.SyncDir(dir))
}

// partsIn are the names that parts in a directory have, or are to have, and those of what a
// crash tore, which may have some of a key.
func partsIn(dir string) ([]string, error) {
	names := []string{BackupKeys, BackupKey, BackupRecord, BackupMarker}
	all, err := os.ReadDir(dir)
	for _, e := range all {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), artifact.Torn) {
			names = append(names, e.Name())
		}
	}
	if err != nil {
		return names, err
	}
	more, err := os.ReadDir(filepath.Join(dir, BackupMore))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	for _, e := range more {
		names = append(names, BackupMore+"/"+strings.TrimSuffix(e.Name(), unfinished))
	}
	return names, err
}

// settlePart puts what was staged in its place, if it is what the manifest wants.
func settlePart(path string, want File) error {
	if !isFile(path+unfinished, want) {
		return removeIf(path + unfinished)
	}
	return os.Rename(path+unfinished, path)
}

// isFile reports whether a file has the bytes that a manifest says.
func isFile(path string, want File) bool {
	have, err := fileOf(path, max(want.Bytes, 0))
	have.Name = want.Name
	return err == nil && have == want
}

func removeIf(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncIf(path string) error {
	if err := artifact.SyncDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
