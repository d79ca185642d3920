package acmeserver_test

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/apitest/freeport"
	"github.com/certplane/certplane/internal/rights"
	serverconfig "github.com/certplane/certplane/internal/run/server"
)

// whole is a server with the whole ACME server: the process itself answers clients, at
// wholeURL, and its controllers act.
var (
	whole    = &apitest.Shared{Options: []func(*serverconfig.Config){answerClients}}
	wholeURL string
)

func answerClients(cfg *serverconfig.Config) {
	address, err := freeport.Address()
	if err != nil {
		panic(err)
	}
	wholeURL = "https://" + address
	cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = address, wholeURL
}

// program is an endpoint of the whole server, and a client with an account that is bound
// to its external key.
type program struct {
	*acmetest.World
	client *raw
}

func newProgram(t *testing.T, options ...acmetest.Option) *program {
	t.Helper()
	w := acmetest.New(t, whole.Start(t), options...)
	for account, rules := range rights.ACMEConsent(acmetest.ServiceAccount, w.Key.Spec.Secret.Name) {
		w.Allow("consent-"+account, account, rights.ServeNamespace, rules...)
	}
	p := &program{World: w, client: (&world{t: t, endpoint: w.Endpoint}).clientOf(wholeURL)}
	p.client.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(p.client.http.CloseIdleConnections)
	var mac []byte
	apitest.Eventually(t, "the external key has its Secret", func() bool {
		s := &corev1.Secret{}
		if w.Objects.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: w.Key.Spec.Secret.Name}, s) != nil {
			return false
		}
		var err error
		mac, err = base64.RawURLEncoding.DecodeString(string(s.Data["hmac"]))
		return err == nil && len(mac) > 0
	})
	apitest.Eventually(t, "the client is registered", func() bool {
		c := p.client
		r := c.post(c.url("new-account"), map[string]any{"externalAccountBinding": c.binding(w.Namespace+"."+w.Key.Name, mac)})
		if r.code == http.StatusCreated {
			c.kid = r.header.Get("Location")
		}
		return c.kid != ""
	})
	return p
}
