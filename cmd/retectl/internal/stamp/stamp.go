// Package stamp says when the sources of a repository last changed, so that a
// compilation of the same sources has the same time in it wherever and whenever
// it runs.
package stamp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// EpochVariable names the environment variable by which reproducible builds are
// told the time, in seconds since 1970.
const EpochVariable = "SOURCE_DATE_EPOCH"

// Newest is when the newest of the files changed: the time of its commit where
// dir is in a git work tree and the file is as committed, else its modification
// time. Files are relative to dir.
func Newest(ctx context.Context, dir string, files []string) (time.Time, error) {
	dirty, ok := changed(ctx, dir, files)
	var newest time.Time
	if ok && len(dirty) < len(files) {
		newest = committed(ctx, dir, files, dirty)
	}
	for _, name := range files {
		if ok && !newest.IsZero() && !dirty[name] {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest.UTC().Truncate(time.Second), nil
}

// changed are the files that differ from their commit, or are in none. Not ok:
// dir is in no work tree, or there is no git.
func changed(ctx context.Context, dir string, files []string) (dirty map[string]bool, ok bool) {
	known, err := git(ctx, dir, append([]string{"ls-files", "-z", "--"}, files...)...)
	if err != nil {
		return nil, false
	}
	diff, err := git(ctx, dir, append([]string{"diff", "HEAD", "--relative", "--name-only", "-z", "--"}, files...)...)
	if err != nil {
		return nil, false
	}
	tracked := map[string]bool{}
	for _, name := range strings.Split(string(known), "\x00") {
		tracked[filepath.Clean(name)] = true
	}
	dirty = map[string]bool{}
	for _, name := range strings.Split(string(diff), "\x00") {
		dirty[filepath.Clean(name)] = true
	}
	all := map[string]bool{}
	for _, name := range files {
		all[name] = dirty[filepath.Clean(name)] || !tracked[filepath.Clean(name)]
	}
	for name, d := range all {
		if !d {
			delete(all, name)
		}
	}
	return all, true
}

// committed is the time of the newest commit that touched a file that is as
// committed; zero: not known.
func committed(ctx context.Context, dir string, files []string, dirty map[string]bool) time.Time {
	args := []string{"log", "-1", "--format=%ct", "--"}
	for _, name := range files {
		if !dirty[name] {
			args = append(args, name)
		}
	}
	out, err := git(ctx, dir, args...)
	if err != nil {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
}

// Epoch reads the time that reproducible builds are told; zero: none is.
func Epoch() (time.Time, error) {
	text := os.Getenv(EpochVariable)
	if text == "" {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%s is %q; want seconds since 1970", EpochVariable, text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
