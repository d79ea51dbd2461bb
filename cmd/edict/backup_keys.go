package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// backupParts are the public keys and what the workers agree on, and the plane's own keys
// if they are asked for.
func (a backupCommands) backupParts(ctx context.Context, c *client.Client, conn *streams.Conn, f backupFlags) (map[string][]byte, error) {
	keys, err := c.Keys.List(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(resource.Items[resource.Key]{Items: keys}, "", "  ")
	if err != nil {
		return nil, err
	}
	parts := map[string][]byte{archive.BackupKeys: append(text, '\n')}
	if err := backupAgreed(ctx, conn, f, parts); err != nil || !f.keys {
		return parts, err
	}
	from := f.signing
	if from == "" {
		from = datadir.Dir(f.data).SigningKey()
		if err := otherKeys(datadir.Dir(f.data).Keys(), parts); err != nil {
			return nil, err
		}
	}
	signer, err := artifact.LoadSigner(from)
	switch {
	case errors.Is(err, fs.ErrNotExist) && f.signing == "":
		return nil, cli.Failed(cli.Unreadable, "%v: there is no key in --data %s; name the plane's data directory with --data, or the key's file with --signing-key", err, f.data)
	case err != nil:
		return nil, err
	}
	for _, k := range keys {
		switch signs := k.Status == "current"; {
		case signs && k.KeyID != signer.KeyID():
			return nil, cli.Failed(cli.Conflict, "%s has key %s, and the plane at %s signs with %s: name its data directory with --data, or the file of that key with --signing-key",
				from, signer.KeyID(), c.Address(), k.KeyID)
		case !signs && f.signing != "" && k.NotAfter != nil:
			fmt.Fprintf(a.stderr, "the plane's key was replaced: a plane of this backup starts before %s only with key %s, too, which is not in it: keep that one as well, or back up again then\n",
				stamp(*k.NotAfter), k.KeyID)
		}
	}
	parts[archive.BackupKey], err = signer.PEM()
	return parts, err
}

// otherKeys reads the key files of a directory, if there is one.
func otherKeys(dir string, parts map[string][]byte) error {
	kept, err := keyring.Files{Made: dir}.Kept()
	if err != nil {
		return err
	}
	for _, key := range kept {
		text, err := os.ReadFile(key)
		if err != nil {
			return err
		}
		parts[archive.BackupMore+"/"+filepath.Base(key)] = text
	}
	return nil
}

// writeKey writes a key so that its owner alone can read it.
func writeKey(to string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return artifact.WriteFile(to, text, 0o600)
}

// agreed are the keys of bucket EDICT_META that a backup has, by its files. Others
// belong to the log that it was made of.
var agreed = map[string]string{archive.BackupRecord: keyring.RecordKey, archive.BackupMarker: streams.MarkerKey}

// backupAgreed copies what the workers agree on; the marker's secret only with the
// keys.
func backupAgreed(ctx context.Context, conn *streams.Conn, f backupFlags, parts map[string][]byte) error {
	meta, err := streams.FindMeta(ctx, conn)
	if err != nil {
		return err
	}
	for file, key := range agreed {
		if file == archive.BackupMarker && !f.keys {
			continue
		}
		value, _, err := meta.Get(ctx, key)
		switch {
		case err == nil:
			parts[file] = value
		case !errors.Is(err, streams.ErrNotFound):
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
		value := b.Part(file)
		if value == nil {
			continue
		}
		_, err := meta.Create(ctx, key, value, 0)
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
	if key := b.Part(archive.BackupKey); key != nil {
		if err := writeKey(to.SigningKey(), key); err != nil {
			return err
		}
	}
	for _, f := range b.Manifest.Files {
		if path.Dir(f.Name) != archive.BackupMore {
			continue
		}
		if err := writeKey(filepath.Join(to.Keys(), path.Base(f.Name)), b.Part(f.Name)); err != nil {
			return err
		}
	}
	return nil
}
