package script

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

// vault is a server with Vault's API for conversations.
type vault struct{ *vaulttest.Server }

func startVault(t *testing.T) vault {
	t.Helper()
	v := vault{vaulttest.New(t)}
	v.State.Answer = refuseName
	v.StartTLS()
	return v
}

// refuseName answers for a role that allows no names but those below
// example.com.
func refuseName(w http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
	name, _ := c.Body["alt_names"].(string)
	if c.Path != "/v1/pki/sign/web" || name != "www.example.org" {
		return false
	}
	vaulttest.Fail(w, http.StatusBadRequest, fmt.Sprintf("subject alternate name %s not allowed by this role", name))
	return true
}

// tell says in the environment of a conversation where the server is.
func (v vault) tell(env *testscript.Env) {
	env.Setenv("VAULT_ADDR", v.URL)
	env.Setenv("VAULT_BUNDLE", base64.StdEncoding.EncodeToString(v.Bundle()))
}

// seal seals the server, "! seal" unseals it.
//
//	[!] seal
func (v vault) seal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 0 {
		ts.Fatalf("usage: [!] seal")
	}
	v.With(func(state *vaulttest.State) {
		state.Health = http.StatusServiceUnavailable
		if neg {
			state.Health = 0
		}
	})
}
