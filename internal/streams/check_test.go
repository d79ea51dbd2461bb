package streams

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// opener opens one of the streams, as a process of the plane does.
type opener struct {
	name   string
	faults func(jetstream.StreamConfig) []Fault
	open   func(ctx context.Context, c *Conn) error
}

var (
	logOpener = opener{LogStream, logFaults, func(ctx context.Context, c *Conn) error {
		_, err := OpenLog(ctx, c, LogOptions{})
		return err
	}}
	rejectedOpener = opener{RejectedStream, rejectedFaults, func(ctx context.Context, c *Conn) error {
		_, err := OpenRejected(ctx, c)
		return err
	}}
	nodesOpener = opener{NodeEventsStream, nodeEventsFaults, func(ctx context.Context, c *Conn) error {
		_, _, err := CreateNodeStream(ctx, c)
		return err
	}}
)

// settings is what the opener itself makes.
func (o opener) settings(t *testing.T, c *Conn) jetstream.StreamConfig {
	t.Helper()
	require.NoError(t, o.open(within(t), c))
	info, err := c.streamInfo(within(t), o.name)
	require.NoError(t, err)
	return info.Config
}

func TestSettingsThatContradictAPromiseAreNamed(t *testing.T) {
	gen.Unraced()
	t.Parallel()
	type cfg = jetstream.StreamConfig
	cases := []struct {
		name    string
		opener  opener
		change  func(c *cfg)
		setting string // "" when the stream is used
	}{
		{"as made", logOpener, func(c *cfg) {}, ""},
		{"as made", rejectedOpener, func(c *cfg) {}, ""},
		{"as made", nodesOpener, func(c *cfg) {}, ""},

		// Stricter is fine.
		{"smaller messages", logOpener, func(c *cfg) { c.MaxMsgSize = 65536 }, ""},
		{"a full store refuses", logOpener, func(c *cfg) { c.MaxBytes = 1 << 30 }, ""},
		{"few consumers", logOpener, func(c *cfg) { c.MaxConsumers = 10 }, ""},
		{"a longer window", logOpener, func(c *cfg) { c.Duplicates = time.Hour }, ""},
		{"more subjects", logOpener, func(c *cfg) { c.Subjects = append(c.Subjects, "edict.log.*.later.*") }, ""},
		{"subjects in a wider one", logOpener, func(c *cfg) { c.Subjects = []string{"edict.log.>"} }, ""},
		{"fast batches", logOpener, func(c *cfg) { c.AllowBatchPublish = true }, ""},
		{"compression", logOpener, func(c *cfg) { c.Compression = jetstream.S2Compression }, ""},
		{"per subject, refusing", logOpener, func(c *cfg) { c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 9, true }, ""},
		{"nodes: smaller messages", nodesOpener, func(c *cfg) { c.MaxMsgSize = 65536 }, ""},

		// Contradictions of every stream.
		{"in memory", logOpener, func(c *cfg) { c.Storage = jetstream.MemoryStorage }, "storage"},
		{"a work queue", logOpener, func(c *cfg) { c.Retention = jetstream.WorkQueuePolicy }, "retention"},
		{"by interest", rejectedOpener, func(c *cfg) { c.Retention = jetstream.InterestPolicy }, "retention"},
		{"ages out", logOpener, func(c *cfg) { c.MaxAge = time.Hour }, "max_age"},
		{"drops old messages", logOpener, func(c *cfg) { c.MaxMsgs, c.Discard = 10, jetstream.DiscardOld }, "max_msgs"},
		{"drops old bytes", logOpener, func(c *cfg) { c.MaxBytes, c.Discard = 1<<20, jetstream.DiscardOld }, "max_bytes"},
		{"no acknowledgements", logOpener, func(c *cfg) { c.NoAck = true }, "no_ack"},
		{"no direct reads", logOpener, func(c *cfg) { c.AllowDirect = false }, "allow_direct"},
		{"copies another", logOpener, func(c *cfg) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} }, "sources"},
		{"renames subjects", logOpener, func(c *cfg) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "edict.log.*.node.*", Destination: "x.{{wildcard(1)}}.{{wildcard(2)}}"}
		}, "subject_transform"},

		// Of the log.
		{"events removable", logOpener, func(c *cfg) { c.DenyDelete = false }, "deny_delete"},
		{"roll-ups", logOpener, func(c *cfg) { c.AllowRollup, c.DenyPurge = true, false }, "allow_rollup_hdrs"},
		{"events expire", logOpener, func(c *cfg) { c.AllowMsgTTL = true }, "allow_msg_ttl"},
		{"no batches", logOpener, func(c *cfg) { c.AllowAtomicPublish = false }, "allow_atomic"},
		{"a short window", logOpener, func(c *cfg) { c.Duplicates = time.Second }, "duplicate_window"},
		{"last per subject", logOpener, func(c *cfg) { c.MaxMsgsPerSubject, c.Discard = 1, jetstream.DiscardOld }, "max_msgs_per_subject"},
		{"a family is missing", logOpener, func(c *cfg) { c.Subjects = c.Subjects[:1] }, "subjects"},
		{"no partitions", logOpener, func(c *cfg) { c.Metadata = nil }, "metadata edict.partitions"},
		{"partitions not a number", logOpener, func(c *cfg) { c.Metadata = map[string]string{metaPartitions: "many"} }, "metadata edict.partitions"},
		{"partitions out of range", logOpener, func(c *cfg) { c.Metadata = map[string]string{metaPartitions: "0"} }, "metadata edict.partitions"},

		// Of the rejected events.
		{"rejections removable", rejectedOpener, func(c *cfg) { c.DenyDelete = false }, "deny_delete"},
		{"rejections elsewhere", rejectedOpener, func(c *cfg) { c.Subjects = []string{"edict.refused.*"} }, "subjects"},

		// Of the node stream.
		{"nodes keep all", nodesOpener, func(c *cfg) { c.MaxMsgsPerSubject = -1 }, "max_msgs_per_subject"},
		{"nodes: two of everything", nodesOpener, func(c *cfg) { c.Duplicates = time.Second }, "duplicate_window"},
		{"nodes: some", nodesOpener, func(c *cfg) { c.Subjects = []string{"edict.node.n1.>"} }, "subjects"},
		{"no base", logOpener, func(c *cfg) { delete(c.Metadata, metaBase) }, ""},
		{"no number", logOpener, func(c *cfg) { c.Metadata[metaBase] = "soon" }, "metadata edict.base"},
		{"no room", logOpener, func(c *cfg) { c.Metadata[metaBase] = "18446744073709551615" }, "metadata edict.base"},
		{"nodes keep two", nodesOpener, func(c *cfg) { c.MaxMsgsPerSubject = 2 }, "max_msgs_per_subject"},
	}
	c := embedded(t)
	for _, tc := range cases {
		t.Run(tc.opener.name+" "+tc.name, func(t *testing.T) {
			have := tc.opener.settings(t, c)
			require.NoError(t, c.js.DeleteStream(within(t), tc.opener.name))
			defer func() { _ = c.js.DeleteStream(context.Background(), tc.opener.name) }()
			have.FirstSeq = 0
			tc.change(&have)
			if tc.setting == "sources" || tc.setting == "subject_transform" {
				// The server would want the other stream too.
				f := tc.opener.faults(have)
				require.Len(t, f, 1)
				assert.Equal(t, tc.setting, f[0].Setting)
				return
			}
			require.Eventually(t, func() bool { // the one before is still being removed
				_, err := c.js.CreateStream(within(t), have)
				return err == nil
			}, within20s, tick)
			err := tc.opener.open(within(t), c)
			if tc.setting == "" {
				require.NoError(t, err)
				return
			}
			var refused *ConfigError
			require.ErrorAs(t, err, &refused)
			var settings []string
			for _, f := range refused.Faults {
				settings = append(settings, f.Setting)
			}
			assert.Contains(t, settings, tc.setting)
			if tc.setting != "allow_rollup_hdrs" {
				assert.Len(t, settings, 1)
			}
			info, err := c.streamInfo(within(t), tc.opener.name)
			require.NoError(t, err)
			assert.Equal(t, have.Subjects, info.Config.Subjects, "a stream that exists is not changed")
		})
	}
}

