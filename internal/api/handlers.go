package api

import (
	"cmp"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api/dcm"
	"github.com/edictdev/edict/internal/snapshot"
)

// handlers are the routes' handlers, by what they serve. Each group has what it
// needs and no more.
type handlers struct {
	policies    *policyHandlers
	revisions   *revisionHandlers
	previews    *previewHandlers
	nodes       *nodeHandlers
	reports     *nodeReports
	fleet       *fleetHandlers
	states      *stateHandlers
	register    *registerHandlers
	heartbeats  *heartbeatHandlers
	artifacts   *artifactHandlers
	tables      *tableHandlers
	past        *pastHandlers
	convergence *convergenceHandlers
	admission   *admissionHandlers
	dcm         *dcmHandlers
	principals  *principalHandlers
	projects    *projectHandlers
	sessions    *sessionHandlers
	signIns     *signInHandlers
	audit       *auditHandlers
	decisions   *decisionHandlers
	events      *logEventHandlers
	status      *statusHandlers
	keys        *keyHandlers
	recovery    *recoveryHandlers
	health      *healthHandlers
	profiles    profileHandlers
}

// surface are routes whose errors have one form.
type surface struct {
	routes []Route
	// errors gives an error the form that the surface's clients know: err, of which
	// pr was made. nil: problems are written as they are.
	errors func(err error, pr *resource.Problem) resource.AlphaError
}

// surfaces are every route. Handlers without their parts have routes that can be
// described, and not served.
func (h *handlers) surfaces() []surface {
	return []surface{
		{h.routes(), nil},
		{h.dcm.routes(), dcm.PolicyError},
		{h.dcm.engineRoutes(), dcm.EngineError},
	}
}

// routes are those whose errors are problems.
func (h *handlers) routes() []Route {
	return slices.Concat(
		h.policies.routes(),
		h.revisions.routes(),
		h.previews.routes(),
		h.nodes.routes(),
		h.reports.routes(),
		h.states.routes(),
		h.register.routes(),
		h.heartbeats.routes(),
		h.artifacts.routes(),
		h.tables.routes(),
		h.past.routes(),
		h.convergence.routes(),
		h.admission.routes(),
		h.principals.routes(),
		h.projects.routes(),
		h.sessions.routes(),
		h.signIns.routes(),
		h.audit.routes(),
		h.decisions.routes(),
		h.events.routes(),
		h.status.routes(),
		h.fleet.routes(),
		h.keys.routes(),
		h.recovery.routes(),
		h.health.routes(),
		h.profiles.routes(),
	)
}

// useCases are what several handlers do.
type useCases struct {
	gate     *writeGate
	reads    *reads
	writes   *writes
	quota    *quota
	auth     *authorizer
	failures failureLimit
	tracing  *tracing
	checks   *checks
}

func newUseCases(d Deps) useCases {
	u := useCases{failures: failureLimit{d.Failures}, tracing: &tracing{d.Tracer}}
	u.gate = &writeGate{damaged: d.Damaged, full: d.Writable}
	u.quota = &quota{model: d.Model, clock: d.Clock, limit: d.ProjectBytes, shutOut: d.ShutOut}
	u.reads = &reads{log: d.Log, model: d.Model, gate: u.gate, metrics: d.Metrics, patience: d.ReadPatience, held: d.Held}
	u.writes = &writes{
		retries: &retries{d.Model, d.HistoryDeps}, log: d.Log, model: d.Model, reads: u.reads, gate: u.gate, quota: u.quota, lanes: newLanes(d.Clock),
		tracing: u.tracing, recent: newRecentWrites(4096), patience: d.WritePatience, clock: d.Clock, newID: d.NewID,
	}
	u.auth = &authorizer{access: d.Access, local: d.Local, limiter: d.Limiter, model: d.Model, reads: u.reads, sessions: d.Sessions, failures: u.failures, clock: d.Clock}
	u.checks = &checks{log: d.Log, model: d.Model, relay: d.Relay, full: d.Writable, more: d.Checks, durability: d.Durability}
	return u
}

// assemble makes the surfaces, and what every request passes through on its way
// to one.
func assemble(d Deps) (*pipeline, []surface) {
	d = d.withDefaults()
	u := newUseCases(d)
	h := new(handlers)
	h.author(d, u)
	h.serveNodes(d, u)
	h.operate(d, u)
	return &pipeline{auth: u.auth, reads: u.reads, tracing: u.tracing, metrics: d.Metrics, log: d.Trace}, h.surfaces()
}

