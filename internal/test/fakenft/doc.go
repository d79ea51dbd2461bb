// Package fakenft is a kernel's nftables in memory, which can be told to fail.
package fakenft
