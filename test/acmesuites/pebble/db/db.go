// Package db stands in for Pebble's: certplane keeps what is to be kept.
package db

// MemoryStore keeps nothing.
type MemoryStore struct{}

// NewMemoryStore returns a store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{} }
