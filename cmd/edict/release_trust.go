package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/projector"
)

// readPins reads the values of --trust.
func readPins(values []string) (pins []resource.Signer, err error) {
	for _, v := range values {
		var some []resource.Signer
		if strings.HasPrefix(v, "spiffe://") {
			some, err = keyPin(v)
		} else {
			some, err = filePin(v)
		}
		if err != nil {
			return nil, err
		}
		pins = append(pins, some...)
	}
	return pins, nil
}

// keyPin reads spiffe://ID=BASE64.
func keyPin(text string) ([]resource.Signer, error) {
	id, key, found := strings.Cut(text, "=")
	raw, err := base64.StdEncoding.Strict().DecodeString(key)
	if !found || err != nil || len(raw) != 32 {
		return nil, cli.Failed(cli.BadUsage, "--trust %s: want spiffe://ID=KEY, the key as the base64 of 32 bytes, or a file", text)
	}
	return []resource.Signer{{SPIFFE: id, Key: key}}, nil
}

// filePin reads the certificate of a signer, or the trust pin of a bundle.
func filePin(path string) ([]resource.Signer, error) {
	text, err := document.ReadFile(path)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "--trust: %v", document.Unreadable(path, err))
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		pin, err := artifact.ParsePin(text)
		if err != nil {
			return nil, cli.Failed(cli.Unreadable, "--trust %s: %v", path, err)
		}
		var all []resource.Signer
		for _, s := range pin.Signers {
			all = append(all, resource.Signer{SPIFFE: s.SPIFFE, Key: base64.StdEncoding.EncodeToString(s.Key)})
		}
		return all, nil
	}
	cert, err := rete.ParseCertificate(text)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "--trust %s: %v", path, err)
	}
	key, err := rete.PublicKey(cert)
	if err != nil || len(cert.URIs) != 1 {
		return nil, cli.Failed(cli.Unreadable, "--trust %s: a signer's certificate has an ed25519 key and one SPIFFE ID", path)
	}
	return []resource.Signer{{SPIFFE: cert.URIs[0].String(), Key: base64.StdEncoding.EncodeToString(key)}}, nil
}

// noteIdlePins says which pins are without effect, because their rete has
// signers and they are none of them.
func (a releaseCommands) noteIdlePins(ctx context.Context, c *client.Client, project uuid.UUID, pins []resource.Signer) error {
	if len(pins) == 0 {
		return nil
	}
	retes, err := c.Releases.Retes(ctx, project)
	if err != nil {
		return err
	}
	for _, p := range pins {
		name, _ := projector.ReteOf(p.SPIFFE)
		for _, r := range retes {
			if r.Name == name && !slices.Contains(r.Signers, p) {
				fmt.Fprintf(a.stderr, "--trust %s is without effect: rete %s has signers, %s\n", p.SPIFFE, name, signerNames(r.Signers))
			}
		}
	}
	return nil
}

func signerNames(signers []resource.Signer) string {
	names := make([]string, len(signers))
	for i, s := range signers {
		names[i] = s.SPIFFE
	}
	return some(names)
}
