package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Files of a directory of keys. What ends in .nk and .creds is secret.
const (
	seedSuffix   = ".nk"
	jwtSuffix    = ".jwt"
	operatorName = "operator"
	usersDir     = "users" // what was given out, without secrets
	workerCreds  = "worker.creds"
	systemCreds  = "sys.creds"
)

// natsAccount is one account of an external server, by the name of its files.
type natsAccount struct {
	name    string
	label   string // in the server's reports
	account streams.Account
}

// natsAccounts are the accounts of an embedded server, and the account that
// every server in operator mode has for itself. The plane's comes first: it
// says who may take from it.
var natsAccounts = []natsAccount{
	{"plane", "PLANE", streams.AccountPlane},
	{"nodes", "NODES", streams.AccountNodes},
	{"producers", "PRODUCERS", streams.AccountProducers},
	{"sys", "SYS", ""},
}

// anyNode stands for the node that credentials are for, in permissions that an
// account gives all of them: the server puts the user's name in its place.
const anyNode = "{{name()}}"

// NATSKeys is a directory with the keys and the documents of NATS servers that
// Edict does not embed: an operator, the accounts that an embedded server has,
// and what they share. The seed of an account signs its users; of the nodes'
// account it signs nothing but nodes.
type NATSKeys struct{ dir string }

// MakeNATSKeys makes a directory of keys, whole or not at all: fs.ErrExist when
// there is something of that name.
func MakeNATSKeys(dir string) (*NATSKeys, error) {
	if _, err := os.Lstat(dir); err == nil {
		return nil, &fs.PathError{Op: "make keys", Path: dir, Err: fs.ErrExist}
	}
	temp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".edict-nats-*") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it was moved away
	k := &NATSKeys{temp}
	if err := k.make(); err != nil {
		return nil, err
	}
	if err := os.Rename(temp, dir); err != nil {
		return nil, err
	}
	return &NATSKeys{dir}, nil
}

// OpenNATSKeys opens a directory of keys, or the part of one that a command
// needs: to make a node's credentials, nodes.nk and nodes.jwt.
func OpenNATSKeys(dir string) (*NATSKeys, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory of keys; name the one that was made", dir)
	}
	return &NATSKeys{dir}, nil
}

