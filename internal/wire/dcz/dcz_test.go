package dcz

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the body and the dictionary, what comes out is what went in; and with
// another dictionary nothing comes out.
func TestABodyIsReadWithItsDictionaryAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dictionary := rapid.SliceOfN(rapid.Byte(), 0, 4096).Draw(rt, "dictionary")
		at := rapid.IntRange(0, len(dictionary)).Draw(rt, "at")
		body := append(bytes.Clone(dictionary[:at]), rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(rt, "more")...)
		body = append(body, dictionary[at:]...)
		var coded bytes.Buffer
		require.NoError(rt, Encode(&coded, body, dictionary, sha256.Sum256(dictionary)))
		got, err := Decode(bytes.NewReader(coded.Bytes()), dictionary, int64(len(body)))
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(body, got))
		_, err = Decode(bytes.NewReader(coded.Bytes()), append(bytes.Clone(dictionary), 0), int64(len(body)))
		require.ErrorContains(rt, err, "another dictionary")
		if len(body) > 0 {
			_, err = Decode(bytes.NewReader(coded.Bytes()), dictionary, int64(len(body))-1)
			require.Error(rt, err)
		}
	})
}

func TestADictionaryHasAName(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	got, ok := ParseName(Name(sum))
	require.True(t, ok)
	require.Equal(t, sum, got)
	for _, text := range []string{"", ":", "::", ":AAAA:", "AAAA", ":" + Name(sum), Name(sum) + "x", ":%:"} {
		_, ok := ParseName(text)
		require.False(t, ok, text)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("x"), []byte("y"))
	f.Fuzz(func(t *testing.T, coded, dictionary []byte) {
		sum := sha256.Sum256(dictionary)
		coded = append(append(bytes.Clone(magic), sum[:]...), coded...)
		body, _ := Decode(bytes.NewReader(coded), dictionary, 1<<16)
		require.LessOrEqual(t, len(body), 1<<16+1)
	})
}
