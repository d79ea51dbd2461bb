package streams

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerThatRefusesAnswersSoAndReadsOn(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	c := connect(t, ConnectOptions{Server: s})
	log := openLog(t, c)
	_, _, err := log.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	require.NoError(t, s.Refuse(true))
	for range 2 {
		native := connect(t, ConnectOptions{URL: s.ClientURL()})
		_, _, err = openLog(t, native).Publish(within(t), Append{Event: node("b", 1)})
		assert.ErrorIs(t, err, ErrStorage)
		_, err = log.PublishAll(within(t), []Append{{Event: node("b", 2)}, {Event: node("b", 3)}})
		assert.ErrorIs(t, err, ErrStorage)
		require.Len(t, collect(t, log.Follow(within(t), 1), 1), 1)
		require.NoError(t, s.Failed(), "to refuse is not to fail")
		require.NoError(t, s.Restart(), "and outlives a restart")
	}
	require.NoError(t, s.Refuse(false))
	seq, _, err := log.Publish(within(t), Append{Event: node("b", 1)})
	require.NoError(t, err)
	require.EqualValues(t, 2, seq)
}

func TestAStoreThatFailedIsNamedUntilARestart(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true})
	require.NoError(t, s.Failed())
	s.lines.Errorf("Critical write error: %v", "no space left on device")
	require.ErrorContains(t, s.Failed(), "no space left")
	require.NoError(t, s.Restart())
	require.NoError(t, s.Failed())
	require.NoError(t, s.run.DisableJetStream())
	require.ErrorContains(t, s.Failed(), "JetStream")
	require.NoError(t, s.Restart())
	require.NoError(t, s.Failed())
	s.Close()
	require.NoError(t, s.Failed())
}

func TestTheLogOfAStoppedServerIsKnownWithoutStartingIt(t *testing.T) {
	dir := t.TempDir()
	_, found, err := StoredLog(dir)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, CheckDir(dir))

	s := startServer(t, ServerOptions{Relaxed: true, Dir: dir})
	c := connect(t, ConnectOptions{Server: s})
	_, found, err = LogCreated(t.Context(), c)
	require.NoError(t, err)
	require.False(t, found)
	log := openLog(t, c)
	require.Error(t, CheckDir(dir), "in use")
	created, found, err := LogCreated(t.Context(), c)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, created.Equal(log.Created()))

	require.NoError(t, MarkPlace(dir))
	require.NoError(t, s.Restart())
	require.DirExists(t, messagesDir(dir))
	require.True(t, InPlace(dir), "a server leaves the log where it is")

	s.Close()
	require.NoError(t, CheckDir(dir))
	created, found, err = StoredLog(dir)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, created.Equal(log.Created()))
}

// What cannot be locked is not in use for that: here its lock cannot be opened.
func TestADirectoryThatCannotBeWrittenIsNotInUse(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, lockName), 0o700))
	for _, err := range []error{CheckDir(dir), func() error { _, err := StartServer(ServerOptions{Dir: dir}); return err }()} {
		require.ErrorContains(t, err, "cannot be written")
		require.NotContains(t, err.Error(), "in use")
	}
}
