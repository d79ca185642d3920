// Package cli holds certplane's client verbs.
package cli
