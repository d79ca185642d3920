package script

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestUpgrade has this version take over the data folder of an older one. The older
// program is that of $CERTPLANE_OLDER.
func TestUpgrade(t *testing.T) {
	older := os.Getenv("CERTPLANE_OLDER")
	if older == "" {
		t.Skip("there is no older certplane in $CERTPLANE_OLDER to upgrade from: 'make test-upgrade FROM=REVISION' builds one")
	}
	p := params(true)
	p.Dir = filepath.Join("testdata", "upgrade")
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("OLDER", older)
		return setUp(env)
	}
	testscript.Run(t, p)
}
