package projector

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// hashes of every file below dir.
func hashes(t *testing.T, dir string) map[string][32]byte {
	all := map[string][32]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	}))
	return all
}

// stamp writes another schema version into a closed store.
func stampSchema(t *testing.T, dir string, version uint32) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: formatVersion})
	require.NoError(t, err)
	require.NoError(t, db.Set(schemaKey(), appendU32(appendU32(nil, version), testPartitions), pebble.Sync))
	require.NoError(t, db.Close())
}

func TestAStoreIsInspectedWithoutBeingChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	_, found, err := Inspect(dir)
	require.NoError(t, err)
	require.False(t, found)
	require.NoDirExists(t, dir)

	created := time.Unix(1000, 77).UTC()
	opt := Options{Partitions: testPartitions, Created: created, Base: 77}
	p, err := Open(dir, opt)
	require.NoError(t, err)
	var locked *LockedError
	_, _, err = Inspect(dir)
	require.ErrorAs(t, err, &locked)
	require.NoError(t, p.Apply([]streams.Message{(&journal{}).add(update(t, 1, 1, "a"))}))
	require.NoError(t, p.Close())

	before := hashes(t, dir)
	id, found, err := Inspect(dir)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, Identity{SchemaVersion, testPartitions, created, 1, 1, 77}, id)
	require.Equal(t, before, hashes(t, dir))

	for _, version := range []uint32{SchemaVersion - 1, SchemaVersion + 1} {
		stampSchema(t, dir, version)
		id, _, err := Inspect(dir)
		require.NoError(t, err)
		require.Equal(t, version, id.Schema)
		_, err = Open(dir, opt)
		var schema *SchemaError
		require.ErrorAs(t, err, &schema)
		require.Equal(t, SchemaError{Dir: dir, Have: version, Know: SchemaVersion}, *schema)
	}
}

func TestAStoreInANewerFormatIsNamed(t *testing.T) {
	dir := t.TempDir()
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, _, err = Inspect(dir)
	if pebble.FormatNewest > formatVersion {
		require.ErrorContains(t, err, "store format")
	}
	// A format that this Pebble has never heard of.
	names, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.NoError(t, os.Rename(names[0], filepath.Join(dir, "marker.format-version.000999.999")))
	_, _, err = Inspect(dir)
	var schema *SchemaError
	require.ErrorAs(t, err, &schema)
	require.EqualValues(t, 999, schema.Have)
}
