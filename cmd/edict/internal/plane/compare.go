package plane

import (
	"encoding/hex"

	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

// linksTold is how many links a worker tells the others, the last ones. One
// that is ahead holds older ones, too, to compare with them.
const linksTold = 8

func toldLinks(links []streams.Link) []relay.WorkerLink {
	links = links[max(0, len(links)-linksTold):]
	out := make([]relay.WorkerLink, len(links))
	for i, l := range links {
		out[i] = relay.WorkerLink{Log: l.Log, Seq: l.Seq, Hash: hex.EncodeToString(l.Hash[:])}
	}
	return out
}

// heardLinks reads what another worker told. A link that cannot be read, as one
// of another version, is left out.
func heardLinks(told []relay.WorkerLink) []streams.Link {
	var out []streams.Link
	for _, t := range told {
		l := streams.Link{Log: t.Log, Seq: t.Seq}
		if n, err := hex.Decode(l.Hash[:], []byte(t.Hash)[:min(len(t.Hash), hex.EncodedLen(len(l.Hash)))]); err == nil && n == len(l.Hash) {
			out = append(out, l)
		}
	}
	return out
}

// compareWith holds another worker's links against the own ones.
func (p *Plane) compareWith(other relay.Worker) {
	c := integrity.Comparer{Alarm: p.alarm, Fold: p.store, Name: p.opt.Name, Log: p.log}
	c.Compare(other.Name, heardLinks(other.Links))
}
