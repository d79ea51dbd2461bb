package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

func TestPartitionsThatSayTheSameAreOneLine(t *testing.T) {
	all := []resource.Partition{
		{ID: 0, Publisher: "a", UpTo: 7}, {ID: 1, Publisher: "b", UpTo: 9}, {ID: 2, Publisher: "a", UpTo: 7}, {ID: 3}, {ID: 4, Publisher: "a", UpTo: 7},
	}
	var out bytes.Buffer
	partitionTable(&out, all)
	require.Equal(t, "PARTITIONS   PUBLISHED BY   UP TO\n0,2,4        a              7\n1            b              9\n3            nobody         0\n", out.String())
	require.Equal(t, "3 events behind, 1 partition that nobody publishes", publishedText(resource.Status{Head: 10, Partitions: all}))
	require.Equal(t, "0 events behind", publishedText(resource.Status{Head: 7, Partitions: all[:3]}))
	// What another worker published is known as of its lease. What was written since is not late.
	all[0].Owner, all[2].Owner, all[4].Owner = "A", "A", "A"
	require.Equal(t, "1 event behind, 1 partition that nobody publishes", publishedText(resource.Status{Head: 10, Partitions: all, Workers: []resource.Worker{{Owner: "A", Applied: 8}}}))
}

func TestTheStatusNamesProjectsOverTheirShare(t *testing.T) {
	const gib = 1 << 30
	most := []resource.Share{{Project: "a", Bytes: 5 * gib, Over: true}, {Project: "b", Bytes: 4 * gib, Over: true}, {Project: "c", Bytes: 1 << 20}}
	require.Equal(t, "OVER THEIR SHARE: a with 5.0 GiB, b with 4.0 GiB; each may take 4.0 GiB of the log in 24 hours",
		sharesText(resource.Shares{Limit: 4 * gib, Hours: 24, Over: 2, Projects: most}))
	require.Equal(t, "most took c with 1.0 MiB; each may take 4.0 GiB of the log in 24 hours", sharesText(resource.Shares{Limit: 4 * gib, Hours: 24, Projects: most[2:]}))
	most[2].ShutOut = &[]time.Time{time.Unix(1_800_000_000, 0)}[0]
	require.Equal(t, "most took c with 1.0 MiB; their share of the log is not limited; SHUT OUT OVER NATS: c until 2027-01-15T08:00:00Z", sharesText(resource.Shares{Hours: 24, Projects: most[2:]}))
	require.Equal(t, "none took anything of the log lately; their share of the log is not limited", sharesText(resource.Shares{Hours: 24}))
	require.Equal(t, "512 B, 1.5 KiB", sizeText(512)+", "+sizeText(1536))
}

func TestThePastIsToldByItsFirstEvent(t *testing.T) {
	require.Equal(t, "from any event of the log, 0 records kept, 0 B", pastText(resource.Past{}))
	require.Equal(t, "from event 8 on, 3 records kept, 1.5 MiB, 2 dropped for want of room", pastText(resource.Past{From: 7, Records: 3, Bytes: 3 << 19, Dropped: 2}))
}

func TestAStatusThatIsWatchedLeavesOneLookOnTheTerminal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(resource.Status{Head: 7, Log: resource.LogStatus{Created: time.Unix(1, 0)}})
	}))
	defer h.Close()
	c, err := client.New(h.URL, client.Options{HTTP: h.Client()})
	require.NoError(t, err)
	var out bytes.Buffer
	a := statusCommands{&app{console: console{stdout: writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "head 7") {
			cancel()
		}
		return out.Write(p)
	}), stderr: &out, format: formatTable}}}

	require.NoError(t, a.statusOnScreen(ctx, c, false))

	own, rest, left := strings.Cut(out.String(), leaveScreen)
	require.True(t, left, "the terminal's own screen comes back")
	require.True(t, strings.HasPrefix(own, enterScreen+home), "%q", own)
	require.Equal(t, 1, strings.Count(rest, "head 7"), "the last look stays")
	require.NotContains(t, rest, home)
}

type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTheStatusSaysWhenTheLogIsFull(t *testing.T) {
	const gib = 1 << 30
	mean, perDay, room, full := 412.4, uint64(gib), uint64(12*gib), 12*24*3600.0
	require.Equal(t, "not known before the log is an hour old", growthText(resource.LogStatus{}))
	require.Equal(t, "not known before the log is an hour old, 412 bytes an event, room for 12.0 GiB", growthText(resource.LogStatus{BytesPerEvent: &mean, RoomBytes: &room}))
	require.Equal(t, "1.0 GiB a day, 412 bytes an event", growthText(resource.LogStatus{BytesPerEvent: &mean, BytesPerDay: &perDay}))
	require.Equal(t, "1.0 GiB a day, 412 bytes an event, room for 12.0 GiB: full in 12 days",
		growthText(resource.LogStatus{BytesPerEvent: &mean, BytesPerDay: &perDay, RoomBytes: &room, FullInSeconds: &full}))
	for seconds, want := range map[float64]string{
		0: "0s", 119: "1m0s", 26*3600 + 60: "26h1m0s", 2 * 24 * 3600: "2 days", 3650 * 24 * 3600: "3650 days", 1e18: "more than ten years",
	} {
		require.Equal(t, want, daysText(seconds))
	}
}