// author makes the handlers of what authors write.
func (h *handlers) author(d Deps, u useCases) {
	drafts := &draftAdmission{d.Admission}
	h.previews = &previewHandlers{model: d.Model, reads: u.reads, admission: drafts, tables: d.Tables}
	h.policies = &policyHandlers{model: d.Model, reads: u.reads, writes: u.writes, admission: drafts, previews: h.previews, clock: d.Clock}
	h.revisions = &revisionHandlers{u.reads}
	h.reports = &nodeReports{model: d.Model, convergence: d.Convergence, clock: d.Clock}
	h.nodes = &nodeHandlers{model: d.Model, reads: u.reads, writes: u.writes, reports: h.reports}
	h.artifacts = &artifactHandlers{
		model: d.Model, reads: u.reads, relay: d.Relay, writes: u.writes, event: d.Event, maxMessage: d.MaxMessage,
	}
	admissions := &admissionPolicies{model: d.Model, reads: u.reads, writes: u.writes, registry: d.Admission, authors: authors{u.auth}, counting: semaphore.NewWeighted(1)}
	h.admission = &admissionHandlers{admissions}
	h.dcm = &dcmHandlers{admissions}
}

// serveNodes makes the handlers of what nodes' agents ask and say.
func (h *handlers) serveNodes(d Deps, u useCases) {
	pulled, states := new(lastPulled), nodeStates{d.Composer, snapshot.NewBlocks(d.Tables)}
	h.states = &stateHandlers{reads: u.reads, relay: d.Relay, states: states, auth: u.auth, pulled: pulled}
	h.register = &registerHandlers{model: d.Model, reads: u.reads, writes: u.writes, failures: u.failures, signer: d.Signer, clock: d.Clock}
	h.heartbeats = &heartbeatHandlers{
		model: d.Model, reads: u.reads, relay: d.Relay, states: states, convergence: d.Convergence,
		gate: u.gate, checks: u.checks, pulled: pulled, clock: d.Clock, log: d.Trace,
	}
	h.tables = &tableHandlers{reads: u.reads, tables: d.Tables, model: d.Model, deltas: semaphore.NewWeighted(maxDeltas)}
	h.past = &pastHandlers{
		history: d.History, live: u.reads, seqAt: d.SeqAt, event: d.Event, base: d.Model.Base, clock: d.Clock, quiet: NewMetrics(nil),
		deltas: h.tables.deltas,
	}
	h.states.past, h.tables.past, h.policies.past, h.reports.past = h.past, h.past, h.past, h.past
	h.convergence = &convergenceHandlers{
		model: d.Model, reads: u.reads, gate: u.gate, convergence: d.Convergence, states: states, pulled: pulled, clock: d.Clock,
		refusals: &tableRefusals{model: d.Model, tables: d.Tables, patience: d.TablePatience},
	}
}

// operate makes the handlers of what operators ask.
func (h *handlers) operate(d Deps, u useCases) {
	h.principals = &principalHandlers{model: d.Model, reads: u.reads, writes: u.writes, access: d.Access}
	h.projects = &projectHandlers{model: d.Model, writes: u.writes, clock: d.Clock}
	h.sessions = &sessionHandlers{u.auth}
	h.signIns = &signInHandlers{sessionHandlers: h.sessions, signIn: d.SignIn, log: d.Trace}
	h.audit = &auditHandlers{model: d.Model, log: d.Log, trail: d.Trail, seqAt: d.SeqAt, looked: cmp.Or(d.Looked, maxAudited), searching: semaphore.NewWeighted(maxSearching)}
	h.events = &logEventHandlers{model: d.Model, views: d.Model, audit: h.audit, auth: u.auth, seqAt: d.SeqAt}
	h.decisions = &decisionHandlers{
		log: d.Decisions, auth: u.auth, feed: decisionFeed{log: d.Decisions}, registry: d.Admission, event: d.Event,
		looked: cmp.Or(d.Looked, decisionsAPage), pageBytes: cmp.Or(d.DecisionBytes, decisionsPageBytes),
	}
	h.status = &statusHandlers{
		StatusDeps: d.StatusDeps, log: d.Log, model: d.Model, quota: u.quota, convergence: d.Convergence, metrics: d.Metrics,
	}
	h.fleet = &fleetHandlers{fleet: d.Fleet, auth: u.auth}
	h.keys = &keyHandlers{keys: d.Keys, rotator: d.RotateKey, gate: u.gate}
	h.recovery = &recoveryHandlers{model: d.Model, gate: u.gate, save: d.SaveSnapshot, saved: d.ListSnapshots, compact: d.Compact, log: d.Trace}
	h.health = &healthHandlers{checks: u.checks, page: d.MetricsPage, document: encoded}
}
