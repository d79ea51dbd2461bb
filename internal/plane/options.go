package plane

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/snapshot"
)

// Options say what one process does. Data is required, and HTTP when API is
// set; the rest has a useful zero value.
type Options struct {
	Data string // directory of the log, the read model and the signing key
	Name string // of this worker; empty: the host's name
	// Version of the binary, for metrics.
	Version string

	HTTP       string // host:port of the API, loopback unless Access allows more
	NATSListen string // host:port of the embedded server for native clients, likewise; "" or "none": in process only
	NATS       string // URLs of external servers, comma separated; empty: the embedded one
	NATSCreds  string // file of credentials that they ask for; empty: none
	NATSCA     string // PEM file of the authorities that their certificates are checked against; empty: the system's
	Replicas   int    // of every stream and bucket that is made; 0 is 1
	SigningKey string // PKCS#8 PEM; empty: made in Data
	// NextSigningKey is another key that the worker holds, for a rotation; it goes with SigningKey.
	NextSigningKey string

	NoAPI    bool          // serve no HTTP
	Announce []int         // partitions to publish on NATS; nil: a share of all, with the other workers; empty: none
	LeaseTTL time.Duration // after which a worker that is not heard of is taken for dead; 0: 10 s
	Relaxed  bool          // leave fsync to the operating system

	HubBytes     int           // of changes that wait to be announced; 0: relay's choice
	Past         time.Duration // how long it is kept what nodes lost; 0: projector's choice
	PastBytes    int           // at most so much of it; 0: projector's choice
	TableEntries int           // of one node's table; 0: datapath.DefaultCapacity
	MinFree      uint64        // bytes of disk below which writes are refused; 0: none
	Existing     bool          // the plane exists: a start that finds no log is refused, and makes none
	ProjectBytes uint64        // of the log that a project takes in a day before its writes are refused; 0: any number
	YesDelete    bool          // a read model of an older layout is deleted once it is rebuilt

	Snapshots snapshot.Schedule
	Access    listener.Options
	Decisions DecisionOptions

	// Checked is called once, when nothing stands against a start and nothing
	// was changed yet. Its error ends the start.
	Checked func() error
	// Ready is called once, when everything answers.
	Ready func(Addresses)
	// Busy is called when the fold begins to be busy, and when it is not any more; nil: nobody asks.
	Busy func(busy bool)
	Log  *slog.Logger
	// Tracing records what a change of policy does; nil: nothing does.
	Tracing Tracing

	farBehind       uint64        // events behind which the read model is rebuilt in bulk; 0: projector.FarBehind
	witnessEvery    time.Duration // 0: integrity.DefaultEvery
	leastTransition time.Duration // of a rotation; 0: keyring.LeastTransition
	firstShutOut    time.Duration // of producers; 0: access's
	disk            *disk.Guard   // nil: one of the disk below Data
}

// DecisionOptions say whether and how admission decisions are kept.
type DecisionOptions struct {
	On   bool
	Mask admission.Mask
	// Age and Bytes bound a stream that is made now; 0: the stream's defaults.
	Age   time.Duration
	Bytes int64
}

// Tracing records what a change of policy does: the requests, the fold of their
// events, and the rounds that announce them.
type Tracing interface {
	api.Tracer
	Folded(projector.Traced)
	Announced(relay.Traced)
}

// Addresses are where a plane answers.
type Addresses struct {
	HTTP  string // host:port; empty: not served
	Admin string // of operators' routes; empty: with the rest
	NATS  string // URL; empty: not served
	// Durability is what the server does, as far as that can be known.
	Durability string
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname() // shown to people only
	}
	o.farBehind = cmp.Or(o.farBehind, projector.FarBehind)
	return o
}

// external reports whether the log is on servers that run elsewhere.
func (o Options) external() bool { return o.NATS != "" }

func (o Options) dir() datadir.Dir { return datadir.Dir(o.Data) }

// keyFiles are where this worker's keys lie.
func (o Options) keyFiles() keyring.Files {
	if o.SigningKey != "" {
		return keyring.Files{Signing: o.SigningKey, Next: o.NextSigningKey}
	}
	return keyring.Files{Signing: o.dir().SigningKey(), Next: o.NextSigningKey, Made: o.dir().Keys()}
}

// addresses are what the process is to listen on.
func (o Options) addresses() listener.Addresses {
	a := listener.Addresses{Admin: o.Access.Admin}
	if !o.NoAPI {
		a.HTTP = o.HTTP
	}
	if !o.external() && o.NATSListen != "none" {
		a.NATS = o.NATSListen
	}
	return a.WithAdmin(o.Access.File != "")
}

// diskOptions guard the disk below dir, as which messages name it.
func (o Options) diskOptions(dir datadir.Dir) disk.Options {
	return disk.Options{Dir: string(dir), Parts: []string{dir.Store(), dir.NATS()}, MinFree: o.MinFree, Log: o.Log}
}
