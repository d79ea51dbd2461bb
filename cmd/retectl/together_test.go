package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// together runs commands at once, and all of them must end well.
func together(t *testing.T, commands [][]string) {
	t.Helper()
	var all sync.WaitGroup
	codes, said := make([]int, len(commands)), make([]bytes.Buffer, len(commands))
	for i, args := range commands {
		all.Go(func() { codes[i] = run(t.Context(), args, &bytes.Buffer{}, &said[i]) })
	}
	all.Wait()
	for i, code := range codes {
		require.Equal(t, cli.Fine, code, "%v: %s", commands[i], &said[i])
	}
}

func TestCompilesAtOnceFollowEachOther(t *testing.T) {
	t.Parallel()
	dir, keys := repositoryAndKeys(t)
	compile := []string{"compile", "--repo", dir, "--signing-key", filepath.Join(keys, "primary.key"), "--renew"}
	for name, out := range map[string]string{"the repository's tree": "", "another": filepath.Join(t.TempDir(), "tree")} {
		t.Run(name, func(t *testing.T) {
			compile, at := compile, filepath.Join(dir, compiledDir)
			if out != "" {
				compile, at = append(compile, "--out", out), out
			}
			require.Equal(t, cli.Fine, run(t.Context(), append(compile, "--version", "1"), &bytes.Buffer{}, os.Stderr))
			const times = 16
			all := make([][]string, times)
			for i := range all {
				all[i] = compile
			}
			together(t, all)
			made, err := tree.Read(os.DirFS(at))
			require.NoError(t, err)
			require.Equal(t, uint64(1+times), made.Highest(), "no version is given twice")
			require.Len(t, made.Bytes, 8)
			require.NoDirExists(t, tree.Next(at))
		})
	}
}

// Whoever comes first makes the directory that the tree goes to, and it is locked all the same.
func TestCompilesAtOnceFollowEachOtherToANewDirectory(t *testing.T) {
	t.Parallel()
	dir, keys := repositoryAndKeys(t)
	for range 8 {
		out := filepath.Join(t.TempDir(), "not", "there", "tree")
		all := make([][]string, 8)
		for i := range all {
			all[i] = []string{"compile", "--repo", dir, "--signing-key", filepath.Join(keys, "primary.key"), "--version", "1", "--out", out}
		}
		together(t, all)
		made, err := tree.Read(os.DirFS(out))
		require.NoError(t, err)
		require.Len(t, made.Bytes, 8)
		require.NoDirExists(t, tree.Next(out))
	}
}

func TestCertificatesIssuedAtOnceAreAllInTheLog(t *testing.T) {
	t.Parallel()
	dir, keys := repositoryAndKeys(t)
	const many = 12
	all := make([][]string, many)
	for i := range all {
		name := fmt.Sprintf("user-%d", i)
		csr := filepath.Join(keys, name+".csr")
		require.Equal(t, cli.Fine, run(t.Context(), []string{
			"keygen", "--repo", dir, "--kind", "user", "--name", name, "--out-key", filepath.Join(keys, name+".key"), "--out-csr", csr,
		}, &bytes.Buffer{}, os.Stderr))
		all[i] = []string{
			"ca", "sign", "--repo", dir, "--kind", "user", "--name", name, "--csr", csr, "--ca-key", filepath.Join(keys, "ca.key"), "--out", filepath.Join(keys, name+".crt"),
		}
	}
	together(t, all)
	log, faults := rete.ReadEnrollments(os.DirFS(dir))
	require.Empty(t, faults)
	for i := range all {
		require.True(t, log.Live(rete.SPIFFE("rete-lovers", rete.PrincipalUser, fmt.Sprintf("user-%d", i))), "user-%d", i)
	}
}

// repositoryAndKeys is the specification's repository, and a directory with the keys of
// its CA and its signer.
func repositoryAndKeys(t *testing.T) (dir, keys string) {
	t.Helper()
	dir, keys = t.TempDir(), t.TempDir()
	require.NoError(t, reterepo.Write(reterepo.Example(), dir))
	for _, name := range []string{"ca", "primary"} {
		require.NoError(t, os.WriteFile(filepath.Join(keys, name+".key"), reterepo.KeyPEM(name), 0o600))
	}
	return dir, keys
}