func TestSettingsOnServersElsewhereAreChangedThere(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &ConfigError{Stream: LogStream, Faults: []Fault{{"max_age", "1s", "0"}}},
		"stream EDICT_LOG exists with settings that contradict what edict promises; change them (nats stream edit EDICT_LOG) or use another account:\n  max_age is 1s: must be 0")
}

func TestOneMessageNamesEveryContradiction(t *testing.T) {
	c := embedded(t)
	_, err := c.js.CreateStream(within(t), jetstream.StreamConfig{
		Name: LogStream, Subjects: []string{"edict.log.*.policy.*"}, Storage: jetstream.MemoryStorage, MaxAge: time.Hour,
	})
	require.NoError(t, err)
	_, err = OpenLog(within(t), c, LogOptions{})
	require.Error(t, err)
	for _, want := range []string{
		"stream EDICT_LOG exists with settings that contradict what edict promises; change them (nats stream edit EDICT_LOG), " +
			"while the plane is stopped on its files: nats-server -a 127.0.0.1 -js -sd " + c.server.opt.Dir + ":",
		"\n  subjects is edict.log.*.policy.*: must be extended by edict.log.*.node.*",
		"\n  storage is Memory: must be file: acknowledged messages survive a restart",
		"\n  max_age is 1h0m0s: must be 0: messages do not age out",
		"\n  allow_atomic is false: must be true",
		"\n  deny_delete is false: must be true",
		"\n  metadata edict.partitions is absent: must be",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestOneSubjectCoversAnother(t *testing.T) {
	cases := []struct {
		have, need string
		want       bool
	}{
		{"a.b", "a.b", true},
		{"a.*", "a.b", true},
		{"a.*", "a.*", true},
		{"a.b", "a.*", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a.*.>", true},
		{"a.>", "a", false},
		{"a.*", "a.>", false},
		{"a.*.c", "a.b.d", false},
		{"a.*", "a.b.c", false},
		{"a.b.c", "a.b", false},
		{">", "a.b", true},
	}
	for _, c := range cases {
		assert.Equal(t, c.want, covers(c.have, c.need), "%s covers %s", c.have, c.need)
	}
}
