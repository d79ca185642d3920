package httpsclient

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns how long a server asks clients to wait, between 0 and most, and reports
// whether it asks for that. The header Retry-After holds seconds or a date (RFC 9110 section
// 10.2.3).
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
