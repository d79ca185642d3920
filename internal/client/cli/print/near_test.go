package print_test

import (
	"testing"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// Spans of nearly whole years are whole years.
func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for span, want := range map[time.Duration]string{
		1825*day - time.Hour: "5y", 1826 * day: "5y", 1824 * day: "5y", 4*365*day + 9*day: "4y", 4*365*day + 200*day: "4y200d", 3650 * day: "10y",
		90 * day: "90d", 729*day + 5*time.Hour: "2y", 700 * day: "700d", 25 * time.Hour: "25h", time.Minute: "60s", 0: "0s",
	} {
		if got := print.Span(span); got != want {
			t.Errorf("%v is %q, want %q", span, got, want)
		}
	}
}

func TestNear(t *testing.T) {
	candidates := []string{"certplane.dev/server", "server", "svc.corp.example/mtls", "mtls"}
	for word, want := range map[string]string{
		"sever": "server", "servre": "server", "example.com/mtls": "svc.corp.example/mtls", "svc.corp.example/mtl": "svc.corp.example/mtls", "postgres": "", "": "",
	} {
		if got := print.Near(word, candidates); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
