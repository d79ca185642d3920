package explain

import (
	"testing"

	"github.com/certplane/certplane/internal/signer"
)

// Every signer that certplane can be states all that KEP-1513 asks for.
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