func (k *NATSKeys) make() error {
	operator, err := nkeys.CreateOperator()
	if err != nil {
		return err
	}
	identities := map[string]nkeys.KeyPair{}
	for _, a := range natsAccounts {
		if identities[a.name], err = nkeys.CreateAccount(); err != nil {
			return err
		}
	}
	claims := make([]*jwt.AccountClaims, len(natsAccounts))
	for i, a := range natsAccounts {
		if claims[i], err = k.makeAccount(a, identities); err != nil {
			return err
		}
	}
	for i, a := range natsAccounts {
		if err := k.sign(a.name, claims[i], operator); err != nil {
			return err
		}
	}
	public, err := operator.PublicKey()
	if err != nil {
		return err
	}
	oc := jwt.NewOperatorClaims(public)
	oc.Name, oc.SystemAccount = "edict", claims[len(claims)-1].Subject
	text, err := oc.Encode(operator)
	if err != nil {
		return err
	}
	if err := errors.Join(k.write(operatorName+jwtSuffix, []byte(text+"\n"), 0o644), k.writeSeed(operatorName, operator)); err != nil {
		return err
	}
	for name, make := range map[string]func(policy.PrincipalID, time.Time) (NATSCredentials, error){workerCreds: k.Worker, systemCreds: k.System} {
		c, err := make("first", time.Time{})
		if err == nil {
			err = k.write(name, c.Text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeAccount is an account with what it gives and takes, and the seed that
// signs its users. The seed of its identity is needed now, and never again.
func (k *NATSKeys) makeAccount(a natsAccount, identities map[string]nkeys.KeyPair) (*jwt.AccountClaims, error) {
	public, err := identities[a.name].PublicKey()
	if err != nil {
		return nil, err
	}
	c := jwt.NewAccountClaims(public)
	c.Name = a.label
	limitPayload(a.account, c)
	switch a.account {
	case streams.AccountNodes, streams.AccountProducers:
		c.Limits.Subs = streams.MaxSubscriptions // of each connection
	case streams.AccountPlane:
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
		}
	}
	plane, err := identities[natsAccounts[0].name].PublicKey()
	if err != nil {
		return nil, err
	}
	for _, j := range streams.Exports {
		kind := jwt.ExportType(jwt.Service)
		if j.Heard {
			kind = jwt.Stream
		}
		switch a.account {
		case streams.AccountPlane:
			e := &jwt.Export{Name: j.Subject, Subject: jwt.Subject(j.Subject), Type: kind, TokenReq: true}
			if j.Many {
				e.ResponseType = jwt.ResponseTypeStream
			}
			c.Exports.Add(e)
		case j.To:
			act := jwt.NewActivationClaims(public)
			act.ImportSubject, act.ImportType = jwt.Subject(j.Subject), kind
			token, err := act.Encode(identities[natsAccounts[0].name])
			if err != nil {
				return nil, err
			}
			c.Imports.Add(&jwt.Import{Name: j.Subject, Subject: jwt.Subject(j.Subject), Account: plane, Type: kind, Token: token})
		}
	}
	signing, err := nkeys.CreateAccount()
	if err != nil {
		return nil, err
	}
	signer, err := signing.PublicKey()
	if err != nil {
		return nil, err
	}
	if a.account == streams.AccountNodes {
		c.SigningKeys.AddScopedSigner(nodeScope(signer))
	} else {
		c.SigningKeys.Add(signer)
	}
	return c, k.writeSeed(a.name, signing)
}

// limitPayload bounds what a client of an account may send at once. An account that was
// made before there was a bound gets it when it is next signed.
func limitPayload(q streams.Account, c *jwt.AccountClaims) {
	if q == streams.AccountProducers {
		c.Limits.Payload = streams.MaxProduced
	}
}

// nodeScope is what whoever holds the seed can give: to be a node.
func nodeScope(signer string) *jwt.UserScope {
	agent := NewPrincipal(anyNode, policy.Agent, policy.Relation{Kind: policy.ObjectNode, ID: uuid.Max, Node: anyNode, Name: policy.RelationAgent})
	g, _ := agent.Permissions()
	s := jwt.NewUserScope()
	s.Key, s.Role = signer, "node"
	s.Template.Permissions = permissionsOf(g)
	return s
}

func permissionsOf(g streams.Guest) (p jwt.Permissions) {
	p.Pub.Allow.Add(g.Publish...)
	p.Sub.Allow.Add(g.Hear...)
	return p
}

// sign writes an account as the operator has it now.
func (k *NATSKeys) sign(name string, c *jwt.AccountClaims, operator nkeys.KeyPair) error {
	text, err := c.Encode(operator)
	if err != nil {
		return fmt.Errorf("account %s: %w", name, err)
	}
	return k.write(name+jwtSuffix, []byte(text+"\n"), 0o644)
}

func (k *NATSKeys) path(name string) string { return filepath.Join(k.dir, name) }

// write replaces a file whole.
func (k *NATSKeys) write(name string, body []byte, mode fs.FileMode) error {
	return artifact.WriteFile(k.path(name), body, mode)
}

func (k *NATSKeys) writeSeed(name string, pair nkeys.KeyPair) error {
	seed, err := pair.Seed()
	if err != nil {
		return err
	}
	return k.write(name+seedSuffix, append(seed, '\n'), 0o600)
}

func (k *NATSKeys) seed(name string) (nkeys.KeyPair, error) {
	text, err := os.ReadFile(k.path(name + seedSuffix))
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(text))))
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it must hold one nkey seed", k.path(name+seedSuffix), err)
	}
	return pair, nil
}

// document reads a JWT of the directory.
func (k *NATSKeys) document(name string) (string, error) {
	text, err := os.ReadFile(k.path(name + jwtSuffix))
	return strings.TrimSpace(string(text)), err
}

func (k *NATSKeys) account(name string) (*jwt.AccountClaims, error) {
	text, err := k.document(name)
	if err != nil {
		return nil, err
	}
	c, err := jwt.DecodeAccountClaims(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it must hold one account's JWT", k.path(name+jwtSuffix), err)
	}
	return c, nil
}
