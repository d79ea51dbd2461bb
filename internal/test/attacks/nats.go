package attacks

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// said are the subjects that nobody here may publish on: those of other nodes and
// projects, the plane's own, and every way into JetStream, buckets and the system.
func (p *Plane) said() []string {
	other := "edict.log." + VictimProject
	all := []string{
		"edict.node." + VictimNode + "." + p.Policy, "edict.node." + VictimNode + ".state", "edict.node." + AttackerNode + "." + p.Policy,
		"edict.live.node." + VictimNode + ".x", "edict.report.node." + VictimNode, "edict.replay.node." + VictimNode,
		other + ".node." + VictimNode, other + ".node." + AttackerNode, other + ".node.new", other + ".artifact." + VictimNode,
		other + ".policy." + p.Policy, other + ".policy." + p.Revision, other + ".x.y", other,
		"edict.log.admission." + p.Policy, "edict.log.access.root", "edict.log.access.mallory", "edict.log.key.plane", "edict.log",
		"edict.rejected.1", "edict.chain.1", "edict.verdict." + VictimProject + ".1", "edict.verdict.access.1", "edict.verdict.*.1", "edict.fence.0", "edict.mark.0", "edict.x",
		"_INBOX.victim.x", "_INBOX.root.x", "_INBOX.x", "_R_.x", "$SRV.PING", "$SRV.INFO",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.JSZ", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.USER.INFO.x",
		"$SYS.REQ.ACCOUNT.$G.CONNZ", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.ACCOUNT.$G.CONNECT", "$SYS.REQ.SERVER.x.KICK",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.ACCOUNT.PURGE.$G", "$JS.API.SERVER.REMOVE", "$JS.API.META.LEADER.STEPDOWN",
		"$JS.API.STREAM.TEMPLATE.CREATE.X", "$JS.API.STREAM.CREATE.MINE", "$JS.FC.x", "$JSC.R.x", "$JS.ACK.EDICT_LOG.c.1.1.1.1.1",
	}
	for _, stream := range []string{"EDICT_LOG", "EDICT_REJECTED", "EDICT_CHAIN", "KV_EDICT_META"} {
		for _, call := range []string{"INFO", "DELETE", "PURGE", "UPDATE", "CREATE", "MSG.GET", "MSG.DELETE", "SNAPSHOT", "RESTORE", "PEER.REMOVE", "LEADER.STEPDOWN"} {
			all = append(all, "$JS.API.STREAM."+call+"."+stream)
		}
		for _, call := range []string{"CREATE." + stream, "CREATE." + stream + ".c", "CREATE." + stream + ".c.edict.>", "DURABLE.CREATE." + stream + ".c", "NAMES." + stream, "LIST." + stream, "INFO." + stream + ".c", "DELETE." + stream + ".c", "MSG.NEXT." + stream + ".c"} {
			all = append(all, "$JS.API.CONSUMER."+call)
		}
		all = append(all, "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".edict.log.access.root")
	}
	for _, bucket := range []string{"EDICT_META", "EDICT_LEASES", "EDICT_SHARES"} {
		all = append(all, "$KV."+bucket+".key", "$KV."+bucket+".0")
	}
	return append(all, "$O.EDICT_SNAPSHOTS.C.x", "$O.EDICT_SNAPSHOTS.M.x")
}

// heard are the subjects that nobody here may hear.
func heard() []string {
	return []string{
		">", "*", "*.>", "edict.>", "edict.*.>", "edict.node.>", "edict.node.*.>", "edict.node." + VictimNode + ".>", "edict.node." + VictimNode + ".*",
		"edict.log.>", "edict.log." + VictimProject + ".>", "edict.log." + VictimProject + ".policy.*", "edict.log.access.>", "edict.log.admission.>",
		"edict.report.>", "edict.report.node." + VictimNode, "edict.replay.>", "edict.replay.node." + VictimNode, "edict.live.>", "edict.rejected.>", "edict.verdict.>", "edict.verdict." + VictimProject + ".*", "edict.chain.>",
		"_INBOX.>", "_INBOX.*", "_INBOX.*.>", "_INBOX.victim.>", "_INBOX.root.>", "_R_.>",
		"$SYS.>", "$SYS.REQ.>", "$SYS.ACCOUNT.>", "$JS.>", "$JS.API.>", "$JS.EVENT.>", "$JS.ACK.>", "$KV.>", "$KV.EDICT_META.>", "$O.>", "$SRV.>", "$NRG.>",
	}
}

// OverNATS tries every subject as a node's agent and as two producers, and the door
// as those whom nothing lets in.
func (p *Plane) OverNATS(t testing.TB) {
	t.Helper()
	for _, who := range []string{"nobody", "forger", "reader", "watcher"} {
		p.tried++
		if _, err := p.Connect(t, who); err == nil {
			p.allowed(t, who, "connect to NATS")
		}
	}
	for _, who := range []string{"attacker", "mallory", "operator"} {
		nc, err := p.Connect(t, who)
		require.NoError(t, err, who)
		for _, subject := range p.said() {
			p.tried++
			require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: nc.NewInbox(), Data: []byte(`{}`)}))
			if !denied(t, nc, subject) {
				p.allowed(t, who, "publish on %s", subject)
			}
		}
		for i, subject := range heard() {
			p.tried++
			queue := ""
			if i%2 == 1 {
				queue = "edict"
			}
			_, err := nc.QueueSubscribeSync(subject, queue)
			require.NoError(t, err)
			if !denied(t, nc, subject) {
				p.allowed(t, who, "hear %s, queue %q", subject, queue)
			}
		}
	}
}

// denied reports whether the server said so of a subject. Its word comes before
// the answer to the flush.
func denied(t testing.TB, nc *nats.Conn, subject string) bool {
	t.Helper()
	require.NoError(t, nc.FlushTimeout(10*time.Second))
	err := nc.LastError()
	return err != nil && strings.Contains(err.Error(), strconv.Quote(subject))
}
