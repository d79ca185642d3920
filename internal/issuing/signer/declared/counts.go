package declared

import (
	"sync"
	"time"
)

// Tally counts the outcomes of requests.
type Tally struct {
	// Issued and Refused are numbers of requests.
	Issued, Refused int64
	// Last is when the last certificate was issued.
	Last time.Time
}

// IsZero reports whether all counts are zero.
func (t Tally) IsZero() bool { return t.Issued == 0 && t.Refused == 0 }

// Counts counts the outcomes of requests until they are written to the status.
// It is safe for concurrent use.
type Counts struct {
	mu    sync.Mutex // guards tally
	tally Tally
}

// Issued counts a certificate.
func (c *Counts) Issued(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Issued++
	if at.After(c.tally.Last) {
		c.tally.Last = at
	}
}

// Refused counts a refused request.
func (c *Counts) Refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Refused++
}

// Get returns the counts that are not written yet.
func (c *Counts) Get() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally
}

// Written subtracts the counts that have been written.
func (c *Counts) Written(t Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Issued -= t.Issued
	c.tally.Refused -= t.Refused
}
