package streams

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/edictdev/edict/wire"
)

// Quarters are the accounts of an embedded server that admits guests. The log
// and everything of ours is in one that no guest enters: a client may have the
// server publish to any subject of its own account by way of a reply, whatever
// its permissions say (shared reference, reliability 0.1). The accounts are
// joined by services and a stream, and by nothing else.
type Quarter string

// The quarters.
const (
	QuarterNodes     Quarter = "NODES"     // hear what is live, ask for a replay, report
	QuarterProducers Quarter = "PRODUCERS" // append to the log
	QuarterPlane     Quarter = "$G"        // everything: administrators
)

// Guest is a client that was let in. It may publish and subscribe to these
// subjects and to no others; in QuarterPlane to all.
type Guest struct {
	Name    string // the same for the same credentials and rights
	Quarter Quarter
	Publish []string
	Inbox   string // prefix of its inboxes; what comes in answer
	Hear    []string
	Until   time.Time // when what it showed is over; zero: it is not, by itself
}

// Shown is what a client shows of who it is.
type Shown struct {
	Token string
	TLS   *tls.ConnectionState // nil: none
	From  netip.Addr           // where its connection comes from
}

// Guard lets guests in.
type Guard interface {
	// Admit says who a client is; false: nobody.
	Admit(s Shown) (Guest, bool)
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
	quarters := a.s.quarters.Load()
	if quarters == nil {
		return false // they are being made
	}
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.s.secret)) == 1 {
		c.RegisterUser(&server.User{Username: ownUser, Account: (*quarters)[QuarterPlane]})
		return true
	}
	g, ok := a.s.opt.Guard.Admit(Shown{token, c.GetTLSConnectionState(), remote(c)})
	if !ok {
		return false
	}
	account := (*quarters)[g.Quarter]
	if account == nil {
		return false
	}
	u := &server.User{Username: g.Name, Account: account}
	if g.Quarter != QuarterPlane {
		u.Permissions = &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: some(g.Publish)},
			Subscribe: &server.SubjectPermission{Allow: some(append([]string{g.Inbox + ".>"}, g.Hear...))},
		}
	}
	c.RegisterUser(u)
	a.s.guests.Store(c.GetID(), g)
	return true
}

// remote is the address of a client; the zero one of whoever is in this process.
func remote(c server.ClientAuthentication) netip.Addr {
	if a, ok := c.RemoteAddress().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// ownUser is the name under which our own connections stand.
const ownUser = "edict"

// some is a list that is not empty: an empty one would allow everything.
func some(subjects []string) []string {
	if len(subjects) == 0 {
		return []string{"edict.nothing"}
	}
	return subjects
}

// Joint is what a quarter is given of the plane's, and all that it is given: a
// stream that it hears, or a service that it asks.
type Joint struct {
	To      Quarter
	Subject string
	Heard   bool // a stream; else a service
	Many    bool // of the service: an answer may be several messages
}

// Joints join the quarters, on embedded servers and on others.
var Joints = []Joint{
	{To: QuarterNodes, Subject: wire.PrefixNode + ">", Heard: true},
	{To: QuarterNodes, Subject: wire.PrefixReplay + "*", Many: true},
	{To: QuarterNodes, Subject: wire.PrefixReport + "*"},
	{To: QuarterProducers, Subject: wire.PrefixLog + ">"},
}

// furnish makes the quarters of a server that has started.
func (s *Server) furnish(ns *server.Server) error {
	quarters := map[Quarter]*server.Account{QuarterPlane: ns.GlobalAccount()}
	for _, q := range []Quarter{QuarterNodes, QuarterProducers} {
		quarters[q], _ = ns.LookupOrRegisterAccount(string(q))
	}
	// An account that is no configuration's gets limits by way of claims alone,
	// which replace whatever it shares: that comes after.
	limits := jwt.NewAccountClaims(string(QuarterProducers))
	limits.Limits.Payload = MaxProduced
	ns.UpdateAccountClaims(quarters[QuarterProducers], limits)
	for _, j := range Joints {
		if err := j.make(quarters[QuarterPlane], quarters[j.To]); err != nil {
			return fmt.Errorf("embedded server: join the accounts: %w", err)
		}
	}
	s.quarters.Store(&quarters)
	return nil
}

func (j Joint) make(ours, theirs *server.Account) error {
	only := []*server.Account{theirs}
	if j.Heard {
		return errors.Join(ours.AddStreamExport(j.Subject, only), theirs.AddStreamImport(ours, j.Subject, ""))
	}
	answer := server.Singleton
	if j.Many {
		answer = server.Streamed
	}
	return errors.Join(ours.AddServiceExportWithResponse(j.Subject, answer, only), theirs.AddServiceImport(ours, j.Subject, j.Subject))
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
