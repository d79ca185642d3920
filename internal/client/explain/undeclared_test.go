package explain

import (
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
)

// Every signer that certplane can act as states everything that KEP-1513
// requires.
func TestBuiltInStatements(t *testing.T) {
	for _, name := range signer.Names() {
		statements := builtInStatements(name)
		if len(statements) != 7 {
			t.Errorf("%s has %d statements", name, len(statements))
		}
		if promise := promises[name]; promise.subjects == "" || promise.usages == "" {
			t.Errorf("%s does not say for whom and for what it signs", name)
		}
	}
}

// A Signer that sets no lengths states the defaults that are enforced.
func TestDefaultLifetime(t *testing.T) {
	const want = "at most 1d, starting 2m before the signature; pods refresh after 66% of it, plus or minus 10%"
	if got := lifetime(v1alpha1.SignerProfile{}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
