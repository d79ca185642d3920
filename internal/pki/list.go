package pki

import "time"

// ListEntry is a revoked certificate on a list.
type ListEntry struct {
	// Serial is the serial number, big-endian.
	Serial []byte
	Time   time.Time
	Reason Reason
}
