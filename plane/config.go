package plane

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/plane"
	"github.com/edictdev/edict/internal/snapshot"
)

// None as an address says that nothing is served there.
const None = "none"

// Config says what a plane does. Data is required; a zero value of any other
// field stands for the default that is named there, which is that of `edict
// serve` but for NATSListen.
type Config struct {
	// Data is the directory of the read model, of the signing key, and of the log
	// where that is on the embedded server. One process has it at a time.
	Data string
	// Name of this worker, for people; default: the host's.
	Name string
	// Version of the program, for the metrics; default: none.
	Version string
	// Log takes what changes (docs/logs.md); default: no log.
	Log *slog.Logger

	// HTTP is host:port of the API; default: 127.0.0.1:8080. Port 0 takes a free
	// one, None serves no API. It is on loopback, unless Access says otherwise.
	HTTP string
	// NATSListen is host:port of the embedded NATS server, for producers and nodes;
	// default: None, in which case this process alone reaches it.
	NATSListen string

	// NATS are URLs of NATS servers that run elsewhere, comma separated; default:
	// an embedded one. The process is one of any number of workers then, and
	// SigningKey is required, the same for each.
	NATS string
	// NATSCreds is a file of credentials that these servers ask for, NATSCA one of
	// the authorities that their certificates are checked against (PEM); default:
	// no credentials, and the system's authorities.
	NATSCreds, NATSCA string
	// Replicas are the servers that keep each stream, 1 to 5; default: 1.
	Replicas int
	// LeaseTTL is how long after its last sign of life a worker counts as dead, in whole
	// seconds, 2 s or more; default: 10 s.
	LeaseTTL time.Duration
	// Partitions are those that this process publishes on NATS: of a log that a plane made,
	// 0 to 63. Nil: an equal share with the other workers; empty: none.
	Partitions []int

	// SigningKey is a file with the plane's ed25519 key (PKCS#8, PEM); default: one
	// that is made below Data. NextSigningKey is another that the worker holds, for
	// a rotation; it goes with SigningKey.
	SigningKey, NextSigningKey string
	// Relaxed leaves fsync to the operating system: a power failure may take
	// acknowledged writes of the last two minutes.
	Relaxed bool
	// Existing refuses to start where there is no log yet.
	Existing bool
	// DeleteOldModel deletes a read model of an older layout once it is rebuilt;
	// default: it is kept beside the new one.
	DeleteOldModel bool

	// MinFree are bytes of free disk below which writes are refused; default:
	// 256 MiB, negative: none.
	MinFree int64
	// ProjectBytes is how much of the log a project takes in a day before its writes
	// are refused; default: 4 GiB, negative: any number.
	ProjectBytes int64
	// Past is how long it is kept what nodes lost, for those that were away, and
	// PastBytes how much of it; default: 7 days, 512 MiB.
	Past      time.Duration
	PastBytes int
	// HubBytes are bytes of changes that wait to be announced, for each transport;
	// default: 64 MiB.
	HubBytes int
	// TableEntries are the entries that one node's table may have; default: 16,384.
	TableEntries int

	Snapshots Snapshots
	Access    Access
	Decisions Decisions
}

// Snapshots say when the worker that publishes partition 0 makes checkpoints: once
// the newest is so old (Every), or so many events behind (Events). Both zero:
// never by itself. Keep is how many stay; default: 2.
type Snapshots struct {
	Every  time.Duration
	Events uint64
	Keep   int
}

// Access says who may use the plane (docs/access.md). With the zero value every
// process on this machine may do everything.
type Access struct {
	// File of principals, JSON; default: access is not configured.
	File string
	// TLSCert and TLSKey are the certificate of every listener (PEM), and ClientCA
	// the authorities of client certificates; default: none. They are read again
	// when they change.
	TLSCert, TLSKey, ClientCA string
	// SPIFFESocket is the address of a SPIFFE Workload API, unix:///path, which
	// gives the certificate in place of these three; default: none.
	SPIFFESocket string
	// Issuer is the URL of an OpenID Connect issuer whose identity tokens are
	// accepted, Audience their required audience; default: none.
	Issuer, Audience string
	// Rate are the requests a second of each principal; default: 200, negative: any
	// number.
	Rate int
	// Admin is host:port of operators' routes; default: with the rest, or
	// 127.0.0.1:8081 where HTTP leaves loopback without access control.
	Admin string
	// Insecure lets HTTP and NATSListen leave loopback without access control or
	// without TLS.
	Insecure bool
}

// Decisions say whether what admission policies decide is kept, in stream
// EDICT_DECISIONS; default: no.
type Decisions struct {
	Keep bool
	// Mask are JSON pointers to what is never kept of a decision.
	Mask []string
	// Age and Bytes bound a stream that is made now; default: 30 days, 1 GiB.
	Age   time.Duration
	Bytes int64
}

// ConfigError is a field of a Config that cannot be.
type ConfigError struct{ Field, Detail string }

// Error names the field, and says what to set.
func (e *ConfigError) Error() string { return e.Field + ": " + e.Detail }

// What zero stands for where package internal/plane has another meaning for it.
const (
	defaultHTTP         = "127.0.0.1:8080"
	defaultMinFree      = 256 << 20
	defaultProjectBytes = 4 << 30
	defaultRate         = 200
)

