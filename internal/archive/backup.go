package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The parts of a backup, below its directory.
const (
	BackupLog  = "log"         // the archive
	BackupKeys = "keys.json"   // the plane's public keys, as nodes are given them
	BackupKey  = "signing.key" // the key that signs, if it was asked for
	BackupMore = "keys"        // the directory of its other keys, likewise

	BackupRecord = "signing-key.json" // the record of which key signs, and of those that it replaced
	BackupMarker = "marker.json"      // the secret that marks events of workers, if the key was asked for

	manifestName = "manifest.json"
	backupForm   = "backup"
)

// maxPart bounds a part that is not of the log, in bytes: who restores it has it in memory.
const maxPart = 16 << 20

// Manifest says what a backup holds, and what a restore must come to.
type Manifest struct {
	Form    string    `json:"edict"`
	Version int       `json:"version"`
	Made    time.Time `json:"made"`  // by the clock of who made it
	Build   string    `json:"build"` // the edict that did
	Log     Extent    `json:"log"`
	Digest  string    `json:"digest"` // of the read model at the log's last event, as the plane had it
	Files   []File    `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name   string `json:"name"` // below the backup, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // 64 hex digits
}

// listed reports whether a manifest names a file: segments, and the keys.
func listed(name string) bool {
	switch dir, file, _ := strings.Cut(name, "/"); {
	case !fs.ValidPath(name), !filepath.IsLocal(filepath.FromSlash(name)):
		return false
	case dir == BackupLog:
		_, ok := firstOf(file)
		return (ok || isOrigin(file)) && !strings.Contains(file, "/")
	case dir == BackupMore:
		return file != "" && !strings.Contains(file, "/")
	}
	return slices.Contains([]string{BackupKeys, BackupKey, BackupRecord, BackupMarker}, name)
}

// fileOf reads a file, which is a regular one. Where most is not negative, of one that is
// longer no more than a byte beyond that is read.
func fileOf(path string, most int64) (f File, err error) {
	r, err := openRegular(path)
	if err != nil {
		return f, err
	}
	defer r.Close()
	from := io.Reader(r)
	if most >= 0 {
		from = io.LimitReader(r, most+1)
	}
	return sumOf(io.NopCloser(from))
}

// sumOf reads a file to its end, and closes it.
func sumOf(r io.ReadCloser) (f File, err error) {
	h := sha256.New()
	f.Bytes, err = io.Copy(h, r)
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return f, errors.Join(err, r.Close())
}

// openRegular opens a file to be read. A pipe would wait for who writes to it, and a
// device may never end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &FaultError{File: filepath.Base(path), Detail: "it is not a regular file"}
	}
	return os.Open(path)
}

func partOf(name string, text []byte) File {
	sum := sha256.Sum256(text)
	return File{Name: name, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
}

// Backup is a backup that was proved to be what its manifest says.
type Backup struct {
	Manifest Manifest
	Archive  *Archive

	paths map[string]string // of its files, by name
	parts map[string][]byte // those that are not of the log, as they were proved
}

// Part is a part of the backup that is not of its log; nil where it does not have it. What a
// backup writes to the directory meanwhile does not change it.
func (b *Backup) Part(name string) []byte { return b.parts[name] }

// Path is where a part of the backup is; "" when it does not have it.
func (b *Backup) Path(name string) string { return b.paths[name] }

// OpenBackup reads all of a backup: every file that its manifest names, and every
// line of its archive. Other files do not count: a later backup may have been cut
// off. The error is a *FaultError where something is not what the manifest says.
func OpenBackup(ctx context.Context, dir string) (*Backup, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	b := &Backup{Manifest: m, paths: map[string]string{}, parts: map[string][]byte{}}
	var ofLog []string
	for _, want := range m.Files {
		if !listed(want.Name) {
			return nil, &FaultError{File: manifestName, Detail: fmt.Sprintf("it names %q, which is no file of a backup", want.Name)}
		}
		logs := filepath.Dir(want.Name) == BackupLog
		if !logs && want.Bytes > maxPart {
			return nil, &FaultError{File: want.Name, Detail: fmt.Sprintf("it has %d bytes, and what is no part of the log has at most %d", want.Bytes, maxPart)}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b.paths[want.Name], err = locate(dir, want); err != nil {
			return nil, err
		}
		if logs {
			ofLog = append(ofLog, filepath.Base(want.Name))
		} else if b.parts[want.Name], err = readPart(b.paths[want.Name], want); err != nil {
			return nil, err
		}
	}
	if b.Archive, err = Open(ctx, filepath.Join(dir, BackupLog)); err != nil {
		return nil, err
	}
	b.Archive.Only(ofLog)
	return b, b.proveArchive(ctx)
}

// locate is where a file is that the manifest names. One that a backup wrote which was cut
// off, or goes on, may not have its place yet.
func locate(dir string, want File) (string, error) {
	path := filepath.Join(dir, filepath.FromSlash(want.Name))
	have, err := fileOf(path, max(want.Bytes, 0))
	if have.Name = want.Name; err == nil && have == want {
		return path, nil
	}
	if isFile(path+unfinished, want) {
		return path + unfinished, nil
	}
	if err != nil {
		return "", fmt.Errorf("the manifest names a file that cannot be read: %w", err)
	}
	if have.Bytes > want.Bytes {
		return "", &FaultError{File: want.Name, Detail: fmt.Sprintf("it has more than the %d bytes that the manifest says", want.Bytes)}
	}
	return "", &FaultError{File: want.Name, Detail: fmt.Sprintf("it has %d bytes with SHA-256 %.16s, the manifest says %d with %.16s", have.Bytes, have.SHA256, want.Bytes, want.SHA256)}
}

// readPart reads what was located, where that is what the manifest says still.
func readPart(path string, want File) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, want.Bytes+1))
	if err == nil && partOf(want.Name, text) != want {
		err = &FaultError{File: want.Name, Detail: "it is not what it was a moment ago: another backup writes there; wait until it has ended", Final: true}
	}
	return text, err
}

func (b *Backup) proveArchive(ctx context.Context) error {
	if len(b.Archive.segments) == 0 {
		return &FaultError{File: manifestName, Detail: "it names no segment of a log"}
	}
	e, err := b.Archive.Whole(ctx)
	if err == nil && e != b.Manifest.Log {
		err = &FaultError{File: manifestName, Detail: fmt.Sprintf("it says events %d to %d of log %s with chain hash %.16s, the archive has %d to %d of log %s with %.16s",
			b.Manifest.Log.First, b.Manifest.Log.Last, b.Manifest.Log.Log, b.Manifest.Log.Chain, e.First, e.Last, e.Log, e.Chain)}
	}
	return err
}

func readManifest(dir string) (m Manifest, err error) {
	if InBucket(dir) {
		return m, fmt.Errorf("%s: a backup is a directory: copy it from the bucket with the store's own client, and name the copy", dir)
	}
	text, err := readManifestFile(filepath.Join(dir, manifestName))
	if errors.Is(err, syscall.ENOTDIR) {
		return m, fmt.Errorf("%s is a file, and a backup is a directory: name that: %w", dir, syscall.ENOTDIR)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s is no backup, or one that was cut off: it has no %s: %w", dir, manifestName, fs.ErrNotExist)
	}
	if err != nil {
		return m, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m); err != nil || m.Form != backupForm {
		return m, &FaultError{File: manifestName, Detail: "it is no manifest of a backup"}
	}
	if m.Version != Version {
		return m, &FaultError{File: manifestName, Detail: (&versionError{"backup", m.Version}).Error(), Final: true}
	}
	if _, err := readHash(m.Digest); err != nil {
		return m, &FaultError{File: manifestName, Detail: err.Error()}
	}
	return m, nil
}

// maxManifest bounds a manifest, in bytes: one of a log of 20 billion events is shorter.
const maxManifest = 64 << 20

func readManifestFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if len(text) > maxManifest {
		return nil, &FaultError{File: manifestName, Detail: fmt.Sprintf("it is larger than %d bytes", maxManifest)}
	}
	return text, err
}
