package plane

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// rotation is the event of the rotation that made the record.
func (r keyRecord) rotation() policy.KeyRotated {
	return policy.KeyRotated{ID: r.EventID, Key: r.KeyID, Previous: r.Previous.KeyID, Expires: *r.Previous.NotAfter, CreatedBy: r.RotatedBy}
}

// logRotation sees to it that the log holds the rotation that made a record,
// before this worker goes by it: nobody meets a key whose coming the audit does
// not show. The record comes first, because it decides which of two rotations
// is one; the event follows from it, whoever writes it and after whatever
// crash, and stands alone on its subject.
//
// A worker that starts goes by the record all the same: what it did before it
// was stopped is not known, and keepKeys tries again.
func (p *Plane) logRotation(ctx context.Context, r keyRecord) error {
	if r.EventID == uuid.Nil || r.Previous == nil || r.EventID == p.keys.logged || p.guard.raised() != nil {
		return nil
	}
	err := p.appendRotation(ctx, r)
	switch {
	case err == nil:
		p.keys.logged = r.EventID
	case p.keys.now().KeyID == "":
		p.log.Warn("the rotation of the plane's key is not in the log yet; trying again", "current", r.KeyID, "error", err)
		return nil
	default:
		err = fmt.Errorf("the new key is recorded, and signs once its rotation is in the log: %w", err)
	}
	return err
}

func (p *Plane) appendRotation(ctx context.Context, r keyRecord) error {
	e := r.rotation()
	if there, err := p.stream.Holds(ctx, e); there || err != nil {
		return err
	}
	_, _, err := p.stream.Publish(ctx, streams.Append{Event: e, Principal: r.RotatedBy, Correlation: r.CorrelationID, Once: true})
	if errors.Is(err, streams.ErrWrongSequence) {
		// Another worker's, unless that one is on its way still.
		if there, herr := p.stream.Holds(ctx, e); there || herr != nil {
			return herr
		}
	}
	if err == nil {
		fault.Pass(fault.KeyLogged)
	}
	return err
}
