package provider

import "time"

// TemporaryError is a failure that is not caused by the record or the credentials: the
// provider is overloaded or out of order, or another writer has changed the same record
// set at the same time. The same call can succeed later.
type TemporaryError struct {
	Err error
	// RetryAfter is how long the provider asks to wait before the next call. If it is 0,
	// the caller decides.
	RetryAfter time.Duration
}

func (e *TemporaryError) Error() string { return e.Err.Error() }
func (e *TemporaryError) Unwrap() error { return e.Err }
