package tour

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
)

// compare holds what every node was sent last against labels and selectors,
// and what followed nodes hold against the plane's states.
func (t *tour) compare(ctx context.Context) error {
	want := t.world.rows()
	err := t.tap.await(ctx, "the rows do not settle", func() bool { return len(t.tap.rows) == len(want) })
	if err != nil {
		return err
	}
	extra, missing := t.tap.differences(want)
	if err := check("rows sent that no node should have, or that are missing", 0, extra+missing); err != nil {
		return err
	}
	if err := t.crowd.rising(); err != nil {
		return err
	}
	if err := t.tellsNobodyElse(); err != nil {
		return err
	}
	compared := 0
	for id := range t.crowd.members {
		if id == t.world.nodes[t.world.traveller].ID {
			continue // it resumed, and knows what changed since alone
		}
		if err := t.equalsState(ctx, id); err != nil {
			return err
		}
		compared++
	}
	t.tell("%s rows that nodes were sent last equal what labels and selectors say; %d agents hold what their states say,",
		thousands(len(want)), compared)
	t.more("their events in order, none twice.")
	return nil
}

// tellsNobodyElse checks that followed nodes heard of a change if, and only
// if, it changed a row of theirs.
func (t *tour) tellsNobodyElse() error {
	t.crowd.mu.Lock()
	defer t.crowd.mu.Unlock()
	for _, c := range t.causes {
		concerned := perNode(c.rows)
		for id, m := range t.crowd.members {
			if id == t.world.nodes[t.world.traveller].ID {
				continue
			}
			heard, _ := m.heard(t.crowd.base, c.seq)
			if err := check(fmt.Sprintf("messages about event %d to node %s", c.seq, id), concerned[id], heard); err != nil {
				return err
			}
		}
	}
	return nil
}

// replay folds the log again and compares digests.
func (t *tour) replay(ctx context.Context) error {
	log := t.log
	began := time.Now()
	r, err := snapshot.Replay(ctx, log, filepath.Join(t.dir, "replay"), projector.Options{
		Partitions: log.Partitions(), Created: log.Created(), First: log.First(),
	}, nil)
	if err != nil {
		return err
	}
	took := time.Since(began)
	live, err := t.client.Status(ctx, true)
	if err != nil {
		return err
	}
	if live.Applied != r.Seq || live.Digest != r.Digest {
		return fmt.Errorf("%w: the replay has digest %s at %d, the plane %s at %d", errDiffers, r.Digest, r.Seq, live.Digest, live.Applied)
	}
	t.tell("The log, %s events, was folded again into an empty directory in %s: %s rows, and the plane's own digest,",
		thousands(int(r.Seq)), ms(took), thousands(r.Rows))
	t.more("%s.", r.Digest)
	return nil
}

// stateFingerprint is that of a state's policy block. The rules are not looked at: they are most of a state.
func stateFingerprint(body []byte) (string, error) {
	var s struct {
		Policy *struct {
			Fingerprint string `json:"fingerprint"`
		} `json:"policy"`
	}
	if err := json.Unmarshal(body, &s); err != nil || s.Policy == nil {
		return "", err
	}
	return s.Policy.Fingerprint, nil
}

func fingerprintText(m compiler.Block) string {
	if m.Rules == nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(m.Fingerprint[:])
}
