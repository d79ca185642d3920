package frontend

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/tlsalpn"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/frontend/crlserver"
	"github.com/certplane/certplane/internal/frontend/revocationwebhook"
	"github.com/certplane/certplane/internal/policies"
)

// Process is what front ends use of the process that serves them.
type Process struct {
	// As returns the configuration with which a service account connects to the API; Own is
	// the configuration of the process itself.
	As  func(account string) (*rest.Config, error)
	Own *rest.Config
	// Namespace is the namespace of the service accounts.
	Namespace string
	// Several means that other processes may serve the same API.
	Several bool
	// Now is the time.
	Now func() time.Time
	// Scheme and Mapper are for clients of the API.
	Scheme *runtime.Scheme
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Metrics is where the metrics of front ends are registered.
	Metrics prometheus.Registerer
}

// Config configures what a process serves.
type Config struct {
	// Metrics configures /metrics. The API serves its own.
	Metrics MetricsConfig
	// Webhook serves admission for the API of another server. Its Handler and
	// Metrics are set here. It is nil where there is none.
	Webhook *admissionwebhook.Server
	// Policies are the webhook's policies; nil: it makes only decisions that need no
	// policies.
	Policies *policies.Policies
	// Revocations serves the authorization webhook that refuses revoked certificates. Its
	// Handler is set here. It is nil where there is none. Revoked is what it answers from.
	Revocations *admissionwebhook.Server
	Revoked     revocationwebhook.Revoked
	// HTTP01 and TLSALPN01 answer the validations of ACME servers at separate listeners.
	// They are nil if they are off.
	HTTP01    *responder.Responder
	TLSALPN01 *tlsalpn.Server
	// ACME is where the clients of the ACME server reach it. It is nil where there is
	// none. Its Handler is set here.
	ACME *listener.Server
	// ACMEPolicies are the policies that the ACME server tells clients about before a
	// request is made; nil: it tells them nothing.
	ACMEPolicies *policies.Policies
	// ACMEIssuers: the issuers of cert-manager.io are answered by certplane, which issues
	// the names and the key of an ACME client's certificate request and nothing else of it.
	ACMEIssuers bool
	// Lists configures where revocation lists are served. It is nil where they are not. Its
	// clock and metrics are those of the process.
	Lists *crlserver.Config
	// ACMEAttempts is where it asks the controllers of the process to try challenges.
	ACMEAttempts *attempts.Desk
}

// rows are the front ends of all processes. One that a process does not serve
// is opened as the zero FrontEnd.
var rows = []struct {
	name string
	open func(Process, Config) (FrontEnd, error)
}{
	{"metrics", openMetrics},
	{"webhook", openWebhook},
	{"revocation-webhook", openRevocations},
	{"http01", openHTTP01},
	{"tlsalpn01", openTLSALPN01},
	{"acme", openACME},
	{"lists", openLists},
}

// API returns the API of "certplane serve", which includes the paths and the probes of all
// other front ends, and its own probes.
func API(serve func(context.Context) error) FrontEnd { return FrontEnd{Name: "api", Serve: serve} }

// Open returns the front ends that a process serves in addition to its API.
func Open(p Process, cfg Config) ([]FrontEnd, error) {
	var all []FrontEnd
	for _, row := range rows {
		opened, err := row.open(p, cfg)
		if err != nil {
			return nil, fmt.Errorf("opening the front end %s: %w", row.name, err)
		}
		if opened.Serve != nil || opened.Handler != nil {
			opened.Name = row.name
			all = append(all, opened)
		}
	}
	return all, nil
}

func openHTTP01(_ Process, cfg Config) (FrontEnd, error) {
	if cfg.HTTP01 == nil {
		return FrontEnd{}, nil
	}
	return FrontEnd{Serve: cfg.HTTP01.Serve, Ready: cfg.HTTP01.Ready}, nil
}

func openTLSALPN01(_ Process, cfg Config) (FrontEnd, error) {
	if cfg.TLSALPN01 == nil {
		return FrontEnd{}, nil
	}
	return FrontEnd{Serve: cfg.TLSALPN01.Serve, Ready: cfg.TLSALPN01.Ready}, nil
}
