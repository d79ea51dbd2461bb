package streams

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestReportsKeepTheLastWordOfEachNode(t *testing.T) {
	server := startServer(t, ServerOptions{})
	one, two := connect(t, ConnectOptions{Server: server}), connect(t, ConnectOptions{Server: server})
	a, err := OpenReports(within(t), one)
	require.NoError(t, err)
	b, err := OpenReports(within(t), two)
	require.NoError(t, err)
	for version := range uint64(3) {
		for _, n := range []policy.NodeID{"n1", "n2"} {
			seq, err := a.Publish(within(t), n, policy.Report{Version: version})
			require.NoError(t, err)
			require.NotZero(t, seq)
		}
	}
	for _, r := range []*Reports{a, b} {
		got := collect(t, r.Follow(within(t), 1), 2)
		require.Equal(t, []uint64{5, 6}, sequences(got))
		id, err := ReportNode(got[1].Subject)
		require.NoError(t, err)
		require.Equal(t, policy.NodeID("n2"), id)
		rep, err := policy.DecodeReport(got[1].Body)
		require.NoError(t, err)
		require.Equal(t, uint64(2), rep.Version)
	}
	s, err := b.State(within(t))
	require.NoError(t, err)
	require.Equal(t, uint64(2), s.Messages)
}

// A report that came after the one that was judged stays.
func TestAForgottenReportTakesNoNewerOneAlong(t *testing.T) {
	c := embedded(t)
	r, err := OpenReports(within(t), c)
	require.NoError(t, err)
	for _, n := range []policy.NodeID{"n1", "n1a", "n2"} {
		_, err := r.Publish(within(t), n, policy.Report{})
		require.NoError(t, err)
	}
	newer, err := r.Publish(within(t), "n2", policy.Report{})
	require.NoError(t, err)
	require.NoError(t, r.Forget(within(t), ReportSubject("n1"), 1))
	require.NoError(t, r.Forget(within(t), ReportSubject("n2"), 3))
	require.NoError(t, r.Forget(within(t), ReportSubject("n3"), 3), "there is none")
	require.Equal(t, []uint64{2, newer}, sequences(collect(t, r.Follow(within(t), 1), 2)))
}

func TestReportsOfAStreamThatForgetsAreRefused(t *testing.T) {
	c := embedded(t)
	_, err := c.js.CreateStream(within(t), jetstream.StreamConfig{Name: ReportsStream, Subjects: []string{"edict.report.>"}, MaxMsgsPerSubject: 2, NoAck: true})
	require.NoError(t, err)
	_, err = OpenReports(within(t), c)
	var refused *ConfigError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Faults, 2)
}
