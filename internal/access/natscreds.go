package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// NATSCredentials let a client of an external server in.
type NATSCredentials struct {
	Text []byte // of a credentials file: secret
	User string // public key, by which they are revoked
}

// ErrNothingOverNATS means that a principal with these relations has nothing to
// do on a NATS server.
var ErrNothingOverNATS = errors.New("these relations allow nothing over NATS; a producer needs project:<uuid>#operator")

// Node makes credentials of a node's agent. Zero expires: never.
func (k *NATSKeys) Node(id policy.NodeID, expires time.Time) (NATSCredentials, error) {
	return k.issue("nodes", string(id), expires, func(c *jwt.UserClaims) { c.SetScoped(true) })
}

// Producer makes credentials of who appends to the log: what the relations
// allow over an embedded server they allow here, until the credentials are
// over.
func (k *NATSKeys) Producer(id policy.PrincipalID, relations []policy.Relation, expires time.Time) (NATSCredentials, error) {
	g, ok := NewPrincipal(id, policy.Service, relations...).Permissions()
	if !ok || g.Account != streams.AccountProducers {
		return NATSCredentials{}, ErrNothingOverNATS
	}
	return k.issue("producers", string(id), expires, func(c *jwt.UserClaims) { c.Permissions = permissionsOf(g) })
}

// Worker makes credentials of the plane's own processes, and of its
// administrators: they may do everything to its streams.
func (k *NATSKeys) Worker(name policy.PrincipalID, expires time.Time) (NATSCredentials, error) {
	return k.issue("plane", string(name), expires, nil)
}

// System makes credentials for the server's own account: to watch it.
func (k *NATSKeys) System(name policy.PrincipalID, expires time.Time) (NATSCredentials, error) {
	return k.issue("sys", string(name), expires, nil)
}

func (k *NATSKeys) issue(account, name string, expires time.Time, shape func(*jwt.UserClaims)) (out NATSCredentials, err error) {
	signing, err := k.seed(account)
	if err != nil {
		return out, err
	}
	of, err := k.account(account)
	if err != nil {
		return out, err
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return out, err
	}
	if out.User, err = user.PublicKey(); err != nil {
		return out, err
	}
	c := jwt.NewUserClaims(out.User)
	c.Name, c.IssuerAccount = name, of.Subject
	if !expires.IsZero() {
		c.Expires = expires.Unix()
	}
	if shape != nil {
		shape(c)
	}
	text, err := c.Encode(signing)
	if err != nil {
		return out, err
	}
	seed, err := user.Seed()
	if err != nil {
		return out, err
	}
	if out.Text, err = jwt.FormatUserConfig(text, seed); err != nil {
		return out, err
	}
	if err := os.MkdirAll(k.path(usersDir), 0o700); err != nil {
		return out, err
	}
	return out, k.write(filepath.Join(usersDir, account+"-"+name+"-"+out.User+jwtSuffix), []byte(text+"\n"), 0o644)
}

// Write writes the credentials to a file that its owner alone may read, whole:
// a client that reads it while it is replaced gets the old or the new ones.
func (c NATSCredentials) Write(path string) error { return artifact.WriteFile(path, c.Text, 0o600) }

// Revoke ends credentials: their user's public key, a file that holds them, or
// the one of directory users that names them. Nobody is cut off before the
// servers have the new configuration. An account lists all that were revoked, so who revokes
// others meanwhile has his turn before or after.
func (k *NATSKeys) Revoke(ctx context.Context, what string) (user string, err error) {
	c, err := k.issued(what)
	if err != nil {
		return "", err
	}
	release, err := Alone(ctx, k.path("revoke"))
	if err != nil {
		return "", err
	}
	defer release()
	operator, err := k.seed(operatorName)
	if err != nil {
		return "", err
	}
	for _, a := range natsAccounts {
		of, err := k.account(a.name)
		if err != nil {
			return "", err
		}
		limitPayload(a.account, of)
		if of.Subject != c.IssuerAccount {
			continue
		}
		// All of the user's documents, one that its own clock dates ahead too.
		of.RevokeAt(c.Subject, time.Unix(max(time.Now().Unix(), c.IssuedAt), 0))
		return c.Subject, k.sign(a.name, of, operator)
	}
	return "", fmt.Errorf("%s: the credentials are of another operator's server", what)
}

// CheckNATSCreds says why a file is none of credentials of a NATS user. That a server lets
// them in only the server knows.
func CheckNATSCreds(path string) error {
	text, err := readWhole(path)
	if err != nil {
		return err
	}
	key, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return fmt.Errorf("%s holds no credentials of a NATS user: %w; make some with edict nats creds", path, err)
	}
	key.Wipe()
	return nil
}

// issued finds what was given out.
func (k *NATSKeys) issued(what string) (*jwt.UserClaims, error) {
	path := what
	if nkeys.IsValidPublicUserKey(what) {
		all, err := os.ReadDir(k.path(usersDir)) // a pattern would take a bracket of the path for one of its own
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), "-"+what+jwtSuffix) })
		if i < 0 {
			return nil, fmt.Errorf("%s has no user %s; name the file of the credentials instead", k.path(usersDir), what)
		}
		path = filepath.Join(k.path(usersDir), all[i].Name())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, fmt.Errorf("%s holds no credentials of a NATS user: %w", path, err)
	}
	return c, nil
}
