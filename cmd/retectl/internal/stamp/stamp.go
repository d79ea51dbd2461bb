// Package stamp says when the sources of a repository last changed, so that a
// compilation of the same sources has the same time in it wherever and whenever
// it runs.
package stamp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	tracked, err := git(ctx, dir, files, "ls-files", "-z")
	if err != nil {
		return nil, false
	}
	differ, err := git(ctx, dir, files, "diff", "HEAD", "--relative", "--name-only", "-z")
	if err != nil {
		return nil, false
	}
	committed, dirty := names(tracked), map[string]bool{}
	for name := range names(differ) {
		delete(committed, name)
	}
	for _, name := range files {
		if !committed[filepath.Clean(name)] {
			dirty[name] = true
		}
	}
	return dirty, true
}

// names are file names, each ended by a NUL.
func names(out []byte) map[string]bool {
	all := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		all[filepath.Clean(name)] = true
	}
	return all
}

// committed is the time of the newest commit that touched a file that is as
// committed; zero: not known.
func committed(ctx context.Context, dir string, files []string, dirty map[string]bool) (newest time.Time) {
	clean := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return dirty[name] })
	out, err := git(ctx, dir, clean, "log", "-1", "--format=%ct")
	if err != nil {
		return time.Time{}
	}
	for line := range strings.FieldsSeq(string(out)) {
		seconds, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return time.Time{}
		}
		if at := time.Unix(seconds, 0); at.After(newest) {
			newest = at
		}
	}
	return newest
}

// fewFiles is how many files a command line surely has room for.
const fewFiles = 100

// git runs a git command on files, some at a time, and returns all that it
// prints. Names are names, not patterns.
func git(ctx context.Context, dir string, files []string, args ...string) ([]byte, error) {
	args = slices.Concat([]string{"-C", dir, "--literal-pathspecs"}, args, []string{"--"})
	var all []byte
	for some := range slices.Chunk(files, fewFiles) {
		out, err := exec.CommandContext(ctx, "git", slices.Concat(args, some)...).Output()
		if err != nil {
			return nil, err
		}
		all = append(all, out...)
	}
	return all, nil
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
