package worker

import (
	"encoding/hex"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// Live are the workers whose lease stands, this one included.
func (w *Worker) Live() []relay.Worker { return w.leases.Live() }

// Self is this process, as its lease is about to say.
func (w *Worker) Self() relay.Worker { return w.leases.Self() }

// Others are the workers that are alive beside this one, and their keys.
func (w *Worker) Others() (others []keyring.Worker, err error) {
	err = errOthersUnknown
	for _, x := range w.leases.Live() {
		if x.Owner == w.owner {
			err = nil
			continue
		}
		others = append(others, keyring.Worker{Name: x.Name, Keys: x.Keys})
	}
	return others, err
}

// heard notes how far this process had folded when another was heard.
func (w *Worker) heard(other relay.Worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 256 // starts of workers; those that are gone are not looked for one by one
	if len(w.here) >= most {
		clear(w.here)
	}
	w.here[other.Owner] = w.opt.Fold.Applied()
}

// behind is how far a worker is behind head, as far as its lease says: what this process
// folded since it heard of that is not counted.
func (w *Worker) behind(x relay.Worker, head uint64) uint64 {
	w.mu.Lock()
	then, known := w.here[x.Owner]
	w.mu.Unlock()
	if known {
		head -= min(head, w.opt.Fold.Applied()-then)
	}
	return head - min(head, x.Applied)
}

// List are the workers that are alive, as their leases say, and how far each is
// behind head; of this one what is so now.
func (w *Worker) List(head uint64) []resource.Worker {
	live := w.leases.Live()
	out := make([]resource.Worker, 0, len(live)+1)
	met := false
	add := func(x relay.Worker) {
		if x.Owner == w.owner {
			met = true
			x.Applied = w.opt.Fold.Applied()
		}
		r := resource.Worker{Name: x.Name, Owner: x.Owner, HTTP: x.HTTP, Started: x.Started, Applied: x.Applied}
		r.Lag = w.behind(x, head)
		out = append(out, r)
	}
	for _, x := range live {
		add(x)
	}
	if !met {
		add(w.leases.Self())
	}
	return out
}

// Partitions are who publishes each, and up to where.
func (w *Worker) Partitions() ([]resource.Partition, error) {
	names := map[string]string{w.owner: w.opt.Name}
	for _, x := range w.leases.Live() {
		names[x.Owner] = x.Name
	}
	own := w.opt.Progress.Published()
	all := w.leases.Publishing()
	out := make([]resource.Partition, len(all))
	for i, x := range all {
		out[i] = resource.Partition{ID: x.Partition, Publisher: names[x.Owner], Owner: x.Owner, UpTo: max(x.UpTo, own[x.Partition])}
	}
	return out, nil
}

// maxLinks is how many links a lease carries, the last ones. One
// that is ahead holds older ones, too, to compare with them.
const maxLinks = 8

func formatLinks(links []streams.Link) []relay.WorkerLink {
	links = links[max(0, len(links)-maxLinks):]
	out := make([]relay.WorkerLink, len(links))
	for i, l := range links {
		out[i] = relay.WorkerLink{Log: l.Log, Seq: l.Seq, Hash: hex.EncodeToString(l.Hash[:])}
	}
	return out
}

// parseLinks reads those of another worker. A link that cannot be read, as one
// of another version, is left out.
func parseLinks(links []relay.WorkerLink) []streams.Link {
	var out []streams.Link
	for _, t := range links {
		l := streams.Link{Log: t.Log, Seq: t.Seq}
		if n, err := hex.Decode(l.Hash[:], []byte(t.Hash)[:min(len(t.Hash), hex.EncodedLen(len(l.Hash)))]); err == nil && n == len(l.Hash) {
			out = append(out, l)
		}
	}
	return out
}
