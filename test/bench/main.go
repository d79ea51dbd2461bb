package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measures are all measures, in the order they run: those that keep the
// machine's memory busy stand last.
var measures = []measure{
	{"nats", "one revision to every node's message with a listener over NATS, signed, strict", sentNATS},
	{"fold", "a label-heavy log folded into the store", foldLog},
	{"w1", "nodes in small groups, from memory", measureSpan("w1", recorded, func(_, user, resident *line) {
		user.atMost(1.2)
		resident.atMost(250)
	})},
	{"w1-full", "the same, from the log into the store", measureSpan("w1", rebuilt, func(wall, user, _ *line) {
		wall.atMost(4)
		user.atMost(3.5)
	})},
	{"w1-follow", "the same, as a worker follows the log", measureSpan("w1", live, func(_, _, _ *line) {})},
	{"w2", "many policies with one selector, from memory", measureSpan("w2", recorded, func(wall, _, _ *line) { wall.atMost(0.5) })},
	{"w2u", "the same, every node with a label of its own", measureSpan("w2u", recorded, func(wall, _, resident *line) {
		wall.atMost(0.8)
		resident.atMost(160)
	})},
	{"w3", "a policy for each node, from memory", measureSpan("w3", recorded, func(wall, _, _ *line) { wall.atMost(0.75) })},
	{"w4", "nodes in large groups, from memory", measureSpan("w4", recorded, func(_, user, _ *line) { user.atMost(1) })},
	{"relabel", "the fold of one node's new labels, beside many policies", relabel},
	{"relabel-lists", "the same, beside policies that list values of a key, and beside 300 that all match", relabelLists},
	{"growth", "the fold of one node's new labels, after many others of the node", grow},
	{"curves", "what an event costs and the fold holds, by how much there is: steeper than n log n is named", growthCurves},
	{"million", "the fold of one event in a fleet whose nodes each have a label of their own", million},
	{"new-policy", "the fold of one new policy, beside many label sets", newPolicy},
	{"revise", "the fold of one policy revision", revise},
	{"admit", "a request through the admission policies that match it, in process", admit},
	{"admit-http", "the same over HTTP on loopback", admitHTTP},
	{"admit-many", "the same beside 10,000 policies, and of a request that none matches", admitAmongMany},
	{"admit-siege", "the same beside clients that ask for an endless policy", admitSiege},
	{"datapath", "ordered rules built into tables, changed and looked up", tables},
	{"block", "the same rules as one first-match list for agents of the node contract", blocks},
	{"table-change", "one event of a large project with an ordered policy, until it is known whose tables changed", tableChanges},
	{"contained", "a project's writes beside another's tables that are as much work as they may be, strict", contained},
	{"loud", "a project's writes beside another project that writes as fast as it can, strict", loud},
	{"loud-guarded", "a project's writes beside a producer of another project that keeps to no quota, with access, strict", loudGuarded},
	{"flip", "the same, by a label that many policies are about alone", flip},
	{"authorise", "what access adds to a request, in process", authorise},
	{"sse", "events over many open streams", sse},
	{"sse-tls", "the same with TLS", sseTLS},
	{"hostile", "events beside clients that never read or never end a request", hostile},
	{"agents", "agents of the field that reconnect, report and pull", agents},
	{"light", "one event at a time, from its acknowledgement to its client, strict", light},
	{"storm", "every client reconnects at once, five events behind", storm},
	{"resume", "very many streams resumed after very many events, while the fold runs", resume},
	{"fleet", "a fleet sent ten policies each", fleet},
	{"two-workers", "streams shared between two workers of a cluster", twoWorkers},
	{"relabel-told", "rows told to nodes that had them, where nodes change their labels", relabelSent},
	{"table-words", "words about tables that had not changed, in a busy project", tableWords},
	{"apply", "edict policy apply of many policies that the plane has", applyAgain},
	{"rete-validate", "a large repository held against every rule", validateRete},
	{"rete-compile", "a large repository compiled, signed and written", compileRete},
	{"past", "a node's state at half of a million events", pastState},
	{"soak", "2,000,000 events of nodes and policies that change, come and go: what grows", soak},
	{"ten-million", "a plane of ten million nodes: written, folded, resumed, started again", huge},
	{"restart", "a plane of a million nodes, stopped and started", restart},
	{"memory", "the whole process, resident", memory},
}

