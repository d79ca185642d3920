package print_test

import (
	"testing"

	"github.com/certplane/certplane/internal/cli/print"
)

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
