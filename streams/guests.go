package streams

import (
	"crypto/subtle"
	"crypto/tls"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
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
}

// Shown is what a client shows of who it is.
type Shown struct {
	Token string
	TLS   *tls.ConnectionState // nil: none
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
	g, ok := a.s.opt.Guard.Admit(Shown{token, c.GetTLSConnectionState()})
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
	a.s.guests.Store(c.GetID(), g.Name)
	return true
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

// furnish makes the quarters of a server that has started.
func (s *Server) furnish(ns *server.Server) error {
	ours := ns.GlobalAccount()
	nodes, _ := ns.LookupOrRegisterAccount(string(QuarterNodes))
	producers, _ := ns.LookupOrRegisterAccount(string(QuarterProducers))
	const replayFilter = replayPrefix + "*"
	toNodes, toProducers := []*server.Account{nodes}, []*server.Account{producers}
	for _, step := range []func() error{
		func() error { return ours.AddStreamExport(livePrefix+">", toNodes) },
		func() error { return nodes.AddStreamImport(ours, livePrefix+">", "") },
		func() error { return ours.AddServiceExportWithResponse(replayFilter, server.Streamed, toNodes) },
		func() error { return nodes.AddServiceImport(ours, replayFilter, replayFilter) },
		func() error { return ours.AddServiceExport(reportPrefix+"*", toNodes) },
		func() error { return nodes.AddServiceImport(ours, reportPrefix+"*", reportPrefix+"*") },
		func() error { return ours.AddServiceExport(logPrefix+">", toProducers) },
		func() error { return producers.AddServiceImport(ours, logPrefix+">", logPrefix+">") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("embedded server: join the accounts: %w", err)
		}
	}
	s.quarters.Store(&map[Quarter]*server.Account{QuarterPlane: ours, QuarterNodes: nodes, QuarterProducers: producers})
	return nil
}

// Expel ends the connections of guests that stands says no longer stand.
func (s *Server) Expel(stands func(name string) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.run == nil {
		return
	}
	s.guests.Range(func(cid, name any) bool {
		switch id := cid.(uint64); {
		case s.run.GetClient(id) == nil:
			s.guests.Delete(cid)
		case !stands(name.(string)):
			_ = s.run.DisconnectClientByID(id) // it may have gone by itself
		}
		return true
	})
}
