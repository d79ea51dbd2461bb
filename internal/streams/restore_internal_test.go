package streams

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAPartThatIsLostEndsARestore: whichever part it was, and whoever sent it, the restore
// fails, and nothing is sent after it.
func TestAPartThatIsLostEndsARestore(t *testing.T) {
	lost := errors.New("the server is away")
	for name, begin := range map[string]func(*restore){
		"one that a pause had sent": func(r *restore) { r.stirAfter(0) },
		"the first":                 func(*restore) {},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			r := newRestore(func([]byte) error {
				if asked++; asked == 1 {
					return lost
				}
				return nil
			})
			begin(r)
			err := r.write(PutBack{First: 1, Last: 1}, func(yield func(Message, error) bool) {
				yield(Message{Subject: "edict.log.a", Seq: 1, Time: time.Unix(1, 0)}, nil)
			})
			require.ErrorIs(t, errors.Join(err, r.close()), lost)
			require.Equal(t, 1, asked)
		})
	}
}

// TestAServerWithoutRoomIsKnownByItsWords: of a restore it answers with the code of the step.
func TestAServerWithoutRoomIsKnownByItsWords(t *testing.T) {
	for _, said := range []string{
		"restore failed: failed to store message sequence 7: write 2.blk: no space left on device",
		"restore failed: error adding stream: write meta.inf.tmp: disk quota exceeded (10077)",
		"insufficient storage resources available",
		"resource limits exceeded for account",
	} {
		err := refused(said)
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorContains(t, err, said+"; make room there")
	}
	require.NotErrorIs(t, refused("replicas > 1 not supported in non-clustered mode"), ErrStorage)
}

func TestAServerThatTakesNoMessageSoLargeIsKnownByItsWords(t *testing.T) {
	const said = "restore failed: message sequence 10 exceeds maximum payload size"
	err := refused(said)
	require.ErrorIs(t, err, ErrMessageTooLarge)
	require.ErrorContains(t, err, said+"; raise max_payload")
}

// TestAnImportWhoseServerGoesAwaySaysWhatToDo, and says so once.
func TestAnImportWhoseServerGoesAwaySaysWhatToDo(t *testing.T) {
	body := make([]byte, 2*restoreChunk)
	_, _ = rand.Read(body) // it fills a part, however it is compressed
	err := embedded(t).sendMessages(within(t), "of.a.server.that.is.gone", PutBack{First: 1, Last: 1}, func(yield func(Message, error) bool) {
		yield(Message{Subject: "edict.log.a", Seq: 1, Time: time.Unix(1, 0), Body: body}, nil)
	})
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, notImported(err), "run the same command again")
	require.Equal(t, 1, strings.Count(err.Error(), "nothing serves"), err)
}
