package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// The files of an origin, beside the segment that begins with its event.
const (
	suffixDocument = ".origin.json"    // as the plane signed it
	suffixObject   = ".origin.tar.zst" // what was folded up to its event
)

// maxDocument bounds a document that is read, in bytes.
const maxDocument = 64 << 10

// originName is that of one of its files.
func originName(seq uint64, suffix string) string { return fmt.Sprintf("%020d%s", seq, suffix) }

// isOrigin reports whether a file is one of an origin, by its name.
func isOrigin(name string) bool {
	for _, suffix := range []string{suffixDocument, suffixObject} {
		if digits, ok := strings.CutSuffix(filepath.Base(name), suffix); ok && len(digits) == 20 {
			seq, err := strconv.ParseUint(digits, 10, 64)
			return err == nil && seq > 0
		}
	}
	return false
}

// Origin is the origin of the log that the archive begins with; ok is false where it has
// none, and needs none if it begins where its log did. That it is what the document says is
// for who restores it to verify.
func (a *Archive) Origin() (o streams.Origin, ok bool, err error) {
	h, err := a.head()
	if err != nil || h.First == h.Begins {
		return o, false, err
	}
	path := a.beside(h.First, suffixDocument)
	if path == "" || a.beside(h.First, suffixObject) == "" {
		return o, false, nil
	}
	text, err := readBounded(path, maxDocument)
	if err != nil {
		return o, false, err
	}
	if o, err = streams.ParseOrigin(h.Log, text); err != nil {
		return o, false, &FaultError{File: filepath.Base(path), Detail: err.Error()}
	}
	before, err := readHash(h.Chain)
	if err == nil && (o.Seq != h.First || o.Before != before) {
		err = &FaultError{File: filepath.Base(path), Detail: fmt.Sprintf("it is of event %d with chain hash %x before it, the archive begins at %d with %x", o.Seq, o.Before[:8], h.First, before[:8])}
	}
	return o, err == nil, err
}

// OriginObject opens what was folded up to the archive's origin. Close it.
func (a *Archive) OriginObject() (io.ReadCloser, error) {
	h, err := a.head()
	if err != nil {
		return nil, err
	}
	return openRegular(a.beside(h.First, suffixObject))
}

// proveOrigin compares the object of the archive's origin with what the document says.
func (a *Archive) proveOrigin() error {
	o, ok, err := a.Origin()
	if err != nil || !ok {
		return err
	}
	var d struct {
		Payload struct {
			SHA256 string `json:"sha256"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(o.Document, &d); err != nil {
		return err
	}
	path := a.beside(o.Seq, suffixObject)
	f, err := fileOf(path, -1)
	if err == nil && f.SHA256 != d.Payload.SHA256 {
		err = &FaultError{File: filepath.Base(path), Detail: fmt.Sprintf("it has SHA-256 %.16s, the document of the origin says %.16s", f.SHA256, d.Payload.SHA256)}
	}
	return err
}

// head is the header of the first segment.
func (a *Archive) head() (Header, error) {
	r, err := openReader(a.segments[0])
	if err != nil {
		return Header{}, err
	}
	defer r.close()
	return r.header, nil
}

// beside is where the file of an origin is; "": the archive has none.
func (a *Archive) beside(seq uint64, suffix string) string {
	for _, path := range a.origins {
		if filepath.Base(path) == originName(seq, suffix) {
			return path
		}
	}
	return ""
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &FaultError{File: filepath.Base(path), Detail: fmt.Sprintf("it is larger than %d bytes", most)}
	}
	return text, err
}

// carryOrigin has an archive that begins at the log's origin have that, too: the document
// last, so that a crash leaves none, and the next export writes it.
func (x *export) carryOrigin(ctx context.Context, first uint64) error {
	o, ok := x.log.Origin()
	if !ok || x.opt.Origin == nil || o.Seq != first || o.Seq == x.log.First() {
		return nil
	}
	path := filepath.Join(x.opt.Dir, originName(o.Seq, suffixDocument))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, err := x.opt.Origin(ctx, o)
	if err != nil {
		return fmt.Errorf("read the origin of the log: %w", err)
	}
	err = writeWhole(filepath.Join(x.opt.Dir, originName(o.Seq, suffixObject)), r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("write the origin of the log: %w", err)
	}
	return artifact.WriteFile(path, o.Document, 0o600)
}

// writeWhole writes a file under its name once all of it is on the disk.
func writeWhole(path string, from io.Reader) error {
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return errors.Join(os.Rename(f.Name(), path), artifact.SyncDir(filepath.Dir(path)))
}
