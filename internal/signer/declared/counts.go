package declared

import (
	"sync"
	"time"
)

// Tally is what has become of requests.
type Tally struct {
	// Issued and Refused are numbers of requests.
	Issued, Refused int64
	// Last is when the last certificate was issued.
	Last time.Time
}

// IsZero reports whether nothing has happened.
func (t Tally) IsZero() bool { return t.Issued == 0 && t.Refused == 0 }

// Counts counts what becomes of requests until somebody writes it down. Safe
// for concurrent use.
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

// Refused counts a request that gets none.
func (c *Counts) Refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Refused++
}

// Get returns what is not written down yet.
func (c *Counts) Get() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tally
}

// Written forgets what has been written down.
func (c *Counts) Written(t Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Issued -= t.Issued
	c.tally.Refused -= t.Refused
}
