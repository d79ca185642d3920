// Package ca replaces Pebble's package ca.
package ca

import (
	"log"

	"github.com/letsencrypt/pebble/v2/db"
)

// Profile is a profile that clients can choose.
type Profile struct {
	Description    string
	ValidityPeriod uint64 // in seconds
}

// CAImpl replaces Pebble's CA. It only holds the profiles.
type CAImpl struct{ Profiles map[string]Profile }

// New keeps the profiles. certplane's own settings replace the other arguments.
func New(_ *log.Logger, _ *db.MemoryStore, _, _ string, _, _ int, profiles map[string]Profile) *CAImpl {
	return &CAImpl{profiles}
}
