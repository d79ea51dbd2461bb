package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/streams"
)

// backupKeys writes the public keys, and the plane's own if they are asked for.
func (a backupCommands) backupKeys(ctx context.Context, c *client.Client, conn *streams.Conn, f backupFlags) error {
	keys, err := c.Keys.List(ctx)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(resource.Items[resource.Key]{Items: keys}, "", "  ")
	if err != nil {
		return err
	}
	if err := putFile(filepath.Join(f.to, archive.BackupKeys), append(text, '\n')); err != nil {
		return err
	}
	// Those of an earlier backup are not those of this one.
	for _, name := range []string{archive.BackupMore, archive.BackupKey, archive.BackupMarker} {
		if err := os.RemoveAll(filepath.Join(f.to, name)); err != nil {
			return err
		}
	}
	if err := backupAgreed(ctx, conn, f); err != nil || !f.keys {
		return err
	}
	from, more := f.signing, []string(nil)
	if from == "" {
		from = datadir.Dir(f.data).SigningKey()
		if more, err = filepath.Glob(filepath.Join(datadir.Dir(f.data).Keys(), "*.key")); err != nil {
			return err
		}
	}
	signer, err := artifact.LoadSigner(from)
	if err != nil {
		return err
	}
	if id := signer.KeyID(); !lists(keys, id) {
		return cli.Failed(cli.Conflict, "%s has key %s, which the plane at %s does not sign with: name its data directory with --data", from, id, c.Server())
	}
	if err := copyKey(from, filepath.Join(f.to, archive.BackupKey)); err != nil {
		return err
	}
	return copyKeys(more, filepath.Join(f.to, archive.BackupMore))
}

func lists(keys []resource.Key, id string) bool {
	for _, k := range keys {
		if k.KeyID == id {
			return true
		}
	}
	return false
}

// copyKeys copies key files into a directory, which is made if there is one.
func copyKeys(from []string, dir string) error {
	for _, path := range from {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := copyKey(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			return err
		}
	}
	return nil
}

// copyKey copies a key so that its owner alone can read it.
func copyKey(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return putFile(to, text)
}

// putFile writes a file that its owner alone can read, on the disk when it returns.
func putFile(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return artifact.CreateFile(path, text, 0o600)
}

// agreed are the keys of bucket EDICT_META that a backup has, by its files. Others
// belong to the log that it was made of.
var agreed = map[string]string{archive.BackupRecord: keyring.RecordKey, archive.BackupMarker: streams.MarkerKey}

// backupAgreed copies what the workers agree on; the marker's secret only with the
// keys.
func backupAgreed(ctx context.Context, conn *streams.Conn, f backupFlags) error {
	meta, err := streams.FindMeta(ctx, conn)
	if err != nil {
		return err
	}
	for file, key := range agreed {
		if file == archive.BackupMarker && !f.keys {
			continue
		}
		value, _, err := meta.Get(ctx, key)
		if err == nil {
			err = putFile(filepath.Join(f.to, file), value)
		}
		if err != nil && !errors.Is(err, streams.ErrNotFound) {
			return err
		}
	}
	return nil
}

// restoreAgreed writes it to the servers of a new plane.
func restoreAgreed(ctx context.Context, b *archive.Backup, conn *streams.Conn) error {
	meta, err := streams.OpenMeta(ctx, conn)
	if err != nil {
		return err
	}
	for file, key := range agreed {
		from := b.Path(file)
		if from == "" {
			continue
		}
		value, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		_, err = meta.Create(ctx, key, value, 0)
		if errors.Is(err, streams.ErrWrongSequence) { // a restore that was cut off, or another plane
			var there []byte
			if there, _, err = meta.Get(ctx, key); err == nil && string(there) != string(value) {
				err = cli.Failed(cli.Conflict, "bucket %s has another %s: these servers were another plane's; use others", streams.MetaBucket, key)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreKeys copies the keys of a backup to where a plane has them.
func restoreKeys(b *archive.Backup, to datadir.Dir) error {
	if key := b.Path(archive.BackupKey); key != "" {
		if err := copyKey(key, to.SigningKey()); err != nil {
			return err
		}
	}
	var more []string
	for _, f := range b.Manifest.Files {
		if path.Dir(f.Name) == archive.BackupMore {
			more = append(more, b.Path(f.Name))
		}
	}
	return copyKeys(more, to.Keys())
}