// measure is one kind of work, measured several ways.
type measure struct {
	name string
	what string
	run  func(ctx context.Context, e *env) ([]line, error)
}

// env is what a measure is given.
type env struct {
	home   string // of the whole run
	dir    string // empty, its own, removed afterwards
	quick  bool   // a tenth of the work: to try the bench, not the product
	times  int    // how often each figure is taken
	binary string // edict; empty: built on first use

	identity *identity // of a plane with TLS; nil: without
	token    string    // of a plane with access: an administrator's; empty: without

	spanProfile, spanAllocs string // files for profiles of a workload's process
	soakHeaps               string // directory for heap profiles of the plane that lives long
}

// scale is n, or a tenth of it for a quick run.
func (e *env) scale(n int) int {
	if e.quick {
		return n / 10
	}
	return n
}

// rounds is how often a figure is taken.
func (e *env) rounds() int { return e.times }

// say tells whoever waits how far the bench is.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

type options struct {
	only, json, compare, cpuProfile, binary, temp, spanProfile, spanAllocs, soakHeaps string
	quick, strict, all                                                                bool
	rounds                                                                            int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == hubCommand {
		if err := serveFloor(os.Args[2], newHub().handler(), "", ""); err != nil {
			say("hub: %v", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == readingHubCommand {
		debug.SetGCPercent(300)
		say("hub: %v", serveReadingHub(os.Args[2])) // it returns when it cannot serve
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == chainCommand {
		say("chain: %v", servePlainChain(os.Args[2])) // it returns when it cannot serve
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == natsCommand {
		say("nats: %v", serveNATS(os.Args[2])) // as above
		os.Exit(1)
	}
	if len(os.Args) == 5 && os.Args[1] == producerCommand {
		debug.SetGCPercent(300)
		say("producer: %v", keepBusy(os.Args[2], os.Args[3], os.Args[4])) // as above
		os.Exit(1)
	}
	if len(os.Args) == 6 && os.Args[1] == hostileCommand {
		debug.SetGCPercent(300)
		say("hostile: %v", beHostile(os.Args[2], os.Args[3], os.Args[4], os.Args[5] == "true")) // as above
		os.Exit(1)
	}
	if len(os.Args) == 5 && os.Args[1] == publisherCommand {
		debug.SetGCPercent(300)
		say("publisher: %v", servePlain(os.Args[2], os.Args[3], os.Args[4] == "true")) // as above
		os.Exit(1)
	}
	if len(os.Args) == 5 && os.Args[1] == readyCommand {
		if err := serveReady(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			say("%v", err)
			os.Exit(1)
		}
		return
	}
	debug.SetGCPercent(300) // as serve does; the floors run under it too
	if len(os.Args) == 3 && os.Args[1] == echoCommand {
		say("echo: %v", serveFloor(os.Args[2], http.HandlerFunc(echo), "", "")) // as above
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == spanCommand {
		if err := spanChild(os.Args[2]); err != nil {
			say("%v", err)
			os.Exit(1)
		}
		return
	}
	var o options
	var names []string
	for _, m := range measures {
		names = append(names, m.name)
	}
	flag.StringVar(&o.only, "only", "", "measures to run, comma separated; when absent all but those that take long ("+strings.Join(long, ", ")+"): "+strings.Join(names, ", "))
	flag.BoolVar(&o.all, "all", false, "those that take long, too: an hour in all")
	flag.StringVar(&o.json, "json", "", "write the table as JSON to `file` (- is stdout, instead of the text)")
	flag.StringVar(&o.compare, "compare", "", "hold the figures against those of an earlier run, which -json wrote to `file`: better, worse or the same")
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of this process to `file`; best with -only")
	flag.StringVar(&o.spanProfile, "spanprofile", "", "write a CPU profile of a workload's own process to `file`; with -only and one round")
	flag.StringVar(&o.soakHeaps, "soakheaps", "", "write heap profiles of the soak to `dir`, for go tool pprof -base")
	flag.StringVar(&o.spanAllocs, "spanallocs", "", "write a profile of its allocations to `file`")
	flag.StringVar(&o.binary, "edict", "", "the product's `binary`; built from this module when not given")
	flag.StringVar(&o.temp, "temp", "", "`directory` for temporary data, on the disk to be measured")
	flag.IntVar(&o.rounds, "rounds", 1, "how often each figure is taken; the median counts")
	flag.BoolVar(&o.quick, "quick", false, "a tenth of the work, once: tries the bench itself")
	flag.BoolVar(&o.strict, "strict", false, "exit 1 when a target is missed, or a figure became worse")
	flag.Parse()
	if o.quick {
		o.rounds = 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		say("bench: %v", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	chosen, err := choose(o.only, o.all)
	if err != nil {
		return err
	}
	var before *table
	if o.compare != "" {
		if before, err = readTable(o.compare); err != nil {
			return fmt.Errorf("-compare: %w", err)
		}
		if o.quick {
			return errors.New("-compare with -quick: a tenth of the work is compared with nothing; leave one of them out")
		}
	}
	if o.cpuProfile != "" {
		f, err := os.Create(o.cpuProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	dir, err := os.MkdirTemp(o.temp, "edict-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e := &env{home: dir, quick: o.quick, times: max(1, o.rounds), binary: o.binary, spanProfile: o.spanProfile, spanAllocs: o.spanAllocs, soakHeaps: o.soakHeaps}
	t := table{Machine: thisMachine(), Quick: o.quick}
	began := time.Now()
	for _, m := range chosen {
		t.Measures = append(t.Measures, take(ctx, m, e))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	t.Seconds = time.Since(began).Seconds()
	if err := t.publish(o.json); err != nil {
		return err
	}
	if before == nil {
		return t.verdict(o.strict)
	}
	c, out := compare(before, &t), os.Stdout
	if o.json == "-" {
		out = os.Stderr
	}
	if err := c.text(out, t.Machine); err != nil {
		return err
	}
	return errors.Join(t.verdict(o.strict), c.verdict(o.strict))
}

// long are measures without which all others are over within ten minutes, each taken once.
var long = []string{"soak", "ten-million", "loud-guarded", "loud", "flip", "hostile", "resume", "fleet", "restart"}

// choose finds measures by name; no names: those that are not long, or all.
func choose(only string, all bool) ([]measure, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(measures), func(m measure) bool { return !all && slices.Contains(long, m.name) }), nil
	}
	var chosen []measure
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(measures, func(m measure) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no measure is called %q; see -help", name)
		}
		chosen = append(chosen, measures[i])
	}
	return chosen, nil
}

// take runs one measure in a directory of its own.
func take(ctx context.Context, m measure, e *env) (r result) {
	debug.FreeOSMemory() // what the one before left is not this one's
	r = result{Name: m.name, What: m.what, Load: loadNow(ctx)}
	if r.Load.disturbed() {
		say("warning: other work takes %.1f cores (load average %.2f): figures of %s will be low", r.Load.Busy, r.Load.Average, m.name)
	}
	say("%s: %s", m.name, m.what)
	others := meanwhile()
	began := time.Now()
	own := *e
	own.dir = filepath.Join(e.home, m.name)
	err := os.Mkdir(own.dir, 0o700)
	if err == nil {
		r.Lines, err = m.run(ctx, &own)
	}
	e.binary = own.binary
	err = errors.Join(err, os.RemoveAll(own.dir))
	r.Seconds, r.Load.Others = time.Since(began).Seconds(), others()
	r.judge()
	if err != nil {
		r.Error = err.Error()
		say("%s: FAILED: %v", m.name, err)
	}
	return r
}

// publish prints the table and writes it as JSON where that was asked for.
func (t *table) publish(path string) error {
	if path != "-" {
		if err := t.text(os.Stdout); err != nil {
			return err
		}
	}
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if path == "-" {
		_, err = os.Stdout.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
