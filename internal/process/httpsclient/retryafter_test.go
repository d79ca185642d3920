package httpsclient_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/process/httpsclient"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		value string
		want  time.Duration
		says  bool
	}{
		{"", 0, false},
		{"0", 0, true},
		{"7", 7 * time.Second, true},
		{"-7", 0, false},
		{"7.5", 0, false},
		{"3601", time.Hour, true},
		{"18446744073709551615", time.Hour, true},
		{"18446744073709551616", 0, false},
		{"Fri, 01 May 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Fri, 01 May 2026 11:59:59 GMT", 0, false},
		{"Sat, 01 May 2027 12:00:00 GMT", time.Hour, true},
		{"tomorrow", 0, false},
	} {
		wait, says := httpsclient.RetryAfter(http.Header{"Retry-After": {tc.value}}, now, time.Hour)
		if wait != tc.want || says != tc.says {
			t.Errorf("%q: %v, %v, want %v, %v", tc.value, wait, says, tc.want, tc.says)
		}
	}
}
