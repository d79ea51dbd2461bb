package streams

import (
	"cmp"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/edictdev/edict/internal/wire"
)

// Account is a NATS account of an embedded server that admits guests. The log
// and everything of ours is in one that no guest enters: a client may have the
// server publish to any subject of its own account by way of a reply, whatever
// its permissions say. Exports are all that the others see of it.
type Account string

// The accounts.
const (
	AccountNodes     Account = "NODES"     // hear what is live, ask for a replay, report
	AccountProducers Account = "PRODUCERS" // append to the log, ask what became of it
	AccountPlane     Account = "$G"        // everything but to take from the past: administrators
)

// Guest is a client that was let in. It may publish and subscribe to these
// subjects and to no others; in AccountPlane to all but those that take from the log.
type Guest struct {
	Name    string // the same for the same credentials and rights
	Account Account
	Publish []string
	Hear    []string
	Until   time.Time // when what it showed is over; zero: it is not, by itself
}

// Credentials are what a client shows of who it is.
type Credentials struct {
	Token string
	TLS   *tls.ConnectionState // nil: none
	From  netip.Addr           // where its connection comes from
}

// Guard lets guests in.
type Guard interface {
	// Admit says who a client is; false: nobody.
	Admit(s Credentials) (Guest, bool)
}

// admission checks connections of the embedded server. Ours show a secret that
// never leaves the process.
type admission struct {
	s *Server
}

// Check implements server.Authentication.
func (a *admission) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return false
	}
	token := c.GetOpts().Token
	if token == "" {
		token = c.GetOpts().Password
	}
	accounts := a.s.accounts.Load()
	if accounts == nil {
		return false // they are being made
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.s.secret)) == 1 {
		c.RegisterUser(&server.User{Username: ownUser, Account: (*accounts)[AccountPlane]})
		return true
	}
	g, ok := a.s.opt.Guard.Admit(Credentials{token, c.GetTLSConnectionState(), remote(c)})
	if !ok {
		return false
	}
	account := (*accounts)[g.Account]
	if account == nil {
		return false
	}
	u := &server.User{Username: g.Name, Account: account}
	if g.Account != AccountPlane {
		u.Permissions = &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: notEmpty(g.Publish)},
			Subscribe: &server.SubjectPermission{Allow: notEmpty(g.Hear)},
		}
	} else {
		u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Deny: keepsPast}}
	}
	c.RegisterUser(u)
	a.s.guests.Store(c.GetID(), g)
	return true
}

// keepsPast are the requests by which the log and its witness lose or change what they
// have: the plane alone makes them, once it has proved that nothing is lost.
var keepsPast = func() (denied []string) {
	for _, stream := range []string{LogStream, ChainStream} {
		for _, call := range []string{"PURGE", "DELETE", "MSG.DELETE", "UPDATE", "RESTORE"} {
			denied = append(denied, "$JS.API.STREAM."+call+"."+stream)
		}
	}
	return denied
}()

// remote is the address of a client; the zero one of whoever is in this process.
func remote(c server.ClientAuthentication) netip.Addr {
	if a, ok := c.RemoteAddress().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// ownUser is the name under which our own connections stand.
const ownUser = "edict"

// notEmpty is a list that is not empty: an empty one would allow everything.
func notEmpty(subjects []string) []string {
	if len(subjects) == 0 {
		return []string{"edict.nothing"}
	}
	return subjects
}

// Export is what an account imports of the plane's, and all that it imports: a
// stream that it hears, or a service that it asks.
type Export struct {
	To      Account
	Subject string
	Heard   bool // a stream; else a service
	Many    bool // of the service: an answer may be several messages

	at string // where the plane serves it; empty: at the same subject
}

// Exports are those of the plane, on embedded servers and on others.
var Exports = []Export{
	{To: AccountNodes, Subject: wire.PrefixNode + ">", Heard: true},
	{To: AccountNodes, Subject: wire.PrefixReplay + "*", Many: true},
	{To: AccountNodes, Subject: wire.PrefixReport + "*"},
	{To: AccountProducers, Subject: wire.PrefixLog + ">"},
	{To: AccountProducers, Subject: wire.PrefixVerdict + "*.*"},
}

// setUpAccounts makes the accounts of a server that has started.
func (s *Server) setUpAccounts(ns *server.Server) error {
	accounts := map[Account]*server.Account{AccountPlane: ns.GlobalAccount()}
	for _, a := range []Account{AccountNodes, AccountProducers} {
		accounts[a], _ = ns.LookupOrRegisterAccount(string(a))
	}
	// An account that is no configuration's gets limits by way of claims alone,
	// which replace whatever it shares: that comes after.
	limits := jwt.NewAccountClaims(string(AccountProducers))
	limits.Limits.Payload = MaxProduced
	ns.UpdateAccountClaims(accounts[AccountProducers], limits)
	for _, j := range Exports {
		if j.Subject == wire.PrefixLog+">" {
			j.Subject, j.at = wire.PrefixLog+"*.*.*", prefixIntake+"*.*.*"
		}
		if err := j.make(accounts[AccountPlane], accounts[j.To]); err != nil {
			return fmt.Errorf("embedded server: join the accounts: %w", err)
		}
	}
	s.accounts.Store(&accounts)
	return nil
}

func (j Export) make(ours, theirs *server.Account) error {
	only := []*server.Account{theirs}
	if j.Heard {
		return errors.Join(ours.AddStreamExport(j.Subject, only), theirs.AddStreamImport(ours, j.Subject, ""))
	}
	answer := server.Singleton
	if j.Many {
		answer = server.Streamed
	}
	at := cmp.Or(j.at, j.Subject)
	return errors.Join(ours.AddServiceExportWithResponse(at, answer, only), theirs.AddServiceImport(ours, j.Subject, at))
}

// Expel ends the connections of guests that stands says no longer stand, and of
// those whose time is over.
func (s *Server) Expel(stands func(name string) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.run == nil {
		return
	}
	now := time.Now()
	s.guests.Range(func(cid, guest any) bool {
		g := guest.(Guest)
		switch id := cid.(uint64); {
		case s.run.GetClient(id) == nil:
			s.guests.Delete(cid)
		case !stands(g.Name), !g.Until.IsZero() && !now.Before(g.Until):
			_ = s.run.DisconnectClientByID(id) // it may have gone by itself
		}
		return true
	})
}
