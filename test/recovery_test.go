package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The drills of docs/recovery.md, each command as the page has it.

// facts are what an author wrote before a loss: a node, and a policy for it.
func (d *drill) facts() *writer {
	d.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}, "addresses": []string{}}, 201)
	return d.writer("web")
}

// servesAgain starts a worker without its read model on a log that was accepted: web-1 has what
// it had, and another event is taken.
func (d *drill) servesAgain(web *writer, stands rulesByID) {
	d.t.Helper()
	d.runs("mv w1/store w1/store.lost", 0)
	d.start()
	require.Equal(d.t, stands, d.shown("web-1"), "what the backup has is served")
	web.n = 100
	web.revise(1)
	d.runs("edict log verify --nats nats://a:4222", 0)
}

// onCluster is a drill of a worker of c.
func (c *cluster) onCluster(page string) *drill {
	d := newDrill(c.t, page, "--name", "w1", "--lease-ttl", c.ttl.String())
	d.where = []string{"--nats", c.url, "--replicas", fmt.Sprint(c.replicas), "--signing-key", c.key}
	d.data = filepath.Join(d.dir, "w1")
	d.own = strings.NewReplacer("nats://a:4222", c.url)
	return d
}

func TestAnEmbeddedLogIsRestoredAsThePageSays(t *testing.T) {
	d := newDrill(t, "recovery.md")
	d.start()
	web := d.facts()
	d.terminate()
	copyData(t, d.data, filepath.Join(d.dir, "backup"))
	d.start()
	stands := d.shown("web-1")
	web.revise(3)
	d.terminate()
	d.runs("mv data/nats data/nats.damaged", 0)
	d.runs("cp -a backup/nats data/nats", 0)
	d.runs("edict log verify --log ./data", 0)
	require.Contains(t, d.does("edict serve --http 127.0.0.1:0 --nats-listen none", 6), "which the log lacks", "its read model knows more")
	d.runs("edict log accept --log ./data --yes", 0)
	d.start()
	require.Equal(t, stands, d.shown("web-1"))
	web.head, web.n = "", 100
	web.revise(1)
}

func TestAStreamIsRestoredAsThePageSays(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for _, everything := range []bool{false, true} {
			if servers > 1 && !everything && !*long {
				continue
			}
			t.Run(fmt.Sprintf("%d servers, which lost everything: %t", servers, everything), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, servers, 2*time.Second)
				d := c.onCluster("recovery.md")
				d.start()
				web := d.facts()
				stands := d.shown("web-1")
				d.terminate()
				o := newNATSOperator(d, c.url)
				o.runs("nats stream backup EDICT_LOG backup/EDICT_LOG")
				if everything {
					o.runs("nats stream backup EDICT_CHAIN backup/EDICT_CHAIN")
				}
				d.start()
				web.revise(3)
				d.terminate()

				o.runs("nats stream rm -f EDICT_LOG")
				o.runs("nats stream restore backup/EDICT_LOG --replicas 1")
				if everything {
					o.remove("EDICT_CHAIN")
					o.runs("nats stream restore backup/EDICT_CHAIN --replicas 1")
				}
				if servers == 3 {
					o.runs("nats stream edit -f EDICT_LOG --replicas 3")
					o.current("EDICT_LOG", servers)
					if everything {
						o.edit("EDICT_CHAIN", servers)
						o.current("EDICT_CHAIN", servers)
					}
				}
				out := d.runs("edict log verify --nats nats://a:4222", 1)
				require.Contains(t, out, "other_log")
				if everything {
					require.Contains(t, out, "its events are the ones that were witnessed")
					d.runs("edict log accept --nats nats://a:4222 --restored --yes", 0)
				} else {
					d.runs("edict log accept --nats nats://a:4222 --yes", 0)
				}
				d.servesAgain(web, stands)
			})
		}
	}
}

// TestAStreamOfACompactedLogIsRestoredAsThePageSays: the record of its origin is of the log as it
// was before, which has another identity.
func TestAStreamOfACompactedLogIsRestoredAsThePageSays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2*time.Second)
	d := c.onCluster("recovery.md")
	d.start()
	web := d.facts()
	stands := d.shown("web-1")
	d.does("edict log compact --keep 2", 0)
	d.terminate()
	o := newNATSOperator(d, c.url)
	o.runs("nats stream backup EDICT_LOG backup/EDICT_LOG")
	d.start()
	web.revise(3)
	d.terminate()
	o.runs("nats stream rm -f EDICT_LOG")
	o.runs("nats stream restore backup/EDICT_LOG --replicas 1")
	require.Contains(t, d.runs("edict log verify --nats nats://a:4222", 1), "other_log")
	d.runs("edict log accept --nats nats://a:4222 --yes", 0)
	d.servesAgain(web, stands)
}

// TestABadCopyIsFilledFromTheOthersAsThePageSays: one server of three loses its copy.
func TestABadCopyIsFilledFromTheOthersAsThePageSays(t *testing.T) {
	t.Parallel()
	c := newNATSCluster(t, 2*time.Second)
	d := c.onCluster("recovery.md")
	d.start()
	web := d.facts()
	web.revise(1)
	bad := c.processes[2]
	bad.kill()
	d.dir = bad.Dir
	d.runs(`mv 'jetstream/$G/streams/EDICT_LOG' EDICT_LOG.damaged`, 0)
	bad.start(t)
	copied := filepath.Join(bad.Dir, "jetstream/$G/streams/EDICT_LOG/msgs/1.blk")
	require.True(t, waitFor(60*time.Second, func() bool {
		text, _ := os.ReadFile(copied) // not there yet
		return strings.Contains(string(text), web.head)
	}), "its copy has what the others have")
	const verify = "edict log verify --nats nats://a:4222"
	require.True(t, waitFor(60*time.Second, func() bool { // streams that it led elect another leader first
		return exec.CommandContext(t.Context(), d.bin, strings.Fields(d.own.Replace(verify))[1:]...).Run() == nil
	}))
}

// TestALogWithoutABackupIsGivenUpAsThePageSays: it has a hole, so nothing less can be
// accepted.
func TestALogWithoutABackupIsGivenUpAsThePageSays(t *testing.T) {
	d := newDrill(t, "recovery.md")
	d.start()
	d.facts()
	d.terminate()
	block := filepath.Join(d.data, "nats/jetstream/$G/streams/EDICT_LOG/msgs/1.blk")
	text, err := os.ReadFile(block)
	require.NoError(t, err)
	text[strings.Index(string(text), `"node_updated"`)] ^= 1
	require.NoError(t, os.WriteFile(block, text, 0o600))
	refused(t, d.data, 6, []string{"docs/recovery.md"}, "--http", anyPort, "--nats-listen", "none")

	d.runs(`mv 'data/nats/jetstream/$G/streams/EDICT_LOG' data/EDICT_LOG.damaged`, 0)
	require.Contains(t, d.runs("edict log accept --log ./data", 1), "gone", "it says what it found")
	d.runs("edict log accept --log ./data --yes", 0)
	d.start()
	d.do("GET", "/v1/nodes/web-1/rulesets", nil, 404)
	d.facts() // written again
	require.Len(t, d.shown("web-1"), 1)
}
