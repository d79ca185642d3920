package httpsclient

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns how long a server wants to be left alone, at most for most
// and never a negative time, and reports whether it says so. The header
// Retry-After has seconds or a date (RFC 9110 section 10.2.3).
func RetryAfter(header http.Header, now time.Time, most time.Duration) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil || at.Before(now) {
		return 0, false
	}
	return min(at.Sub(now), most), true
}
