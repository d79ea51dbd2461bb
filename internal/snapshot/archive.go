package snapshot

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
)

// errArchive means that what was read is no archive of a store.
var errArchive = errors.New("not an archive of a read model")

// pack writes the files of dir, which holds no others, as a tar compressed with
// zstd.
func pack(fs vfs.FS, dir string, to io.Writer) error {
	z, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	names, err := fs.List(dir)
	if err != nil {
		return errors.Join(err, z.Close())
	}
	slices.Sort(names)
	for _, name := range names {
		if err := packFile(fs, fs.PathJoin(dir, name), name, t); err != nil {
			return errors.Join(fmt.Errorf("pack %s: %w", name, err), z.Close())
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func packFile(fs vfs.FS, path, name string, t *tar.Writer) error {
	info, err := fs.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("a directory in a store")
	}
	f, err := fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer f.Close()
	const mode = 0o600
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: mode}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// unpack writes the files of an archive into dir, which it makes, and has them
// on the disk when it returns. An archive names files alone, none elsewhere.
func unpack(fs vfs.FS, from io.Reader, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const window = 64 << 20 // far above what pack uses: an archive may not ask for more
	z, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return err
	}
	defer z.Close()
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errArchive, err)
		}
		if h.Typeflag != tar.TypeReg || h.Name == "" || h.Name == "." || h.Name == ".." || strings.ContainsAny(h.Name, "/\\") {
			return fmt.Errorf("%w: it holds %q", errArchive, h.Name)
		}
		if err := unpackFile(fs, t, fs.PathJoin(dir, h.Name)); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
	// What follows the archive's end must be read too: the object's hash is
	// judged at the end of it.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func unpackFile(fs vfs.FS, from io.Reader, path string) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