// options are the Config as the plane takes it.
func (c Config) options() (plane.Options, error) {
	if err := c.check(); err != nil {
		return plane.Options{}, err
	}
	mask, err := admission.ParseMask(c.Decisions.Mask)
	if err != nil {
		return plane.Options{}, &ConfigError{"Decisions.Mask", err.Error()}
	}
	return plane.Options{
		Data: c.Data, Name: c.Name, Version: c.Version, Log: c.Log,
		HTTP: cmp.Or(c.HTTP, defaultHTTP), NoAPI: c.HTTP == None, NATSListen: cmp.Or(c.NATSListen, None),
		NATS: c.NATS, NATSCreds: c.NATSCreds, NATSCA: c.NATSCA, Replicas: cmp.Or(c.Replicas, 1), LeaseTTL: c.LeaseTTL, Announce: c.Partitions,
		SigningKey: c.SigningKey, NextSigningKey: c.NextSigningKey,
		Relaxed: c.Relaxed, Existing: c.Existing, YesDelete: c.DeleteOldModel,
		MinFree: uint64(limit(c.MinFree, defaultMinFree)), ProjectBytes: uint64(limit(c.ProjectBytes, defaultProjectBytes)),
		Past: c.Past, PastBytes: c.PastBytes, HubBytes: c.HubBytes, TableEntries: c.TableEntries,
		Snapshots: snapshot.Schedule(c.Snapshots),
		Access: listener.Options{
			File: c.Access.File, Issuer: c.Access.Issuer, Audience: c.Access.Audience, Rate: int(limit(int64(c.Access.Rate), defaultRate)),
			TLS:      access.TLSFiles{Cert: c.Access.TLSCert, Key: c.Access.TLSKey, ClientCA: c.Access.ClientCA},
			Workload: c.Access.SPIFFESocket, Admin: c.Access.Admin, Insecure: c.Access.Insecure,
		},
		Decisions: plane.DecisionOptions{On: c.Decisions.Keep, Mask: mask, Age: c.Decisions.Age, Bytes: c.Decisions.Bytes},
	}, nil
}

// limit is n, what zero stands for, or 0 for what is negative.
func limit(n, zero int64) int64 { return max(cmp.Or(n, zero), 0) }

// check checks fields against each other: *ConfigError.
func (c Config) check() error {
	const maxReplicas, minLease, negative = 5, 2 * time.Second, "must not be negative; 0 is the default"
	for _, x := range []struct {
		wrong         bool
		field, detail string
	}{
		{c.Data == "", "Data", "name a directory; it is made where it is missing"},
		{c.NATS != "" && c.SigningKey == "", "SigningKey", "set it with NATS: every worker of a plane signs with the same key"},
		{c.NATS != "" && c.NATSListen != "" && c.NATSListen != None, "NATSListen", "leave it out with NATS: there is no embedded server then"},
		{c.NATS == "" && (c.NATSCreds != "" || c.NATSCA != ""), "NATSCreds", "leave it and NATSCA out without NATS"},
		{c.NextSigningKey != "" && c.SigningKey == "", "NextSigningKey", "set SigningKey, too; without it the plane makes its keys itself"},
		{c.Replicas < 0 || c.Replicas > maxReplicas, "Replicas", fmt.Sprintf("%d: must be 1 to %d", c.Replicas, maxReplicas)},
		{c.Replicas > 1 && c.NATS == "", "Replicas", "more than 1 needs NATS: the embedded server stands alone"},
		{c.LeaseTTL != 0 && (c.LeaseTTL < minLease || c.LeaseTTL%time.Second != 0), "LeaseTTL", fmt.Sprintf("%v: must be whole seconds, 2s or more", c.LeaseTTL)},
		{slices.ContainsFunc(c.Partitions, func(n int) bool { return n < 0 }), "Partitions", fmt.Sprintf("%v: none may be negative", c.Partitions)},
		{c.Past < 0, "Past", negative},
		{c.PastBytes < 0, "PastBytes", negative},
		{c.HubBytes < 0, "HubBytes", negative},
		{c.TableEntries < 0, "TableEntries", negative},
		{c.Snapshots.Every < 0, "Snapshots.Every", negative},
		{c.Snapshots.Keep < 0, "Snapshots.Keep", negative},
		{c.Decisions.Age < 0, "Decisions.Age", negative},
		{c.Decisions.Bytes < 0, "Decisions.Bytes", negative},
		{(c.Access.TLSCert == "") != (c.Access.TLSKey == ""), "Access.TLSCert", "set it and TLSKey, or neither"},
		{c.Access.SPIFFESocket != "" && (c.Access.TLSCert != "" || c.Access.ClientCA != ""), "Access.SPIFFESocket", "leave TLSCert, TLSKey and ClientCA out: it gives what they name"},
		{c.Access.ClientCA != "" && (c.Access.TLSCert == "" || c.Access.File == ""), "Access.ClientCA", "set TLSCert, TLSKey and File, too"},
		{(c.Access.Issuer == "") != (c.Access.Audience == ""), "Access.Issuer", "set it and Audience, or neither: tokens for others are not for this plane"},
		{c.Access.Issuer != "" && c.Access.File == "", "Access.Issuer", "set File, too"},
	} {
		if x.wrong {
			return &ConfigError{x.field, x.detail}
		}
	}
	return nil
}
