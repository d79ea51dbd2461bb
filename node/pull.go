package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// State is a node's whole state as it was pulled.
type State struct {
	// ID is the event id to resume after: this state has everything up to it.
	ID policy.EventID
	// LogSeq is the log sequence of the state; 0 if the plane does not send it.
	LogSeq uint64
	Body   json.RawMessage // the NodeStateSnapshot, verbatim
	// Merged is the policy block of Body; zero when that is null.
	Merged compiler.Block
	// Resolved: the rows do not say by themselves what the node enforces, and Merged
	// does (docs/datapath.md#agents-of-the-node-contract).
	Resolved bool
	// Rows are what Merged is made of, unless it is resolved.
	Rows []Row
}

// pullTries bounds how often a pull is begun again because the rows changed
// between its two requests.
const pullTries = 5

// errMoving: the rows changed under every try of a pull.
var errMoving = errors.New("the rows of the node kept changing while its state was pulled")

// documents fetches what a plane serves a node over HTTP.
type documents struct {
	server  string // empty: there is none
	node    policy.NodeID
	client  *http.Client
	silence time.Duration // bounds a request
}

// url is that of something about the node.
func (d *documents) url(what string) string { return d.server + "/v1/nodes/" + string(d.node) + what }

// pull fetches the node's merged state and its single rows, which must agree.
func (d *documents) pull(ctx context.Context) (State, error) {
	for range pullTries {
		s, err := d.state(ctx)
		if err != nil {
			return State{}, fmt.Errorf("pull the state: %w", err)
		}
		if s.Rows, err = d.rows(ctx); err != nil {
			return State{}, fmt.Errorf("pull the rows: %w", err)
		}
		if s.Resolved || merged(s.Rows).Fingerprint == s.Merged.Fingerprint {
			return s, nil
		}
	}
	return State{}, errMoving
}

func (d *documents) state(ctx context.Context) (State, error) {
	body, header, err := d.get(ctx, d.url("/state"), maxFrame)
	if err != nil {
		return State{}, err
	}
	s := State{Body: body}
	if s.ID, err = standsAt(header); err != nil {
		return State{}, err
	}
	s.LogSeq, _ = strconv.ParseUint(header.Get(wire.HeaderLogSeq), 10, 64)
	var doc struct {
		Policy *struct {
			RevisionID  uuid.UUID       `json:"revision_id"`
			Fingerprint string          `json:"fingerprint"`
			Rules       json.RawMessage `json:"rules"`
			Resolved    bool            `json:"resolved"`
		} `json:"policy"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return State{}, err
	}
	if doc.Policy == nil {
		return s, nil
	}
	s.Resolved = doc.Policy.Resolved
	s.Merged = compiler.Block{Revision: doc.Policy.RevisionID, Rules: doc.Policy.Rules}
	return s, s.Merged.Fingerprint.UnmarshalText([]byte(doc.Policy.Fingerprint))
}

// standsAt is the event id of what was pulled: it has everything up to there.
func standsAt(header http.Header) (policy.EventID, error) {
	id, err := policy.ParseEventID(header.Get(wire.HeaderEventID))
	if err != nil {
		return 0, fmt.Errorf("header %s: %w; is this an edict server, and not older than this client?", wire.HeaderEventID, err)
	}
	return id, nil
}

func (d *documents) rows(ctx context.Context) ([]Row, error) {
	body, _, err := d.get(ctx, d.url("/rulesets"), maxFrame)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Items []struct {
			PolicyID    uuid.UUID `json:"policy_id"`
			RevisionID  uuid.UUID `json:"revision_id"`
			Fingerprint string    `json:"fingerprint"`
			RulePayload string    `json:"rule_payload"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	out := make([]Row, 0, len(doc.Items))
	for _, item := range doc.Items {
		var fp compiler.Fingerprint
		if err := fp.UnmarshalText([]byte(item.Fingerprint)); err != nil {
			return nil, err
		}
		rules := []byte(item.RulePayload)
		if compiler.FingerprintOf(rules) != fp || len(rules) < 2 || rules[0] != '[' {
			return nil, fmt.Errorf("the rules of policy %s are not those of its fingerprint", item.PolicyID)
		}
		plain := compiler.Plain(rules, fp)
		out = append(out, Row{item.PolicyID, item.RevisionID, plain.Fingerprint, plain.Payload})
	}
	return out, nil
}

// keys takes the plane's keys into a trust set.
func (d *documents) keys(ctx context.Context, trust *artifact.TrustSet) error {
	body, _, err := d.get(ctx, d.server+"/v1/keys", maxFrame)
	if err == nil {
		err = addKeys(trust, body)
	}
	if err == nil && len(trust.Keys(artifact.PlanePolicy)) == 0 {
		err = errors.New("there is none that this client reads; see whether that is an edict server, and what stands between")
	}
	if err != nil {
		return fmt.Errorf("fetch the plane's keys: %w", err)
	}
	return nil
}

// ParseKeys reads the keys to trust from the document that the plane shows at
// /v1/keys.
func ParseKeys(doc []byte) (*artifact.TrustSet, error) {
	trust := artifact.NewTrustSet()
	return trust, addKeys(trust, doc)
}

// keysDocument is what a plane shows at /v1/keys.
type keysDocument struct {
	Items []struct {
		KeyID     string     `json:"key_id"`
		Alg       string     `json:"alg"`
		Plane     string     `json:"plane"`
		PublicKey []byte     `json:"public_key"`
		NotAfter  *time.Time `json:"not_after"`
	} `json:"items"`
}

func addKeys(trust *artifact.TrustSet, body []byte) error {
	var doc keysDocument
	if err := json.Unmarshal(body, &doc); err != nil {
		return err
	}
	for _, k := range doc.Items {
		if k.Alg != "ed25519" {
			continue // of a plane newer than this client
		}
		var until time.Time
		if k.NotAfter != nil {
			until = *k.NotAfter
		}
		if err := trust.Add(k.Plane, k.KeyID, k.PublicKey, until); err != nil {
			return err
		}
	}
	return nil
}

// get fetches a document of at most so many bytes.
func (d *documents) get(ctx context.Context, url string, most int) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, d.silence)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, newStatusError(resp)
	}
	body, err := readBounded(resp.Body, most)
	return body, resp.Header, err
}
