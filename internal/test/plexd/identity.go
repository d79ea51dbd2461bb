package plexd

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Registration is how an agent asks to be a node.
type Registration struct {
	Token    string // one-time bootstrap token
	Project  string // current dialect: a UUID
	Resource string // current dialect: what the node is called
	Hostname string // legacy dialect
}

// Identity is what an agent is known by, and whom it believes.
type Identity struct {
	NodeID           string            `json:"node_id"`
	MeshIP           string            `json:"mesh_ip,omitempty"`
	SigningKeyID     string            `json:"signing_key_id,omitempty"` // current dialect
	SigningPublicKey ed25519.PublicKey `json:"-"`
	Bearer           string            `json:"-"` // empty: it sends none
	PrivateKey       []byte            `json:"-"` // X25519
}

// RegistrationError is a registration that the plane refused.
type RegistrationError struct {
	Status int
	Code   string
}

// Error gives the status and the code.
func (e *RegistrationError) Error() string {
	return fmt.Sprintf("plexd: registration refused: %d %s", e.Status, e.Code)
}

// enter finds out who the agent is.
func (a *Agent) enter(ctx context.Context) error {
	if a.opt.Identity != nil {
		a.become(*a.opt.Identity)
		return nil
	}
	if a.opt.DataDir != "" {
		id, err := loadIdentity(a.opt.DataDir)
		if err == nil {
			a.become(id)
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	id, err := a.register(ctx)
	if err != nil {
		return err
	}
	if a.opt.DataDir != "" {
		if err := id.save(a.opt.DataDir); err != nil {
			return err
		}
	}
	a.become(id)
	return nil
}

func (a *Agent) become(id Identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.identity = id
}

// reload is what an agent does when its credentials are denied: it reads them
// again, in case somebody has put others there.
func (a *Agent) reload() {
	if a.opt.DataDir == "" {
		return
	}
	if id, err := loadIdentity(a.opt.DataDir); err == nil {
		a.become(id)
	}
}

// registered is an answer in either dialect.
type registered struct {
	NodeID           string `json:"node_id"`
	MeshIP           string `json:"mesh_ip"`
	SigningPublicKey string `json:"signing_public_key"`
	SigningKeyID     string `json:"signing_key_id"`
	NSK              string `json:"nsk"`
	NodeSecretKey    string `json:"node_secret_key"`
}

// register asks until it is answered. What cannot succeed the next time is an
// error.
func (a *Agent) register(ctx context.Context) (id Identity, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return id, err
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // it cannot fail
	public := base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())
	r := a.opt.Registration
	body := map[string]any{
		"project_id": r.Project, "resource_handle": r.Resource, "bootstrap_token": r.Token,
		"nonce": hex.EncodeToString(nonce[:]), "public_key": public,
	}
	if a.opt.Dialect == Legacy {
		body = map[string]any{"token": r.Token, "public_key": public, "hostname": r.Hostname}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return id, err
	}
	pauses := backoff{Periods: a.opt.Periods}
	for {
		answer, status, err := a.askToRegister(ctx, text)
		if err == nil && a.welcome(status) {
			a.book.note(func(c *Counters) { c.Registrations++ })
			return a.identify(answer, key.Bytes())
		}
		if err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
			return id, &RegistrationError{status, codeOf(answer)}
		}
		if !rest(ctx, pauses.pause()) {
			return id, ctx.Err()
		}
	}
}

// welcome reports whether a status means that the agent is registered.
func (a *Agent) welcome(status int) bool {
	if a.opt.Dialect == Current {
		return status == http.StatusCreated
	}
	return status/100 == 2
}

func (a *Agent) askToRegister(ctx context.Context, body []byte) (answer []byte, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.opt.Base()+"/v1/register", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	if a.opt.Dialect == Legacy {
		req.Header.Set("Authorization", "Bearer "+a.opt.Registration.Token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer, resp.StatusCode, err
}

// identify reads what the agent was given; it does not start without a usable
// signing key.
func (a *Agent) identify(answer, private []byte) (id Identity, err error) {
	var r registered
	if err := json.Unmarshal(answer, &r); err != nil {
		return id, fmt.Errorf("plexd: the answer to the registration: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(r.SigningPublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return id, fmt.Errorf("plexd: signing_public_key %q is not the base64 of 32 bytes", r.SigningPublicKey)
	}
	id = Identity{NodeID: r.NodeID, MeshIP: r.MeshIP, SigningKeyID: r.SigningKeyID, SigningPublicKey: key, PrivateKey: private, Bearer: r.NodeSecretKey}
	if a.opt.Dialect == Current {
		id.Bearer, err = Bearer(r.NodeID, r.NSK)
	}
	if err == nil && (id.NodeID == "" || id.Bearer == "") {
		err = errors.New("plexd: the answer to the registration lacks node_id or its secret")
	}
	return id, err
}

// Bearer is the current dialect's bearer token: the node's id, which is a UUID,
// and the node's secret of 32 bytes, given as base64.
func Bearer(node, nsk string) (string, error) {
	id, err := hex.DecodeString(strings.ReplaceAll(node, "-", ""))
	if err != nil || len(id) != 16 || len(node) != 36 {
		return "", fmt.Errorf("plexd: node_id %q is not a UUID", node)
	}
	secret, err := base64.StdEncoding.DecodeString(nsk)
	if err != nil || len(secret) != 32 {
		return "", errors.New("plexd: nsk is not the base64 of 32 bytes")
	}
	return "nsk_plexd_" + base64.RawURLEncoding.EncodeToString(append(id, secret...)), nil
}

// The files of an identity.
const (
	identityFile   = "identity.json"
	privateKeyFile = "private_key"
	secretFile     = "node_secret_key"
	signerFile     = "signing_public_key"
)

func (id Identity) save(dir string) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	// identity.json last: with it the identity is whole.
	for _, f := range []struct {
		name string
		text []byte
	}{
		{privateKeyFile, []byte(base64.StdEncoding.EncodeToString(id.PrivateKey))},
		{secretFile, []byte(id.Bearer)},
		{signerFile, []byte(base64.StdEncoding.EncodeToString(id.SigningPublicKey))},
		{identityFile, text},
	} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func loadIdentity(dir string) (id Identity, err error) {
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, err
	}
	for name, take := range map[string]func([]byte) error{
		privateKeyFile: func(b []byte) (err error) {
			id.PrivateKey, err = base64.StdEncoding.DecodeString(string(b))
			return err
		},
		secretFile: func(b []byte) error { id.Bearer = string(b); return nil },
		signerFile: func(b []byte) (err error) {
			id.SigningPublicKey, err = base64.StdEncoding.DecodeString(string(b))
			return err
		},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = take(bytes.TrimSpace(text))
		}
		if err != nil {
			return id, fmt.Errorf("plexd: %s: %w", name, err)
		}
	}
	return id, nil
}
