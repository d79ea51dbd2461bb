package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	name, object := originName(h.First, suffixDocument), originName(h.First, suffixObject)
	if !a.has(name) || !a.has(object) {
		return o, false, a.halved(name, object)
	}
	text, err := a.readBounded(name, maxDocument)
	if err != nil {
		return o, false, err
	}
	if o, err = streams.ParseOrigin(h.Log, text); err != nil {
		return o, false, &FaultError{File: name, Detail: err.Error()}
	}
	before, err := readHash(h.Chain)
	if err == nil && (o.Seq != h.First || o.Before != before) {
		err = &FaultError{File: name, Detail: fmt.Sprintf("it is of event %d with chain hash %x before it, the archive begins at %d with %x", o.Seq, o.Before[:8], h.First, before[:8])}
	}
	return o, err == nil, err
}

// halved is the fault of an archive that has one of the files of its origin without the other: it
// would pass for one that was begun in the middle of a log on purpose.
func (a *Archive) halved(document, object string) error {
	lost, there := document, object
	if a.has(document) {
		lost, there = object, document
	}
	if !a.has(there) {
		return nil
	}
	return &FaultError{File: lost, Detail: fmt.Sprintf("it is missing, and %s is there: no log is made of the archive without both", there)}
}

// OriginObject opens what was folded up to the archive's origin. Close it.
func (a *Archive) OriginObject() (io.ReadCloser, error) {
	h, err := a.head()
	if err != nil {
		return nil, err
	}
	return a.at.open(originName(h.First, suffixObject))
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
	name := originName(o.Seq, suffixObject)
	r, err := a.at.open(name)
	if err != nil {
		return err
	}
	f, err := sumOf(r)
	if err == nil && f.SHA256 != d.Payload.SHA256 {
		err = &FaultError{File: name, Detail: fmt.Sprintf("it has SHA-256 %.16s, the document of the origin says %.16s", f.SHA256, d.Payload.SHA256)}
	}
	return err
}

// head is the header of the first segment.
func (a *Archive) head() (Header, error) {
	r, err := openReader(a.at, a.segments[0])
	if err != nil {
		return Header{}, err
	}
	defer r.close()
	return r.header, nil
}

// has reports whether the archive has the file of an origin.
func (a *Archive) has(name string) bool { return slices.Contains(a.origins, name) }

func (a *Archive) readBounded(name string, most int64) ([]byte, error) {
	f, err := a.at.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &FaultError{File: name, Detail: fmt.Sprintf("it is larger than %d bytes", most)}
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
	object, document := originName(o.Seq, suffixObject), originName(o.Seq, suffixDocument)
	if names, err := x.at.names(); err != nil || slices.Contains(names, document) && slices.Contains(names, object) {
		return err
	}
	r, err := x.opt.Origin(ctx, o)
	if err != nil {
		return fmt.Errorf("read the origin of the log: %w", err)
	}
	err = store(x.at, object, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("write the origin of the log: %w", err)
	}
	return store(x.at, document, bytes.NewReader(o.Document))
}

// store gives a place a file, whole or not at all.
func store(at place, name string, from io.Reader) error {
	f, err := at.create(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return errors.Join(err, f.drop())
	}
	return f.keep()
}
