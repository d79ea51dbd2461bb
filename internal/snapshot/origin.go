package snapshot

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// OriginManifest says what the origin of a log is: a checkpoint that the plane signed, from
// which its facts follow once the events before it are removed.
type OriginManifest struct {
	Manifest
	Before    string `json:"before"`            // chain hash before the event at Seq, 64 hex digits
	SHA256    string `json:"sha256"`            // of the object, 64 hex digits
	Archive   string `json:"archive,omitempty"` // of the events before; absent: nobody named one
	PublicKey string `json:"public_key"`        // that signed, base64 of 32 bytes
}

// originKind is that of the envelope.
const originKind = "log_origin"

// originPrefix begins the names of origins' objects.
const originPrefix = "origin-"

// Trust reports whether a key is the plane's, or ever was.
type Trust func(keyID string) bool

// seal signs a manifest.
func (m OriginManifest) seal(s *artifact.Signer) (document []byte, err error) {
	m.PublicKey = base64.StdEncoding.EncodeToString(s.PublicKey())
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return s.Seal(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: originKind, Version: m.Seq, Name: m.Log, GeneratedAt: m.Time, Payload: payload,
	})
}

// OpenOrigin verifies the document of an origin: that the plane signed it, as it stands.
func OpenOrigin(document []byte, trust Trust) (m OriginManifest, err error) {
	e, err := artifact.Parse(document)
	if err != nil {
		return m, err
	}
	if e.Kind != originKind || e.Plane != artifact.PlanePolicy {
		return m, fmt.Errorf("it is a document of kind %q, not of an origin", e.Kind)
	}
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return m, err
	}
	public, err := base64.StdEncoding.DecodeString(m.PublicKey)
	if err != nil {
		return m, err
	}
	if !trust(e.Signature.KeyID) || artifact.KeyID(public) != e.Signature.KeyID {
		return m, fmt.Errorf("%w: %s was never the plane's", artifact.ErrUnknownKey, e.Signature.KeyID)
	}
	keys := artifact.NewTrustSet()
	if err := keys.Add(e.Plane, e.Signature.KeyID, public, time.Time{}); err != nil {
		return m, err
	}
	if _, err := keys.Verify(e); err != nil {
		return m, err
	}
	if e.Version != m.Seq || e.Name != m.Log {
		return m, errors.New("its envelope and its payload speak of different origins")
	}
	return m, nil
}

// origin is what the log has as its origin, by a manifest in its document.
func (m OriginManifest) origin(document []byte, revision uint64) (streams.Origin, error) {
	o, err := streams.ParseOrigin(m.Log, document)
	o.Revision = revision
	return o, err
}

// RestoreOrigin makes the store in dir, which must not exist or be empty, from the origin
// of a log, and leaves it closed. Beside what Restore checks it verifies the plane's
// signature and the object's SHA-256. Whatever fails removes dir: *streams.DamagedError
// when the origin is at fault.
func (c *Checkpoints) RestoreOrigin(ctx context.Context, o streams.Origin, trust Trust, log Getter, dir string, opt projector.Options) error {
	m, err := OpenOrigin(o.Document, trust)
	if err == nil {
		err = m.restore(ctx, c, o, log, dir, opt)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNotEmpty) {
		return err
	}
	return unusable(o, err)
}

// unusable is what it means that an origin was not restored, or read: *streams.DamagedError,
// where it is neither for want of a server that answers nor for what this machine's disk refuses.
func unusable(o streams.Origin, err error) error {
	switch {
	case streams.Leaderless(err):
		return err
	case errors.Is(err, context.Canceled): // by the connection, since the caller went on
		return fmt.Errorf("read the origin of %s, at %d: %w: the connection was lost meanwhile (%v)", streams.LogStream, o.Seq, streams.ErrNoAnswer, err) //nolint:errorlint // nobody was stopped
	}
	for _, refused := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, refused) {
			return fmt.Errorf("restore the origin of %s, at %d: %w", streams.LogStream, o.Seq, err)
		}
	}
	return &streams.DamagedError{
		Damage: streams.DamageOrigin, To: o.Seq,
		Detail: fmt.Sprintf("the origin of %s, at %d, cannot be used: %v", streams.LogStream, o.Seq, err),
	}
}

func (m OriginManifest) restore(ctx context.Context, c *Checkpoints, o streams.Origin, log Getter, dir string, opt projector.Options) error {
	if o.Seq != m.Seq || hex.EncodeToString(o.Before[:]) != m.Before || hex.EncodeToString(o.Hash[:]) != m.Chain {
		return errors.New("its record and its document speak of different origins")
	}
	if o.Log != logID(opt.Created) {
		return fmt.Errorf("it is recorded for log %s, this one is %s", o.Log, logID(opt.Created))
	}
	made := opt
	ns, err := strconv.ParseInt(m.Log, 10, 64)
	if err != nil {
		return err
	}
	made.Created = time.Unix(0, ns).UTC()
	// The links are of this log, whatever the one was that it was imported from.
	made.Links = nil
	if m.Schema != projector.SchemaVersion {
		return fmt.Errorf("it has store schema %d, this binary reads %d: a release that reads both must make a new origin", m.Schema, projector.SchemaVersion)
	}
	if err := c.restore(ctx, m.Manifest, m.SHA256, log, dir, made); err != nil {
		return err
	}
	if made.Created.Equal(opt.Created) {
		return nil
	}
	return projector.Rehome(dir, made.On(c.fs), opt.Created)
}

// OpenOriginStore opens the checkpoints of a log on its server, to restore an origin of it, which
// is lost with them: *streams.DamagedError.
func OpenOriginStore(ctx context.Context, conn *streams.Conn, created time.Time, o streams.Origin) (*Checkpoints, error) {
	c, err := OpenCheckpoints(ctx, conn, created, false)
	if errors.Is(err, streams.ErrNotFound) {
		err = unusable(o, err)
	}
	return c, err
}

// BeginFromOrigin restores the origin of the log into dir, which must be empty or new;
// FoldTo takes the read model on from there.
func BeginFromOrigin(ctx context.Context, c *Checkpoints, o streams.Origin, trust Trust, log interface {
	Log
	Getter
}, dir string, opt projector.Options,
) (*Replayed, error) {
	if err := c.RestoreOrigin(ctx, o, trust, log, dir, opt); err != nil {
		return nil, err
	}
	return begin(log, dir, opt)
}

// tidyOrigins removes the objects of origins that were replaced, and those that nothing
// ever named and that are older than any compaction that may be under way.
func (c *Checkpoints) tidyOrigins(ctx context.Context, o streams.Origin, name string) error {
	return c.remove(ctx, func(x streams.Object) bool {
		seq, ok := originSeq(x.Name)
		return ok && x.Name != name && (seq < o.Seq || time.Since(x.Time) > sweepAge)
	})
}

// originSeq is where an origin stands whose object has this name.
func originSeq(name string) (seq uint64, ok bool) {
	text, ok := strings.CutPrefix(name, originPrefix)
	if !ok {
		return 0, false
	}
	text, _, _ = strings.Cut(text, "-")
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil
}
